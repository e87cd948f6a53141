//! Cache of the compiled constraints that a model's requests share.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use formwork_grammar::{
    Constraint, Grammar, GrammarError, Limits, Part, PartCache, Remotes, SchemaOptions, Undeclared,
};
use formwork_vocab::Vocabulary;

/// Maximum number of cached constraints. Lookups and measurements scan all of them.
const MOST: usize = 1024;

/// Maximum number of remembered constraints that the model's format cannot express.
const REFUSED: usize = 32;

/// Maximum number of warnings about one constraint in the log.
const LOGGED_WARNINGS: usize = 8;

/// The most recently used constraints, so that a later request can reuse their masks.
pub(crate) struct Constraints {
    limits: Limits,
    /// Compiled schemas of tools and formats, which several constraints contain.
    parts: PartCache,
    /// Maximum size of the cached constraints in bytes, including their caches.
    max_bytes: usize,
    /// Least recently used first.
    recent: Mutex<VecDeque<(Key, Constraint)>>,
    /// Constraints with arguments that the model's format cannot express, newest first.
    refused: Mutex<VecDeque<Key>>,
}

/// Description of a constraint, which identifies it in the cache.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// Hash of the description. It is the first field, so that most comparisons end with it.
    hash: u64,
    /// Approximate size of the description in bytes.
    byte_len: usize,
    part: Part,
    undeclared: Undeclared,
}

impl Constraints {
    pub(crate) fn new(max_bytes: usize, limits: Limits, remotes: Arc<Remotes>, threads: usize) -> Self {
        Self {
            limits,
            parts: PartCache::new(remotes, max_bytes / 4).with_threads(threads),
            max_bytes,
            recent: Mutex::new(VecDeque::new()),
            refused: Mutex::new(VecDeque::new()),
        }
    }

    /// Returns true if the arguments of a tool in `key` are known to have no text in the model's format.
    pub(crate) fn is_refused(&self, key: &Key) -> bool {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).contains(key)
    }

    /// Remembers that the arguments of a tool in `key` have no text in the model's format.
    pub(crate) fn refuse(&self, key: Key) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if !refused.contains(&key) {
            refused.truncate(REFUSED - 1);
            refused.push_front(key);
        }
    }

    /// Returns the constraint of `key` if it is cached.
    pub(crate) fn known(&self, key: &Key) -> Option<Constraint> {
        touch(&mut self.lock(), key)
    }

    /// Returns the constraint of `key`, and compiles it if it is not cached.
    ///
    /// All calls must use the same `vocabulary`.
    pub(crate) fn get(
        &self,
        key: Key,
        vocabulary: &Arc<Vocabulary>,
        compiling: Compiling,
    ) -> Result<Constraint, GrammarError> {
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        // Compiles without the lock, so that a large schema does not block other requests.
        let limits = compiling.limits(&self.limits);
        let grammar = Grammar::of_parts_in(&key.part, &self.parts, &options(key.undeclared), &limits)?;
        let compiled = Constraint::new(&grammar, Arc::clone(vocabulary))?;
        for warning in grammar.warnings().iter().take(LOGGED_WARNINGS) {
            tracing::warn!("{warning}");
        }
        let mut recent = self.lock();
        if let Some(known) = touch(&mut recent, &key) {
            return Ok(known);
        }
        recent.push_back((key, compiled.clone()));
        // Measures all constraints again, because their caches have grown since they were added.
        let mut bytes: usize = recent.iter().map(byte_len).sum();
        let mut dropped = Vec::new();
        while (bytes > self.max_bytes || recent.len() > MOST) && recent.len() > 1 {
            let Some(oldest) = recent.pop_front() else { break };
            bytes -= byte_len(&oldest).min(bytes);
            dropped.push(oldest);
        }
        // Frees large caches outside the lock, because this may take long.
        drop(recent);
        drop(dropped);
        Ok(compiled)
    }

    /// Compiles a grammar without the cache.
    pub(crate) fn compile(&self, part: &Part, undeclared: Undeclared) -> Result<Grammar, GrammarError> {
        Grammar::of_parts_in(part, &self.parts, &options(undeclared), &self.limits)
    }

    /// Builds the data that all constraints of a vocabulary share, so that no request has to wait
    /// for it.
    pub(crate) fn prepare(&self, vocabulary: &Arc<Vocabulary>) {
        // Ignores errors: a vocabulary that cannot spell an object has no constraints to prepare
        // for.
        let key = Key::new(Part::JsonObject, Undeclared::default());
        let _ = self.get(key, vocabulary, Compiling::Allowed);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Key, Constraint)>> {
        // Entries are moved as a whole, so a panic elsewhere leaves the list consistent.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Key {
    pub(crate) fn new(part: Part, undeclared: Undeclared) -> Self {
        let mut state = CountingHasher::default();
        (&part, undeclared).hash(&mut state);
        Self { hash: state.finish(), byte_len: state.bytes, part, undeclared }
    }
}

