//! Builds a message block by block, and produces the events of a stream.

use formwork_engine::FinishReason;
use formwork_openai::anthropic::{
    Block, BlockDelta, Ending, Failure, Message, MessageEvent, StopReason, Usage,
};
use serde_json::json;

use crate::choice::{End, Said};
use crate::error::ApiError;

pub(super) struct Growing {
    message: Message,
    hides_thoughts: bool,
    /// Token limit of the request.
    max_tokens: Option<usize>,
    /// Text of the last block, if the block is not complete.
    open: Option<Open>,
    /// Events since the last call of `take`.
    events: Vec<MessageEvent>,
}

/// The block that is growing: the last one of the message.
struct Open {
    kind: Kind,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Thought,
    Text,
    Call,
}

impl Growing {
    /// Starts from a message without content.
    pub(super) const fn new(message: Message, hides_thoughts: bool, max_tokens: Option<usize>) -> Self {
        Self { message, hides_thoughts, max_tokens, open: None, events: Vec::new() }
    }

    /// Returns the message so far.
    pub(super) const fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the message, which is complete after the end event.
    pub(super) fn into_message(self) -> Message {
        self.message
    }

    /// Applies the next event of an output, and returns the resulting events.
    pub(super) fn take(&mut self, said: Said) -> Vec<MessageEvent> {
        match said {
            Said::Masks(_) => {}
            Said::Thought(text) => self.grow(Kind::Thought, &text),
            Said::Content(text, ..) => self.grow(Kind::Text, &text),
            Said::Call { id, name, .. } => {
                self.close();
                // Anthropic's ids have letters, digits, `_` and `-` only.
                let id = id.trim_start_matches("call_").replace(|c: char| !is_of_id(c), "_");
                let id = format!("toolu_{id}");
                self.open(Kind::Call, Block::ToolUse { id, name, input: json!({}) });
            }
            Said::Arguments { text, .. } => self.append(&text),
            Said::End(end) => self.end(&end),
            Said::Failed(error) => self.fail(&error),
        }
        std::mem::take(&mut self.events)
    }

    /// Appends text to the open block, or opens a new block if the open one has another kind.
    fn grow(&mut self, kind: Kind, text: &str) {
        if self.open.as_ref().is_none_or(|open| open.kind != kind) {
            self.close();
            let empty = if kind == Kind::Thought {
                Block::Thinking { thinking: String::new(), signature: String::new() }
            } else {
                Block::Text { text: String::new(), citations: None }
            };
            self.open(kind, empty);
        }
        self.append(text);
    }

    fn open(&mut self, kind: Kind, block: Block) {
        let index = self.message.content.len();
        self.events.push(MessageEvent::ContentBlockStart { index, content_block: block.clone() });
        self.message.content.push(block);
        self.open = Some(Open { kind, text: String::new() });
    }

    fn append(&mut self, text: &str) {
        let index = self.message.content.len().saturating_sub(1);
        let Some(open) = &mut self.open else { return };
        if open.kind == Kind::Thought && self.hides_thoughts {
            return;
        }
        open.text.push_str(text);
        let text = text.to_owned();
        let delta = match open.kind {
            Kind::Thought => BlockDelta::ThinkingDelta { thinking: text },
            Kind::Text => BlockDelta::TextDelta { text },
            Kind::Call => BlockDelta::InputJsonDelta { partial_json: text },
        };
        self.events.push(MessageEvent::ContentBlockDelta { index, delta });
    }

    /// Ends the open block, if any.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        match self.message.content.last_mut() {
            Some(Block::Thinking { thinking, .. }) => *thinking = open.text,
            Some(Block::Text { text, .. }) => *text = open.text,
            Some(Block::ToolUse { input, .. }) => {
                // Only an input that the token limit cut off is not JSON.
                *input = formwork_json::from_str(&open.text)
                    .unwrap_or_else(|_| json!({ "INVALID_JSON": open.text }));
            }
            None => {}
        }
        let index = self.message.content.len().saturating_sub(1);
        self.events.push(MessageEvent::ContentBlockStop { index });
    }

    fn end(&mut self, end: &End) {
        self.close();
        let finish = &end.finish;
        let stop_reason = match finish.reason {
            FinishReason::Length
                if self.max_tokens.is_none_or(|max| max > finish.usage.completion_tokens) =>
            {
                StopReason::ModelContextWindowExceeded
            }
            FinishReason::Length => StopReason::MaxTokens,
            FinishReason::Stop if end.called => StopReason::ToolUse,
            FinishReason::Stop if finish.stop_string.is_some() => StopReason::StopSequence,
            FinishReason::Stop => StopReason::EndTurn,
        };
        let used = finish.usage;
        let usage = Usage {
            input_tokens: used.prompt_tokens.saturating_sub(used.cached_tokens),
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: used.cached_tokens,
            output_tokens: used.completion_tokens,
        };
        let stop_sequence = finish.stop_string.clone().filter(|_| stop_reason == StopReason::StopSequence);
        let closed_by_budget = finish.closed_by_budget;
        self.message.stop_reason = Some(stop_reason);
        self.message.stop_sequence.clone_from(&stop_sequence);
        self.message.closed_by_budget = closed_by_budget;
        self.message.usage = usage;
        let delta = Ending { stop_reason, stop_sequence, closed_by_budget };
        self.events.extend([MessageEvent::MessageDelta { delta, usage }, MessageEvent::MessageStop]);
    }

    fn fail(&mut self, error: &ApiError) {
        let error = Failure::new(error.status().as_u16(), error.to_string());
        self.events.push(MessageEvent::Error { error });
    }
}

/// Returns true if Anthropic's ids may have `c`.
const fn is_of_id(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}
