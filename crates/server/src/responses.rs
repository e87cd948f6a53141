//! `/v1/responses`: a chat whose answer is a list of items. Responses are stored in memory, so that
//! requests can continue them.

pub(crate) mod conversations;
mod error;
mod events;
mod growing;
mod keep;
mod page;
mod store;
pub(crate) mod stored;
mod turn;

use axum::Json;
use axum::extract::State;
use formwork_openai::{InputTokens, Response, ResponseRequest, Status};
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::app::App;
use crate::body::JsonBody;
use crate::chat::Started;
use crate::choice::{Choice, Said};
use crate::error::{ApiError, Kind};
use crate::ignored::with_ignored;
pub(crate) use error::StoreError;
use growing::Growing;
use keep::{Keep, Lookup};
pub(crate) use store::Store;
pub use store::StoreLimits;

/// `POST /v1/responses`.
pub(crate) async fn create(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<axum::response::Response, ApiError> {
    let (mut request, lookup) = parse(&app, body).await?;
    let keep = Keep::new(lookup, &mut request);
    let ResponseRequest { chat, repeated, namespaces, .. } = request;
    let ignored = chat.ignored.clone();
    let served = app.model(&chat.model).await?;
    let answer = Answer::new("resp_", &served.model.id);
    let stream = chat.stream.is_some();
    let mut started = Started::new(&app, served, chat).await?;
    let choice = started.choices.pop().ok_or(Kind::Panicked)?;
    let store = keep.as_ref().is_some_and(Keep::is_stored);
    let notes = started.notes;
    let begun = Response { store, ..begun(&answer, repeated, started.unsupported) };
    let growing = Growing::new(begun, keep, namespaces);
    let response = if stream {
        with_ignored(events::respond(choice, answer, growing), &ignored)
    } else {
        with_ignored(Json(collect(choice, &answer, growing).await?), &ignored)
    };
    Ok(notes.add_to(response))
}

/// `POST /v1/responses/input_tokens`: counts the prompt tokens of a request to `/v1/responses`.
pub(crate) async fn input_tokens(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<axum::response::Response, ApiError> {
    let chat = parse(&app, body).await?.0.chat;
    let ignored = chat.ignored.clone();
    let served = app.model(&chat.model).await?;
    let input_tokens = app.offload(move || served.prompt_tokens(&chat)).await?;
    let counted = InputTokens { object: "response.input_tokens".to_owned(), input_tokens };
    Ok(with_ignored(Json(counted), &ignored))
}

/// Parses a request, with the stored items that it refers to.
async fn parse(app: &App, body: axum::body::Bytes) -> Result<(ResponseRequest, Lookup), ApiError> {
    let mut lookup = Lookup::new(app);
    // Stored items can be much larger than the request.
    let work = move || Ok((ResponseRequest::with_stored(&body, &mut lookup)?, lookup));
    let (request, lookup) = app.offload(work).await?;
    app.check_ignored(&request.chat.ignored)?;
    Ok((request, lookup))
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
async fn collect(mut choice: Choice, answer: &Answer, mut growing: Growing) -> Result<Response, ApiError> {
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
