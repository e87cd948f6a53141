use std::ops::Range;

use thiserror::Error;

use super::place;
use crate::BackendError;
use crate::sampling::SamplingError;

/// Error in a configuration file, with its line and key.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("line {line}: {}{reason}", key.as_ref().map(|key| format!("`{key}`: ")).unwrap_or_default())]
pub struct ConfigError {
    line: usize,
    key: Option<String>,
    #[source]
    reason: Box<Reason>,
}

#[derive(Clone, Debug, PartialEq, Error)]
pub(super) enum Reason {
    #[error("{message}")]
    Toml { message: String },
    #[error("unknown name `{given}`; expected one of {}", known.join(", "))]
    Unknown { given: String, known: Vec<String> },
    #[error("this name is reserved for the local engine")]
    Local,
    #[error("the profile `default` must not set any value; it stands for the backend's own values")]
    Default,
    #[error("`{field}` cannot have a default; each request sets this field")]
    Reserved { field: String },
    #[error("{given} is invalid; expected {wanted}")]
    Number { given: f64, wanted: &'static str },
    #[error("the value must not be empty")]
    Empty,
    #[error(transparent)]
    Sampling(#[from] SamplingError),
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// An error at a path of keys.
pub(super) struct Fault {
    pub(super) path: Vec<String>,
    pub(super) reason: Reason,
}

impl ConfigError {
    /// Returns the line, from 1.
    pub const fn line(&self) -> usize {
        self.line
    }

    /// Returns the dotted key, such as `providers.router.base_url`.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    pub(super) fn of_toml(text: &str, error: &toml::de::Error) -> Self {
        let Range { start, .. } = error.span().unwrap_or_default();
        let reason = Reason::Toml { message: error.message().to_owned() };
        Self { line: place::line(text, start), key: place::key_at(text, start), reason: Box::new(reason) }
    }

    pub(super) fn of_fault(text: &str, fault: Fault) -> Self {
        let line = place::line(text, place::offset_of(text, &fault.path));
        Self { line, key: Some(fault.path.join(".")), reason: Box::new(fault.reason) }
    }
}
