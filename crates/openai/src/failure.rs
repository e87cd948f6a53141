use serde::{Deserialize, Serialize};

/// Body of an error response, and data of an error event in a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FailureBody {
    /// The error.
    pub error: Failure,
}

/// Error in OpenAI's format.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Message for a person, in one line.
    pub message: String,
    /// Class of the error, serialized as `type`: `invalid_request_error` or `server_error`.
    #[serde(rename = "type")]
    pub class: String,
    /// Path of the request field that caused the error. `null` if no single field did.
    pub param: Option<String>,
    /// Machine-readable reason, such as `model_not_found` or `context_length_exceeded`. `null` for
    /// errors without such a name.
    pub code: Option<String>,
}
