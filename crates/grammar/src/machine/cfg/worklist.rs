//! A list of items that grows while it is processed.

use rustc_hash::FxHashSet;

use super::rows::Item;

/// Items in order of discovery, without duplicates.
pub(super) struct Worklist {
    items: Vec<Item>,
    /// The same items, filled in once there are too many for a linear search.
    index: FxHashSet<Item>,
}

/// Up to this length, a linear search is faster than hashing.
const FEW: usize = 24;

impl Worklist {
    pub(super) fn new(items: impl IntoIterator<Item = Item>) -> Self {
        let mut list = Self { items: Vec::new(), index: FxHashSet::default() };
        list.extend(items);
        list
    }

    pub(super) fn push(&mut self, item: Item) {
        if self.items.len() < FEW {
            if !self.items.contains(&item) {
                self.items.push(item);
            }
            return;
        }
        if self.index.is_empty() {
            self.index.extend(&self.items);
        }
        if self.index.insert(item) {
            self.items.push(item);
        }
    }

    pub(super) fn extend(&mut self, items: impl IntoIterator<Item = Item>) {
        for item in items {
            self.push(item);
        }
    }

    /// Returns the item at `index`, in order of discovery.
    pub(super) fn get(&self, index: usize) -> Option<Item> {
        self.items.get(index).copied()
    }

    pub(super) fn into_items(self) -> Vec<Item> {
        self.items
    }
}
