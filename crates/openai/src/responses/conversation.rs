//! `/v1/conversations`, and lists of stored items.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::items::ItemReader;
use super::stored::StoredItems;
use crate::request::{Fields, Place};
use crate::{IgnoredFields, RequestError};

/// A conversation, to which responses add their items.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Conversation {
    /// Unique id that starts with `conv_`.
    pub id: String,
    /// Always `conversation`.
    pub object: String,
    /// Creation time, in seconds since 1970.
    pub created_at: u64,
    /// Notes of the client.
    pub metadata: Map<String, Value>,
}

/// Request to create a conversation, to change its metadata or to add items to it.
#[derive(Clone, PartialEq, Debug)]
pub struct ConversationRequest {
    /// New items in the form in which they are listed. The `id` is empty if the request has none.
    pub items: Vec<Map<String, Value>>,
    /// Metadata of the conversation.
    pub metadata: Map<String, Value>,
    /// Fields of the request that have no effect.
    pub ignored: IgnoredFields,
}

impl ConversationRequest {
    /// Parses the body of a request to create a conversation.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, or has an unsupported field, value or item.
    pub fn create(body: &[u8], stored: &mut dyn StoredItems) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let items = fields.read("items", |at| read_items(at, stored))?.unwrap_or_default();
        let metadata = fields.read("metadata", read_metadata)?.unwrap_or_default();
        Ok(Self { items, metadata, ignored: fields.finish_request()? })
    }

    /// Parses the body of a request to change the metadata of a conversation.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, has no metadata, or has an unsupported field or value.
    pub fn update(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let metadata = read_metadata(fields.required("metadata")?)?;
        Ok(Self { items: Vec::new(), metadata, ignored: fields.finish_request()? })
    }

    /// Parses the body of a request to add items.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, has no items, or has an unsupported field, value or item.
    pub fn add(body: &[u8], stored: &mut dyn StoredItems) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let items = read_list(fields.required("items")?, stored)?;
        Ok(Self { items, metadata: Map::new(), ignored: fields.finish_request()? })
    }
}

/// Parses a list of items, which may be empty.
fn read_items(at: Place, stored: &mut dyn StoredItems) -> Result<Vec<Map<String, Value>>, RequestError> {
    let is_empty = at.value().as_array().is_some_and(Vec::is_empty);
    if is_empty { Ok(Vec::new()) } else { read_list(at, stored) }
}

fn read_list(at: Place, stored: &mut dyn StoredItems) -> Result<Vec<Map<String, Value>>, RequestError> {
    if at.is_string() {
        at.clone().list("an array of items")?;
    }
    Ok(ItemReader::new(stored).read(at)?.listed)
}

/// Parses an object whose values are strings.
fn read_metadata(at: Place) -> Result<Map<String, Value>, RequestError> {
    let entry = |(name, at): (String, Place)| Ok((name, Value::String(at.string()?)));
    at.entries()?.into_iter().map(entry).collect()
}

/// A page of stored items.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ItemList {
    /// Always `list`.
    pub object: String,
    /// The items.
    pub data: Vec<Value>,
    /// Id of the first item of the page. Empty if there is none.
    pub first_id: String,
    /// Id of the last item of the page. Empty if there is none.
    pub last_id: String,
    /// True if further items follow the page.
    pub has_more: bool,
}

/// Confirmation that a response or a conversation has been deleted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Deleted {
    /// Id of the deleted object.
    pub id: String,
    /// `response` or `conversation.deleted`.
    pub object: String,
    /// Always true.
    pub deleted: bool,
}

/// Number of prompt tokens of a request to `/v1/responses`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InputTokens {
    /// Always `response.input_tokens`.
    pub object: String,
    /// Number of tokens of the prompt.
    pub input_tokens: usize,
}
