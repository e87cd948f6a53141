//! Cross-origin resource sharing (CORS).

use axum::extract::{Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::app::App;

/// Answers preflight requests of allowed origins, and adds CORS headers to all responses to these
/// origins.
///
/// Other origins get the same responses without CORS headers, so the browser withholds the
/// responses from the page.
pub(crate) async fn allow(State(app): State<App>, request: Request, next: Next) -> Response {
    let origins = &app.options().cors_origins;
    if origins.is_empty() {
        return next.run(request).await;
    }
    let allowed = request.headers().get(ORIGIN).and_then(|origin| allowed(origin, origins));
    let mut response = match (&allowed, is_preflight(&request)) {
        // Preflight requests carry no API key, so they are answered before keys are checked.
        (Some(_), true) => preflight(request.headers()),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = allowed {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(
                "x-request-id, request-id, retry-after, x-formwork-ignored, x-formwork-tool-calls, x-formwork-warnings",
            ),
        );
    }
    response
}

fn allowed(origin: &HeaderValue, origins: &[String]) -> Option<HeaderValue> {
    if origins.iter().any(|known| known == "*") {
        return Some(HeaderValue::from_static("*"));
    }
    origins.iter().any(|known| known.as_bytes() == origin.as_bytes()).then(|| origin.clone())
}

fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

fn preflight(asked: &HeaderMap) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    // Allows all requested headers: clients send their own (`x-stainless-…`), and the server
    // ignores them.
    if let Some(names) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    response
}
