//! A response as server-sent events: each item is announced, grows, and is shown whole.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use formwork_openai::{ContentPart, Item, ResponseError, ResponseEvent, Status};
use futures_util::stream;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{begun, ended, message, text_part};
use crate::answer::{Answer, new_id};
use crate::choice::{Choice, End, Said};

/// Streams what is generated. Dropping the response cancels the generation.
pub(super) fn respond(choice: Choice, answer: Answer, repeated: Map<String, Value>) -> Response {
    let response = begun(&answer, repeated);
    let mut stream = EventStream { choice, answer, response, open: None, events: VecDeque::new(), number: 0 };
    stream.push(&ResponseEvent::Created { response: stream.response.clone() });
    stream.push(&ResponseEvent::InProgress { response: stream.response.clone() });
    let events = stream::unfold(stream, |mut stream| async {
        let event = stream.next_event().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

struct EventStream {
    choice: Choice,
    answer: Answer,
    /// With the items that have ended.
    response: formwork_openai::Response,
    open: Option<Open>,
    /// Events that are ready.
    events: VecDeque<Event>,
    /// Of the next event.
    number: u64,
}

/// The item that grows.
struct Open {
    id: String,
    kind: Kind,
    text: String,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    Thought,
    Message,
    Call { call_id: String, name: String },
}

/// An event with its number.
#[derive(Serialize)]
struct Numbered<'a> {
    #[serde(flatten)]
    event: &'a ResponseEvent,
    sequence_number: u64,
}

impl EventStream {
    async fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            let said = self.choice.next().await?;
            self.take(said);
        }
    }

    fn push(&mut self, event: &ResponseEvent) {
        let numbered = Numbered { event, sequence_number: self.number };
        self.number += 1;
        let data = serde_json::to_string(&numbered).unwrap_or_default();
        self.events.push_back(Event::default().event(event.name()).data(data));
    }

    fn take(&mut self, said: Said) {
        match said {
            Said::Thought(text) => self.grow(&Kind::Thought, text),
            Said::Content(text, _) => self.grow(&Kind::Message, text),
            Said::Call { id, name, .. } => {
                self.close();
                self.open(Kind::Call { call_id: id, name });
            }
            Said::Arguments { text, .. } => self.append(text),
            Said::End(end) => self.end(&end),
            Said::Failed(error) => {
                let error = ResponseError { code: "server_error".to_owned(), message: error.to_string() };
                self.response.status = Status::Failed;
                self.response.error = Some(error);
                self.push(&ResponseEvent::Failed { response: self.response.clone() });
            }
        }
    }

    fn end(&mut self, end: &End) {
        self.answer.log(&end.finish);
        self.close();
        if self.response.output.is_empty() {
            // An answer without a word is an empty one.
            self.open(Kind::Message);
            self.close();
        }
        self.response = ended(self.response.clone(), end);
        let response = self.response.clone();
        self.push(&match response.status {
            Status::Incomplete => ResponseEvent::Incomplete { response },
            _ => ResponseEvent::Completed { response },
        });
    }

    /// More text of an item of this kind, which is opened where another one is open.
    fn grow(&mut self, kind: &Kind, text: String) {
        if self.open.as_ref().is_none_or(|open| open.kind != *kind) {
            self.close();
            self.open(kind.clone());
        }
        self.append(text);
    }

    fn open(&mut self, kind: Kind) {
        let prefix = match kind {
            Kind::Thought => "rs_",
            Kind::Message => "msg_",
            Kind::Call { .. } => "fc_",
        };
        let open = Open { id: new_id(prefix), kind, text: String::new() };
        let output_index = self.response.output.len();
        let item = match open.item(Status::InProgress) {
            Item::Message { id, role, status, .. } => Item::Message { id, role, status, content: Vec::new() },
            Item::Reasoning { id, summary, status, .. } => {
                Item::Reasoning { id, summary, status, content: Vec::new() }
            }
            call @ Item::FunctionCall { .. } => call,
        };
        self.push(&ResponseEvent::ItemAdded { output_index, item });
        if let Some(part) = open.part() {
            let item_id = open.id.clone();
            self.push(&ResponseEvent::PartAdded { item_id, output_index, content_index: 0, part });
        }
        self.open = Some(open);
    }

    fn append(&mut self, delta: String) {
        let Some(open) = &mut self.open else { return };
        open.text.push_str(&delta);
        let (item_id, output_index, content_index) = (open.id.clone(), self.response.output.len(), 0);
        let event = match open.kind {
            Kind::Thought => ResponseEvent::ReasoningDelta { item_id, output_index, content_index, delta },
            Kind::Message => {
                let logprobs = Vec::new();
                ResponseEvent::TextDelta { item_id, output_index, content_index, delta, logprobs }
            }
            Kind::Call { .. } => ResponseEvent::ArgumentsDelta { item_id, output_index, delta },
        };
        self.push(&event);
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let (item_id, output_index, content_index) = (open.id.clone(), self.response.output.len(), 0);
        let text = open.text.clone();
        self.push(&match &open.kind {
            Kind::Thought => {
                ResponseEvent::ReasoningDone { item_id: item_id.clone(), output_index, content_index, text }
            }
            Kind::Message => {
                let (item_id, logprobs) = (item_id.clone(), Vec::new());
                ResponseEvent::TextDone { item_id, output_index, content_index, text, logprobs }
            }
            Kind::Call { name, .. } => {
                let (item_id, name) = (item_id.clone(), name.clone());
                ResponseEvent::ArgumentsDone { item_id, output_index, name, arguments: text }
            }
        });
        if let Some(part) = open.part() {
            self.push(&ResponseEvent::PartDone { item_id, output_index, content_index, part });
        }
        let item = open.item(Status::Completed);
        self.push(&ResponseEvent::ItemDone { output_index, item: item.clone() });
        self.response.output.push(item);
    }
}

impl Open {
    /// The part of the item that grows; calls have none.
    fn part(&self) -> Option<ContentPart> {
        match self.kind {
            Kind::Thought => Some(ContentPart::ReasoningText { text: self.text.clone() }),
            Kind::Message => Some(text_part(self.text.clone())),
            Kind::Call { .. } => None,
        }
    }

    fn item(&self, status: Status) -> Item {
        let (id, text) = (self.id.clone(), self.text.clone());
        match &self.kind {
            Kind::Thought => {
                let content = vec![ContentPart::ReasoningText { text }];
                Item::Reasoning { id, summary: Vec::new(), content, status }
            }
            Kind::Message => message(id, text, status),
            Kind::Call { call_id, name } => {
                let (call_id, name) = (call_id.clone(), name.clone());
                Item::FunctionCall { id, call_id, name, arguments: text, status }
            }
        }
    }
}
