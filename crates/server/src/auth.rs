use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq;

use crate::app::App;
use crate::error::{ApiError, Kind};

/// Lets a request through when the app has no key, when the request brings it, or when it only asks for `/health`.
pub(crate) async fn check(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if let Some(key) = &app.options().api_key
        && request.uri().path() != "/health"
        && !is_allowed(request.headers(), key)
    {
        return Err(Kind::Key.into());
    }
    Ok(next.run(request).await)
}

/// The comparison takes the same time wherever two keys of equal length differ.
fn is_allowed(headers: &HeaderMap, key: &str) -> bool {
    let Some(header) = headers.get(AUTHORIZATION) else { return false };
    let Some((scheme, given)) = header.as_bytes().split_at_checked("Bearer ".len()) else { return false };
    scheme.eq_ignore_ascii_case(b"Bearer ") && bool::from(given.ct_eq(key.as_bytes()))
}
