use thiserror::Error;

use crate::adapt::{AdaptError, Interrupted};
use crate::repair::RepairError;
use crate::tools::ToolsError;
use crate::{BackendError, Interruption};

/// What is wrong with a steps file or a `processing` block, by its place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {fault}")]
pub struct StepsError {
    place: String,
    #[source]
    fault: Box<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Fault {
    #[error("{message}")]
    Syntax { message: String },
    #[error("there is no `{given}`, but {}", known.join(", "))]
    Unknown { given: String, known: Vec<String> },
    #[error("{given} is not {wanted}")]
    Number { given: String, wanted: &'static str },
    #[error("it needs {wanted}")]
    Needs { wanted: &'static str },
    #[error("not a template: {reason}")]
    Template { reason: String },
    #[error("{reason}")]
    Grammar { reason: String },
    #[error(transparent)]
    Adapt(AdaptError),
    #[error(transparent)]
    Repair(RepairError),
}

impl StepsError {
    /// Where it is: line and column, or the path of keys, or both.
    pub fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn at(path: &[&str], fault: Fault) -> Self {
        Self { place: path.join("."), fault: Box::new(fault) }
    }

    pub(super) fn syntax(place: String, message: String) -> Self {
        Self { place, fault: Box::new(Fault::Syntax { message }) }
    }

    pub(super) fn within(self, path: &[&str]) -> Self {
        Self { place: format!("{}.{}", path.join("."), self.place), ..self }
    }
}

/// Why a step gave nothing.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct StepError(Box<Kind>);

#[derive(Debug, Error)]
pub(super) enum Kind {
    #[error("{}", errors.join("; "))]
    Output { attempts: u32, errors: Vec<String> },
    #[error("the prompt cannot be written: {reason}")]
    Prompt { reason: String },
    #[error(transparent)]
    Tools(#[from] ToolsError),
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl Kind {
    pub(super) fn interruption(&self) -> Option<Interruption> {
        match self {
            Self::Backend(error) => error.interruption(),
            Self::Interrupted(interrupted) => Some(interrupted.reason),
            _ => None,
        }
    }
}

impl StepError {
    /// Why the run ends, where nothing is wrong: such an error is passed on as it is.
    pub fn interruption(&self) -> Option<Interruption> {
        self.0.interruption()
    }

    /// The backend's own error, as it came.
    pub fn backend(&self) -> Option<&BackendError> {
        match &*self.0 {
            Kind::Backend(error) => Some(error),
            _ => None,
        }
    }

    /// A processor's own interruption, as it came.
    pub fn interrupted(&self) -> Option<&Interrupted> {
        match &*self.0 {
            Kind::Interrupted(interrupted) => Some(interrupted),
            _ => None,
        }
    }

    /// What is wrong with the last output, by its place; nothing, if that is not why.
    pub fn errors(&self) -> &[String] {
        match &*self.0 {
            Kind::Output { errors, .. } => errors,
            _ => &[],
        }
    }

    /// How many outputs there were that would not do.
    pub fn attempts(&self) -> u32 {
        match &*self.0 {
            Kind::Output { attempts, .. } => *attempts,
            _ => 0,
        }
    }
}

impl<T: Into<Kind>> From<T> for StepError {
    fn from(kind: T) -> Self {
        Self(Box::new(kind.into()))
    }
}
