//! Evaluation: measures how often a model does what it is asked, by directives and by tools.
//!
//! An [`Evaluation`] runs trials: scenarios × models × sampling profiles × strategies × modes, each
//! several times with different seeds. Requests go through the same runners that applications use,
//! over a backend that records everything. A [`Trial`] therefore has two results: whether the run
//! succeeded, and the judgement of each answer ([`Checks`]). The judge uses only the `jsonschema`
//! crate and none of the runners' code. A [`Summary`] counts results with Wilson intervals, and
//! [`report`] renders a single page.
//!
//! For given answers of the backends, an evaluation is deterministic. The seed of a trial does not
//! depend on the order of trials, so an interrupted evaluation can be resumed from its [`Journal`].
//!
//! # Scenarios
//! The scenarios of directives are `show_form`, `toast`, `patch_draft` and `request_upload`. Each
//! asks for one directive in plain words.
//!
//! The scenarios of tools work on a workspace in memory with the tools `state_get` and
//! `state_patch`:
//!
//! - `happy_path` sets one value.
//! - `missing_workspace_id` withholds the id, which the model must take from an error.
//! - `type_error_recovery` asks for a value of the wrong type, and the error says so.
//! - `long_arguments_guard` asks for a text that exceeds the size limit of arguments.
//! - `chat_only` is the control without tools.
//!
//! Each tool scenario must end with the exact message `Done.`. The strictness keeps assertions
//! stable; it is not a recommendation for production.
//!
//! # Limits
//! The module does no file I/O; the caller stores the journal. It does not define which success
//! rate is acceptable.

mod directives;
mod error;
mod evaluation;
mod journal;
mod judge;
mod recorder;
mod report;
mod scenarios;
mod settings;
mod stats;
mod summary;
mod tools;
mod trial;
mod workspace;

pub use error::EvalError;
pub use evaluation::Evaluation;
pub use journal::Journal;
pub use report::report;
pub use scenarios::{UnknownScenario, select_scenarios};
pub use settings::{EVAL_VERSION, EvalModel, EvalProfile, EvalSettings};
pub use stats::{Latency, Rate};
pub use summary::{Groups, Row, Stats, Summary};
pub use trial::{Checks, EvalMode, Exchange, Failure, Harness, Strategy, Trial, TrialKey};

#[cfg(test)]
mod tests;
