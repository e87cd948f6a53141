use thiserror::Error;

use crate::schema::SchemaError;

/// Error of an [`Adapter`](super::Adapter) whose schema or options are invalid.
///
/// ```
/// use formwork_adapt::{AdaptOptions, Adapter};
/// let error = Adapter::new(&serde_json::json!({"type": "text"}), AdaptOptions::minimal()).unwrap_err();
/// assert!(error.to_string().starts_with("the schema cannot be used: at /type: "), "{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct AdaptError(#[from] Kind);

impl AdaptError {
    /// Returns the reason without the part of the schema, for an error of the schema.
    pub(super) fn reason(&self) -> String {
        match &self.0 {
            Kind::Schema(error) => error.reason.clone(),
            other => other.to_string(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Kind {
    #[error("the schema cannot be used: {0}")]
    Schema(SchemaError),
    #[error("invalid tolerance level {given}; expected 0, 1 or 2")]
    Tolerance { given: u8 },
    #[error("invalid unescape depth {given}; expected 0 to {limit}")]
    Depth { given: u8, limit: u8 },
}
