//! Errors in the format of the API that a request belongs to.
//!
//! Handlers and middleware return [`ApiError`](crate::ApiError), whose response has OpenAI's format. It
//! also carries its details, so that this middleware can write the body again.

use axum::Json;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use formwork_openai::anthropic::{self, Failure, FailureBody};
use serde_json::{Value, json};

use crate::answer::new_id;

/// Header of Anthropic's API with the id of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// Header of all requests to Anthropic's API.
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

/// Details of an error response, from which its body is written again.
#[derive(Clone)]
pub(crate) struct ErrorDetails {
    /// Message for a person.
    pub(crate) message: String,
    /// Field that the message is about. OpenAI's format names the field in `param`.
    pub(crate) field: Option<String>,
    /// Number of tokens of a prompt that does not fit the context, and the context length.
    pub(crate) overlong_prompt: Option<(usize, usize)>,
    /// Name of a field that the client should leave out when it tries again.
    pub(crate) unsupported: Option<String>,
}

impl ErrorDetails {
    /// Returns the message with the field that it is about.
    fn placed(&self) -> String {
        match &self.field {
            Some(field) if !self.message.contains(&format!("`{field}")) => {
                format!("`{field}`: {}", self.message)
            }
            _ => self.message.clone(),
        }
    }

    /// Converts the error of a response with an HTTP status to Anthropic's form.
    fn of_anthropic(self, status: StatusCode) -> Failure {
        // Anthropic's clients read the numbers from this wording, and shorten the conversation.
        let message = match self.overlong_prompt {
            Some((given, limit)) => format!("prompt is too long: {given} tokens > {limit} maximum"),
            None => self.placed(),
        };
        let details =
            self.unsupported.map(|field| json!({ "error_code": anthropic::THREADS, "unsupported": [field] }));
        Failure { details, ..Failure::new(status.as_u16(), message) }
    }
}

impl ErrorDetails {
    /// Returns the response in the form of System One: 422 and the place of the fault for a faulty request.
    /// Clients for Ollama read the member `error`.
    fn into_system_one(self, mut response: Response) -> Response {
        let message = self.placed();
        if response.status() != StatusCode::BAD_REQUEST {
            return with_body(response, &json!({ "detail": message, "error": message }));
        }
        let of_field = |field: &str| -> Vec<Value> {
            let keys = field.split(['.', '[']).map(|key| key.trim_end_matches(']'));
            keys.map(|key| key.parse::<u32>().map_or_else(|_| Value::from(key), Value::from)).collect()
        };
        let mut place = vec![Value::from("body")];
        place.extend(self.field.as_deref().map(of_field).unwrap_or_default());
        *response.status_mut() = StatusCode::UNPROCESSABLE_ENTITY;
        let detail = json!([{ "loc": place, "msg": message, "type": "value_error" }]);
        with_body(response, &json!({ "detail": detail, "error": message }))
    }
}

/// API with an own format of errors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Anthropic,
    Ollama,
    SystemOne,
}

impl Dialect {
    fn of(request: &Request) -> Self {
        let path = request.uri().path();
        if path == "/v1/models" || path.starts_with("/v1/models/") {
            Self::of_models(request.headers())
        } else if path == "/v1/messages" || path.starts_with("/v1/messages/") {
            Self::Anthropic
        } else if path == "/v1/systemone" {
            Self::SystemOne
        } else if path.starts_with("/api/") {
            Self::Ollama
        } else {
            Self::OpenAi
        }
    }

    /// Returns the API of a request for models, whose path is the same in two APIs.
    pub(crate) fn of_models(headers: &HeaderMap) -> Self {
        if headers.contains_key(ANTHROPIC_VERSION) { Self::Anthropic } else { Self::OpenAi }
    }
}

/// Middleware that converts errors to the format of the request's API.
pub(crate) async fn convert(request: Request, next: Next) -> Response {
    let dialect = Dialect::of(&request);
    let response = next.run(request).await;
    let details = response.extensions().get::<ErrorDetails>().cloned();
    match (dialect, details) {
        (Dialect::Anthropic, details) => {
            let id = new_id("req_");
            let mut response = match details {
                Some(details) => {
                    let error = details.of_anthropic(response.status());
                    let body = FailureBody { kind: "error".to_owned(), error, request_id: id.clone() };
                    with_body(response, &json!(body))
                }
                None => response,
            };
            if let Ok(id) = HeaderValue::from_str(&id) {
                response.headers_mut().insert(REQUEST_ID, id);
            }
            response
        }
        (Dialect::SystemOne, Some(details)) => details.into_system_one(response),
        (Dialect::Ollama, Some(details)) => with_body(response, &json!({ "error": details.placed() })),
        _ => response,
    }
}

/// Returns a response with the same status and headers, and another body.
fn with_body(response: Response, body: &Value) -> Response {
    let (parts, _) = response.into_parts();
    let mut response = (parts.status, Json(body)).into_response();
    for (name, value) in &parts.headers {
        if name != CONTENT_LENGTH && name != CONTENT_TYPE {
            response.headers_mut().append(name, value.clone());
        }
    }
    response
}
