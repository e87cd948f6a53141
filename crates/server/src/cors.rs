//! Cross-origin requests: which pages in a browser may read what the server answers.

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

/// Answers the question that a browser asks before a request of another origin, and marks answers as readable for origins that
/// are allowed. An origin that is not allowed gets the same answers without the marks, so that the browser keeps them from it.
pub(crate) async fn allow(State(app): State<App>, request: Request, next: Next) -> Response {
    let origins = &app.options().cors_origins;
    if origins.is_empty() {
        return next.run(request).await;
    }
    let allowed = request.headers().get(ORIGIN).and_then(|origin| allowed(origin, origins));
    let mut response = match (&allowed, is_preflight(&request)) {
        // Nobody has a key yet at this point, so this comes before keys are asked for.
        (Some(_), true) => preflight(request.headers()),
        _ => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = allowed {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("x-request-id, retry-after"));
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
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST"));
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    // Clients send headers of their own (`x-stainless-…`), none of which does anything here.
    if let Some(names) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
    }
    response
}
