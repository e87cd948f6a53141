//! Headers about a request: the fields that have no effect, the format of calls, and warnings about schemas.

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
/// Header with warnings about the constraint of an answer.
const WARNINGS: HeaderName = HeaderName::from_static("x-formwork-warnings");

/// Notes about an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// True if calls are JSON because the model's own format cannot express the arguments of a tool.
    pub(crate) json_calls: bool,
    /// Warnings about the constraint, such as unknown keywords of a schema.
    pub(crate) warnings: Vec<String>,
}

impl Notes {
    /// Adds the headers of the notes to a response.
    pub(crate) fn add_to(&self, response: impl IntoResponse) -> Response {
        let mut response = response.into_response();
        if self.json_calls {
            response.headers_mut().insert(TOOL_CALLS, HeaderValue::from_static("json"));
        }
        insert(&mut response, WARNINGS, &self.warnings.join("; "));
        response
    }
}

/// Adds a header with a text, unless the text is empty.
fn insert(response: &mut Response, name: HeaderName, text: &str) {
    let is_plain = |c: char| c == ' ' || c.is_ascii_graphic();
    let text: String = text.chars().take(MAX_BYTES).map(|c| if is_plain(c) { c } else { '?' }).collect();
    if let Ok(value) = HeaderValue::from_str(&text)
        && !text.is_empty()
    {
        response.headers_mut().insert(name, value);
    }
}

/// Adds the header to a response, unless all fields of the request have an effect.
pub(crate) fn with_ignored(response: impl IntoResponse, ignored: &IgnoredFields) -> Response {
    let mut response = response.into_response();
    insert(&mut response, NAME, &ignored.all().collect::<Vec<_>>().join(", "));
    response
}
