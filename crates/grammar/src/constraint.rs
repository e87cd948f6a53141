use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use formwork_vocab::{TokenId, TokenSet, Vocabulary};

use crate::machine::Config;
use crate::machine::automaton::Automaton;
use crate::mask::Masks;
use crate::matcher::budget::{Budget, StartPath};
use crate::tokens::TokenEdges;
use crate::{Grammar, GrammarError, Matcher};

/// A grammar bound to a vocabulary, with the caches that all its matchers share.
///
/// A constraint is cheap to clone, and clones share everything.
///
/// [`Limits::cache_bytes`](crate::Limits) bounds the caches. Full caches are replaced by a new,
/// empty *generation*. Each matcher moves to the new generation with its next mask. The old
/// generation is freed with its last matcher.
#[derive(Clone)]
pub struct Constraint {
    shared: Arc<Shared>,
}

struct Shared {
    grammar: Grammar,
    vocabulary: Arc<Vocabulary>,
    current: Mutex<Arc<Generation>>,
    start_way: Arc<StartPath>,
}

/// One generation of the caches. A [`Config`] is valid within one generation only.
pub(crate) struct Generation {
    full: AtomicBool,
    /// Size of the caches in bytes, as of the last [`Constraint::check_size`].
    bytes: AtomicUsize,
    caches: Mutex<Caches>,
}

/// Results that are computed once per config.
pub(crate) struct Caches {
    pub(crate) automaton: Automaton,
    pub(crate) budget: Budget,
    masks: Masks,
}

impl Caches {
    /// Returns the mask at `config`. Computes each mask at most once.
    pub(crate) fn mask(&mut self, vocabulary: &Vocabulary, config: Config) -> Arc<TokenSet> {
        self.masks.at(&mut self.automaton, vocabulary, config)
    }

    fn byte_len(&self) -> usize {
        self.automaton.byte_len() + self.budget.byte_len() + self.masks.byte_len()
    }
}

impl Generation {
    fn new(
        grammar: &Grammar,
        vocabulary: &Vocabulary,
        start_way: &Arc<StartPath>,
    ) -> Result<Self, GrammarError> {
        let edges = TokenEdges::new(grammar.token_terminals(), vocabulary)?;
        let automaton = grammar.automaton().with_edges(edges);
        let masks = Masks::new(&automaton, vocabulary);
        let caches = Caches { automaton, budget: Budget::new(Arc::clone(start_way)), masks };
        Ok(Self {
            full: AtomicBool::new(false),
            bytes: AtomicUsize::new(caches.byte_len()),
            caches: Mutex::new(caches),
        })
    }

