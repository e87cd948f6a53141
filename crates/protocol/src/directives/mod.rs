//! Structured directives: actions for an app that a model writes as data.
//!
//! A model answers with one JSON object, the *envelope*:
//! `{"assistant_text": "…", "directives": [{"type": "ui.toast", "payload": {…}}]}`. Directives
//! change what a user sees or what the app remembers. They do no I/O, and the model receives no
//! results. A single request is therefore enough unless the answer cannot be used. The parts are:
//!
//! - A [`Registry`] defines the directive types and their payloads.
//! - [`schema`] builds a `response_format` from the registry. Servers that support it constrain the
//!   model to the envelope.
//! - [`parser`] finds the object in an answer, and [`Validator`] checks it. Invalid directives are
//!   dropped and reported as [`Warning`]s.
//! - [`Runner`] tries one [`Mode`] after another and asks the model to repair bad answers. A run
//!   always ends with a [`DirectiveResult`], unless it is interrupted.
//!
//! ```
//! use std::sync::Arc;
//! use formwork_protocol::directives::{
//!     Definition, Registry, RunRequest, Runner, StructuredOutputOptions,
//! };
//! use formwork_protocol::{PromptRunner, ScriptedBackend};
//! use futures_util::FutureExt;
//!
//! let toast = Definition { aliases: vec!["toast".to_owned()], ..Definition::new("ui.toast") };
//! let registry = Registry::new(vec![toast])?;
//! let written = concat!(
//!     r#"{"assistant_text": "Saved.", "#,
//!     r#""directives": [{"type": "toast", "payload": {"message": "Saved"}}]}"#
//! );
//! let backend = ScriptedBackend::new([Ok(ScriptedBackend::says(written))]);
//! let runner = Runner::new(PromptRunner::new(Arc::new(backend), "m"));
//! let request = RunRequest::new("Save it.", StructuredOutputOptions::new(registry));
//! let result = runner.run(&request).now_or_never().expect("a script answers at once")?;
//! assert_eq!((result.ok, result.directives[0].kind.as_str()), (true, "ui.toast"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//! The module defines no directive types; the app defines them. Text that is almost JSON is not
//! repaired here. Instead, a repair request describes the error to the model.

mod embed;
mod error;
mod instructions;
mod names;
mod options;
pub mod parser;
pub mod patch;
pub mod presets;
mod read;
mod registry;
mod requirement;
mod result;
mod runner;
mod salvage;
pub mod schema;
mod stream;
mod text;
mod validator;

pub use error::RegistryError;
pub use options::{PayloadNormalizer, PayloadValidator, StructuredOutputOptions};
pub use presets::{Mode, PayloadSchemas, Preset, repeated};
pub use read::read;
pub use registry::{Definition, Registry};
pub use requirement::Requirement;
pub use result::{
    Attempt, AttemptKind, Directive, DirectiveResult, Issue, Problem, ProblemCategory, Skipped, TypeDecision,
    TypeProbability, Warning,
};
pub use runner::{ResultValidator, RunRequest, Runner, require_types};
pub use stream::RunEvent;
pub use validator::{Envelope, Validator};

/// Code of the warning that the length limit forced the answer to close early.
const CLOSED_BY_BUDGET: &str = "CLOSED_BY_BUDGET";

/// Returns `text` unchanged if it has at most `limit` characters. Otherwise returns the first
/// `limit` characters, followed by `…`.
fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
