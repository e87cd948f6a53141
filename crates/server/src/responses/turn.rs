//! Stored items. A turn links to the turn before it, so that the responses of a chain share their items.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Approximate memory of an item besides its texts: its place in a turn and in the index of ids.
const ITEM_BYTES: usize = 200;

/// Number of holders of an item or a turn in the store. Changed only under the lock of the store.
#[derive(Default)]
struct Holders(AtomicUsize);

impl Holders {
    /// Returns true for the first holder.
    fn add(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Returns true for the last holder.
    fn remove(&self) -> bool {
        self.0.fetch_sub(1, Ordering::Relaxed) == 1
    }
}

/// An item with its id.
pub(super) struct Item {
    pub(super) id: Arc<str>,
    /// The item as JSON.
    pub(super) json: Arc<str>,
    held: Holders,
}

impl Item {
    pub(super) fn new(id: &str, json: &str) -> Self {
        Self { id: id.into(), json: json.into(), held: Holders::default() }
    }

    fn bytes(&self) -> usize {
        self.id.len() + self.json.len() + ITEM_BYTES
    }
}

/// The items of one response, or of one addition to a conversation.
pub(super) struct Turn {
    pub(super) items: Box<[Arc<Item>]>,
    previous: Option<Arc<Self>>,
    /// Number of bytes of this turn and all turns before it.
    bytes: usize,
    /// Entries of the store that end with this turn, and turns of the store that follow this one.
    held: Holders,
}

impl Turn {
    pub(super) fn new(items: Vec<Arc<Item>>, previous: Option<Arc<Self>>) -> Self {
        let own: usize = items.iter().map(|item| item.bytes()).sum();
        let bytes = own.saturating_add(previous.as_ref().map_or(0, |previous| previous.bytes));
        Self { items: items.into(), previous, bytes, held: Holders::default() }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn previous(&self) -> Option<&Arc<Self>> {
        self.previous.as_ref()
    }

    /// Notes that an entry of the store ends with this turn. Returns the number of bytes that the store did
    /// not hold before.
    pub(super) fn hold(&self) -> usize {
        self.count(Holders::add)
    }

    /// Notes that an entry of the store no longer ends with this turn. Returns the number of bytes that the
    /// store holds no longer.
    pub(super) fn release(&self) -> usize {
        self.count(Holders::remove)
    }

    /// Changes the holders of this turn, and of all that it holds if `change` returns true. Returns the bytes
    /// of the items for which `change` returns true.
    fn count(&self, change: fn(&Holders) -> bool) -> usize {
        let (mut bytes, mut next) = (0, Some(self));
        while let Some(turn) = next.filter(|turn| change(&turn.held)) {
            let changed = turn.items.iter().filter(|item| change(&item.held));
            bytes += changed.map(|item| item.bytes()).sum::<usize>();
            next = turn.previous.as_deref();
        }
        bytes
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
