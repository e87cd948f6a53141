//! `/v1/responses` and `/v1/conversations`: chats whose items are messages, calls and results of calls.
//! A request may refer to stored items by id; the server has the store.

mod answer;
mod conversation;
mod event;
mod input;
mod items;
mod listed;
mod stored;

pub use answer::{
    ContentPart, IncompleteDetails, InputDetails, Item, OutputText, Response, ResponseError, ResponseUsage,
    Status,
};
pub use conversation::{Conversation, ConversationRequest, Deleted, InputTokens, ItemList};
pub use event::ResponseEvent;
pub use input::ResponseRequest;
pub use stored::{Earlier, NothingStored, StoredItems};
