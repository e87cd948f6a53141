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
    /// First problem that has the severity of `status`. `None` for [`Status::Pass`].
    pub error: Option<String>,
    /// Number of instances and of wrong verdicts. For a refused schema, the verdicts are 0.
    pub instances: InstanceCounts,
    /// Reason why the engine refused the schema. `None` if the schema compiled.
    #[serde(skip)]
    pub refusal: Option<Refusal>,
    /// Time for compilation and the first mask, in microseconds. `None` if the schema was refused.
    pub ttfm_us: Option<f64>,
    /// Time to set up the sequence of each instance, in microseconds.
    pub start_us: Vec<f64>,
    /// Time of each step, in microseconds: to compute a mask and append the token. The last step of
    /// an instance checks end-of-sequence.
    pub mask_us: Vec<f64>,
}

/// Numbers of instances of a case, and of wrong verdicts on them.
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
