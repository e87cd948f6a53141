use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt;

use crate::app::App;
use crate::error::{ApiError, Kind};

/// How long a client that was refused may pause in sending the rest.
const LINGER: Duration = Duration::from_secs(2);

/// The body of a request that says, if anything, that it is JSON.
pub(crate) struct JsonBody(pub(crate) Bytes);

impl FromRequest<App> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
        check_content_type(request.headers())?;
        // `receive` has read it, within the limit.
        let body = to_bytes(request.into_body(), usize::MAX).await;
        Ok(Self(body.map_err(|_| Kind::BodyUnreadable)?))
    }
}

/// A body that calls itself something else is refused: a page in a browser could send it without asking.
fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(given) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let given = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if given.eq_ignore_ascii_case("application/json") { Ok(()) } else { Err(Kind::ContentType.into()) }
}

/// Takes in a request's whole body before anything is done with it, within the limits of size and time.
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
        Ok(Err(_)) => Err(Kind::BodyUnreadable.into()),
        Err(_) => Err(Kind::Slow { limit: time }.into()),
    }
}

fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// The whole of a body, unless it is larger than `limit`.
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

/// Reads on what has been refused already. A client writes before it reads, and where the connection ends in the middle of that it
/// sees a reset in place of the refusal. (One that asks first, with `Expect`, has not begun to write.)
async fn discard(mut body: Body) {
    while let Ok(Some(Ok(_))) = tokio::time::timeout(LINGER, body.frame()).await {}
}
