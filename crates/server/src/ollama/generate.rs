//! `POST /api/chat` and `POST /api/generate`.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use formwork_openai::ollama::{GenerationRequest, LoadRequest, Reply, ReplyCall};
use formwork_openai::{Called, MessageCall};

use super::lines;
use super::replies::{Api, Part, Replies};
use crate::answer::Answer;
use crate::app::App;
use crate::body::JsonBody;
use crate::chat::{Started, Whole};
use crate::choice::Choice;
use crate::completions;
use crate::error::{ApiError, Kind};
use crate::ignored::{Notes, with_ignored};

pub(crate) async fn chat(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    respond(&app, GenerationRequest::chat_from_json(&body)?, Api::Chat).await
}

pub(crate) async fn generate(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    respond(&app, GenerationRequest::generate_from_json(&body)?, Api::Generate).await
}

async fn respond(app: &App, request: GenerationRequest, api: Api) -> Result<Response, ApiError> {
    let begun = Instant::now();
    app.check_ignored(request.ignored())?;
    let (stream, ignored) = (request.is_streamed(), request.ignored().clone());
    let replies = |model: &str| Replies {
        api,
        answer: Answer::new("chat-", model),
        begun,
        load: begun.elapsed(),
        unsupported: Vec::new(),
    };
    if let GenerationRequest::Load(LoadRequest { model, unload: true, .. }) = &request {
        // A model that is not in memory is not loaded first.
        let id = match app.registry().if_loaded(model) {
            Some(served) => served.model.id.clone(),
            None => app.registry().model(model)?.id,
        };
        return Ok(with_ignored(Json(replies(&id).loaded(true)), &ignored));
    }
    let served = app.model(request.model()).await?;
    let mut replies = replies(&served.model.id);
    let mut notes = Notes::default();
    let choice = match request {
        GenerationRequest::Load(_) => return Ok(with_ignored(Json(replies.loaded(false)), &ignored)),
        GenerationRequest::Chat(chat) => {
            let mut started = Started::new(app, served, chat).await?;
            replies.unsupported = started.unsupported;
            notes = started.notes;
            started.choices.pop()
        }
        GenerationRequest::Raw(request) => {
            let mut started = completions::start(app, served.clone(), request).await?;
            started.generations.pop().map(|generation| Choice::raw(generation, &served))
        }
    };
    let choice = choice.ok_or(Kind::Panicked)?;
    let response = if stream {
        lines::respond(choice, replies)
    } else {
        Json(collect(choice, &replies).await?).into_response()
    };
    Ok(notes.add_to(with_ignored(response, &ignored)))
}

/// Collects the whole reply. Dropping the future cancels the generation.
async fn collect(choice: Choice, replies: &Replies) -> Result<Reply, ApiError> {
    let Whole { thought, content, logprobs, calls, end, .. } = Whole::collect(choice).await?;
    let call = |(index, call): (usize, MessageCall)| match call.called {
        Called::Function(function) => Some(ReplyCall::new(index, call.id, function.name, function.arguments)),
        // Requests have no custom tools.
        Called::Custom(_) => None,
    };
    let mut calls: Vec<ReplyCall> = calls.into_iter().enumerate().filter_map(call).collect();
    calls.retain(|call| !end.cuts_off(call));
    let part = Part { thinking: thought, content: content.unwrap_or_default(), logprobs, calls };
    Ok(replies.last(part, &end))
}
