//! Directives: what an app is to do, written by a model as data.
//!
//! A model answers with one JSON object, the *envelope*: `{"assistant_text": "…", "directives": [{"type": "ui.toast", "payload":
//! {…}}]}`. Directives change what a user sees or what the app remembers; they do no I/O, and nothing is sent back to the model, so
//! one request is enough where all goes well. Where it does not, the flow goes on:
//!
//! - A [`Registry`] says which types there are, and what their payloads are.
//! - [`schema`] makes a `response_format` of it, which a server that can holds the model to.
//! - [`parser`] finds the object in what came, and [`Validator`] tells what of it can be used: directives that cannot are dropped
//!   and told of in [`Warning`]s.
//! - [`Runner`] asks in one [`Mode`] after the other, has the model repair what it wrote, and gives a [`DirectiveResult`] whatever
//!   happens: only a run that was cancelled has none.
//!
//! ```
//! use std::sync::Arc;
//! use formwork_protocol::directives::{Definition, Registry, RunRequest, Runner, StructuredOutputOptions};
//! use formwork_protocol::{PromptRunner, ScriptedBackend};
//! use futures_util::FutureExt;
//!
//! let registry = Registry::new(vec![Definition { aliases: vec!["toast".to_owned()], ..Definition::new("ui.toast") }])?;
//! let written = r#"{"assistant_text": "Saved.", "directives": [{"type": "toast", "payload": {"message": "Saved"}}]}"#;
//! let backend = ScriptedBackend::new([Ok(ScriptedBackend::says(written))]);
//! let runner = Runner::new(PromptRunner::new(Arc::new(backend), "m"));
//! let request = RunRequest::new("Save it.", StructuredOutputOptions::new(registry));
//! let result = runner.run(&request).now_or_never().expect("a script answers at once")?;
//! assert_eq!((result.ok, result.directives[0].kind.as_str()), (true, "ui.toast"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is not here
//! No types of directives: they are the app's. No tolerance for text that is not JSON, either: what is nearly JSON is told to the
//! model, not guessed at.

mod embed;
mod error;
mod instructions;
mod names;
mod options;
pub mod parser;
pub mod patch;
pub mod presets;
mod registry;
mod result;
mod runner;
mod salvage;
pub mod schema;
mod validator;

pub use error::RegistryError;
pub use options::{PayloadNormalizer, PayloadValidator, StructuredOutputOptions};
pub use presets::{Mode, PayloadSchemas, Preset};
pub use registry::{Definition, Registry};
pub use result::{
    Attempt, AttemptKind, Directive, DirectiveResult, Issue, Problem, ProblemCategory, Skipped, Warning,
};
pub use runner::{ResultValidator, RunRequest, Runner, require_types};
pub use validator::{Envelope, Validator};

/// The beginning of `text`, of at most `limit` characters.
fn shortened(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
