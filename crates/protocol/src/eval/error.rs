use thiserror::Error;

use super::UnknownScenario;

/// Error that prevents an evaluation from starting or resuming.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct EvalError(#[from] Box<Kind>);

#[derive(Debug, Error)]
pub(super) enum Kind {
    #[error("the settings are of version {given}, and this is version {known}")]
    Version { given: u32, known: u32 },
    #[error(transparent)]
    Scenario(UnknownScenario),
    #[error("there is no backend for `{model}`")]
    NoBackend { model: String },
    #[error("two models are called `{model}`")]
    SameModel { model: String },
    #[error("the report cannot be written: {reason}")]
    Report { reason: String },
    #[error("line {line} is no trial: {reason}")]
    NoTrial { line: usize, reason: String },
    #[error("line {line} is a trial that is not planned: {key}")]
    NotPlanned { line: usize, key: String },
    #[error("line {line} is a trial that was made before: {key}")]
    Twice { line: usize, key: String },
}

impl From<Kind> for EvalError {
    fn from(kind: Kind) -> Self {
        Self(Box::new(kind))
    }
}
