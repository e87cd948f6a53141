//! Evaluation of models: measures how often a model returns the requested directives, or completes
//! a task by calling tools.
//!
//! An [`Evaluation`] runs trials. There is a combination for each scenario, model, sampling
//! profile, strategy and mode, and several trials of each combination with different seeds.
//!
//! Requests pass through the same runners that applications use, and are recorded together with the
//! answers. A [`Trial`] therefore has two results: whether the run succeeded, and a judgement of
//! each answer ([`Checks`]). The judge only uses the `jsonschema` crate, and no code of the
//! runners.
//!
//! A [`Summary`] counts the results and computes Wilson intervals. [`report`] renders them as a
//! single page.
//!
//! If the backends return the same answers, an evaluation has the same results. The seed of a trial
//! does not depend on the order of trials, so an interrupted evaluation can be resumed from its
//! [`Journal`]. All models, profiles, strategies and modes get the same seeds, so differences between
//! them are not differences between seeds.
//!
//! A [`StructuredEvaluation`] measures something else: whether a server returns what a JSON Schema
//! asks for, and which keywords it enforces. Its input is any set of [`Case`]s.
//!
//! The module [`decisions`] measures the probabilities of decisions against gold answers.
//!
//! # Scenarios
//! The scenarios of directives are `show_form`, `toast`, `patch_draft` and `request_upload`. The
//! user message of each asks for one directive, in plain words.
//!
//! The scenarios of tools work on a workspace in memory with the tools `state_get` and
//! `state_patch`:
//!
//! - `happy_path` requires setting one value.
//! - `missing_workspace_id` does not give the id of the workspace. The model must take it from an
//!   error.
//! - `type_error_recovery` asks for a value of the wrong type. The tool returns an error that says
//!   so.
//! - `long_arguments_guard` asks for a text that exceeds the size limit of arguments.
//! - `chat_only` is the control, which has no tools.
//!
//! `type_error_recovery` and `long_arguments_guard` are about one error each. A trial in which this
//! error never occurs is *not exercised*: it counts neither as a success nor as a failure.
//!
//! A tool scenario must end with the exact message `Done.`. This makes the results easy to check,
//! but is not a recommendation for production.
//!
//! # Limits
//! This crate does no file I/O. The caller stores the journal. The crate does not define an
//! acceptable success rate.

pub mod decisions;
mod directives;
mod error;
mod evaluation;
mod groups;
mod journal;
mod judge;
mod recorder;
mod report;
mod scenarios;
mod settings;
mod stats;
mod structured;
mod summary;
mod tools;
mod trial;
mod workspace;

pub use error::EvalError;
pub use evaluation::Evaluation;
pub use groups::{Groups, Stats};
pub use journal::{Journal, JournalEntry};
pub use report::{report, structured_report};
pub use scenarios::{UnknownScenario, select_scenarios};
pub use settings::{EVAL_VERSION, EvalModel, EvalProfile, EvalSettings};
pub use stats::{Latency, Rate};
pub use structured::{
    ANY_SCHEMA, Case, CaseError, CaseRow, KeywordRow, KeywordVerdict, STRUCTURED_VERSION,
    StructuredEvaluation, StructuredGroups, StructuredKey, StructuredSettings, StructuredStats,
    StructuredSummary, StructuredTrial, Verdict, Violation, keyword_probes,
};
pub use summary::{Row, Summary};
pub use trial::{Checks, EvalMode, Exchange, Failure, Harness, Strategy, Trial, TrialKey};

#[cfg(test)]
mod tests;
