//! Responses and conversations in memory, within a number of entries and of bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::turn::{Item, Turn};

/// Limits of the store of responses and conversations. A limit of 0 turns the store off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreLimits {
    /// Maximum number of responses and conversations. The oldest ones make room for new ones.
    pub entries: usize,
    /// Maximum size of all stored items and responses in bytes, as JSON. Items that only requests in progress
    /// hold do not count.
    pub bytes: usize,
}

impl Default for StoreLimits {
    /// Returns the defaults that `docs/limits.md` lists.
    fn default() -> Self {
        Self { entries: 1000, bytes: 64 << 20 }
    }
}

/// The store. Its oldest entries make room for new ones.
pub(crate) struct Store {
    limits: StoreLimits,
    entries: Mutex<Entries>,
}

/// A stored response.
pub(super) struct StoredResponse {
    /// The response as JSON, without its output.
    pub(super) body: Box<str>,
    /// Number of items of the turn that belong to the input. The other ones are the output.
    pub(super) inputs: usize,
    pub(super) turn: Arc<Turn>,
}

/// A conversation, to which items can be added.
#[derive(Clone)]
pub(super) struct StoredConversation {
    /// Creation time, in seconds since 1970.
    pub(super) created: u64,
    /// The metadata as JSON.
    pub(super) metadata: Arc<str>,
    /// The newest turn. `None` if nothing has been added.
    pub(super) turn: Option<Arc<Turn>>,
}

#[derive(Clone)]
enum Entry {
    Response(Arc<StoredResponse>),
    Conversation(StoredConversation),
}

#[derive(Default)]
struct Entries {
    /// Entries by id, each with its key in `by_age`.
    by_id: HashMap<Arc<str>, (u64, Entry)>,
    /// Ids from the oldest entry to the newest.
    by_age: BTreeMap<u64, Arc<str>>,
    next_age: u64,
    /// Number of bytes that the entries hold.
    bytes: usize,
    /// Items by id, each with the number of times that entries have an item with this id.
    items: HashMap<Arc<str>, (usize, Arc<Item>)>,
}

impl Store {
    pub(crate) fn new(limits: StoreLimits) -> Self {
        Self { limits, entries: Mutex::default() }
    }

    /// Returns false if the limits allow no entry.
    pub(super) const fn is_on(&self) -> bool {
        self.limits.entries > 0 && self.limits.bytes > 0
    }

    /// Creates an item from its JSON object. An empty id is replaced by a new one.
    pub(super) fn new_item(mut item: Map<String, Value>) -> Arc<Item> {
        let id = match item.get("id").and_then(Value::as_str) {
            Some(id) if !id.is_empty() => id.to_owned(),
            _ => {
                let prefix = match item.get("type").and_then(Value::as_str) {
                    Some("reasoning") => "rs_",
                    Some("function_call") => "fc_",
                    Some("function_call_output") => "fco_",
                    Some("additional_tools") => "at_",
                    Some("custom_tool_call") => "ctc_",
                    Some("custom_tool_call_output") => "ctco_",
                    _ => "msg_",
                };
                crate::answer::new_id(prefix)
            }
        };
        item.insert("id".to_owned(), Value::from(id.as_str()));
        let json = serde_json::to_string(&item).unwrap_or_default();
        Arc::new(Item::new(&id, &json))
    }

    /// Returns an item of a client. It gets a new id, unless it is a stored item. Otherwise, a client could
    /// choose the id under which others find its text.
    pub(super) fn item_of_client(&self, mut item: Map<String, Value>) -> Arc<Item> {
        let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
        if let Some(stored) = self.item(id).filter(|stored| is_same(stored, &item)) {
            return stored;
        }
        item.insert("id".to_owned(), Value::from(""));
        Self::new_item(item)
    }

    /// Returns true if this many bytes fit into the store when everything else is dropped.
    const fn fits(&self, bytes: usize) -> bool {
        self.is_on() && bytes <= self.limits.bytes
    }

    /// Stores a response. The oldest entries make room for it. Returns the size of the response if it does
    /// not fit.
    pub(super) fn add_response(&self, id: &str, response: StoredResponse) -> Result<(), usize> {
        self.insert(id, Entry::Response(Arc::new(response)))
    }

    /// Stores a new conversation. The oldest entries make room for it. Returns the size of the conversation
    /// if it does not fit.
    pub(super) fn add_conversation(&self, id: &str, conversation: StoredConversation) -> Result<(), usize> {
        self.insert(id, Entry::Conversation(conversation))
    }

