//! A list of items that grows while it is processed.

use rustc_hash::FxHashSet;

use super::rows::Item;

/// A list of items without duplicates, in the order in which they were added.
pub(super) struct Worklist {
    items: Vec<Item>,
    /// The same items as a set. Empty while `items` has at most [`FEW`] items.
    index: FxHashSet<Item>,
}

/// Length of the list up to which a linear search is faster than hashing.
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

    /// Returns the item that was added at position `index`. `None` if there are fewer items.
    pub(super) fn get(&self, index: usize) -> Option<Item> {
        self.items.get(index).copied()
    }

    pub(super) fn into_items(self) -> Vec<Item> {
        self.items
    }
}
