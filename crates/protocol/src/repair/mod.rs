//! Repair of answers that do not match their schema: the model is shown its answer with the errors,
//! and asked again.
//!
//! ```text
//! answer ──► read by its shape ──► it fits
//!                 │ errors
//!                 ▼
//!       at most two repairs, at temperature 0, each read alike
//! ```
//!
//! A [`Shape`] reads answers by a schema, as described in [`adapt::repair`](crate::adapt::repair).
//! A [`Repairer`] repairs a given text, or asks a model in one mode after the other (`json_schema`,
//! `json_object`, plain text). All modes together share one limit on repairs.
//!
//! A repair is discarded if it is worse than the previous answer, or if it loses content of the
//! previous answer ([`Reading::loses`]). The second rule holds even if the repair is valid, so a
//! repair never makes an answer worse. A response format that the backend rejects is not requested
//! again.
//!
//! A repair request contains the whole invalid answer as the message of the model, up to 200,000
//! characters. Only the prompt after it is limited to the first 2,000 characters of the answer.
//!
//! An answer that the model refused or a content filter withheld ends the run ([`Withheld`]), and
//! so do tool calls without text. A number or an open bracket at the end of an answer that the token
//! limit cut off is not accepted.
//!
//! [`Withheld`]: crate::Withheld
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
//! let answers = [
//!     r#"{"toolCalls": [{"name": 7, "arguments": {}}]}"#,
//!     r#"{"toolCalls": [{"name": "now", "arguments": {}}]}"#,
//! ];
//! let backend =
//!     Arc::new(ScriptedBackend::new(answers.map(|answer| Ok(ScriptedBackend::says(answer)))));
//! let repairer = Repairer::new(PromptRunner::new(backend.clone(), "m"), Shape::tool_calls());
//! let question = Plan {
//!     messages: vec![json!({"role": "user", "content": "What time is it?"})],
//!     ..Plan::default()
//! };
//! let answer = repairer.ask(&question).now_or_never().expect("a script answers at once")?;
//! assert_eq!((answer.verdict, answer.repairs), (Verdict::Valid, 1));
//! let asked = backend.asked()[1]["messages"][2]["content"].to_string();
//! assert!(asked.contains(r#"Field \"toolCalls.0.name\": Expected string, got number"#));
//! # Ok::<(), formwork_protocol::BackendError>(())
//! ```
//!
//! By default, a value must match the schema as written. With [`Repairer::with_adaptation`], texts
//! are first adapted without the model, so that a trailing comma needs no request.

mod counters;
mod options;
mod response_format;
mod runner;

pub use crate::adapt::repair::{Envelope, EnvelopeCall, Reading, RepairError, SHOWN, Shape, repair_prompt};
pub(crate) use counters::Tally;
pub use counters::{Counters, Stats, Target};
pub use options::{MAX_ATTEMPTS, MOST_ATTEMPTS, RepairOptions};
pub use response_format::response_format;
pub(crate) use runner::SENT;
pub use runner::{Answer, Attempt, AttemptKind, Reader, Repaired, Repairer, Verdict};

#[cfg(test)]
mod tests;
