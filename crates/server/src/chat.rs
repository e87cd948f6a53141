use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use formwork_engine::{Generation, Output};
use formwork_openai::{ChatCompletion, ChatRequest};

use crate::answer::Answer;
use crate::app::App;
use crate::error::{ApiError, Kind};
use crate::stream;

/// `POST /v1/chat/completions`.
pub(crate) async fn create(
    State(app): State<App>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    check_content_type(&headers)?;
    let body = body.map_err(|rejection| unreadable(&rejection, app.options().body_limit))?;
    let request = ChatRequest::from_json(&body)?;
    let served = app.model(&request.model).await?;
    let answer = Answer::new(&served.model.id);
    let stream = request.stream;
    let started = tokio::task::spawn_blocking(move || served.start(&request)).await;
    let generation = started.map_err(|_| Kind::Panicked)??;
    match stream {
        Some(options) => Ok(stream::respond(generation, answer, options)),
        None => Ok(Json(collect(generation, answer).await?).into_response()),
    }
}

/// The whole answer. When the client goes away this future is dropped, and the generation with it.
async fn collect(mut generation: Generation, answer: Answer) -> Result<ChatCompletion, ApiError> {
    let mut content = String::new();
    loop {
        match generation.next().await {
            Some(Output::Text(text)) => content.push_str(&text),
            Some(Output::Control(_) | Output::Token(_)) => {}
            Some(Output::Finished(finish)) => return Ok(answer.completion(content, &finish)),
            Some(Output::Failed(error)) => return Err(error.into()),
            // A generation says how it ended before it is over.
            None => return Err(Kind::Panicked.into()),
        }
    }
}

/// A body that calls itself something else is refused: a page in a browser could send it without asking.
fn check_content_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(given) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let given = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if given.eq_ignore_ascii_case("application/json") { Ok(()) } else { Err(Kind::ContentType.into()) }
}

fn unreadable(rejection: &BytesRejection, limit: usize) -> ApiError {
    match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Kind::BodyTooLarge { limit }.into(),
        _ => Kind::BodyUnreadable.into(),
    }
}
