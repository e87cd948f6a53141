//! Repair: an answer that does not fit its schema is shown to the model with what is wrong with it, and asked for again.
//!
//! ```text
//! answer ──► XML made JSON ──► the value found ──► checked by its schema ──► it fits
//!                                                     │ errors by their places, hints
//!                                                     ▼
//!                               at most two repairs, at temperature 0, each checked alike
//! ```
//!
//! A [`Shape`] is a schema and how texts are read by it; [`Shape::tool_calls`] is the envelope `{toolCalls, content, needsMoreWork}` that is shipped.
//! A [`Repairer`] repairs a text, or asks a model in one mode after the other (`json_schema`, repairs, `json_object`, plain text).
//! An attempt that validates less than what it was to repair is discarded, and so is one that loses something of it, even if it fits
//! ([`Reading::loses`]), so that nothing becomes worse. What a backend refuses is not asked of it again. Repairs are apart from the
//! retries of requests ([`RetryPolicy`](crate::RetryPolicy)); both are told as [`Retry`](crate::Retry). [`Counters`] say how often what was needed.
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
//! A value is taken as it is, unless [`Repairer::with_adaptation`] says what may be done to it first: a comma too many needs no model.

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

/// The beginning of `text`, of at most `limit` characters, with `...` after it where it goes on.
pub(crate) fn truncated(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
