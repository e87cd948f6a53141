use serde::Serialize;

use super::Refusal;

/// What became of a case. Of several, the worst: the later one here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The schema compiled, and the instances were accepted and rejected as they should be.
    Pass,
    /// The engine refused the schema.
    CompileError,
    /// A valid instance was not allowed, or not to its end.
    ValidRejected,
    /// An invalid instance was allowed to its end.
    InvalidAccepted,
}

/// What came out of one case.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// The case.
    pub id: String,
    /// The verdict.
    pub status: Status,
    /// The first thing that went wrong, among those that decided the status.
    pub error: Option<String>,
    /// The instances; those of a refused schema have no verdict.
    pub instances: InstanceCounts,
    /// Why the schema was refused.
    #[serde(skip)]
    pub refusal: Option<Refusal>,
    /// Compiling and the first mask, in microseconds.
    pub ttfm_us: Option<f64>,
    /// Setting up each sequence, in microseconds.
    pub start_us: Vec<f64>,
    /// Each mask with taking the token, in microseconds.
    pub mask_us: Vec<f64>,
}

/// How many instances there are, and how many got the wrong verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct InstanceCounts {
    /// Instances that are valid.
    pub valid: usize,
    /// Instances that are not.
    pub invalid: usize,
    /// Valid ones that were not allowed to their end.
    pub valid_rejected: usize,
    /// Invalid ones that were.
    pub invalid_accepted: usize,
}
