use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequest, Request, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::middleware::Next;
use axum::response::Response;

use crate::app::App;
use crate::error::{ApiError, Kind};

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
    let (parts, body) = request.into_parts();
    if declared(&parts.headers).is_some_and(|declared| declared > size) {
        return Err(Kind::BodyTooLarge { limit: size }.into());
    }
    let body = match tokio::time::timeout(time, to_bytes(body, size)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) if is_length_limit(&error) => return Err(Kind::BodyTooLarge { limit: size }.into()),
        Ok(Err(_)) => return Err(Kind::BodyUnreadable.into()),
        Err(_) => return Err(Kind::Slow { limit: time }.into()),
    };
    Ok(next.run(Request::from_parts(parts, Body::from(body))).await)
}

fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_length_limit(error: &axum::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        if next.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        cause = next.source();
    }
    false
}
