//! `POST /v1/responses`: a chat whose answer is a list of items.

mod events;

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use formwork_openai::{
    ContentPart, IncompleteDetails, Item, OutputText, Response, ResponseRequest, ResponseUsage, Status,
};
use serde_json::{Map, Value};

use crate::answer::{Answer, new_id, usage};
use crate::app::App;
use crate::body::JsonBody;
use crate::chat::{Started, Whole};
use crate::choice::End;
use crate::error::{ApiError, Kind};

pub(crate) async fn create(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<axum::response::Response, ApiError> {
    let ResponseRequest { chat, repeated } = ResponseRequest::from_json(&body)?;
    let served = app.model(&chat.model).await?;
    let answer = Answer::new("resp_", &served.model.id);
    let stream = chat.stream.is_some();
    let mut started = Started::new(&app, served, chat).await?;
    let choice = started.choices.pop().ok_or(Kind::Panicked)?;
    if stream {
        return Ok(events::respond(choice, answer, repeated));
    }
    let whole = Whole::collect(choice).await?;
    answer.log(&whole.end.finish);
    let response = ended(begun(&answer, repeated), &whole.end);
    Ok(Json(Response { output: items(whole), ..response }).into_response())
}

/// A response of which nothing is there yet.
fn begun(answer: &Answer, repeated: Map<String, Value>) -> Response {
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
        repeated,
    }
}

fn ended(response: Response, end: &End) -> Response {
    let cut_off = end.finish.reason == formwork_engine::FinishReason::Length;
    Response {
        status: if cut_off { Status::Incomplete } else { Status::Completed },
        incomplete_details: cut_off.then(IncompleteDetails::max_output_tokens),
        usage: Some(ResponseUsage::from(usage(&end.finish))),
        closed_by_budget: end.finish.closed_by_budget,
        ..response
    }
}

fn items(whole: Whole) -> Vec<Item> {
    let mut items = Vec::new();
    let status = Status::Completed;
    if !whole.thought.is_empty() {
        let content = vec![ContentPart::ReasoningText { text: whole.thought }];
        items.push(Item::Reasoning { id: new_id("rs_"), summary: Vec::new(), content, status });
    }
    if let Some(text) = whole.content.or_else(|| whole.calls.is_empty().then(String::new)) {
        items.push(message(new_id("msg_"), text, status));
    }
    for call in whole.calls {
        let (name, arguments) = (call.function.name, call.function.arguments);
        items.push(Item::FunctionCall { id: new_id("fc_"), call_id: call.id, name, arguments, status });
    }
    items
}

fn message(id: String, text: String, status: Status) -> Item {
    let content = vec![text_part(text)];
    Item::Message { id, role: "assistant".to_owned(), status, content }
}

fn text_part(text: String) -> ContentPart {
    ContentPart::OutputText(OutputText { text, ..OutputText::default() })
}
