//! Repair of answers that do not match their schema: the model is shown its answer with the errors,
//! and asked again.
//!
//! ```text
//! answer ──► XML made JSON ──► the value found ──► checked by its schema ──► it fits
//!                                                     │ errors by their places, hints
//!                                                     ▼
//!                               at most two repairs, at temperature 0, each checked alike
//! ```
//!
//! A [`Shape`] combines a schema with the rules for reading texts by the schema.
//! [`Shape::tool_calls`] is the predefined envelope `{toolCalls, content, needsMoreWork}`. A
//! [`Repairer`] repairs a given text, or asks a model in one mode after the other (`json_schema`,
//! `json_object`, plain text). All modes together share one limit on repairs.
//!
//! A repair is discarded if it is worse than the previous answer, or if it loses content of the
//! previous answer ([`Reading::loses`]). The second rule holds even if the repair is valid, so a
//! repair never makes an answer worse. A response format that the backend rejects is not requested
//! again.
//!
//! Repairs are independent of the retries of failed requests ([`RetryPolicy`](crate::RetryPolicy)).
//! Both are reported as [`Retry`](crate::Retry). [`Counters`] hold statistics about repairs.
//!
//! ```
//! use std::sync::Arc;
//! use formwork_protocol::repair::{Repairer, Shape, Verdict};
//! use formwork_protocol::{Plan, PromptRunner, ScriptedBackend};
//! use futures_util::FutureExt;
//! use serde_json::json;
//!
//! let answers = [r#"{"toolCalls": [{"name": 7, "arguments": {}}]}"#, r#"{"toolCalls": [{"name": "now", "arguments": {}}]}"#];
//! let backend = Arc::new(ScriptedBackend::new(answers.map(|answer| Ok(ScriptedBackend::says(answer)))));
//! let repairer = Repairer::new(PromptRunner::new(backend.clone(), "m"), Shape::tool_calls());
//! let question = Plan { messages: vec![json!({"role": "user", "content": "What time is it?"})], ..Plan::default() };
//! let answer = repairer.ask(&question).now_or_never().expect("a script answers at once")?;
//! assert_eq!((answer.verdict, answer.repairs), (Verdict::Valid, 1));
//! let asked = backend.asked()[1]["messages"][2]["content"].to_string();
//! assert!(asked.contains(r#"Field \"toolCalls.0.name\": Expected string, got number"#));
//! # Ok::<(), formwork_protocol::BackendError>(())
//! ```
//!
//! By default, a value must match the schema as written. With [`Repairer::with_adaptation`], texts
//! are first adapted without the model, so that a trailing comma needs no request.

mod adapted;
mod content;
mod counters;
mod envelope;
mod error;
mod format;
mod hints;
mod options;
mod prompt;
mod runner;
pub(crate) mod schema;
mod shape;
pub(crate) mod words;
mod xml;

pub(crate) use counters::Tally;
pub use counters::{Counters, Stats, Target};
pub use envelope::{Envelope, EnvelopeCall};
pub use error::RepairError;
pub use options::{MAX_ATTEMPTS, RepairOptions};
pub use prompt::{SHOWN, repair_prompt};
pub use runner::{Answer, Attempt, AttemptKind, Reader, Repaired, Repairer, Verdict};
pub use shape::{Reading, Shape};

/// Returns the first `limit` characters of `text`, followed by `...` if the text is longer.
pub(crate) fn truncated(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
