use serde::{Deserialize, Serialize};

/// The body of every response that is an error, and of an error event in a stream.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FailureBody {
    /// What went wrong.
    pub error: Failure,
}

/// What went wrong, in OpenAI's shape.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// One line for a person.
    pub message: String,
    /// The class: `invalid_request_error` or `server_error`.
    #[serde(rename = "type")]
    pub class: String,
    /// The request's field at fault.
    pub param: Option<String>,
    /// The precise reason, where it has a name: `model_not_found`, `context_length_exceeded`, …
    pub code: Option<String>,
}
