//! Constraints on the output during decoding: what to request from the backend.

use std::fmt::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Step;
use crate::config::StructuredOutput;
use crate::directives::Mode;
use crate::repair::response_format;
use crate::trace::{Event, Span};
use crate::{BackendError, Body, Capabilities, Feature};

/// Constraint of the output of a request.
pub(super) enum Constraint {
    /// No constraint, as configured.
    None,
    /// The request field to add.
    Applied { mode: &'static str, field: &'static str, value: Value, hash: String },
    /// A constraint was configured but is not used, for this reason.
    Skipped { mode: &'static str, reason: &'static str },
}

impl Constraint {
    /// Adds the constraint to the fields of a request.
    pub(super) fn apply(&self, options: &mut Body) {
        if let Self::Applied { field, value, .. } = self {
            options.insert((*field).to_owned(), value.clone());
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
            Self::Applied { mode, hash, .. } => {
                span.event(Event::SoeEnabled, attributes(json!({ "mode": mode })));
                span.event(Event::GrammarApplied, attributes(json!({ "mode": mode, "schema_hash": hash })));
            }
            Self::Skipped { mode, reason } => {
                span.event(Event::SoeSkipped, attributes(json!({ "mode": mode, "reason": reason })));
            }
        }
    }
}

impl Step {
    /// Chooses the constraint from the settings and the capabilities of the backend.
    pub(super) async fn constraint(&self) -> Result<Constraint, BackendError> {
        let wanted = self.settings.structured_output;
        let has_shape = self.output.is_some() || self.settings.grammar.is_some();
        match wanted {
            StructuredOutput::Off => return Ok(Constraint::None),
            StructuredOutput::Auto if !has_shape => return Ok(Constraint::None),
            _ => {}
        }
        let mode = wanted.mode_name();
        let skipped = |reason| Ok(Constraint::Skipped { mode, reason });
        if self.tools.is_some() {
            return skipped("tools");
        }
        let Some(can) = self.capabilities().await? else { return skipped("unknown") };
        Ok(match wanted {
            StructuredOutput::Grammar | StructuredOutput::Outlines | StructuredOutput::Xgrammar => {
                self.by_grammar(mode, can)
            }
            StructuredOutput::Auto if self.settings.grammar.is_some() => self.by_grammar(mode, can),
            _ => self.by_format(can),
        })
    }

    /// Returns the capabilities of the backend, or `None` if they cannot be determined.
    async fn capabilities(&self) -> Result<Option<Capabilities>, BackendError> {
        let (backend, model) = (self.prompts.backend(), self.prompts.model());
        if let Some(known) = backend.known_capabilities(model) {
            return Ok(Some(known));
        }
        match backend.capabilities(model).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.interruption().is_some() => Err(error),
            Err(error) => {
                tracing::info!(%error, "the backend's capabilities are unknown");
                Ok(None)
            }
        }
    }

    /// Builds a constraint by `response_format`: the schema if the backend supports schemas,
    /// otherwise any JSON object.
    fn by_format(&self, can: Capabilities) -> Constraint {
        let mode = StructuredOutput::Json.mode_name();
        let of_mode = |wanted: Mode| match &self.output {
            Some(output) => response_format(&output.shape, wanted).zip(Some(output.hash.clone())),
            // Without a schema, any object is valid.
            None => Some((json!({ "type": "json_object" }), hash(&json!({ "type": "object" })))),
        };
        let found = if can.has(Feature::JsonSchema) {
            of_mode(Mode::JsonSchema)
        } else if can.has(Feature::JsonObject) {
            of_mode(Mode::JsonObject)
        } else {
            None
        };
        match found {
            Some((value, hash)) => Constraint::Applied { mode, field: "response_format", value, hash },
            None => Constraint::Skipped { mode, reason: "unsupported" },
        }
    }

    /// Builds a constraint by grammar.
    ///
    /// The constraint is the step's own grammar. If the step has no grammar, the constraint is its
    /// schema, provided that the backend compiles schemas to grammars.
    fn by_grammar(&self, mode: &'static str, can: Capabilities) -> Constraint {
        if !can.has(Feature::Grammar) {
            return Constraint::Skipped { mode, reason: "unsupported" };
        }
        if let Some(grammar) = &self.settings.grammar {
            let hash = match &self.output {
                Some(output) => output.hash.clone(),
                None => hexadecimal(grammar.as_bytes()),
            };
            return Constraint::Applied { mode, field: "grammar", value: grammar.as_str().into(), hash };
        }
        match &self.output {
            Some(output) if can.has(Feature::JsonSchema) => {
                let format = response_format(&output.shape, Mode::JsonSchema).unwrap_or_default();
                Constraint::Applied {
                    mode,
                    field: "response_format",
                    value: format,
                    hash: output.hash.clone(),
                }
            }
            Some(_) => Constraint::Skipped { mode, reason: "unsupported" },
            None => Constraint::Skipped { mode, reason: "no_schema" },
        }
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
