//! A chat's answer as server-sent events.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use formwork_openai::{ChatChunk, ChunkChoice, ChunkUsage, Delta, Logprobs, StreamOptions, TokenMask, Usage};
use futures_util::stream::{self, SelectAll};
use futures_util::{Stream, StreamExt};
use serde::Serialize;

use crate::answer::{Answer, FINGERPRINT, usage};
use crate::chat::Started;
use crate::choice::{Choice, Said};
use crate::error::ApiError;
use crate::output_decisions::Measured;

/// Element of a stream.
pub(crate) enum Frame {
    Chunk(ChatChunk),
    /// End of the stream by an error.
    Failed(ApiError),
    /// Successful end of the stream.
    Done,
}

/// Streams the answer. Dropping the response cancels the generations.
pub(crate) fn respond(started: Started, answer: Answer, options: StreamOptions) -> Response {
    let events = frames(started, answer, options).map(|frame| {
        Ok::<_, Infallible>(match frame {
            Frame::Chunk(chunk) => event(&chunk),
            Frame::Failed(error) => error_event(&error),
            Frame::Done => done(),
        })
    });
    // Keep-alives are comments, which clients skip.
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// Returns the stream of frames.
pub(crate) fn frames(
    started: Started,
    answer: Answer,
    options: StreamOptions,
) -> impl Stream<Item = Frame> + Send + 'static {
    let has_tools = started.has_tools;
    let mut stream = AnswerStream {
        frames: VecDeque::new(),
        masks: vec![Vec::new(); started.choices.len()],
        begun: vec![false; started.choices.len()],
        has_functions: started.has_functions,
        open: started.choices.len(),
        saying: together(started.choices),
        unsupported: started.unsupported,
        used: Usage::default(),
        answer,
        options,
    };
    if !has_tools {
        (0..stream.open as u32).for_each(|index| stream.begin(index, true));
    }
    stream::unfold(stream, |mut stream| async {
        let frame = stream.next_frame().await?;
        Some((frame, stream))
    })
}

type Saying = std::pin::Pin<Box<dyn Stream<Item = (usize, Said)> + Send>>;

/// Merges the events of all outputs, each with the index of its output.
pub(crate) fn together(choices: Vec<Choice>) -> SelectAll<Saying> {
    let saying = choices.into_iter().enumerate().map(|(index, choice)| {
        let said = stream::unfold(choice, move |mut choice| async move {
            let said = choice.next().await?;
            Some(((index, said), choice))
        });
        Box::pin(said) as Saying
    });
    stream::select_all(saying)
}

struct AnswerStream {
    /// Frames that are ready to be sent.
    frames: VecDeque<Frame>,
    saying: SelectAll<Saying>,
    /// Effect of the constraint on tokens that no chunk has, for each output.
    masks: Vec<Vec<TokenMask>>,
    /// True for each output whose first chunk is sent.
    begun: Vec<bool>,
    /// True if calls are reported in `function_call`.
    has_functions: bool,
    /// Number of outputs that have not ended.
    open: usize,
    used: Usage,
    /// Names of the tools that accept any object. The first chunk reports them.
    unsupported: Vec<String>,
    answer: Answer,
    options: StreamOptions,
}

