use std::fmt;

use crate::BackendError;

/// Report on the progress of a step, for [`Step::on_progress`](super::Step::on_progress).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// A request of an attempt is about to be sent.
    Asking {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Maximum number of attempts.
        attempts: u32,
        /// Name of the model.
        model: &'a str,
        /// Name of the constraint in the request, such as `json_schema`.
        sent: Option<&'static str>,
    },
    /// Outputs are not constrained, although the configuration requests it.
    Unconstrained {
        /// Reason, such as `unsupported`.
        reason: &'static str,
    },
    /// The backend refused a constraint.
    Refused {
        /// Name of the constraint, such as `json_schema`.
        sent: &'static str,
        /// Error of the backend.
        error: &'a BackendError,
    },
    /// The output is used, although a limit of tokens affected the answer.
    CutShort {
        /// Description, such as `the answer was cut off after its value`.
        reason: &'static str,
    },
    /// A processor failed.
    Processor {
        /// Fault of the processor.
        error: &'a str,
    },
    /// An attempt gave no usable output.
    Failed {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Maximum number of attempts.
        attempts: u32,
        /// Faults of the output.
        errors: &'a [String],
    },
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Asking { attempt, attempts, model, sent } => {
                write!(f, "attempt {attempt}/{attempts}: asking {model}")?;
                sent.map_or(Ok(()), |sent| write!(f, " with {sent}"))
            }
            Self::Unconstrained { reason } => {
                let told = match *reason {
                    "unsupported" => "the server supports no mode of structured output",
                    "refused" => "the server refused it",
                    "unenforced" => "the server ignored it",
                    "unknown" => "the server's support could not be determined",
                    "tools" => "the step has tools",
                    "no_schema" => "the step has no schema",
                    "modes" => "`modes` has only prompt_only",
                    other => other,
                };
                write!(f, "structured output is skipped: {told}")
            }
            Self::Refused { sent, error } => write!(f, "the server refused {sent}: {error}"),
            Self::CutShort { reason } => write!(f, "{reason}"),
            Self::Processor { error } => write!(f, "the processor {error}"),
            Self::Failed { attempt, attempts, errors } => {
                write!(f, "attempt {attempt}/{attempts} failed: {}", errors.join("; "))
            }
        }
    }
}
