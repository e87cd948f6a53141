//! `/v1/responses`: chats whose items are messages, calls and results of calls. The server does not
//! store responses.

mod answer;
mod event;
mod input;

pub use answer::{
    ContentPart, IncompleteDetails, InputDetails, Item, OutputText, Response, ResponseError, ResponseUsage,
    Status,
};
pub use event::ResponseEvent;
pub use input::{InputItem, ResponseRequest};
