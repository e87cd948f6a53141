//! Stored items. A turn links to the turn before it, so that the responses of a chain share their items.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Approximate memory of an item besides its texts: its place in a turn and in the index of ids.
const ITEM_BYTES: usize = 200;

/// Number of bytes of everything that is alive, stored or only linked to.
#[derive(Clone, Default)]
pub(super) struct ByteCount(Arc<AtomicUsize>);

/// Bytes in a [`ByteCount`]. They are subtracted on drop.
struct Counted {
    total: ByteCount,
    bytes: usize,
}

impl ByteCount {
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) -> Counted {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Counted { total: self.clone(), bytes }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.total.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A text whose bytes are counted.
pub(super) struct Text {
    text: Box<str>,
    _counted: Counted,
}

impl Text {
    pub(super) fn new(text: String, total: &ByteCount) -> Self {
        Self { _counted: total.add(text.len()), text: text.into() }
    }

    pub(super) const fn as_str(&self) -> &str {
        &self.text
    }
}

/// An item with its id.
pub(super) struct Item {
    pub(super) id: Arc<str>,
    /// The item as JSON.
    pub(super) json: Arc<str>,
    counted: Counted,
}

impl Item {
    pub(super) fn new(id: &str, json: &str, total: &ByteCount) -> Self {
        Self { id: id.into(), json: json.into(), counted: total.add(id.len() + json.len() + ITEM_BYTES) }
    }
}

/// The items of one response, or of one addition to a conversation.
pub(super) struct Turn {
    pub(super) items: Box<[Arc<Item>]>,
    previous: Option<Arc<Self>>,
    /// Number of bytes of this turn and all turns before it.
    bytes: usize,
}

impl Turn {
    pub(super) fn new(items: Vec<Arc<Item>>, previous: Option<Arc<Self>>) -> Self {
        let own: usize = items.iter().map(|item| item.counted.bytes).sum();
        let bytes = own.saturating_add(previous.as_ref().map_or(0, |previous| previous.bytes));
        Self { items: items.into(), previous, bytes }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn previous(&self) -> Option<&Arc<Self>> {
        self.previous.as_ref()
    }

    /// Returns the items of this turn and all turns before it, oldest first.
    pub(super) fn all(&self) -> Vec<Arc<Item>> {
        let mut all = Vec::new();
        let mut next = Some(self);
        while let Some(turn) = next {
            all.extend(turn.items.iter().rev().cloned());
            next = turn.previous.as_deref();
        }
        all.reverse();
        all
    }
}

impl Drop for Turn {
    /// Drops the turns before this one in a loop, because a long chain would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.previous.take();
        while let Some(mut turn) = next.and_then(Arc::into_inner) {
            next = turn.previous.take();
        }
    }
}
