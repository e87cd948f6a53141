//! Reads stored items for a request, and stores the response.

use std::sync::Arc;

use formwork_openai::{Earlier, Response, ResponseRequest, StoredItems};
use serde_json::{Map, Value};

use super::store::{Store, StoredResponse};
use super::turn::Turn;
use crate::app::App;

/// The store as a request sees it.
pub(super) struct Lookup {
    store: Arc<Store>,
    max_bytes: usize,
    /// The newest turn before the request.
    turn: Option<Arc<Turn>>,
}

impl Lookup {
    pub(super) fn new(app: &App) -> Self {
        Self { store: Arc::clone(app.store()), max_bytes: app.options().body_limit, turn: None }
    }
}

impl StoredItems for Lookup {
    fn is_on(&self) -> bool {
        self.store.is_on()
    }

    /// Returns the limit of a body: stored items take as much memory as items of the request itself.
    fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    fn before(&mut self, earlier: &Earlier) -> Option<Vec<Arc<str>>> {
        self.turn = match earlier {
            Earlier::Response(id) => Some(Arc::clone(&self.store.response(id)?.turn)),
            Earlier::Conversation(id) => self.store.conversation(id)?.turn,
        };
        let items = self.turn.as_ref().map(|turn| turn.all()).unwrap_or_default();
        Some(items.iter().map(|item| Arc::clone(&item.json)).collect())
    }

    fn item(&self, id: &str) -> Option<Arc<str>> {
        self.store.item(id).map(|item| Arc::clone(&item.json))
    }
}

/// Stores a response when it is complete.
pub(super) struct Keep {
    store: Arc<Store>,
    /// True if the response is stored. False if only its items are added to a conversation.
    is_stored: bool,
    /// Conversation that the response belongs to.
    conversation: Option<String>,
    previous: Option<Arc<Turn>>,
    input: Vec<Map<String, Value>>,
}

impl Keep {
    /// Returns `None` if nothing of the response is to be stored.
    pub(super) fn new(lookup: Lookup, request: &mut ResponseRequest) -> Option<Self> {
        let conversation = match &request.earlier {
            Some(Earlier::Conversation(id)) => Some(id.clone()),
            _ => None,
        };
        let is_stored = request.store && lookup.is_on();
        (is_stored || conversation.is_some()).then(|| Self {
            store: lookup.store,
            is_stored,
            conversation,
            previous: lookup.turn,
            input: std::mem::take(&mut request.input),
        })
    }

    pub(super) const fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// Stores a complete response. Returns false if only its items are added to a conversation, or if
    /// the response does not fit into the store.
    pub(super) fn keep(self, response: &Response) -> bool {
        let inputs = self.input.len();
        let mut items: Vec<_> = self.input.into_iter().map(|item| self.store.item_of_client(item)).collect();
        for item in &response.output {
            if let Ok(Value::Object(item)) = serde_json::to_value(item) {
                items.push(Store::new_item(item));
            }
        }
        let turn = Arc::new(Turn::new(items, self.previous));
        if let Some(id) = &self.conversation
            && let Some(Err(bytes)) = self.store.append(id, &turn)
        {
            tracing::warn!(id, bytes, "a conversation has grown beyond the limit of the store");
        }
        if !self.is_stored {
            return false;
        }
        let body = Response { output: Vec::new(), store: true, ..response.clone() };
        let Ok(body) = serde_json::to_string(&body) else { return false };
        let stored = StoredResponse { body: body.into(), inputs, turn };
        self.store.add_response(&response.id, stored).is_ok()
    }
}