    /// Releases a reference to a generation.
    ///
    /// The last reference frees the caches on another thread, because freeing can take longer than
    /// one decoding step.
    pub(crate) fn release(self: Arc<Self>) {
        if let Some(last) = Arc::into_inner(self) {
            // Frees the caches on this thread if no thread can be started.
            let _ = std::thread::Builder::new().name("formwork-free".to_owned()).spawn(move || drop(last));
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Caches> {
        self.caches.lock().unwrap_or_else(|poisoned| {
            // A panic may have left a step incomplete. Matchers therefore move to a new generation
            // when possible.
            self.full.store(true, Ordering::Relaxed);
            poisoned.into_inner()
        })
    }
}

impl Constraint {
    /// Binds `grammar` to `vocabulary`.
    ///
    /// # Errors
    /// Returns an error if a token terminal of the grammar (`<[7]>`, `<think>`) names no token of
    /// the vocabulary. Also returns an error if the named token ends generation, because an output
    /// would then end inside the grammar.
    pub fn new(grammar: &Grammar, vocabulary: Arc<Vocabulary>) -> Result<Self, GrammarError> {
        let start_way = Arc::default();
        let current = Mutex::new(Arc::new(Generation::new(grammar, &vocabulary, &start_way)?));
        Ok(Self { shared: Arc::new(Shared { grammar: grammar.clone(), vocabulary, current, start_way }) })
    }

    /// Creates a matcher at the start of an output.
    pub fn matcher(&self) -> Matcher {
        Matcher::new(self.clone())
    }

    /// Returns the grammar that the constraint was created from.
    pub fn grammar(&self) -> &Grammar {
        &self.shared.grammar
    }

    /// Returns the vocabulary that the grammar is bound to.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.shared.vocabulary
    }

    /// Returns the number of tokens of a known complete output, without the end-of-sequence token.
    /// A request with this limit can always finish, although even shorter outputs may exist.
    ///
    /// Returns `None` if the vocabulary cannot spell any output.
    pub fn minimum_tokens(&self) -> Option<usize> {
        self.matcher().closing_tokens()
    }

    /// Returns the approximate memory of the grammar and the caches, in bytes.
    ///
    /// The caches grow during generation, up to [`Limits::cache_bytes`](crate::Limits).
    pub fn byte_len(&self) -> usize {
        let current = self.shared.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.grammar.byte_len() + current.bytes.load(Ordering::Relaxed)
    }

    /// Returns the generation for new matchers. If the current generation is full, replaces it with
    /// a new, empty one first.
    pub(crate) fn generation(&self) -> Arc<Generation> {
        let mut current = self.shared.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_full() {
            // This cannot fail: the token terminals resolved when the constraint was created.
            let Shared { grammar, vocabulary, start_way, .. } = &*self.shared;
            if let Ok(fresh) = Generation::new(grammar, vocabulary, start_way) {
                std::mem::replace(&mut *current, Arc::new(fresh)).release();
            }
        }
        Arc::clone(&current)
    }

    /// Measures the size of `caches`, which belong to `generation`, and stores the size in
    /// `generation`. Marks `generation` as full if the size exceeds
    /// [`Limits::cache_bytes`](crate::Limits).
    pub(crate) fn check_size(&self, generation: &Generation, caches: &Caches) {
        let bytes = caches.byte_len();
        generation.bytes.store(bytes, Ordering::Relaxed);
        if bytes > self.shared.grammar.limits().cache_bytes {
            generation.full.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_end(&self, token: TokenId) -> bool {
        self.shared.vocabulary.is_end(token)
    }
}

#[cfg(test)]
mod tests {
    use formwork_vocab::{Token, TokenKind};
    use rustc_hash::FxHashMap;

    use super::*;
    use crate::{Limits, SchemaOptions};

    /// The size of the caches includes every mask, in grammars with and without recursion.
    #[test]
    fn all_masks_count() {
        /// Vocabulary size at which masks take more memory than the tables that the masks are
        /// computed from.
        const TOKENS: u32 = 200_000;
        let tokens = (0..TOKENS).map(|id| match u8::try_from(id) {
            Ok(byte) => vec![byte],
            Err(_) => format!("{id:x}").into_bytes(),
        });
        let tokens = tokens.map(|bytes| Token { bytes, kind: TokenKind::Text }).collect();
        let vocabulary = Arc::new(Vocabulary::new(tokens, vec![]).unwrap());
        let names: Vec<String> = (0..400).map(|id| format!("\"{:04x}\"", id * 7919 % 65536)).collect();
        let names = names.join(" | ");
        for grammar in [format!("root ::= \"[\" root \"]\" | {names}"), format!("root ::= {names}")] {
            let grammar = Grammar::gbnf(&grammar, &Limits::default()).unwrap();
            let constraint = Constraint::new(&grammar, Arc::clone(&vocabulary)).unwrap();
            let mut masks = FxHashMap::default();
            for output in grammar.samples(4).max_bytes(40).take(100) {
                let mut matcher = constraint.matcher();
                for byte in output {
                    let mask = matcher.mask();
                    masks.insert(Arc::as_ptr(&mask), mask.byte_len());
                    matcher.commit(TokenId(byte.into())).unwrap();
                }
            }
            let (count, bytes) = (masks.len(), masks.values().sum::<usize>());
            let known = constraint.generation().lock().byte_len();
            assert!(count > 20 && known >= bytes, "{count} masks of {bytes} bytes count as {known}");
        }
    }

    /// With `uniqueItems`, the search for the closing path of the start creates a config per token.
    /// These configs fill small caches, so the search must run only once.
    #[test]
    fn searches_the_path_from_the_start_once() {
        let bytes = (0..=255).map(|byte| vec![byte]);
        let words = (0..3000).map(|word| format!("w{word}").into_bytes());
        let tokens = bytes.chain(words).map(|bytes| Token { bytes, kind: TokenKind::Text }).collect();
        let vocabulary = Arc::new(Vocabulary::new(tokens, vec![]).unwrap());
        let schema = r#"{"type": "array", "uniqueItems": true, "items": {"type": "string"}, "minItems": 2}"#;
        let limits = Limits { cache_bytes: 1, ..Limits::default() };
        let schema = serde_json::from_str(schema).unwrap();
        let grammar = Grammar::json_schema(&schema, &SchemaOptions::default(), &limits).unwrap();
        let constraint = Constraint::new(&grammar, vocabulary).unwrap();
        let sizes = [(); 3].map(|()| {
            let generation = constraint.generation();
            let closing = constraint.minimum_tokens();
            assert!(generation.is_full());
            (closing, generation.lock().automaton.byte_len())
        });
        assert_eq!([sizes[1]; 2], [sizes[2]; 2]);
        assert_eq!(sizes[0].0, sizes[1].0);
        assert!(sizes[1].1 * 10 < sizes[0].1, "{sizes:?}");
    }
}
