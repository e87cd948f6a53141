//! An answer as server-sent events.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use formwork_engine::{Finish, Generation, Output};
use formwork_openai::{ChatChunk, ChunkUsage, Delta, StreamOptions};
use serde::Serialize;

use crate::answer::Answer;
use crate::error::ApiError;

/// Streams what `generation` yields. Dropping the response cancels the generation.
pub(crate) fn respond(generation: Generation, answer: Answer, options: StreamOptions) -> Response {
    let stream = AnswerStream { generation, answer, options, next: Next::Opening };
    let events = futures_util::stream::unfold(stream, |mut stream| async {
        let event = stream.next_event().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    // Keep-alives are comments, which clients skip.
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

struct AnswerStream {
    generation: Generation,
    answer: Answer,
    options: StreamOptions,
    next: Next,
}

/// The event that comes next.
enum Next {
    Opening,
    Content,
    Usage(Finish),
    Done,
    Nothing,
}

impl AnswerStream {
    async fn next_event(&mut self) -> Option<Event> {
        match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Opening => {
                self.next = Next::Content;
                Some(self.chunk_event(self.answer.piece(Delta::opening())))
            }
            Next::Content => Some(self.content_event().await),
            Next::Usage(finish) => {
                self.next = Next::Done;
                Some(self.chunk_event(self.answer.usage(&finish)))
            }
            Next::Done => Some(Event::default().data("[DONE]")),
            Next::Nothing => None,
        }
    }

    async fn content_event(&mut self) -> Event {
        let output = loop {
            match self.generation.next().await {
                Some(Output::Control(_) | Output::Token(_)) => {}
                output => break output,
            }
        };
        match output {
            Some(Output::Control(_) | Output::Token(_)) => Event::default().comment(""),
            Some(Output::Text(text)) => {
                self.next = Next::Content;
                self.chunk_event(self.answer.piece(Delta::content(text)))
            }
            Some(Output::Finished(finish)) => {
                let closing = self.answer.closing(&finish);
                self.next = if self.options.include_usage { Next::Usage(finish) } else { Next::Done };
                self.chunk_event(closing)
            }
            Some(Output::Failed(error)) => event(&ApiError::from(error).body()),
            // A generation says how it ended before it is over.
            None => Event::default().data("[DONE]"),
        }
    }

    fn chunk_event(&self, mut chunk: ChatChunk) -> Event {
        if self.options.include_usage && chunk.usage.is_none() {
            chunk.usage = Some(ChunkUsage::Pending);
        }
        event(&chunk)
    }
}

/// Wire types are plain data: they always serialize, and JSON has no line breaks outside of strings that would end a line.
fn event(data: &impl Serialize) -> Event {
    Event::default().data(serde_json::to_string(data).unwrap_or_default())
}