    fn insert(&self, id: &str, entry: Entry) -> Result<(), usize> {
        self.check(&entry)?;
        let mut entries = self.lock();
        entries.insert(id, entry);
        self.evict(&mut entries);
        Ok(())
    }

    pub(super) fn response(&self, id: &str) -> Option<Arc<StoredResponse>> {
        match &self.lock().by_id.get(id)?.1 {
            Entry::Response(response) => Some(Arc::clone(response)),
            Entry::Conversation(_) => None,
        }
    }

    pub(super) fn conversation(&self, id: &str) -> Option<StoredConversation> {
        self.lock().conversation(id)
    }

    /// Returns the item with this id, of any response or conversation.
    pub(super) fn item(&self, id: &str) -> Option<Arc<Item>> {
        self.lock().items.get(id).map(|(_, item)| Arc::clone(item))
    }

    /// Adds the items of `turn` to a conversation. Later requests read `turn` itself if the conversation
    /// still ends with the turn before it.
    ///
    /// Returns the size that the conversation would have if it does not fit, or `None` if the id is unknown.
    pub(super) fn append(&self, id: &str, turn: &Arc<Turn>) -> Option<Result<(), usize>> {
        let mut entries = self.lock();
        let mut changed = entries.conversation(id)?;
        if turn.items.is_empty() {
            return Some(Ok(()));
        }
        let is_next = match (&changed.turn, turn.previous()) {
            (Some(newest), Some(previous)) => Arc::ptr_eq(newest, previous),
            (None, None) => true,
            _ => false,
        };
        let turn =
            if is_next { Arc::clone(turn) } else { Arc::new(Turn::new(turn.items.to_vec(), changed.turn)) };
        changed.turn = Some(Arc::clone(&turn));
        let changed = Entry::Conversation(changed);
        if let Err(bytes) = self.check(&changed) {
            return Some(Err(bytes));
        }
        turn.items.iter().for_each(|item| entries.index(item));
        entries.renew(id, changed);
        self.evict(&mut entries);
        Some(Ok(()))
    }

    /// Replaces the metadata of a conversation.
    ///
    /// Returns the size that the conversation would have if it does not fit, or `None` if the id is unknown.
    pub(super) fn set_metadata(
        &self,
        id: &str,
        metadata: Arc<str>,
    ) -> Option<Result<StoredConversation, usize>> {
        let mut entries = self.lock();
        let changed = StoredConversation { metadata, ..entries.conversation(id)? };
        let entry = Entry::Conversation(changed.clone());
        if let Err(bytes) = self.check(&entry) {
            return Some(Err(bytes));
        }
        entries.renew(id, entry);
        self.evict(&mut entries);
        Some(Ok(changed))
    }

    /// Removes an item from a conversation. Returns `None` if one of the ids is unknown.
    pub(super) fn delete_item(&self, id: &str, item: &str) -> Option<StoredConversation> {
        let mut entries = self.lock();
        let conversation = entries.conversation(id)?;
        let mut items = conversation.turn.as_ref()?.all();
        let index = items.iter().position(|known| *known.id == *item)?;
        entries.release(&items.remove(index));
        let turn = (!items.is_empty()).then(|| Arc::new(Turn::new(items, None)));
        let changed = StoredConversation { turn, ..conversation };
        entries.renew(id, Entry::Conversation(changed.clone()));
        Some(changed)
    }

    /// Removes a response. Returns false if the id is unknown.
    pub(super) fn delete_response(&self, id: &str) -> bool {
        let mut entries = self.lock();
        let is_known = matches!(entries.by_id.get(id), Some((_, Entry::Response(_))));
        is_known && entries.remove(id)
    }

    /// Removes a conversation. Returns false if the id is unknown.
    pub(super) fn delete_conversation(&self, id: &str) -> bool {
        let mut entries = self.lock();
        let is_known = matches!(entries.by_id.get(id), Some((_, Entry::Conversation(_))));
        is_known && entries.remove(id)
    }

    /// Returns the size of an entry if it would not fit into an empty store.
    fn check(&self, entry: &Entry) -> Result<(), usize> {
        let bytes = entry.bytes();
        if self.fits(bytes) { Ok(()) } else { Err(bytes) }
    }

