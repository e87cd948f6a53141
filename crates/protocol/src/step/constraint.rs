//! Constraints on the output during decoding: what to request from the backend.

use std::fmt::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Step;
use super::error::Kind;
use crate::adapt::schema::kind;
use crate::config::StructuredOutput;
use crate::directives::Mode;
use crate::repair::response_format;
use crate::trace::{Event, Span};
use crate::{BackendError, Body, Category, Feature};

/// Constraint of the output of a request.
pub(super) enum Constraint {
    /// No constraint, as configured.
    None,
    /// The request field to add.
    Applied { mode: &'static str, sent: Sent, value: Value, hash: String },
    /// A constraint was configured but is not used, for this reason.
    Skipped { mode: &'static str, reason: &'static str },
}

/// Kind of a constraint in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Schema,
    Object,
    Grammar,
}

impl Sent {
    pub(super) const fn name(self) -> &'static str {
        self.feature().name()
    }

    pub(super) const fn feature(self) -> Feature {
        match self {
            Self::Schema => Feature::JsonSchema,
            Self::Object => Feature::JsonObject,
            Self::Grammar => Feature::Grammar,
        }
    }

    /// Returns the name of the request field.
    const fn field(self) -> &'static str {
        match self {
            Self::Schema | Self::Object => "response_format",
            Self::Grammar => "grammar",
        }
    }
}

/// Findings of a run about the constraints of its backend.
#[derive(Default)]
pub(super) struct Ladder {
    /// Number of the attempt, from 1.
    pub(super) attempt: u32,
    /// Constraints that the backend refused.
    pub(super) refused: Vec<Sent>,
    /// Constraints that the backend accepted without enforcing them.
    pub(super) unenforced: Vec<Sent>,
    /// True if an output did not match the schema although the request contained the schema.
    pub(super) shows_schema: bool,
    /// True if the caller knows that outputs are not constrained.
    pub(super) is_told: bool,
}

impl Constraint {
    /// Adds the constraint to the fields of a request.
    pub(super) fn apply(&self, options: &mut Body) {
        if let Self::Applied { sent, value, .. } = self {
            options.insert(sent.field().to_owned(), value.clone());
        }
    }

    /// Returns the kind of the constraint in the request, if any.
    pub(super) const fn sent(&self) -> Option<Sent> {
        match self {
            Self::Applied { sent, .. } => Some(*sent),
            Self::None | Self::Skipped { .. } => None,
        }
    }

    /// Returns the state after the backend has refused the constraint.
    pub(super) fn refused(&self) -> Self {
        match self {
            Self::Applied { mode, .. } => Self::Skipped { mode, reason: "refused" },
            Self::None | Self::Skipped { .. } => Self::None,
        }
    }

    /// Records the constraint in the trace.
    pub(super) fn tell(&self, span: &Span) {
        let attributes = |value: Value| value.as_object().cloned().unwrap_or_default();
        match self {
            Self::None => {}
            Self::Applied { mode, sent, hash, .. } => {
                span.event(Event::SoeEnabled, attributes(json!({ "mode": mode })));
                let applied = json!({ "mode": mode, "sent": sent.name(), "schema_hash": hash });
                span.event(Event::GrammarApplied, attributes(applied));
            }
            Self::Skipped { mode, reason } => {
                span.event(Event::SoeSkipped, attributes(json!({ "mode": mode, "reason": reason })));
            }
        }
    }
}

impl Step {
    /// Chooses the constraint from the settings, the capabilities of the backend and what the run
    /// has learned. Asks for a capability only if the choice depends on it.
    pub(super) async fn constraint(&self, ladder: &Ladder) -> Result<Constraint, Kind> {
        let wanted = self.settings.structured_output;
        let has_shape = self.output.is_some() || self.settings.grammar.is_some();
        match wanted {
            StructuredOutput::Off => return Ok(Constraint::None),
            StructuredOutput::Auto if !has_shape => return Ok(Constraint::None),
            _ => {}
        }
        let mode = wanted.mode_name();
        if self.tools.is_some() {
            return Ok(Constraint::Skipped { mode, reason: "tools" });
        }
        match wanted {
            StructuredOutput::Grammar | StructuredOutput::Outlines | StructuredOutput::Xgrammar => {
                self.by_grammar(mode, ladder).await
            }
            StructuredOutput::Auto if self.settings.grammar.is_some() => self.by_grammar(mode, ladder).await,
            _ => self.by_format(ladder).await,
        }
    }

    /// Reports whether the backend enforces a constraint, or returns `None` if that cannot be
    /// determined.
    async fn supports(&self, sent: Sent) -> Result<Option<bool>, BackendError> {
        match self.prompts.backend().supports(self.prompts.model(), sent.feature()).await {
            Ok(is_supported) => Ok(Some(is_supported)),
            Err(error) if error.interruption().is_some() || is_of_all_requests(&error) => Err(error),
            Err(error) => {
                tracing::info!(%error, "the backend's capabilities are unknown");
                Ok(None)
            }
        }
    }

