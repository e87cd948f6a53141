use std::sync::Arc;

use serde_json::{Value, json};

use super::attempt::Answered;
use crate::directives::{Envelope, Mode, Preset, StructuredOutputOptions, instructions, schema, shortened};
use crate::{Body, Plan};

/// Maximum number of characters of the previous answer in a repair request.
const SHOWN: usize = 2000;

/// Function that checks a valid envelope against the requirements of the caller.
///
/// The result describes each requirement that is not met, in a text that is shown to the model. The
/// result is empty if the envelope is acceptable.
pub type ResultValidator = Arc<dyn Fn(&Envelope) -> Vec<String> + Send + Sync>;

/// A request for directives.
#[derive(Clone)]
pub struct RunRequest {
    /// System message, to which the instructions about directives are appended. If `None`, the
    /// first message of `history` is used, provided that its role is `system` or `developer`.
    pub system: Option<String>,
    /// Messages of the conversation so far, oldest first, in the format of chat requests.
    pub history: Vec<Value>,
    /// Text of the user's new message. `None` if `history` already contains the message.
    pub user: Option<String>,
    /// Options that define which answers are valid.
    pub options: StructuredOutputOptions,
    /// Check of valid envelopes against the caller's requirements. If the check fails, the model is
    /// asked to repair the envelope; if the repairs fail, the next mode is tried. `None` accepts
    /// every valid envelope.
    pub result_validator: Option<ResultValidator>,
    /// Fields that are added to all requests, such as `temperature`. Fields in
    /// [`RESERVED`](crate::directives::presets::RESERVED) are ignored.
    pub overrides: Body,
    /// Modes to try, in order. `None` uses the modes of the preset.
    pub modes: Option<Vec<Mode>>,
}

impl RunRequest {
    /// Creates a request with the user message `user` and without a history.
    pub fn new(user: impl Into<String>, options: StructuredOutputOptions) -> Self {
        Self { user: Some(user.into()), ..Self::of_history(Vec::new(), options) }
    }

    /// Creates a request that continues the conversation `history`, without a further user message.
    pub fn of_history(history: Vec<Value>, options: StructuredOutputOptions) -> Self {
        Self {
            system: None,
            history,
            user: None,
            options,
            result_validator: None,
            overrides: Body::new(),
            modes: None,
        }
    }

    /// Sets the check of valid envelopes against the caller's requirements.
    #[must_use]
    pub fn with_result_validator(
        mut self,
        check: impl Fn(&Envelope) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.result_validator = Some(Arc::new(check));
        self
    }
}

/// Returns a check for [`RunRequest::with_result_validator`] that requires at least one directive
/// of each type in `types`. The types are canonical names.
pub fn require_types(types: Vec<String>) -> impl Fn(&Envelope) -> Vec<String> + Send + Sync + 'static {
    move |envelope| {
        let is_there = |kind: &&String| envelope.directives.iter().any(|directive| directive.kind == **kind);
        types.iter().filter(|kind| !is_there(kind)).map(|kind| format!("missing {kind}")).collect()
    }
}

/// Messages and options of the requests in one mode.
pub(super) struct Conversation {
    /// Messages and options of the next request.
    pub(super) plan: Plan,
    /// Number of messages before the repair messages.
    begin: usize,
}

impl Conversation {
    pub(super) fn new(request: &RunRequest, preset: &Preset, mode: Mode, detail: schema::Detail) -> Self {
        let told = instructions::of_request(&request.options, mode);
        let mut messages = Vec::new();
        let mut history = request.history.as_slice();
        let first = history.first().filter(|message| is_system(message)).and_then(text_of);
        let system = match (&request.system, first) {
            (None, Some(first)) => {
                history = &history[1..];
                first
            }
            (system, _) => system.clone().unwrap_or_default(),
        };
        let parts = [system.trim(), &told];
        let system: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        messages.push(json!({ "role": "system", "content": system.join("\n\n") }));
        messages.extend_from_slice(history);
        messages.extend(request.user.as_ref().map(|text| json!({ "role": "user", "content": text })));
        let mut options = preset.fields(mode, &request.overrides);
        if request.options.inject_response_format
            && let Some(format) = schema::response_format(&request.options, mode, detail)
        {
            options.insert("response_format".to_owned(), format);
        }
        Self { begin: messages.len(), plan: Plan { messages, options } }
    }

    /// Appends the model's unusable answer and a message that asks for its repair. Removes the
    /// messages of an earlier repair.
    pub(super) fn repair(&mut self, answered: &Answered) {
        self.plan.messages.truncate(self.begin);
        let content = shortened(answered.content.trim(), SHOWN);
        // Some servers refuse a message without content.
        if !content.is_empty() {
            self.plan.messages.push(json!({ "role": "assistant", "content": content }));
        }
        let warnings = answered.envelope.as_ref().map(|envelope| envelope.warnings.as_slice());
        let told =
            instructions::of_repair(&answered.problem, &answered.reasons, warnings.unwrap_or_default());
        self.plan.messages.push(json!({ "role": "user", "content": told }));
    }
}

/// Returns the text of a message, whose content may be a string or a list of text parts. Returns
/// `None` for other content.
fn text_of(message: &Value) -> Option<String> {
    match message.get("content")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts: Option<Vec<_>> =
                parts.iter().map(|part| part.get("text").and_then(Value::as_str)).collect();
            Some(texts?.join("\n"))
        }
        _ => None,
    }
}

/// Reports whether the role of a message is `system` or `developer`.
fn is_system(message: &Value) -> bool {
    message["role"] == "system" || message["role"] == "developer"
}
