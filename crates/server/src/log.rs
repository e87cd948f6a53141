use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

use crate::random::random;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Puts a request into a span with an id, returns the id in a response header, and logs the
/// response.
///
/// A streamed response continues after the log entry.
pub(crate) async fn log(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = format!("req-{:016x}", random());
    let span = tracing::info_span!("request", %id, method = %request.method(), path = request.uri().path());
    let mut response = next.run(request).instrument(span.clone()).await;
    let (status, ms) = (response.status().as_u16(), started.elapsed().as_millis() as u64);
    span.in_scope(|| tracing::info!(status, ms, "answered"));
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}