    /// Builds a constraint by `response_format`: the first mode of the settings that the backend
    /// enforces.
    ///
    /// A constraint that the configuration names (`openai_json`) is sent without a probe. A schema
    /// for something other than objects is not requested as a JSON object.
    async fn by_format(&self, ladder: &Ladder) -> Result<Constraint, Kind> {
        let mode = StructuredOutput::Json.mode_name();
        let is_trusted = self.settings.structured_output == StructuredOutput::Json;
        let mut reason =
            if self.settings.modes.iter().any(|mode| mode.is_structured()) { "unsupported" } else { "modes" };
        let mut fallback = None;
        for &asked in &self.settings.modes {
            let Some((sent, value, hash)) = self.format(asked) else {
                if asked == Mode::PromptOnly {
                    return Ok(Constraint::Skipped { mode, reason });
                }
                continue;
            };
            let applied = Constraint::Applied { mode, sent, value, hash };
            if ladder.refused.contains(&sent) {
                reason = "refused";
            } else if ladder.unenforced.contains(&sent) {
                reason = "unenforced";
                fallback = Some(applied);
            } else if is_trusted {
                return Ok(applied);
            } else {
                match self.supports(sent).await? {
                    Some(true) => return Ok(applied),
                    Some(false) => {}
                    None => reason = "unknown",
                }
            }
        }
        fallback.ok_or_else(|| {
            let modes: Vec<&str> = self.settings.modes.iter().map(|mode| mode.name()).collect();
            let place = || self.prompts.backend().remembered_in(self.prompts.model());
            let place = (reason == "unsupported").then(place).flatten();
            Kind::Modes { modes: modes.join(", "), reason, place }
        })
    }

    /// Returns the `response_format` of a mode, and the hash of the schema that it enforces. Returns
    /// `None` if the mode has no format or does not suit the output.
    fn format(&self, mode: Mode) -> Option<(Sent, Value, String)> {
        let any_object =
            || (Sent::Object, json!({ "type": "json_object" }), hash(&json!({ "type": "object" })));
        match (mode, &self.output) {
            (Mode::PromptOnly, _) | (Mode::JsonSchema, None) => None,
            (Mode::JsonObject, None) => Some(any_object()),
            (Mode::JsonSchema, Some(output)) => {
                Some((Sent::Schema, response_format(&output.shape, mode)?, output.hash.clone()))
            }
            (Mode::JsonObject, Some(output)) => {
                let schema = output.shape.schema();
                let is_of_objects = kind(schema, schema).is_none_or(|kind| kind == "object");
                is_of_objects.then(|| (Sent::Object, json!({ "type": "json_object" }), output.hash.clone()))
            }
        }
    }

    /// Builds a constraint by grammar.
    ///
    /// The constraint is the step's own grammar. If the step has no grammar, the constraint is its
    /// schema, provided that the backend compiles schemas to grammars.
    async fn by_grammar(&self, mode: &'static str, ladder: &Ladder) -> Result<Constraint, Kind> {
        let skipped = |reason| Ok(Constraint::Skipped { mode, reason });
        if !ladder.refused.is_empty() {
            return skipped("refused");
        }
        match self.supports(Sent::Grammar).await? {
            Some(true) => {}
            Some(false) => return skipped("unsupported"),
            None => return skipped("unknown"),
        }
        if let Some(grammar) = &self.settings.grammar {
            let hash = match &self.output {
                Some(output) => output.hash.clone(),
                None => hexadecimal(grammar.as_bytes()),
            };
            let value = grammar.as_str().into();
            return Ok(Constraint::Applied { mode, sent: Sent::Grammar, value, hash });
        }
        let Some((sent, value, hash)) = self.format(Mode::JsonSchema) else { return skipped("no_schema") };
        match self.supports(sent).await? {
            Some(true) => Ok(Constraint::Applied { mode, sent, value, hash }),
            Some(false) => skipped("unsupported"),
            None => skipped("unknown"),
        }
    }
}

/// Reports whether an error of a probe concerns every request, so that the call would fail as well.
fn is_of_all_requests(error: &BackendError) -> bool {
    match error.category() {
        Category::Connection | Category::Timeout | Category::RateLimited | Category::Authentication => true,
        // Another mode may still be answered.
        Category::InvalidRequest => !error.is_of_mode(),
        Category::Server => matches!(error.status(), Some(502 | 503)),
        _ => false,
    }
}

/// Returns the SHA-256 of a schema in hexadecimal, independent of the order of its keys.
pub(super) fn hash(schema: &Value) -> String {
    let mut text = String::new();
    canonical(schema, &mut text);
    hexadecimal(text.as_bytes())
}

fn hexadecimal(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Writes compact JSON with sorted keys.
fn canonical(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_unstable();
            text.push('{');
            for (at, name) in names.into_iter().enumerate() {
                let _ = write!(text, "{}{}:", if at > 0 { "," } else { "" }, Value::from(name.as_str()));
                canonical(&members[name], text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                canonical(item, text);
            }
            text.push(']');
        }
        plain => {
            let _ = write!(text, "{plain}");
        }
    }
}
