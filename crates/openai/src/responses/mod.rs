//! `/v1/responses`: chats whose items are messages, calls, or results of calls. The server stores
//! nothing.

mod answer;
mod event;
mod input;

pub use answer::{
    ContentPart, IncompleteDetails, Item, OutputText, Response, ResponseError, ResponseUsage, Status,
};
pub use event::ResponseEvent;
pub use input::{InputItem, ResponseRequest};
