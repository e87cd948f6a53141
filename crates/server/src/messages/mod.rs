//! Anthropic's API: `POST /v1/messages` and `/v1/messages/count_tokens`.

mod blocks;

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::Json;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use formwork_openai::anthropic::{CountedTokens, Message, MessageEvent, MessagesRequest, Usage};
use futures_util::stream;

use crate::answer::Answer;
use crate::app::App;
use crate::body::JsonBody;
use crate::chat::Started;
use crate::choice::{Choice, Said};
use crate::error::{ApiError, Kind};
use crate::ignored::with_ignored;
use blocks::Growing;

/// `POST /v1/messages`.
pub(crate) async fn create(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let MessagesRequest { chat, hides_thoughts } = MessagesRequest::from_json(&body)?;
    app.check_ignored(&chat.ignored)?;
    let served = app.model(app.known_model(&chat.model)).await?;
    let answer = Answer::new("msg_", &served.model.id);
    let (streams, ignored) = (chat.stream.is_some(), chat.ignored.clone());
    let max_tokens = chat.parameters.max_tokens.map(|limit| limit.tokens);
    let mut started = Started::new(&app, served, chat).await?;
    let choice = started.choices.pop().ok_or(Kind::Panicked)?;
    let notes = started.notes.clone();
    let growing = Growing::new(begun(&answer, started), hides_thoughts, max_tokens);
    let response = if streams {
        with_ignored(respond(choice, answer, growing), &ignored)
    } else {
        with_ignored(Json(collect(choice, &answer, growing).await?), &ignored)
    };
    Ok(notes.add_to(response))
}

/// `POST /v1/messages/count_tokens`.
pub(crate) async fn count_tokens(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let chat = MessagesRequest::from_json(&body)?.chat;
    app.check_ignored(&chat.ignored)?;
    let ignored = chat.ignored.clone();
    let served = app.model(app.known_model(&chat.model)).await?;
    let input_tokens = app.offload(move || served.prompt_tokens(&chat)).await?;
    Ok(with_ignored(Json(CountedTokens { input_tokens }), &ignored))
}

impl App {
    /// Returns the name of a model for Anthropic's API. Clients ask for models such as `claude-haiku-4-5`
    /// that their user has not chosen. Such a name means the only model of the server.
    fn known_model<'a>(&'a self, name: &'a str) -> &'a str {
        let is_foreign = name.starts_with("claude") && self.registry().model(name).is_err();
        self.registry().only().filter(|_| is_foreign).unwrap_or(name)
    }
}

/// Creates a message in progress, without content.
fn begun(answer: &Answer, started: Started) -> Message {
    Message {
        id: answer.id.clone(),
        kind: "message".to_owned(),
        role: "assistant".to_owned(),
        model: answer.model.clone(),
        content: Vec::new(),
        stop_reason: None,
        stop_sequence: None,
        usage: Usage { input_tokens: started.prompt_tokens, ..Usage::default() },
        closed_by_budget: false,
        unsupported_schemas: started.unsupported,
    }
}

async fn collect(mut choice: Choice, answer: &Answer, mut growing: Growing) -> Result<Message, ApiError> {
    while let Some(said) = choice.next().await {
        match said {
            Said::Failed(error) => return Err(error),
            Said::End(ref end) => answer.log(&end.finish),
            _ => {}
        }
        growing.take(said);
    }
    Ok(growing.into_message())
}

struct Events {
    choice: Choice,
    answer: Answer,
    growing: Growing,
    /// Events that are ready to be sent.
    ready: VecDeque<MessageEvent>,
}

/// Streams a message. Dropping the response cancels the generation.
fn respond(choice: Choice, answer: Answer, growing: Growing) -> Response {
    let ready = [MessageEvent::MessageStart { message: growing.message().clone() }, MessageEvent::Ping];
    let events = Events { choice, answer, growing, ready: ready.into() };
    let events = stream::unfold(events, |mut events| async {
        let event = events.next_event().await?;
        Some((Ok::<_, Infallible>(event), events))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

impl Events {
    async fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                // Wire types are plain data, so serialization cannot fail.
                let data = serde_json::to_string(&event).unwrap_or_default();
                return Some(Event::default().event(event.name()).data(data));
            }
            let said = self.choice.next().await?;
            if let Said::End(end) = &said {
                self.answer.log(&end.finish);
            }
            self.ready.extend(self.growing.take(said));
        }
    }
}
