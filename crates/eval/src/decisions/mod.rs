//! Evaluation of decisions: how well do the probabilities of a model's decisions match gold answers?
//!
//! A [`Dataset`] has states, questions about them and gold answers. The caller asks a model and stores
//! an [`Outcome`] for each question. An interrupted run can be resumed from an [`OutcomeJournal`].
//!
//! A [`DecisionReport`] compares the model with two baselines ([`Predictor`]), for all decisions and by
//! kind and source. [`Reliability`] shows how often answers of a given probability are right.
//! [`Fitted::of`] fits the temperatures of a calibration file.
//!
//! # Limits
//! This module runs no model and does no file I/O. Results do not depend on the order of outcomes.

mod baseline;
mod dataset;
mod error;
mod fit;
mod held_out;
mod measure;
mod metrics;
mod outcome;
mod question;
mod reliability;
mod report;
mod resample;
mod table;
mod unique;

pub use dataset::{Dataset, DatasetState, MAX_LINE};
pub use error::{DatasetError, OutcomeError};
pub use fit::{Fitted, MIN_FITTED, TEMPERATURES, applied};
pub use held_out::{HeldOut, is_in_first_half, split_halves};
pub use metrics::{Estimate, Metrics, Predictor};
pub use outcome::{Outcome, OutcomeJournal};
pub use question::{DatasetQuestion, MAX_LEVELS, MAX_OPTIONS, QuestionKind};
pub use reliability::{Reliability, ReliabilityBin};
pub use report::{DecisionReport, OutcomeGroup, ReportRow};

#[cfg(test)]
mod samples;
