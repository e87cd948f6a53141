//! Compiled JSON Schemas that the grammars of several answers share.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::json_schema::Compiled;
use super::parts::Part;
use super::pieces::Piece;
use crate::tokens::TokenTerminal;
use crate::{GrammarError, Limits, Remotes, SchemaOptions};

/// Compiled JSON Schemas that the grammars of several answers share.
///
/// [`Grammar::of_parts_in`](crate::Grammar::of_parts_in) keeps each [`Part::Json`] and each
/// [`Part::Arguments`] here. If one of five hundred tools changes, only its schema is compiled again.
///
/// A cache can be used by several threads. It never changes the grammar: an entry stands for one schema
/// with the same options, limits and remote documents.
#[derive(Debug)]
pub struct PartCache {
    remotes: Arc<Remotes>,
    max_bytes: usize,
    kept: Mutex<Kept>,
    /// Maximum number of threads of one compilation. All compilations together have one less besides those that
    /// started them.
    threads: usize,
    /// Number of threads that help compilations at the moment.
    helping: AtomicUsize,
}

/// Threads that help one compilation. Dropping them makes room for others.
pub(super) struct Helpers<'c> {
    count: usize,
    helping: &'c AtomicUsize,
}

impl Helpers<'_> {
    pub(super) const fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Helpers<'_> {
    fn drop(&mut self) {
        self.helping.fetch_sub(self.count, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Kept {
    /// The entries by the hash of their keys. Of two keys with the same hash, the newer one is kept.
    entries: FxHashMap<u64, Entry>,
    bytes: usize,
    /// Number of lookups so far.
    lookups: u64,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    compiled: CompiledPart,
    /// Memory of the compiled form, as charged to the ledger of its compilation.
    bytes: usize,
    /// Approximate memory of the entry with its key.
    whole_bytes: usize,
    /// Value of [`Kept::lookups`] at the last lookup.
    used: u64,
}

/// Everything that the compiled form of a part depends on, except for the remote documents.
#[derive(Debug)]
struct Key {
    part: Part,
    options: SchemaOptions,
    limits: Limits,
    /// Token terminals of the grammar before the part.
    terminals: Vec<TokenTerminal>,
}

/// The compiled form of a part.
#[derive(Clone, Debug)]
pub(super) enum CompiledPart {
    Schema(Arc<Compiled>),
    Arguments(Arc<Piece>),
}

/// Options, limits and token terminals for compiling a part.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) options: SchemaOptions,
    pub(super) limits: &'a Limits,
    pub(super) terminals: &'a [TokenTerminal],
}

/// Memory of a schema as a value, over the number of bytes that its hash covers.
const KEY_FACTOR: usize = 4;

/// Returns the hash of the key of a part.
fn hash(part: &Part, context: Context<'_>) -> u64 {
    match part {
        Part::Json(schema) => FxBuildHasher.hash_one((schema.known_hash(), context.options)),
        Part::Arguments { schema, notation } => {
            FxBuildHasher.hash_one((schema.known_hash(), notation, context.options))
        }
        _ => FxBuildHasher.hash_one((part, context.options)),
    }
}

/// Returns the approximate memory of the schema of a part, in bytes.
fn key_bytes(part: &Part) -> usize {
    match part {
        Part::Json(schema) | Part::Arguments { schema, .. } => KEY_FACTOR * schema.byte_len(),
        _ => 0,
    }
}

impl PartCache {
    /// Creates a cache for grammars whose schemas may reference `remotes`.
    ///
    /// `max_bytes` bounds the memory of the compiled schemas. The least recently used schemas are dropped
    /// first.
    pub fn new(remotes: Arc<Remotes>, max_bytes: usize) -> Self {
        Self { remotes, max_bytes, kept: Mutex::default(), threads: 1, helping: AtomicUsize::new(0) }
    }

    /// Lets compilations with this cache use several threads. At most `threads - 1` threads help all of them
    /// together.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads: threads.max(1), ..self }
    }

    pub(super) const fn threads(&self) -> usize {
        self.threads
    }

    /// Takes up to `most` of the threads that help no other compilation.
    pub(super) fn take_helpers(&self, most: usize) -> Helpers<'_> {
        let mut count = 0;
        let _ = self.helping.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |helping| {
            count = most.min((self.threads - 1).saturating_sub(helping));
            Some(helping + count)
        });
        Helpers { count, helping: &self.helping }
    }

    /// Returns the documents that schemas may reference.
    pub const fn remotes(&self) -> &Arc<Remotes> {
        &self.remotes
    }

    /// Returns the approximate memory of the compiled schemas and their sources, in bytes.
    pub fn byte_len(&self) -> usize {
        self.lock().bytes
    }

    /// Returns true if the compiled form of `part` is kept.
    pub(super) fn has(&self, part: &Part, context: Context<'_>) -> bool {
        let known = self.lock();
        known.entries.get(&hash(part, context)).is_some_and(|entry| entry.key.is(part, context))
    }

    /// Returns the compiled form of `part` and its memory in bytes. Calls `compile` if the form is not
    /// kept.
    pub(super) fn get(
        &self,
        part: &Part,
        context: Context<'_>,
        compile: impl FnOnce() -> Result<(CompiledPart, usize), GrammarError>,
    ) -> Result<(CompiledPart, usize), GrammarError> {
        let hash = hash(part, context);
        let mut kept = self.lock();
        kept.lookups += 1;
        let used = kept.lookups;
        let known = kept.entries.get_mut(&hash).filter(|entry| entry.key.is(part, context));
        if let Some(entry) = known {
            entry.used = used;
            return Ok((entry.compiled.clone(), entry.bytes));
        }
        drop(kept);
        // Compiles without the lock, so that other requests do not wait.
        let (compiled, bytes) = compile()?;
        let whole_bytes = bytes + key_bytes(part) + size_of::<Entry>();
        if whole_bytes <= self.max_bytes {
            let key = Key {
                part: part.clone(),
                options: context.options,
                limits: context.limits.clone(),
                terminals: context.terminals.to_vec(),
            };
            let entry = Entry { key, compiled: compiled.clone(), bytes, whole_bytes, used };
            let dropped = self.lock().insert(hash, entry, self.max_bytes);
            // Frees them outside the lock.
            drop(dropped);
        }
        Ok((compiled, bytes))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Entries are moved as a whole, so a panic elsewhere leaves the table consistent.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Adds an entry. Returns the entries to drop.
    fn insert(&mut self, hash: u64, entry: Entry, max_bytes: usize) -> Vec<Entry> {
        self.bytes += entry.whole_bytes;
        let mut dropped: Vec<Entry> = self.entries.insert(hash, entry).into_iter().collect();
        self.bytes -= dropped.iter().map(|entry| entry.whole_bytes).sum::<usize>();
        if self.bytes > max_bytes {
            // Makes room for later entries too, so that not every insertion searches the table.
            let mut oldest: Vec<(u64, u64)> =
                self.entries.iter().map(|(hash, entry)| (entry.used, *hash)).collect();
            oldest.sort_unstable();
            oldest.pop();
            for (_, hash) in oldest {
                if self.bytes <= max_bytes / 4 * 3 {
                    break;
                }
                let entry = self.entries.remove(&hash);
                self.bytes -= entry.as_ref().map_or(0, |entry| entry.whole_bytes);
                dropped.extend(entry);
            }
        }
        dropped
    }
}

