//! Evaluation: how often a model does what it is asked for, by directives and by tools.
//!
//! An [`Evaluation`] makes tries: scenarios × models × sampling profiles × strategies × modes, each so many times with different seeds.
//! What it asks goes through the same runners that applications use, over a backend that remembers everything; so a [`Trial`] has both
//! whether the run did what it should, and what a judge makes of every answer who shares no code with the runners and uses
//! the `jsonschema` crate alone ([`Checks`]). A [`Summary`] counts, with Wilson's intervals, and [`report`] shows all of it on one page.
//!
//! Given the backends' answers all of it is deterministic: each try has a seed of its own, whatever the order in which they are made.
//! So an evaluation that was killed goes on where it was ([`Journal`]).
//!
//! # Scenarios
//! Of directives: `show_form`, `toast`, `patch_draft` and `request_upload`; each asks for one directive in plain words. Of tools, on a
//! workspace in memory with `state_get` and `state_patch`: `happy_path`; `missing_workspace_id`, where the id is not told, and has to
//! be taken from an error; `type_error_recovery`, where the value that is asked for has the wrong type, and the error says so;
//! `long_arguments_guard`, where the text that is asked for is larger than arguments may be; and the control `chat_only`, without
//! tools. All of these must end with the message `Done.`, which is strict on purpose, so that assertions don't move; it is nothing
//! to ask for in production.
//!
//! # What is not here
//! No files: who makes an evaluation keeps its journal. No opinion on what a good rate is, either.

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
