//! Anthropic's Messages API: a request is converted to a [chat request](crate::ChatRequest), and an
//! answer is a list of content blocks.
//!
//! See <https://docs.claude.com/en/api/messages>.

mod answer;
mod content;
mod request;

pub use answer::{
    Block, BlockDelta, CountedTokens, Ending, Failure, FailureBody, Message, MessageEvent, Model, ModelList,
    StopReason, THREADS, Usage,
};
pub use request::MessagesRequest;
