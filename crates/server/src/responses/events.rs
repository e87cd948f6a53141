//! A response as server-sent events: each item is announced, grows, and is repeated as a whole.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use formwork_openai::ResponseEvent;
use futures_util::stream;
use serde::Serialize;

use super::growing::Growing;
use crate::answer::Answer;
use crate::choice::{Choice, Said};

/// Streams a response, starting with its first events. Dropping the result cancels the generation.
pub(super) fn respond(choice: Choice, answer: Answer, growing: Growing) -> Response {
    let first = growing.first_events();
    let stream = EventStream { choice, answer, growing, ready: first.into(), number: 0 };
    let events = stream::unfold(stream, |mut stream| async {
        let event = stream.next_event().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

struct EventStream {
    choice: Choice,
    answer: Answer,
    growing: Growing,
    ready: VecDeque<ResponseEvent>,
    /// Sequence number of the next event.
    number: u64,
}

/// An event with its sequence number.
#[derive(Serialize)]
struct Numbered<'a> {
    #[serde(flatten)]
    event: &'a ResponseEvent,
    sequence_number: u64,
}

impl EventStream {
    async fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(self.numbered(&event));
            }
            let said = self.choice.next().await?;
            if let Said::End(end) = &said {
                self.answer.log(&end.finish);
            }
            self.ready.extend(self.growing.take(said));
        }
    }

    fn numbered(&mut self, event: &ResponseEvent) -> Event {
        let numbered = Numbered { event, sequence_number: self.number };
        self.number += 1;
        Event::default().event(event.name()).data(serde_json::to_string(&numbered).unwrap_or_default())
    }
}
