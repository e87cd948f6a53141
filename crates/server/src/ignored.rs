//! The header that names the fields of a request which have no effect.

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
