//! Cache of the compiled constraints that a model's requests share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use formwork_grammar::{
    Constraint, Grammar, GrammarError, Limits, Part, Remotes, SchemaOptions, StructuralTag, StructuralTags,
    TagContent,
};
use formwork_openai::{Format, Undeclared};
use formwork_vocab::Vocabulary;
use serde_json::json;

/// Maximum number of cached constraints. Lookups and measurements scan all of them.
const MOST: usize = 1024;

/// The most recently used constraints, so that a later request can reuse their masks.
pub(crate) struct Constraints {
    limits: Limits,
    /// Documents that schemas may reference.
    remotes: Arc<Remotes>,
    /// Maximum size of the cached constraints in bytes, including their caches.
    max_bytes: usize,
    /// Least recently used first.
    recent: Mutex<VecDeque<(Key, Constraint)>>,
}

/// Source of a constraint, which identifies it in the cache.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    kind: &'static str,
    source: String,
    undeclared: Undeclared,
}

impl Constraints {
    pub(crate) const fn new(max_bytes: usize, limits: Limits, remotes: Arc<Remotes>) -> Self {
        Self { limits, remotes, max_bytes, recent: Mutex::new(VecDeque::new()) }
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
        compile: impl FnOnce(&Limits, &Remotes) -> Result<Grammar, GrammarError>,
    ) -> Result<Constraint, GrammarError> {
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        // Compiles without the lock, so that a large schema does not block other requests.
        let compiled = Constraint::new(
            &compile(&compiling.limits(&self.limits), &self.remotes)?,
            Arc::clone(vocabulary),
        )?;
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

    /// Compiles one part of an answer.
    pub(crate) fn compile_part(&self, part: &Part, undeclared: Undeclared) -> Result<Grammar, GrammarError> {
        compile_part(part, undeclared, &self.limits, &self.remotes)
    }

    /// Builds the data that all constraints of a vocabulary share, so that no request has to wait
    /// for it.
    pub(crate) fn prepare(&self, vocabulary: &Arc<Vocabulary>) {
        // Ignores errors: a vocabulary that cannot spell an object has no constraints to prepare
        // for.
        let (format, undeclared) = (Format::JsonObject, Undeclared::default());
        let key = Key::of(&format, undeclared);
        let _ = self.get(key, vocabulary, Compiling::Allowed, |limits, remotes| {
            compile(&format, undeclared, limits, remotes)
        });
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(Key, Constraint)>> {
        // Entries are moved as a whole, so a panic elsewhere leaves the list consistent.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Key {
    pub(crate) fn of(format: &Format, undeclared: Undeclared) -> Self {
        let (kind, source) = match format {
            Format::JsonObject => ("object", String::new()),
            Format::JsonSchema { schema, .. } => ("schema", schema.to_string()),
            Format::StructuralTags(tags) => ("tags", format!("{tags:?}")),
            Format::Gbnf(source) => ("gbnf", source.clone()),
            Format::Regex(pattern) => ("regex", pattern.clone()),
            Format::Choice(choices) => ("choice", json!(choices).to_string()),
        };
        Self { kind, source, undeclared }
    }

    /// Returns the key of a whole answer.
    pub(crate) fn answer(part: &Part, undeclared: Undeclared) -> Self {
        Self { kind: "answer", source: format!("{part:?}"), undeclared }
    }
}

/// Returns the approximate size of an entry in bytes.
fn byte_len((key, constraint): &(Key, Constraint)) -> usize {
    key.source.len() + constraint.byte_len()
}

/// Finds the constraint of `key` and makes it the most recently used.
fn touch(recent: &mut VecDeque<(Key, Constraint)>, key: &Key) -> Option<Constraint> {
    let index = recent.iter().position(|(known, _)| known == key)?;
    let found = recent.remove(index)?;
    let constraint = found.1.clone();
    recent.push_back(found);
    Some(constraint)
}

/// Returns the options for reading schemas.
fn options(undeclared: Undeclared) -> SchemaOptions {
    let undeclared = match undeclared {
        Undeclared::Omit => formwork_grammar::Undeclared::Omit,
        Undeclared::Allow => formwork_grammar::Undeclared::Allow,
    };
    SchemaOptions { undeclared, ..SchemaOptions::default() }
}

pub(crate) fn compile(
    format: &Format,
    undeclared: Undeclared,
    limits: &Limits,
    remotes: &Remotes,
) -> Result<Grammar, GrammarError> {
    let options = options(undeclared);
    match format {
        Format::JsonObject => Grammar::json_schema(&json!({"type": "object"}), &options, limits),
        Format::JsonSchema { schema, .. } => {
            Grammar::json_schema_with_remotes(schema, remotes, &options, limits)
        }
        Format::StructuralTags(tags) => {
            Grammar::structural_tags_with_remotes(&structural_tags(tags), remotes, &options, limits)
        }
        Format::Gbnf(source) => Grammar::gbnf_with_remotes(source, remotes, &options, limits),
        Format::Regex(pattern) => Grammar::regex(pattern, limits),
        Format::Choice(choices) => Grammar::choices(choices, limits),
    }
}

/// Compiles the grammar of a whole answer.
pub(crate) fn compile_part(
    part: &Part,
    undeclared: Undeclared,
    limits: &Limits,
    remotes: &Remotes,
) -> Result<Grammar, GrammarError> {
    Grammar::of_parts_with_remotes(part, remotes, &options(undeclared), limits)
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

pub(crate) fn structural_tags(tags: &formwork_openai::StructuralTags) -> StructuralTags {
    let content = |content: &formwork_openai::TagContent| match content {
        formwork_openai::TagContent::JsonSchema(schema) => TagContent::JsonSchema(schema.clone().into()),
        formwork_openai::TagContent::Gbnf(source) => TagContent::Gbnf(source.clone()),
        formwork_openai::TagContent::Regex(pattern) => TagContent::Regex(pattern.clone()),
    };
    let tag = |tag: &formwork_openai::StructuralTag| StructuralTag {
        begin: tag.begin.clone(),
        content: content(&tag.content),
        end: tag.end.clone(),
    };
    StructuralTags {
        triggers: tags.triggers.clone(),
        tags: tags.tags.iter().map(tag).collect(),
        at_least_one: tags.at_least_one,
        stop_after_first: tags.stop_after_first,
    }
}

#[cfg(test)]
mod tests {
    use formwork_vocab::{Token, TokenKind};

    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let tokens = vec![Token { bytes: vec![b'a'], kind: TokenKind::Text }];
        let vocabulary = Arc::new(Vocabulary::new(tokens, vec![]).unwrap());
        let constraints = |bytes| Constraints::new(bytes, Limits::default(), Arc::default());
        let omit = Undeclared::Omit;
        let keys_after = |bytes, patterns: &[&str]| {
            let constraints = constraints(bytes);
            for &pattern in patterns {
                let format = Format::Regex(pattern.to_owned());
                let compile = |limits: &Limits, remotes: &Remotes| compile(&format, omit, limits, remotes);
                constraints.get(Key::of(&format, omit), &vocabulary, Compiling::Allowed, compile).unwrap();
            }
            let recent = constraints.lock();
            (
                recent.iter().map(|(key, _)| key.source.clone()).collect::<Vec<_>>(),
                recent.iter().map(byte_len).sum::<usize>(),
            )
        };
        let patterns = ["aa", "a", "aa", "aaa"];
        let (all, bytes) = keys_after(usize::MAX, &patterns);
        assert_eq!(all, ["a", "aa", "aaa"]);
        assert_eq!(keys_after(bytes, &patterns).0, all);
        assert_eq!(keys_after(bytes - 1, &patterns).0, ["aa", "aaa"]);
        // The newest constraint stays, regardless of its size.
        assert_eq!(keys_after(0, &patterns).0, ["aaa"]);
    }

    #[test]
    fn the_same_text_of_another_kind_is_another_constraint() {
        let (regex, gbnf) = (Format::Regex("a".to_owned()), Format::Gbnf("a".to_owned()));
        assert!(Key::of(&regex, Undeclared::Omit) != Key::of(&gbnf, Undeclared::Omit));
    }
}
