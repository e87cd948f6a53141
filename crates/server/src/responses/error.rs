use axum::http::StatusCode;
use formwork_json::JsonError;
use thiserror::Error;

/// Error of a request about stored responses and conversations.
#[derive(Debug, Error)]
pub(crate) enum StoreError {
    #[error("nothing is stored here, because the server's limit of stored responses is 0")]
    Off,
    #[error("unknown {what} `{id}`; it was not stored, was deleted, or made room for newer ones")]
    Unknown { what: &'static str, id: String },
    #[error("response `{id}` is complete; only a response in the background can be cancelled")]
    NotInBackground { id: String },
    #[error("`{name}`: {problem}")]
    Query { name: &'static str, problem: String },
    #[error("the conversation would have {given} bytes, which exceed the limit of {limit}")]
    TooLong { field: &'static str, given: usize, limit: usize },
    #[error("cannot read what is stored: {0}")]
    Unreadable(#[from] JsonError),
}

impl StoreError {
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::Unknown { .. } => StatusCode::NOT_FOUND,
            Self::Unreadable(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    pub(crate) fn code(&self) -> Option<&'static str> {
        match self {
            Self::Off => Some("store_disabled"),
            Self::Unknown { what: "response", .. } => Some("response_not_found"),
            Self::Unknown { what: "conversation", .. } => Some("conversation_not_found"),
            Self::Unknown { .. } => Some("item_not_found"),
            _ => None,
        }
    }

    pub(crate) const fn param(&self) -> Option<&'static str> {
        match self {
            Self::Query { name, .. } => Some(name),
            Self::TooLong { field, .. } => Some(field),
            _ => None,
        }
    }
}
