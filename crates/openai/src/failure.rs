use serde::{Deserialize, Serialize};

/// Body of every error response, and of an error event in a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FailureBody {
    /// The error.
    pub error: Failure,
}

/// An error in OpenAI's format.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Human-readable message of one line.
    pub message: String,
    /// Error class: `invalid_request_error` or `server_error`.
    #[serde(rename = "type")]
    pub class: String,
    /// Request field that caused the error.
    pub param: Option<String>,
    /// Machine-readable reason, if it has a name: `model_not_found`, `context_length_exceeded`, …
    pub code: Option<String>,
}
