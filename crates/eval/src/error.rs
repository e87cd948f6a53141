use thiserror::Error;

use super::UnknownScenario;

/// Error that prevents an evaluation from starting or resuming, or its report from being rendered.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct EvalError(#[from] Box<Kind>);

#[derive(Debug, Error)]
pub(super) enum Kind {
    #[error("the settings have version {given}; expected version {known}")]
    Version { given: u32, known: u32 },
    #[error(transparent)]
    Scenario(UnknownScenario),
    #[error("no backend is set for model `{model}`")]
    NoBackend { model: String },
    #[error("duplicate model name `{model}`")]
    SameModel { model: String },
    #[error("there are no cases")]
    NoCases,
    #[error("case {id}: {reason}")]
    Case { id: String, reason: String },
    #[error("duplicate case id `{id}`")]
    SameCase { id: String },
    #[error("the report cannot be rendered: {reason}")]
    Report { reason: String },
    #[error("line {line}: invalid trial: {reason}")]
    NoTrial { line: usize, reason: String },
    #[error("line {line}: the trial is not in the plan: {key}")]
    NotPlanned { line: usize, key: String },
    #[error("line {line}: duplicate trial: {key}")]
    Twice { line: usize, key: String },
}

impl From<Kind> for EvalError {
    fn from(kind: Kind) -> Self {
        Self(Box::new(kind))
    }
}