impl AnswerStream {
    async fn next_frame(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            let (index, said) = self.saying.next().await?;
            self.take(index as u32, said);
        }
    }

    fn take(&mut self, index: u32, said: Said) {
        if let Said::Masks(masks) = said {
            self.masks[index as usize].extend(masks);
            return;
        }
        if !matches!(said, Said::Failed(_)) {
            self.begin(index, matches!(said, Said::Content(..) | Said::End(_)));
        }
        let choice = match said {
            Said::Masks(_) => return,
            Said::Thought(text) => chunk_choice(index, Delta::reasoning(text)),
            Said::Content(text, tokens, decisions) => {
                let logprobs = (!tokens.is_empty()).then_some(Logprobs { content: tokens, refusal: None });
                ChunkChoice { logprobs, decisions, ..chunk_choice(index, Delta::content(text)) }
            }
            Said::Call { name, .. } if self.has_functions => chunk_choice(index, Delta::function(name)),
            Said::Arguments { text, .. } if self.has_functions => {
                chunk_choice(index, Delta::function_arguments(text))
            }
            Said::Call { index: call, id, name, is_custom } => {
                let delta = if is_custom { Delta::custom_call } else { Delta::call };
                chunk_choice(index, delta(call, id, name))
            }
            Said::Arguments { index: call, text, is_custom } => {
                let delta = if is_custom { Delta::input } else { Delta::arguments };
                chunk_choice(index, delta(call, text))
            }
            Said::End(end) => {
                self.answer.log(&end.finish);
                self.used = self.used.and(usage(&end.finish));
                self.open -= 1;
                let finish_reason = Some(end.reason(self.has_functions));
                let closed_by_budget = end.finish.closed_by_budget;
                let Measured { decisions, error: decisions_error } = end.measured.unwrap_or_default();
                ChunkChoice {
                    finish_reason,
                    closed_by_budget,
                    decisions,
                    decisions_error,
                    ..chunk_choice(index, Delta::closing())
                }
            }
            Said::Failed(error) => {
                self.frames.push_back(Frame::Failed(error));
                self.saying.clear();
                return;
            }
        };
        let mask_view = std::mem::take(&mut self.masks[index as usize]);
        self.push(vec![ChunkChoice { mask_view, ..choice }]);
        if self.open == 0 {
            if self.options.include_usage {
                let chunk = ChatChunk { usage: Some(ChunkUsage::Total(self.used)), ..self.chunk(Vec::new()) };
                self.frames.push_back(Frame::Chunk(chunk));
            }
            self.frames.push_back(Frame::Done);
            self.saying.clear();
        }
    }

    /// Sends the first chunk of an output, unless it is already sent. Its content is `null` unless the
    /// answer starts with text: some clients open a text for an empty string.
    fn begin(&mut self, index: u32, has_text: bool) {
        let begun = &mut self.begun[index as usize];
        if !std::mem::replace(begun, true) {
            self.push(vec![chunk_choice(index, Delta::opening(has_text))]);
        }
    }

    fn push(&mut self, choices: Vec<ChunkChoice>) {
        let unsupported_schemas = std::mem::take(&mut self.unsupported);
        let chunk = ChatChunk { unsupported_schemas, ..self.chunk(choices) };
        self.frames.push_back(Frame::Chunk(chunk));
    }

    fn chunk(&self, choices: Vec<ChunkChoice>) -> ChatChunk {
        ChatChunk {
            id: self.answer.id.clone(),
            object: "chat.completion.chunk".to_owned(),
            created: self.answer.created,
            model: self.answer.model.clone(),
            system_fingerprint: Some(FINGERPRINT.to_owned()),
            choices,
            usage: self.options.include_usage.then_some(ChunkUsage::Pending),
            unsupported_schemas: Vec::new(),
        }
    }
}

fn chunk_choice(index: u32, delta: Delta) -> ChunkChoice {
    ChunkChoice {
        index,
        delta,
        logprobs: None,
        mask_view: Vec::new(),
        decisions: Vec::new(),
        decisions_error: None,
        finish_reason: None,
        closed_by_budget: false,
    }
}

/// Creates an event with JSON data. Wire types are plain data, so serialization cannot fail.
/// Compact JSON has no line breaks, which would split the data.
pub(crate) fn event(data: &impl Serialize) -> Event {
    Event::default().data(serde_json::to_string(data).unwrap_or_default())
}

/// Creates the event that ends a stream after an error.
pub(crate) fn error_event(error: &ApiError) -> Event {
    event(&error.body())
}

/// Creates the event that ends a stream.
pub(crate) fn done() -> Event {
    Event::default().data("[DONE]")
}
