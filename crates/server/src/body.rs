use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderName, ORIGIN, REFERER};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;

use crate::app::App;
use crate::error::{ApiError, Kind};

/// Maximum pause between chunks while the rest of a rejected body is discarded.
const LINGER: Duration = Duration::from_secs(2);

/// Request body, which is read as JSON. In requests from browsers, its content type must be JSON or missing.
pub(crate) struct JsonBody(pub(crate) Bytes);

impl FromRequest<App> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        check_content_type(request.headers())?;
        // `receive` has already read the body within the limits.
        let body = to_bytes(request.into_body(), usize::MAX).await;
        Ok(Self(body.map_err(Kind::BodyUnreadable)?))
    }
}

/// A browser sends at least one of these headers with a request from another origin.
const BROWSER: [HeaderName; 3] = [ORIGIN, HeaderName::from_static("sec-fetch-site"), REFERER];

/// Rejects bodies from browsers with a content type other than JSON. A browser sends some other types across
/// origins without a preflight request. Without this check, any page could use the server.
///
/// Other clients may send any type. `curl -d` alone declares a form, as in the examples of Ollama's API.
fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(given) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    if !BROWSER.iter().any(|name| headers.contains_key(name)) {
        return Ok(());
    }
    let given = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if given.eq_ignore_ascii_case("application/json") { Ok(()) } else { Err(Kind::ContentType.into()) }
}

/// Middleware that reads the whole body before the handler runs, within the limits of size and
/// time.
pub(crate) async fn receive(
    State(app): State<App>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (size, time) = (app.options().body_limit, app.options().read_timeout);
    let (parts, mut body) = request.into_parts();
    let read = if declared(&parts.headers).is_some_and(|declared| declared > size) {
        Ok(Ok(None))
    } else {
        tokio::time::timeout(time, within(&mut body, size)).await
    };
    match read {
        Ok(Ok(Some(body))) => Ok(next.run(Request::from_parts(parts, Body::from(body))).await),
        Ok(Ok(None)) => {
            if !parts.headers.contains_key(EXPECT) {
                tokio::spawn(tokio::time::timeout(time, discard(body)));
            }
            Err(Kind::BodyTooLarge { limit: size }.into())
        }
        Ok(Err(error)) => Err(Kind::BodyUnreadable(error).into()),
        Err(_) => Err(Kind::Slow { limit: time }.into()),
    }
}

fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Reads a whole body, or returns `None` if the body is larger than `limit`.
async fn within(body: &mut Body, limit: usize) -> Result<Option<Vec<u8>>, axum::Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if data.len() > limit - bytes.len() {
            return Ok(None);
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Some(bytes))
}

/// Reads and discards the rest of a rejected body.
///
/// Most clients write the whole request before they read. If the connection closes while they
/// write, they see a reset instead of the error response. A client that sends `Expect` waits before
/// it writes, and needs no discarding.
async fn discard(mut body: Body) {
    while let Ok(Some(Ok(_))) = tokio::time::timeout(LINGER, body.frame()).await {}
}