impl Key {
    fn is(&self, part: &Part, context: Context<'_>) -> bool {
        let Context { options, limits, terminals } = context;
        // More work changes only whether a schema compiles.
        let limits = Limits { work: self.limits.work, ..limits.clone() };
        self.options == options
            && self.limits == limits
            && self.terminals.len() == terminals.len()
            && self.terminals.iter().zip(terminals).all(|(known, given)| known.is_same(given))
            && self.part == *part
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Grammar;

    fn call(schema: Value) -> Part {
        Part::sequence([Part::literal("f"), Part::Json(schema.into())])
    }

    fn cache(max_bytes: usize) -> PartCache {
        PartCache::new(Arc::default(), max_bytes)
    }

    fn compile(cache: &PartCache, part: &Part, options: SchemaOptions, limits: &Limits) -> Grammar {
        Grammar::of_parts_in(part, cache, &options, limits).expect("a grammar")
    }

    #[test]
    fn grammars_from_the_cache_are_the_same() {
        let cache = cache(1 << 20);
        let schemas =
            [json!({ "type": "integer" }), json!({ "enum": ["a", "b"] }), json!({ "type": "object" })];
        for round in 0..3 {
            for schema in &schemas {
                let part = call(schema.clone());
                let [cached, fresh] = [
                    compile(&cache, &part, SchemaOptions::default(), &Limits::default()),
                    Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default())
                        .expect("a grammar"),
                ];
                assert_eq!(cached.shortest(), fresh.shortest());
                for text in ["f1", "f\"a\"", "f{}", "f[]", "f"] {
                    assert_eq!(
                        cached.accepts(text.as_bytes()),
                        fresh.accepts(text.as_bytes()),
                        "{text} in {round}"
                    );
                }
            }
            assert_eq!(cache.lock().entries.len(), 3);
        }
    }

