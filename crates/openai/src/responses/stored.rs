use std::sync::Arc;

/// Response or conversation that a request continues, by its id.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Earlier {
    /// Response with this id: the field `previous_response_id`.
    Response(String),
    /// Conversation with this id: the field `conversation`.
    Conversation(String),
}

/// Stored items, which requests refer to by ids. Items are JSON texts in the form of
/// [`ResponseRequest::input`](crate::ResponseRequest::input) or of [`Item`](crate::Item).
pub trait StoredItems {
    /// Returns false if nothing is ever stored.
    fn is_on(&self) -> bool;

    /// Returns the maximum number of bytes of all stored items in a request.
    fn max_bytes(&self) -> usize;

    /// Returns the items that precede a request, oldest first. Returns `None` if the id is unknown.
    fn before(&mut self, earlier: &Earlier) -> Option<Vec<Arc<str>>>;

    /// Returns the item with this id. Returns `None` if the id is unknown.
    fn item(&self, id: &str) -> Option<Arc<str>>;
}

/// A store without items.
pub struct NothingStored;

impl StoredItems for NothingStored {
    fn is_on(&self) -> bool {
        false
    }

    fn max_bytes(&self) -> usize {
        0
    }

    fn before(&mut self, _: &Earlier) -> Option<Vec<Arc<str>>> {
        None
    }

    fn item(&self, _: &str) -> Option<Arc<str>> {
        None
    }
}
