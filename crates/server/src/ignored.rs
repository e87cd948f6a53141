//! Headers about a request: the fields that have no effect, and the format of calls.

use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use formwork_openai::IgnoredFields;

use crate::app::App;
use crate::error::ApiError;

const NAME: HeaderName = HeaderName::from_static("x-formwork-ignored");
/// Maximum length of the header in bytes. Clients limit headers to a few kilobytes.
const MAX_BYTES: usize = 1024;

impl App {
    /// Checks the unknown fields of a request and logs all fields without effect.
    ///
    /// # Errors
    /// Returns an error if a field is unknown and the options refuse unknown fields.
    pub(crate) fn check_ignored(&self, ignored: &IgnoredFields) -> Result<(), ApiError> {
        if self.options().refuse_unknown_fields {
            ignored.check_known()?;
        }
        if ignored.all().next().is_some() {
            tracing::debug!(fields = ?ignored.all().collect::<Vec<_>>(), "fields without effect");
        }
        Ok(())
    }
}

/// Header of an answer whose calls are JSON although the model has a format of its own.
const TOOL_CALLS: HeaderName = HeaderName::from_static("x-formwork-tool-calls");

/// Adds a header to a response if the calls in it are JSON because the model's own format cannot express
/// the arguments of a tool.
pub(crate) fn with_call_format(response: impl IntoResponse, json_calls: bool) -> Response {
    let mut response = response.into_response();
    if json_calls {
        response.headers_mut().insert(TOOL_CALLS, HeaderValue::from_static("json"));
    }
    response
}

/// Adds the header to a response, unless all fields of the request have an effect.
pub(crate) fn with_ignored(response: impl IntoResponse, ignored: &IgnoredFields) -> Response {
    let mut response = response.into_response();
    let paths: Vec<&str> = ignored.all().collect();
    if paths.is_empty() {
        return response;
    }
    let mut text = String::new();
    for c in paths.join(", ").chars().take(MAX_BYTES) {
        text.push(if c == ' ' || c.is_ascii_graphic() { c } else { '?' });
    }
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().insert(NAME, value);
    }
    response
}
