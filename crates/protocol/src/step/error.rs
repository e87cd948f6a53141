use std::error::Error;
use std::fmt;

use thiserror::Error;

use crate::adapt::{AdaptError, ProcessorError};
use crate::remembered::hint;
use crate::repair::RepairError;
use crate::tools::ToolsError;
use crate::{BackendError, Interruption, Withheld};

/// Error in a steps file or a `processing` block, with its position.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {fault}")]
pub struct StepsError {
    place: String,
    /// Path of keys; empty for syntax errors.
    path: Vec<String>,
    #[source]
    fault: Box<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Fault {
    #[error("{message}")]
    Syntax { message: String },
    #[error("unknown name `{given}`; expected one of {}", known.join(", "))]
    Unknown { given: String, known: Vec<String> },
    #[error("{given} is invalid; expected {wanted}")]
    Number { given: String, wanted: &'static str },
    #[error("`{given}` occurs twice")]
    Repeated { given: &'static str },
    #[error("requires {wanted}")]
    Needs { wanted: &'static str },
    #[error("this option has no effect: {reason}")]
    NoEffect { reason: &'static str },
    #[error("`{field}` cannot be set here; each request sets this field")]
    Reserved { field: &'static str },
    #[error("invalid template: {reason}")]
    Template { reason: String },
    #[error("undefined variable {}; the context has no such value", quoted(names))]
    Undefined { names: Vec<String> },
    #[error("{reason}")]
    Grammar { reason: String },
    #[error(transparent)]
    Adapt(AdaptError),
    #[error(transparent)]
    Repair(RepairError),
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

impl StepsError {
    /// Returns the position of the error: a line with or without a column, a path of keys such as
    /// `agents.a.processing.schema`, or both.
    pub fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn at(path: &[&str], fault: Fault) -> Self {
        let keys = path.iter().map(|&key| key.to_owned()).collect();
        Self { place: path.join("."), path: keys, fault: Box::new(fault) }
    }

    pub(super) fn syntax(place: String, message: String) -> Self {
        Self { place, path: Vec::new(), fault: Box::new(Fault::Syntax { message }) }
    }

    /// Returns the path of keys, which is empty for syntax errors.
    pub(super) fn path(&self) -> &[String] {
        &self.path
    }

    /// Adds the line of the error to its path.
    pub(super) fn on_line(self, line: usize) -> Self {
        Self { place: format!("line {line}, `{}`", self.place), ..self }
    }

    pub(super) fn within(self, path: &[&str]) -> Self {
        let mut keys: Vec<String> = path.iter().map(|&key| key.to_owned()).collect();
        keys.extend(self.path);
        Self { place: format!("{}.{}", path.join("."), self.place), path: keys, fault: self.fault }
    }
}

/// Reason why a step has no usable output.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct StepError(Box<Kind>);

#[derive(Debug, Error)]
pub(super) enum Kind {
    #[error("{}", errors.join("; "))]
    Output { attempts: u32, errors: Vec<String>, is_truncated: bool },
    #[error(transparent)]
    Withheld(#[from] Withheld),
    #[error("the processor {reason}")]
    Processor { reason: String },
    #[error("no mode of `modes` can be used ({modes}): {reason}{}", hint(place.as_deref()))]
    Modes {
        modes: String,
        reason: &'static str,
        /// Memory that the reason comes from.
        place: Option<String>,
    },
    #[error("the step has no prompt: neither the step nor its input has a message")]
    NoPrompt,
    #[error("the prompt template cannot be rendered: {reason}")]
    Prompt { reason: String },
    #[error("the prompt template cannot be rendered: undefined variable {}", quoted(names))]
    Undefined { names: Vec<String> },
    #[error(transparent)]
    Tools(#[from] ToolsError),
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

impl Kind {
    /// Returns the name of the reason in traces.
    pub(super) const fn reason(&self) -> &'static str {
        match self {
            Self::Output { .. } => "output",
            Self::Modes { .. } => "modes",
            Self::Withheld(_) => "withheld",
            Self::Processor { .. } => "processor",
            Self::NoPrompt | Self::Prompt { .. } | Self::Undefined { .. } => "prompt",
            Self::Tools(_) => "tools",
            Self::Backend(_) => "backend",
            Self::Interrupted(_) => "interrupted",
        }
    }

    pub(super) fn interruption(&self) -> Option<Interruption> {
        match self {
            Self::Backend(error) => error.interruption(),
            Self::Interrupted(interrupted) => Some(interrupted.reason),
            _ => None,
        }
    }
}

impl StepError {
    /// Returns the interruption that ended the run, or `None` if the step failed. Callers must pass
    /// on an interruption unchanged.
    pub fn interruption(&self) -> Option<Interruption> {
        self.0.interruption()
    }

    /// Returns the error of the backend, or `None` if the step has no output for another reason.
    pub fn backend(&self) -> Option<&BackendError> {
        match &*self.0 {
            Kind::Backend(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the interruption by a processor or validator, or `None` if the step has no output
    /// for another reason.
    pub fn interrupted(&self) -> Option<&Interrupted> {
        match &*self.0 {
            Kind::Interrupted(interrupted) => Some(interrupted),
            _ => None,
        }
    }

    /// Returns a description of each fault of the last output, such as `Field "age": …`. Empty if
    /// the step has no output for another reason.
    pub fn errors(&self) -> &[String] {
        match &*self.0 {
            Kind::Output { errors, .. } => errors,
            _ => &[],
        }
    }

    /// Returns the names of the context values that the prompt template needs and the context lacks.
    /// Empty if the step has no output for another reason.
    pub fn undefined(&self) -> &[String] {
        match &*self.0 {
            Kind::Undefined { names } => names,
            _ => &[],
        }
    }

    /// Returns the reason if the model refused to answer or a content filter withheld the answer.
    /// Such an answer ends the step without further attempts.
    pub fn withheld(&self) -> Option<&Withheld> {
        match &*self.0 {
            Kind::Withheld(withheld) => Some(withheld),
            _ => None,
        }
    }

    /// Reports whether the token limit cut off the last answer inside its value.
    pub fn is_truncated(&self) -> bool {
        matches!(&*self.0, Kind::Output { is_truncated: true, .. })
    }

    /// Returns the number of attempts if all had unusable outputs. Returns 0 if the step has no
    /// output for another reason.
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

/// Interruption by a processor or validator. The cause is outside of the data, and the step returns
/// the interruption unchanged.
///
/// ```
/// use formwork_protocol::step::Interrupted;
/// assert_eq!(Interrupted::cancelled("the user left").to_string(), "cancelled: the user left");
/// ```
#[derive(Debug)]
pub struct Interrupted {
    /// Reason for the interruption.
    pub reason: Interruption,
    /// The processor's own error.
    pub source: Box<dyn Error + Send + Sync>,
}

impl Interrupted {
    /// Creates the interruption of a run that the caller cancelled.
    pub fn cancelled(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { reason: Interruption::Cancelled, source: source.into() }
    }

    /// Creates the interruption of a run that will be resumed later.
    pub fn paused(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { reason: Interruption::Paused, source: source.into() }
    }

    /// Creates the interruption of a run whose quota is exhausted.
    pub fn budget_exhausted(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { reason: Interruption::BudgetExhausted, source: source.into() }
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason.name(), self.source)
    }
}

impl Error for Interrupted {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}

impl From<Interrupted> for ProcessorError<Interrupted> {
    fn from(interrupted: Interrupted) -> Self {
        Self::Interrupt(interrupted)
    }
}
