//! Hash table keys with a stored hash.

use std::hash::{BuildHasher, Hash, Hasher};

use rustc_hash::FxBuildHasher;

/// A hash table key that is stored together with its hash.
///
/// A hash table computes the hash of every key again when it grows. With tens of thousands of lists
/// as keys, this would take milliseconds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hashed<K> {
    hash: u64,
    key: K,
}

impl<K: Hash> Hashed<K> {
    pub(super) fn new(key: K) -> Self {
        Self { hash: FxBuildHasher.hash_one(&key), key }
    }

    pub(super) const fn key(&self) -> &K {
        &self.key
    }
}

impl<K> Hash for Hashed<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}
