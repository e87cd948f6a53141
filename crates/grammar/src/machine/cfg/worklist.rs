//! Items that are gone through while others are found.

use rustc_hash::FxHashSet;

use super::rows::Item;

/// Items in the order in which they were found, each once.
pub(super) struct Worklist {
    items: Vec<Item>,
    /// The same items, once they are too many to look through.
    index: FxHashSet<Item>,
}

/// So many items are looked through faster than hashed.
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

    /// The item at `index`, in the order of their coming.
    pub(super) fn get(&self, index: usize) -> Option<Item> {
        self.items.get(index).copied()
    }

    pub(super) fn into_items(self) -> Vec<Item> {
        self.items
    }
}