    /// Removes the oldest entries until both limits hold. The newest entry fits on its own, so it stays.
    fn evict(&self, entries: &mut Entries) {
        while entries.by_id.len() > self.limits.entries || entries.bytes > self.limits.bytes {
            let Some((_, oldest)) = entries.by_age.first_key_value() else { return };
            let oldest = Arc::clone(oldest);
            entries.remove(&oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        // Each change is complete before a panic could occur.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn conversation(&self, id: &str) -> Option<StoredConversation> {
        match &self.by_id.get(id)?.1 {
            Entry::Response(_) => None,
            Entry::Conversation(conversation) => Some(conversation.clone()),
        }
    }

    /// Inserts an entry with a new id as the newest one.
    fn insert(&mut self, id: &str, entry: Entry) {
        entry.each_item(|item| self.index(item));
        self.place(id, entry);
    }

    /// Replaces a conversation, which becomes the newest entry. Its items are already in the index.
    fn renew(&mut self, id: &str, conversation: Entry) {
        let old = self.detach(id);
        // The turns that both have in common stay held, so they are not counted again.
        self.place(id, conversation);
        if let Some(old) = old {
            self.bytes -= old.release();
        }
    }

    fn place(&mut self, id: &str, entry: Entry) {
        self.bytes += entry.hold();
        let id: Arc<str> = id.into();
        self.by_age.insert(self.next_age, Arc::clone(&id));
        self.by_id.insert(id, (self.next_age, entry));
        self.next_age += 1;
    }

    /// Removes an entry. Its bytes still count, and its items stay in the index.
    fn detach(&mut self, id: &str) -> Option<Entry> {
        let (age, entry) = self.by_id.remove(id)?;
        self.by_age.remove(&age);
        Some(entry)
    }

    /// Removes an entry. Returns false if the id is unknown.
    fn remove(&mut self, id: &str) -> bool {
        let Some(entry) = self.detach(id) else { return false };
        self.bytes -= entry.release();
        entry.each_item(|item| self.release(item));
        true
    }

    fn index(&mut self, item: &Arc<Item>) {
        let known = self.items.entry(Arc::clone(&item.id)).or_insert_with(|| (0, Arc::clone(item)));
        known.0 += 1;
    }

    fn release(&mut self, item: &Item) {
        if let Some((count, _)) = self.items.get_mut(&item.id) {
            *count -= 1;
            if *count == 0 {
                self.items.remove(&item.id);
            }
        }
    }
}

impl Entry {
    /// Returns the text that the entry has besides its items.
    fn text(&self) -> &str {
        match self {
            Self::Response(response) => &response.body,
            Self::Conversation(conversation) => &conversation.metadata,
        }
    }

    fn turn(&self) -> Option<&Arc<Turn>> {
        match self {
            Self::Response(response) => Some(&response.turn),
            Self::Conversation(conversation) => conversation.turn.as_ref(),
        }
    }

    /// Holds the text and the items. Returns the number of bytes that no entry held before.
    fn hold(&self) -> usize {
        self.text().len() + self.turn().map_or(0, |turn| turn.hold())
    }

    /// Undoes [`Entry::hold`]. Returns the number of bytes that no entry holds now.
    fn release(&self) -> usize {
        self.text().len() + self.turn().map_or(0, |turn| turn.release())
    }

    /// Returns the size of the entry with all its items.
    fn bytes(&self) -> usize {
        self.text().len().saturating_add(self.turn().map_or(0, |turn| turn.bytes()))
    }

    /// Calls a function with each item of a response, or with all items of a conversation.
    fn each_item(&self, mut call: impl FnMut(&Arc<Item>)) {
        match self {
            Self::Response(response) => response.turn.items.iter().for_each(call),
            Self::Conversation(conversation) => {
                let mut next = conversation.turn.as_ref();
                while let Some(turn) = next {
                    turn.items.iter().for_each(&mut call);
                    next = turn.previous();
                }
            }
        }
    }
}

/// Returns true if the listed form of a request's item is that of a stored item. The listed form has no
/// log-probabilities.
fn is_same(stored: &Item, item: &Map<String, Value>) -> bool {
    let Ok(mut stored) = formwork_json::from_str::<Map<String, Value>>(&stored.json) else { return false };
    if let Some(Value::Array(parts)) = stored.get_mut("content") {
        for logprobs in parts.iter_mut().filter_map(|part| part.get_mut("logprobs")) {
            *logprobs = json!([]);
        }
    }
    stored == *item
}

#[cfg(test)]
mod tests;
