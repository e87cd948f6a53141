//! `/v1/responses`: chats in items, of which each is a message, a call or the result of one. Nothing is stored.

mod answer;
mod event;
mod input;

pub use answer::{
    ContentPart, IncompleteDetails, Item, OutputText, Response, ResponseError, ResponseUsage, Status,
};
pub use event::ResponseEvent;
pub use input::{InputItem, ResponseRequest};
