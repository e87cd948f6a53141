//! Results that all compilations of the process share.

use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::ledger::Ledger;

/// A cache of results for the whole process, with a bound on its memory.
///
/// The cache has two generations. A result that is used moves to the newer generation. When the newer
/// generation is full, it becomes the older one, and the results of the older generation are dropped. So
/// results that are used often stay.
pub(crate) struct SharedCache<K, V> {
    generations: Mutex<Generations<K, V>>,
    /// Maximum memory of the cache, in bytes.
    max_bytes: usize,
    /// Maximum memory of an entry, in bytes.
    max_entry: usize,
}

struct Generations<K, V> {
    newer: FxHashMap<K, Entry<V>>,
    older: FxHashMap<K, Entry<V>>,
    /// Memory of the newer generation, in bytes.
    bytes: usize,
    /// The last generation that was dropped, until the lock is released.
    dropped: FxHashMap<K, Entry<V>>,
}

struct Entry<V> {
    value: V,
    bytes: usize,
}

impl<K: Eq + Hash, V: Clone> SharedCache<K, V> {
    /// Creates a cache with at most `max_bytes` bytes, whose entries have at most `max_entry` bytes each.
    pub(crate) const fn new(max_bytes: usize, max_entry: usize) -> Self {
        let generations = Generations {
            newer: FxHashMap::with_hasher(FxBuildHasher),
            older: FxHashMap::with_hasher(FxBuildHasher),
            bytes: 0,
            dropped: FxHashMap::with_hasher(FxBuildHasher),
        };
        Self { generations: Mutex::new(generations), max_bytes, max_entry }
    }

    /// Returns the result of a key.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.with(|generations, max_bytes| generations.get(key, max_bytes))
    }

    /// Keeps the result of a key, unless the entry with its `bytes` bytes is too large. Returns the kept
    /// result, which another thread may have inserted before.
    pub(crate) fn insert(&self, key: K, value: V, bytes: usize) -> V {
        if bytes > self.max_entry {
            return value;
        }
        self.with(|generations, max_bytes| {
            if let Some(known) = generations.get(&key, max_bytes) {
                return known;
            }
            generations.insert(key, Entry { value: value.clone(), bytes }, max_bytes);
            value
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut Generations<K, V>, usize) -> T) -> T {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut generations, self.max_bytes);
        let dropped = std::mem::take(&mut generations.dropped);
        // Other threads need not wait until they are freed.
        drop(generations);
        drop(dropped);
        result
    }
}

impl<K: Eq + Hash, V: Clone> Generations<K, V> {
    fn get(&mut self, key: &K, max_bytes: usize) -> Option<V> {
        if let Some(entry) = self.newer.get(key) {
            return Some(entry.value.clone());
        }
        let (key, entry) = self.older.remove_entry(key)?;
        let value = entry.value.clone();
        self.insert(key, entry, max_bytes);
        Some(value)
    }

    fn insert(&mut self, key: K, entry: Entry<V>, max_bytes: usize) {
        if self.bytes + entry.bytes > max_bytes / 2 {
            self.dropped = std::mem::replace(&mut self.older, std::mem::take(&mut self.newer));
            self.bytes = 0;
        }
        self.bytes += entry.bytes;
        self.newer.insert(key, entry);
    }
}

/// A result, and what the compilation that built it was charged.
///
/// Compilations that take the result from a cache are charged the same, so limits do not depend on earlier
/// compilations.
#[derive(Clone, Debug)]
pub(crate) struct Charged<T> {
    pub(crate) value: T,
    pub(crate) work: usize,
    pub(crate) bytes: usize,
}

impl<T> Charged<T> {
    /// Builds a result, and notes what `ledger` is charged meanwhile.
    ///
    /// # Errors
    /// Returns the error of `build`.
    pub(crate) fn build<E>(ledger: &Ledger, build: impl FnOnce() -> Result<T, E>) -> Result<Self, E> {
        let (work, bytes) = (ledger.worked(), ledger.held());
        let value = build()?;
        let (work, bytes) = (ledger.worked().saturating_sub(work), ledger.held().saturating_sub(bytes));
        Ok(Self { value, work, bytes })
    }

    /// Charges `ledger` for the result, and returns the result. Never fails, like [`Ledger::note`].
    pub(crate) fn charge(self, ledger: &Ledger) -> T {
        ledger.note(self.work);
        ledger.keep(self.bytes);
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn keeps_what_is_used_within_the_bound() {
        let cache = SharedCache::new(100, 30);
        for key in 0..1000 {
            assert_eq!(cache.insert(key, key, 10), key);
            assert_eq!(cache.insert(0, 1, 10), 0, "0 is used in each round");
            let kept = cache.with(|all, _| all.newer.len() + all.older.len());
            assert!(kept <= 10, "{kept}");
        }
        assert_eq!((cache.get(&999), cache.get(&500)), (Some(999), None));
    }

    #[test]
    fn keeps_no_large_entry() {
        let cache = SharedCache::new(100, 30);
        assert_eq!(cache.insert("large", 1, 31), 1);
        assert_eq!(cache.insert("small", 2, 30), 2);
        assert_eq!((cache.get(&"large"), cache.get(&"small")), (None, Some(2)));
    }

    #[test]
    fn a_known_result_costs_as_much_as_a_new_one() {
        let limits = Limits { work: 100, bytes: 100, ..Limits::default() };
        let build = |ledger: &Ledger| {
            Charged::build(ledger, || {
                ledger.spend(60)?;
                ledger.hold(7).map(|()| 'a')
            })
        };
        let ledger = Ledger::new(&limits);
        let charged = build(&ledger).expect("within the limits");
        assert_eq!((charged.work, charged.bytes), (60, 7));
        assert_eq!(charged.charge(&ledger), 'a');
        assert_eq!((ledger.worked(), ledger.held()), (120, 14));
        assert!(ledger.is_over());
    }
}
