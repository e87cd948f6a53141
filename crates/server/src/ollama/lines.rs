//! A streamed reply: a JSON object in each line. A tool call is sent as a whole.

use std::collections::VecDeque;
use std::convert::Infallible;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use formwork_openai::ollama::ReplyCall;
use futures_util::stream;
use serde::Serialize;
use serde_json::json;

use super::replies::{Part, Replies};
use crate::choice::{Choice, End, Said};

/// Streams the replies. Dropping the response cancels the generation.
pub(super) fn respond(choice: Choice, replies: Replies) -> Response {
    let lines = Lines { choice, replies, ready: VecDeque::new(), call: None };
    let lines = stream::unfold(lines, |mut lines| async {
        let line = lines.next_line().await?;
        Some((Ok::<_, Infallible>(line), lines))
    });
    ([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

struct Lines {
    choice: Choice,
    replies: Replies,
    /// Lines that are ready to be sent.
    ready: VecDeque<String>,
    /// Call whose arguments may be incomplete.
    call: Option<OpenCall>,
}

/// Call whose arguments grow.
struct OpenCall {
    index: usize,
    id: String,
    name: String,
    arguments: String,
}

impl Lines {
    async fn next_line(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            let said = self.choice.next().await?;
            self.take(said);
        }
    }

    fn take(&mut self, said: Said) {
        match said {
            Said::Masks(_) => {}
            Said::Thought(thinking) => {
                self.close_call(None);
                self.push(Part { thinking, ..Part::default() });
            }
            Said::Content(content, logprobs, _) => {
                self.close_call(None);
                self.push(Part { content, logprobs, ..Part::default() });
            }
            Said::Call { index, id, name, .. } => {
                self.close_call(None);
                self.call = Some(OpenCall { index, id, name, arguments: String::new() });
            }
            Said::Arguments { text, .. } => {
                if let Some(call) = &mut self.call {
                    call.arguments.push_str(&text);
                }
            }
            Said::End(end) => {
                self.close_call(Some(&end));
                self.ready.push_back(line(&self.replies.last(Part::default(), &end)));
            }
            Said::Failed(error) => self.ready.push_back(line(&json!({ "error": error.to_string() }))),
        }
    }

    /// Sends the open call. Drops it if the end of the output has cut off its arguments.
    fn close_call(&mut self, end: Option<&End>) {
        let Some(OpenCall { index, id, name, arguments }) = self.call.take() else { return };
        let call = ReplyCall::new(index, id, name, arguments);
        if end.is_none_or(|end| !end.cuts_off(&call)) {
            self.push(Part { calls: vec![call], ..Part::default() });
        }
    }

    fn push(&mut self, part: Part) {
        self.ready.push_back(line(&self.replies.part(part)));
    }
}

/// Writes a value in one line. Wire types are plain data, so serialization cannot fail.
fn line(value: &impl Serialize) -> String {
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}