    #[test]
    fn options_limits_and_member_order_make_other_entries() {
        let cache = cache(1 << 20);
        let limits = Limits::default();
        let part = call(json!({ "properties": { "a": {}, "b": {} } }));
        let swapped = call(json!({ "properties": { "b": {}, "a": {} } }));
        let compact = SchemaOptions { layout: crate::Layout::Compact, ..SchemaOptions::default() };
        let small = Limits { nesting: 100, ..Limits::default() };
        let less = Limits { work: limits.work / 2, ..Limits::default() };
        for (part, options, limits, entries) in [
            (&part, SchemaOptions::default(), &limits, 1),
            (&part, SchemaOptions::default(), &less, 1),
            (&swapped, SchemaOptions::default(), &limits, 2),
            (&part, compact, &limits, 3),
            // The same hash, so the newer one stays.
            (&part, SchemaOptions::default(), &small, 3),
        ] {
            compile(&cache, part, options, limits);
            assert_eq!(cache.lock().entries.len(), entries);
        }
    }

    #[test]
    fn the_least_recently_used_schema_goes_first() {
        let limits = Limits::default();
        let part = |name: &str| call(json!({ "const": name }));
        let large = cache(usize::MAX);
        compile(&large, &part("a"), SchemaOptions::default(), &limits);
        let one = large.byte_len();
        let cache = cache(4 * one + one / 2);
        for name in ["a", "b", "c", "d", "a", "e"] {
            compile(&cache, &part(name), SchemaOptions::default(), &limits);
            assert!(cache.byte_len() <= 4 * one + one / 2);
        }
        let kept = cache.lock();
        let mut names: Vec<String> =
            kept.entries.values().map(|entry| format!("{:?}", entry.key.part)).collect();
        names.sort();
        let has = |name: &str| names.iter().any(|part| part.contains(&format!("{name:?}")));
        assert!(has("a") && has("e") && !has("b"), "{names:?}");
    }

    #[test]
    fn errors_are_not_kept() {
        let cache = cache(1 << 20);
        let part = Part::at("tools[0]", call(json!({ "type": "int" })));
        for _ in 0..2 {
            let error = Grammar::of_parts_in(&part, &cache, &SchemaOptions::default(), &Limits::default());
            assert!(error.expect_err("no type").to_string().starts_with("tools[0]"));
        }
        assert_eq!(cache.byte_len(), 0);
    }
}
