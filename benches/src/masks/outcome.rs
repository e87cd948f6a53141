use serde::Serialize;

use super::Refusal;

/// Result of a case, from best to worst. A case with several problems has the worst status.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The schema compiled, and all instances got the right verdict.
    Pass,
    /// The engine refused the schema.
    CompileError,
    /// A valid instance was rejected, or not allowed to end.
    ValidRejected,
    /// An invalid instance was accepted.
    InvalidAccepted,
}

/// Outcome of one case.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// Name of the case.
    pub id: String,
    /// Result of the case.
    pub status: Status,
    /// First problem that led to the status.
    pub error: Option<String>,
    /// Instances of the case. Instances of a refused schema have no verdict.
    pub instances: InstanceCounts,
    /// Reason why the schema was refused.
    #[serde(skip)]
    pub refusal: Option<Refusal>,
    /// Time for compilation and the first mask, in microseconds.
    pub ttfm_us: Option<f64>,
    /// Time to set up each sequence, in microseconds.
    pub start_us: Vec<f64>,
    /// Time to compute each mask and append the token, in microseconds.
    pub mask_us: Vec<f64>,
}

/// Number of instances, and number of wrong verdicts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct InstanceCounts {
    /// Valid instances.
    pub valid: usize,
    /// Invalid instances.
    pub invalid: usize,
    /// Valid instances that were rejected.
    pub valid_rejected: usize,
    /// Invalid instances that were accepted.
    pub invalid_accepted: usize,
}
