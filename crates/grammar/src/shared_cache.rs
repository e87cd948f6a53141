//! Results that all compilations of the process share.

use std::hash::{BuildHasher, Hash};
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

/// The entries of a generation, by the hash of their keys. Of two keys with the same hash, the newer one is
/// kept.
type Entries<K, V> = FxHashMap<u64, Kept<K, V>>;

struct Generations<K, V> {
    newer: Entries<K, V>,
    older: Entries<K, V>,
    /// Memory of the newer generation, in bytes.
    bytes: usize,
    /// A dropped generation, to be freed after the lock is released.
    dropped: Entries<K, V>,
}

struct Kept<K, V> {
    key: K,
    value: V,
    bytes: usize,
}

impl<K: Eq + Hash, V: Clone> SharedCache<K, V> {
    /// Memory of an entry with its place in a table, in bytes, without what the key and the value point to.
    const ENTRY: usize = 2 * size_of::<Kept<K, V>>() + 64;

    /// Creates a cache with at most `max_bytes` bytes, whose entries have at most `max_entry` bytes each.
    pub(crate) const fn new(max_bytes: usize, max_entry: usize) -> Self {
        assert!(max_entry <= max_bytes / 2, "an entry must fit into a generation");
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
        let hash = FxBuildHasher.hash_one(key);
        self.with(|generations| generations.get(hash, key, self.max_bytes))
    }

    /// Keeps the result of a key, unless `bytes` exceeds the maximum of an entry. Returns the kept result,
    /// which another thread may have inserted before.
    ///
    /// `bytes` is the memory that the key and the value point to.
    pub(crate) fn insert(&self, key: K, value: V, bytes: usize) -> V {
        let bytes = bytes + Self::ENTRY;
        if bytes > self.max_entry {
            return value;
        }
        let hash = FxBuildHasher.hash_one(&key);
        self.with(|generations| {
            if let Some(known) = generations.get(hash, &key, self.max_bytes) {
                return known;
            }
            generations.insert(hash, Kept { key, value: value.clone(), bytes }, self.max_bytes);
            value
        })
    }

    fn with<T>(&self, f: impl FnOnce(&mut Generations<K, V>) -> T) -> T {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut generations);
        let dropped = std::mem::take(&mut generations.dropped);
        // Other threads need not wait until they are freed.
        drop(generations);
        drop(dropped);
        result
    }
}

impl<K: Eq, V: Clone> Generations<K, V> {
    fn get(&mut self, hash: u64, key: &K, max_bytes: usize) -> Option<V> {
        if let Some(kept) = self.newer.get(&hash) {
            return (kept.key == *key).then(|| kept.value.clone());
        }
        if self.older.get(&hash)?.key != *key {
            return None;
        }
        let kept = self.older.remove(&hash)?;
        let value = kept.value.clone();
        self.insert(hash, kept, max_bytes);
        Some(value)
    }

    fn insert(&mut self, hash: u64, kept: Kept<K, V>, max_bytes: usize) {
        if self.bytes + kept.bytes > max_bytes / 2 {
            self.dropped = std::mem::replace(&mut self.older, std::mem::take(&mut self.newer));
            self.bytes = 0;
        }
        self.bytes += kept.bytes;
        let replaced = self.newer.insert(hash, kept);
        self.bytes -= replaced.map_or(0, |replaced| replaced.bytes);
    }
}

/// A result, with the work and memory that building it cost.
///
/// A compilation that takes the result from a cache is charged the same. The memory is what remains in use
/// after building, not the most that was in use meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Charged<T> {
    pub(crate) value: T,
    pub(crate) work: usize,
    pub(crate) bytes: usize,
}

impl<T> Charged<T> {
    /// Builds a result, and records what `ledger` is charged for it.
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

    /// Memory that entries of the tests point to, in bytes.
    const POINTED: usize = 1000;

    #[test]
    fn keeps_used_entries_within_the_bound() {
        let each = POINTED + SharedCache::<u32, u32>::ENTRY;
        let cache = SharedCache::new(10 * each, 3 * each);
        for key in 0..1000 {
            assert_eq!(cache.insert(key, key, POINTED), key);
            assert_eq!(cache.insert(0, 1, POINTED), 0, "0 is used in each round");
            let kept = cache.with(|all| all.newer.len() + all.older.len());
            assert!(kept <= 10, "{kept}");
        }
        assert_eq!((cache.get(&999), cache.get(&500)), (Some(999), None));
    }

    #[test]
    fn keeps_no_large_entry() {
        let cache = SharedCache::new(4 * POINTED, 2 * POINTED);
        assert_eq!(cache.insert("large", 1, 2 * POINTED), 1);
        assert_eq!(cache.insert("small", 2, POINTED), 2);
        assert_eq!((cache.get(&"large"), cache.get(&"small")), (None, Some(2)));
    }

    #[test]
    fn keys_with_the_same_hash_are_told_apart() {
        #[derive(PartialEq, Eq)]
        struct Alike(u32);
        impl Hash for Alike {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                state.write_u32(0);
            }
        }
        let cache = SharedCache::new(4 * POINTED, 2 * POINTED);
        assert_eq!((cache.insert(Alike(1), 'a', 0), cache.get(&Alike(2))), ('a', None));
        assert_eq!(cache.insert(Alike(2), 'b', 0), 'b');
        assert_eq!((cache.get(&Alike(1)), cache.get(&Alike(2))), (None, Some('b')));
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
