use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use subtle::{Choice, ConstantTimeEq};

use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::page;

/// Rejects requests without a valid API key, unless the app has no keys or the path is `/health` or one of the
/// page.
pub(crate) async fn check(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (keys, path) = (&app.options().api_keys, request.uri().path());
    let is_public = path == "/health" || app.options().page && page::is_public(path);
    if !keys.is_empty() && !is_public && !is_allowed(request.headers(), keys) {
        return Err(Kind::Key.into());
    }
    Ok(next.run(request).await)
}

/// Returns true if the request has one of the keys.
///
/// Always compares all keys, each in constant time, to leak nothing through timing except lengths.
fn is_allowed(headers: &HeaderMap, keys: &[String]) -> bool {
    let Some(given) = key(headers) else { return false };
    let equal = |found, key: &String| found | given.ct_eq(key.as_bytes());
    bool::from(keys.iter().fold(Choice::from(0), equal))
}

/// Returns the key of a request: `Authorization: Bearer KEY`, or the `x-api-key` of Anthropic's clients.
fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = headers.get(AUTHORIZATION).and_then(|header| {
        let (scheme, key) = header.as_bytes().split_at_checked("Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then_some(key)
    });
    bearer.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes))
}