/// A hasher that counts the bytes it hashes.
#[derive(Default)]
struct CountingHasher {
    inner: DefaultHasher,
    bytes: usize,
}

impl Hasher for CountingHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.inner.write(bytes);
    }

    fn finish(&self) -> u64 {
        self.inner.finish()
    }
}

/// Returns the approximate size of an entry in bytes.
fn byte_len((key, constraint): &(Key, Constraint)) -> usize {
    key.byte_len + constraint.byte_len()
}

/// Finds the constraint of `key` and makes it the most recently used.
fn touch(recent: &mut VecDeque<(Key, Constraint)>, key: &Key) -> Option<Constraint> {
    let index = recent.iter().position(|(known, _)| known == key)?;
    let found = recent.remove(index)?;
    let constraint = found.1.clone();
    recent.push_back(found);
    Some(constraint)
}

/// Compiles the grammar of a response format, without a cache.
pub(crate) fn compile(
    part: &Part,
    undeclared: Undeclared,
    limits: &Limits,
    remotes: &Remotes,
) -> Result<Grammar, GrammarError> {
    Grammar::of_parts_with_remotes(part, remotes, &options(undeclared), limits)
}

fn options(undeclared: Undeclared) -> SchemaOptions {
    SchemaOptions { undeclared, ..SchemaOptions::default() }
}

/// Work that may go into compiling an unknown constraint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compiling {
    /// None: fails with [`Kind::Uncompiled`](crate::error::Kind::Uncompiled).
    Deferred,
    /// About ten milliseconds, far more than most constraints need.
    Quick,
    /// All that the server's limits allow, which can take a second.
    Allowed,
}

impl Compiling {
    /// Returns the limits for this attempt. A quick attempt gets less work.
    pub(crate) fn limits(self, limits: &Limits) -> Limits {
        /// Work units of a quick attempt. A unit takes about ten nanoseconds.
        const QUICK: usize = 1 << 20;
        let work = if self == Self::Quick { limits.work.min(QUICK) } else { limits.work };
        Limits { work, ..limits.clone() }
    }
}

#[cfg(test)]
mod tests {
    use formwork_openai::ChatRequest;
    use formwork_vocab::{Token, TokenKind};
    use serde_json::{Value, json};

    use super::*;

    fn vocabulary() -> Arc<Vocabulary> {
        let tokens = vec![Token { bytes: vec![b'a'], kind: TokenKind::Text }];
        Arc::new(Vocabulary::new(tokens, vec![]).unwrap())
    }

    fn constraints(max_bytes: usize) -> Constraints {
        Constraints::new(max_bytes, Limits::default(), Arc::default(), 1)
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let vocabulary = vocabulary();
        let regex = |pattern: &str| Part::Regex(pattern.to_owned());
        let keys_after = |bytes, patterns: &[&str]| {
            let constraints = constraints(bytes);
            for &pattern in patterns {
                let key = Key::new(regex(pattern), Undeclared::Omit);
                constraints.get(key, &vocabulary, Compiling::Allowed).unwrap();
            }
            let recent = constraints.lock();
            (
                recent.iter().map(|(key, _)| key.part.clone()).collect::<Vec<_>>(),
                recent.iter().map(byte_len).sum::<usize>(),
            )
        };
        let patterns = ["aa", "a", "aa", "aaa"];
        let (all, bytes) = keys_after(usize::MAX, &patterns);
        assert_eq!(all, ["a", "aa", "aaa"].map(regex));
        assert_eq!(keys_after(bytes, &patterns).0, all);
        assert_eq!(keys_after(bytes - 1, &patterns).0, ["aa", "aaa"].map(regex));
        // The newest constraint stays, regardless of its size.
        assert_eq!(keys_after(0, &patterns).0, ["aaa"].map(regex));
    }

    #[test]
    fn the_same_text_of_another_kind_is_another_constraint() {
        let (regex, gbnf) = (Part::Regex("a".to_owned()), Part::Gbnf("a".to_owned()));
        assert!(Key::new(regex, Undeclared::Omit) != Key::new(gbnf, Undeclared::Omit));
    }

