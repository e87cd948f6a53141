//! `POST /v1/responses`: a chat whose answer is a list of items.

mod events;
mod growing;

use axum::Json;
use axum::extract::State;
use formwork_openai::{Response, ResponseRequest, Status};
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::app::App;
use crate::body::JsonBody;
use crate::chat::Started;
use crate::choice::{Choice, Said};
use crate::error::{ApiError, Kind};
use crate::ignored::with_ignored;
use growing::Growing;

pub(crate) async fn create(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<axum::response::Response, ApiError> {
    let ResponseRequest { chat, repeated } = ResponseRequest::from_json(&body)?;
    app.check_ignored(&chat.ignored)?;
    let ignored = chat.ignored.clone();
    let served = app.model(&chat.model).await?;
    let answer = Answer::new("resp_", &served.model.id);
    let stream = chat.stream.is_some();
    let mut started = Started::new(&app, served, chat).await?;
    let choice = started.choices.pop().ok_or(Kind::Panicked)?;
    let begun = begun(&answer, repeated, started.unsupported);
    if stream {
        return Ok(with_ignored(events::respond(choice, answer, begun), &ignored));
    }
    Ok(with_ignored(Json(collect(choice, &answer, begun).await?), &ignored))
}

/// Creates a response in progress, without any output.
fn begun(answer: &Answer, repeated: Map<String, Value>, unsupported_schemas: Vec<String>) -> Response {
    Response {
        id: answer.id.clone(),
        object: "response".to_owned(),
        created_at: answer.created,
        status: Status::InProgress,
        error: None,
        incomplete_details: None,
        model: answer.model.clone(),
        output: Vec::new(),
        store: false,
        usage: None,
        closed_by_budget: false,
        unsupported_schemas,
        repeated,
    }
}

/// Collects the whole response, which equals the response in a stream's last event.
async fn collect(mut choice: Choice, answer: &Answer, begun: Response) -> Result<Response, ApiError> {
    let (mut growing, _) = Growing::new(begun);
    while let Some(said) = choice.next().await {
        match said {
            Said::Failed(error) => return Err(error),
            Said::End(ref end) => answer.log(&end.finish),
            _ => {}
        }
        growing.take(said);
    }
    Ok(growing.into_response())
}
