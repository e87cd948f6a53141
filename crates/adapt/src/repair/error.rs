use thiserror::Error;

/// Error of a [`Shape`](super::Shape) whose schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct RepairError(#[from] Box<Kind>);

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Kind {
    #[error("invalid JSON Schema: {reason}")]
    Schema { reason: String },
}

impl From<Kind> for RepairError {
    fn from(kind: Kind) -> Self {
        Self(Box::new(kind))
    }
}