    /// Returns requests that differ from each other in at least one field of the constraint.
    fn requests() -> Vec<Value> {
        let text = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let tags = |trigger: &str, begin: &str, content: Value, end: &str| {
            json!({"response_format": {"type": "structural_tag", "format": {
                "type": "triggered_tags", "triggers": [trigger],
                "tags": [{"begin": begin, "content": content, "end": end}]}}})
        };
        let schema = || json!({"type": "json_schema", "json_schema": true});
        let regex = || json!({"type": "regex", "pattern": "a"});
        let with = |flag: &str| {
            let mut request = tags("<", "<a>", regex(), "");
            request["response_format"]["format"][flag] = json!(true);
            request
        };
        vec![
            json!({"response_format": {"type": "json_object"}}),
            json!({"response_format": {"type": "json_object"}, "undeclared": "allow"}),
            json!({"guided_json": {"type": "object"}}),
            json!({"guided_json": {"type": "object"}, "undeclared": "allow"}),
            json!({"guided_json": {"type": "object", "title": "a"}}),
            json!({"guided_json": {"type": "object", "title": "b"}}),
            json!({"guided_json": {"title": "b", "type": "object"}}),
            json!({"guided_json": text(r#"{"properties": {"a": {"const": 1}, "b": {}}}"#)}),
            json!({"guided_json": text(r#"{"properties": {"b": {}, "a": {"const": 1}}}"#)}),
            json!({"guided_json": text(r#"{"properties": {"a": {"const": 1.0}, "b": {}}}"#)}),
            json!({"guided_json": text(r#"{"properties": {"a": {"const": "1"}, "b": {}}}"#)}),
            json!({"guided_json": text(r#"{"const": 0.0}"#)}),
            json!({"guided_json": text(r#"{"const": -0.0}"#)}),
            json!({"guided_regex": "root ::= \"a\""}),
            json!({"grammar": "root ::= \"a\""}),
            json!({"guided_choice": ["root ::= \"a\""]}),
            json!({"guided_choice": ["a", "b"]}),
            json!({"guided_choice": ["b", "a"]}),
            json!({"guided_choice": ["ab"]}),
            tags("<", "<a>", regex(), ""),
            tags("<a", "<a>", regex(), ""),
            tags("<", "<b>", regex(), ""),
            tags("<", "<a>", regex(), ">"),
            tags("<", "<a>", schema(), ""),
            tags("<", "<a>", json!({"type": "regex", "pattern": "b"}), ""),
            tags("<", "<a>", json!({"type": "regex", "pattern": "root ::= \"b\""}), ""),
            tags("<", "<a>", json!({"type": "grammar", "grammar": "root ::= \"b\""}), ""),
            with("at_least_one"),
            with("stop_after_first"),
        ]
    }

    #[test]
    fn requests_share_a_constraint_if_every_field_of_it_is_equal() {
        let (constraints, vocabulary, requests) = (constraints(usize::MAX), vocabulary(), requests());
        let key = |fields: &Value| {
            let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
            for (name, value) in fields.as_object().unwrap() {
                body[name] = value.clone();
            }
            let request = ChatRequest::from_json(body.to_string().as_bytes()).unwrap();
            Key::new(request.format.unwrap().part, request.undeclared)
        };
        for (count, fields) in requests.iter().enumerate() {
            assert!(constraints.known(&key(fields)).is_none(), "{fields}");
            let compiled = constraints.get(key(fields), &vocabulary, Compiling::Allowed);
            compiled.unwrap_or_else(|error| panic!("{fields}: {error}"));
            assert_eq!(constraints.lock().len(), count + 1, "{fields}");
        }
        for fields in &requests {
            assert!(constraints.known(&key(fields)).is_some(), "{fields}");
            constraints.get(key(fields), &vocabulary, Compiling::Allowed).unwrap();
        }
        assert_eq!(constraints.lock().len(), requests.len());
        // Fields that do not belong to the constraint make no difference.
        let other = json!({"guided_choice": ["ab"], "seed": 1, "schema_in_prompt": false});
        assert!(constraints.known(&key(&other)).is_some());
        let wrapped = json!({"name": "n", "schema": {"type": "object"}});
        let other = json!({"response_format": {"type": "json_schema", "json_schema": wrapped}});
        assert!(constraints.known(&key(&other)).is_some());
    }
}
