//! Body of `POST /v1/chat/completions`.

mod fields;
mod format;
mod message;
mod neutral;
mod parameters;
mod structural_tag;
mod tools;

use formwork_chat::Tools;
use formwork_grammar::{Part, Undeclared};
use serde_json::{Map, Value};

pub(crate) use fields::{Fields, Place};
pub use format::Format;
pub(crate) use format::{read as read_format, read_json_schema, read_undeclared};
pub(crate) use message::read_content;
pub use message::{ChatMessage, Role, ToolCall};
pub(crate) use parameters::read_stream;
pub use parameters::{Dry, Parameters, StreamOptions, TokenLimit};
pub(crate) use tools::{ToolForm, read as read_tools, read_any_object};

use crate::RequestError;
use crate::error::Problem;

/// Fields that are accepted, but have no effect. They concern accounts, storage and caching of
/// OpenAI's service.
const WITHOUT_EFFECT: [&str; 7] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
];

/// Request for a chat completion.
#[derive(Clone, PartialEq, Debug)]
pub struct ChatRequest {
    /// Name under which the server offers the model.
    pub model: String,
    /// Messages of the conversation, oldest first. There is at least one.
    pub messages: Vec<ChatMessage>,
    /// Streaming options. `None` if the response is not streamed.
    pub stream: Option<StreamOptions>,
    /// Generation parameters.
    pub parameters: Parameters,
    /// Number of likely tokens to report for each position, besides the generated token. If `None`,
    /// no log-probabilities are reported.
    pub logprobs: Option<usize>,
    /// Tools that the model may call, after applying `tool_choice`. Empty if `tool_choice` is `none`.
    pub tools: Tools,
    /// True if the arguments of a tool may be any JSON object when its schema cannot be enforced. If
    /// false, such a tool is an error. An extension.
    pub any_object: bool,
    /// Format that the output must match. `None` if any text is allowed.
    pub format: Option<Format>,
    /// Treatment of undeclared members in generated objects. An extension.
    pub undeclared: Undeclared,
    /// True if the prompt describes `format` to the model. This is the default. An extension.
    pub schema_in_prompt: bool,
    /// Additional variables for the chat template. An extension.
    pub chat_template_kwargs: Map<String, Value>,
}

impl ChatRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown or
    /// unsupported field or value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        Self::of(Fields::from_json(body)?)
    }

    /// Parses the body of a request that is already a JSON object.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`ChatRequest::from_json`], except that the body is
    /// JSON.
    pub fn from_fields(body: Map<String, Value>) -> Result<Self, RequestError> {
        Self::of(Fields::of_fields(body))
    }

    pub(crate) fn of(mut fields: Fields) -> Result<Self, RequestError> {
        let model = fields.required("model")?.string()?;
        Self::read(model, fields)
    }

    /// Parses all fields of a request except `model`, whose value is given.
    pub(crate) fn read(model: String, mut fields: Fields) -> Result<Self, RequestError> {
        let request = Self {
            model,
            messages: message::read_all(fields.required("messages")?)?,
            stream: read_stream(&mut fields)?,
            parameters: Parameters::read(&mut fields)?,
            logprobs: parameters::read_logprobs(&mut fields)?,
            tools: tools::read(&mut fields, ToolForm::Nested)?,
            any_object: read_any_object(&mut fields)?,
            format: format::read(&mut fields)?,
            undeclared: read_undeclared(&mut fields)?,
            schema_in_prompt: fields.take("schema_in_prompt").map(Place::bool).transpose()?.unwrap_or(true),
            chat_template_kwargs: read_template_variables(&mut fields)?,
        };
        take_without_effect(&mut fields);
        neutral::check(&mut fields, &neutral::CHAT)?;
        fields.finish()?;
        let tags = matches!(&request.format, Some(Format { part: Part::Tags(_), .. }));
        if tags && !request.tools.tools.is_empty() {
            return Err(RequestError::field("response_format", Problem::Conflict { other: "tools" }));
        }
        Ok(request)
    }
}

/// Marks the unsupported fields of a completion request as read. Returns an error if the value of
/// one is not neutral.
pub(crate) fn check_neutral_completion(fields: &mut Fields) -> Result<(), RequestError> {
    neutral::check(fields, &neutral::COMPLETION)
}

/// Marks the fields without effect as read.
pub(crate) fn take_without_effect(fields: &mut Fields) {
    for name in WITHOUT_EFFECT {
        fields.take(name);
    }
}

/// Returns the variables for the chat template. They come from `chat_template_kwargs` and from
/// `reasoning_effort`.
fn read_template_variables(fields: &mut Fields) -> Result<Map<String, Value>, RequestError> {
    let mut variables = fields.read("chat_template_kwargs", Place::map)?.unwrap_or_default();
    if let Some(effort) = fields.take("reasoning_effort") {
        add_effort(&effort, &mut variables)?;
    }
    Ok(variables)
}

/// Adds the variable `reasoning_effort`, unless it is already set. The effort `none` also sets
/// `enable_thinking` to false.
pub(crate) fn add_effort(at: &Place, variables: &mut Map<String, Value>) -> Result<(), RequestError> {
    const EFFORTS: [&str; 6] = ["none", "minimal", "low", "medium", "high", "xhigh"];
    let known = |name: &str| EFFORTS.into_iter().find(|effort| *effort == name);
    let effort = at.one_of(known, "none, minimal, low, medium, high and xhigh")?;
    if effort == "none" {
        variables.entry("enable_thinking").or_insert(Value::Bool(false));
    }
    variables.entry("reasoning_effort").or_insert_with(|| effort.into());
    Ok(())
}
