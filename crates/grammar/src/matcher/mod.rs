//! [`Matcher`] follows one sequence of a constraint, token by token.

pub(crate) mod budget;
pub(crate) mod guide;
pub(crate) mod samples;

use std::sync::Arc;

use formwork_vocab::{TokenId, TokenSet, Tokenizer};
use thiserror::Error;

use budget::{CLOSING_COST, ClosingPath};

use crate::constraint::{Caches, Generation};
use crate::machine::Config;
use crate::{ByteSet, Constraint, Mismatch, mask};

/// Maximum number of bytes that [`Matcher::forced_bytes`] returns.
const FORCED_BYTES: usize = 512;

/// Cost budget of the walk in [`Matcher::mask_within`]. The checks whether the output can close
/// after each token have a separate cost budget of the same size.
const WITHIN_COST: usize = 1 << 13;

/// The length and the first token of a matcher's closing path.
struct OwnWay {
    tokens: usize,
    /// First token of the path; `None` if the path is empty.
    first: Option<TokenId>,
}

/// Follows one sequence through a [`Constraint`].
///
/// ```
/// # use std::sync::Arc;
/// # use formwork_grammar::{Constraint, Grammar, Limits};
/// # use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
/// # let text = |s: &str| Token { bytes: s.into(), kind: TokenKind::Text };
/// # let end = Token { bytes: vec![], kind: TokenKind::Control };
/// # let vocabulary = Vocabulary::new(vec![text("a"), text("b"), end], vec![TokenId(2)])?;
/// let grammar = Grammar::regex("ab?", &Limits::default())?;
/// let mut matcher = Constraint::new(&grammar, Arc::new(vocabulary))?.matcher();
/// assert_eq!(matcher.forced_bytes(), b"a");
/// matcher.commit(TokenId(0))?;
/// assert!(matcher.accepting() && !matcher.complete());
/// assert!(matcher.accepting_at(0, b"ab") && !matcher.accepting_at(0, b""));
/// matcher.commit(TokenId(1))?;
/// assert!(matcher.complete());
/// matcher.rollback(2);
/// assert_eq!(matcher.len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Matcher {
    constraint: Constraint,
    generation: Arc<Generation>,
    /// Config before each token and after the last one. Dead after end-of-sequence.
    configs: Vec<Config>,
    tokens: Vec<TokenId>,
    /// The closing path found by the last query. `None` if there is none or if it is not stored.
    way: Option<ClosingPath>,
}

/// Describes the tokens and text that may come next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explanation {
    /// Description of each possible continuation, if the output is inside JSON text of a schema.
    /// Empty elsewhere: only `bytes` is then known.
    pub expected: Vec<String>,
    /// Bytes that may come next.
    pub bytes: ByteSet,
    /// Number of allowed tokens.
    pub tokens: usize,
    /// True if the output may end.
    pub may_end: bool,
}

/// The reason why a token is not allowed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejection {
    /// Offset in the token's bytes of the first byte that is not allowed. 0 if the token is not a
    /// text token.
    pub offset: usize,
    /// Description of each possible continuation at that offset, as in [`Explanation::expected`].
    pub expected: Vec<String>,
    /// Bytes that may come at `offset`.
    pub bytes: ByteSet,
}

/// Error for a token that the grammar does not allow at the matcher's position.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("token {token} is not allowed at position {position}: expected {expected}")]
pub struct NotAllowed {
    /// The rejected token.
    pub token: TokenId,
    /// Number of tokens committed before the rejected token.
    pub position: usize,
    /// Bytes that the grammar allows at this position.
    pub expected: ByteSet,
}

impl Matcher {
    /// Stands for a text of [`Matcher::commit_text`] among the committed tokens. No vocabulary has this id.
    pub const TEXT: TokenId = TokenId(u32::MAX);

    pub(crate) fn new(constraint: Constraint) -> Self {
        let generation = constraint.generation();
        let start = generation.lock().automaton.start();
        Self { constraint, generation, configs: vec![start], tokens: Vec::new(), way: None }
    }

    /// Returns the number of committed tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Reports whether no token has been committed.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns the tokens committed so far, with [`Matcher::TEXT`] for each committed text.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Returns the tokens that may come next. End-of-sequence is included if and only if the output
    /// may end.
    pub fn mask(&mut self) -> Arc<TokenSet> {
        // A new generation starts only here, before a step: a bound promised for the token about to
        // be committed must not be lost.
        if self.generation.is_full() {
            self.move_on();
        }
        self.with_caches(|matcher, caches| caches.mask(matcher.constraint.vocabulary(), matcher.config()))
    }

    /// Returns the tokens that may come next and still allow the output to close within `remaining`
    /// tokens, including the token itself.
    ///
    /// End-of-sequence does not count towards `remaining`. If `remaining` is at least
    /// [`Matcher::closing_tokens`], the set is empty only if the output is complete.
    ///
    /// The work is bounded. If tokens lead to very many different configs or to long closing paths,
    /// some tokens are omitted although the output could close after them.
    /// [`Matcher::allows_within`] decides a single token.
    pub fn mask_within(&mut self, remaining: usize) -> TokenSet {
        self.with_caches(|matcher, caches| {
            let vocabulary = matcher.constraint.vocabulary();
            let config = matcher.config();
            let mut mask = vocabulary.empty_set();
            if config == Config::DEAD {
                return mask;
            }
            let own = matcher.own_way(caches).filter(|way| way.tokens <= remaining);
            if let Some(token) = own.and_then(|way| way.first) {
                mask.insert(token);
            }
            let Caches { automaton, budget, .. } = caches;
            let vocabulary = matcher.constraint.vocabulary();
            if automaton.accepting(config) {
                for &end in vocabulary.ends() {
                    mask.insert(end);
                }
            }
            let Some(left) = remaining.checked_sub(1) else { return mask };
            let mut cost_budget = WITHIN_COST;
            for (index, next) in automaton.terminals(config) {
                if budget.closes_within(automaton, vocabulary, next, (left, &mut cost_budget))
                    && let Some(tokens) = automaton.edges().tokens(index)
                {
                    mask.extend(tokens);
                }
            }
            let mut walk = WITHIN_COST;
            mask::plain(automaton, vocabulary, config, &mut walk, |automaton, tokens, next| {
                if budget.closes_within(automaton, vocabulary, next, (left, &mut cost_budget)) {
                    for &token in tokens {
                        mask.insert(token);
                    }
                }
            });
            mask
        })
    }

    /// Reports whether `token` may come next and still allows the output to close within
    /// `remaining` tokens, including `token`.
    pub fn allows_within(&mut self, token: TokenId, remaining: usize) -> bool {
        self.with_caches(|matcher, caches| {
            if matcher.constraint.is_end(token) && matcher.accepting_in(caches) {
                return true;
            }
            let next = matcher.after(caches, token);
            let vocabulary = matcher.constraint.vocabulary();
            if next == Config::DEAD || remaining == 0 {
                return false;
            }
            let mut cost_budget = CLOSING_COST;
            caches.budget.closes_within(
                &mut caches.automaton,
                vocabulary,
                next,
                (remaining - 1, &mut cost_budget),
            ) || matcher
                .own_way(caches)
                .is_some_and(|way| way.tokens <= remaining && way.first == Some(token))
        })
    }

    /// Appends `token`.
    ///
    /// # Errors
    /// Returns an error if the grammar does not allow `token` here. The matcher is unchanged in
    /// that case.
    pub fn commit(&mut self, token: TokenId) -> Result<(), NotAllowed> {
        self.with_caches(|matcher, caches| {
            let ends = matcher.constraint.is_end(token) && matcher.accepting_in(caches);
            let next = if ends { Config::DEAD } else { matcher.after(caches, token) };
            if next == Config::DEAD && !ends {
                let expected = matcher.following_in(caches);
                return Err(NotAllowed { token, position: matcher.tokens.len(), expected });
            }
            matcher.tokens.push(token);
            matcher.configs.push(next);
            Ok(())
        })
    }

    /// Appends a text as one step, even if the vocabulary cannot spell the text.
    ///
    /// [`Matcher::rollback`] and [`Matcher::len`] count the text as one token.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use formwork_grammar::{Constraint, Grammar, Limits};
    /// # use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
    /// let vocabulary = Vocabulary::new(vec![Token { bytes: vec![b'c'], kind: TokenKind::Text }], vec![])?;
    /// let grammar = Grammar::regex("abc", &Limits::default())?;
    /// let mut matcher = Constraint::new(&grammar, Arc::new(vocabulary))?.matcher();
    /// assert_eq!(matcher.commit_text(b"ax").unwrap_err().at, 1);
    /// matcher.commit_text(b"ab")?;
    /// matcher.commit(TokenId(0))?;
    /// assert!(matcher.complete() && matcher.len() == 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the grammar does not allow `text` here. The matcher is unchanged in that case.
    /// [`Mismatch::at`] counts bytes of `text`.
    pub fn commit_text(&mut self, text: &[u8]) -> Result<(), Mismatch> {
        self.with_caches(|matcher, caches| {
            let mut config = matcher.config();
            for (at, byte) in text.iter().enumerate() {
                let next = match config {
                    Config::DEAD => Config::DEAD,
                    config => caches.automaton.run(config, &[*byte]),
                };
                if next == Config::DEAD {
                    let is_live = config != Config::DEAD;
                    let expected =
                        if is_live { caches.automaton.following(config) } else { ByteSet::default() };
                    let complete = is_live && caches.automaton.accepting(config);
                    return Err(Mismatch { at, expected, complete });
                }
                config = next;
            }
            matcher.tokens.push(Self::TEXT);
            matcher.configs.push(config);
            Ok(())
        })
    }

    /// Removes the last `count` committed tokens, or all of them if there are fewer.
    pub fn rollback(&mut self, count: usize) {
        self.tokens.truncate(self.tokens.len().saturating_sub(count));
        self.configs.truncate(self.tokens.len() + 1);
        // A closing path from a later position says nothing about this one.
        self.way.take_if(|way| way.position > self.tokens.len());
    }

    /// Reports whether the output may end here.
    pub fn accepting(&mut self) -> bool {
        self.with_caches(|matcher, caches| matcher.accepting_in(caches))
    }

    /// Reports whether the output may end after the first `tokens` committed tokens followed by the
    /// text `bytes`.
    pub fn accepting_at(&mut self, tokens: usize, bytes: &[u8]) -> bool {
        self.with_caches(|matcher, caches| {
            let Some(&config) = matcher.configs.get(tokens).filter(|config| **config != Config::DEAD) else {
                return false;
            };
            let at = caches.automaton.run(config, bytes);
            at != Config::DEAD && caches.automaton.accepting(at)
        })
    }

    /// Reports whether the output is finished: the output may end here, and nothing else can
    /// follow.
    pub fn complete(&mut self) -> bool {
        self.with_caches(|matcher, caches| {
            matcher.config() == Config::DEAD || caches.automaton.only_ends(matcher.config())
        })
    }

    /// Returns a number of tokens that suffices to close the output from here, without
    /// end-of-sequence. Returns `None` if the vocabulary cannot spell any completion.
    ///
    /// The bound can always be kept: unless it is 0, there is an allowed token after which the
    /// bound is smaller by at least one.
    pub fn closing_tokens(&mut self) -> Option<usize> {
        self.with_caches(|matcher, caches| {
            let config = matcher.config();
            if config == Config::DEAD {
                return Some(0);
            }
            matcher.own_way(caches).map(|way| way.tokens)
        })
    }

    /// Returns the bytes that may come next.
    pub fn following(&mut self) -> ByteSet {
        self.with_caches(|matcher, caches| matcher.following_in(caches))
    }

    /// Explains to a person what may come next.
    pub fn explain(&mut self) -> Explanation {
        let tokens = self.mask().iter().count();
        let may_end = self.accepting();
        self.with_caches(|matcher, caches| Explanation {
            expected: matcher.expected_in(caches, &[]),
            bytes: matcher.following_in(caches),
            tokens,
            may_end,
        })
    }

    /// Explains why `token` may not come next. Returns `None` if `token` is allowed.
    pub fn explain_rejection(&mut self, token: TokenId) -> Option<Rejection> {
        if self.mask().contains(token) {
            return None;
        }
        self.with_caches(|matcher, caches| {
            let vocabulary = matcher.constraint.vocabulary();
            let text = vocabulary.kind(token).is_text();
            let bytes = if text { vocabulary.bytes(token) } else { &[] };
            let runs = |caches: &mut Caches, len: usize| {
                matcher.config() != Config::DEAD
                    && caches.automaton.run(matcher.config(), &bytes[..len]) != Config::DEAD
            };
            let offset = (0..bytes.len()).find(|&at| !runs(caches, at + 1)).unwrap_or(0);
            let expected = matcher.expected_in(caches, &bytes[..offset]);
            let bytes = match matcher.config() {
                Config::DEAD => ByteSet::default(),
                config => {
                    let at = caches.automaton.run(config, &bytes[..offset]);
                    caches.automaton.following(at)
                }
            };
            Some(Rejection { offset, expected, bytes })
        })
    }

    /// Describes in words what may follow if `bytes` come next.
    fn expected_in(&self, caches: &mut Caches, bytes: &[u8]) -> Vec<String> {
        match self.config() {
            Config::DEAD => Vec::new(),
            config => {
                let at = caches.automaton.run(config, bytes);
                caches.automaton.expected(at)
            }
        }
    }

    /// Returns the bytes with which every completion starts, at most 512 bytes.
    pub fn forced_bytes(&mut self) -> Vec<u8> {
        self.with_caches(|matcher, caches| match matcher.config() {
            Config::DEAD => Vec::new(),
            config => caches.automaton.forced(config, FORCED_BYTES),
        })
    }

    /// Returns the tokens with which `tokenizer` spells the [forced bytes](Self::forced_bytes), up
    /// to the first token that is uncertain.
    ///
    /// A token is uncertain if another token of the vocabulary starts at the same offset, covers
    /// all remaining forced bytes and continues beyond them. The model should then choose between
    /// the two. Each returned token is allowed after the tokens before it.
    pub fn forced_tokens(&mut self, tokenizer: &Tokenizer) -> Vec<TokenId> {
        let forced = self.forced_bytes();
        let whole = match str::from_utf8(&forced) {
            Ok(text) => text,
            Err(error) => str::from_utf8(&forced[..error.valid_up_to()]).unwrap_or_default(),
        };
        if whole.is_empty() {
            return Vec::new();
        }
        let Ok(mut tokens) = tokenizer.encode_fragment(whole) else { return Vec::new() };
        let vocabulary = tokenizer.vocabulary();
        if tokens.iter().flat_map(|&token| vocabulary.bytes(token)).ne(whole.as_bytes()) {
            return Vec::new(); // the tokenizer normalises this text
        }
        if self.ends_after(&forced) {
            if whole.len() == forced.len() { tokens } else { Vec::new() }
        } else {
            let mut at = 0;
            let settled = tokens.iter().take_while(|&&token| {
                let open = vocabulary.trie().extends(&forced[at..]);
                at += vocabulary.bytes(token).len();
                !open
            });
            let settled = settled.count();
            tokens.truncate(settled);
            tokens
        }
    }

    /// Reports whether the output is complete if `bytes` come next.
    fn ends_after(&mut self, bytes: &[u8]) -> bool {
        self.with_caches(|matcher, caches| {
            let at = caches.automaton.run(matcher.config(), bytes);
            at != Config::DEAD && caches.automaton.only_ends(at)
        })
    }

    fn config(&self) -> Config {
        self.configs.last().copied().unwrap_or(Config::DEAD)
    }

    /// Returns the config after `token`; dead if `token` may not follow.
    fn after(&self, caches: &mut Caches, token: TokenId) -> Config {
        caches.automaton.after(self.config(), token, self.constraint.vocabulary())
    }

    fn accepting_in(&self, caches: &Caches) -> bool {
        self.config() != Config::DEAD && caches.automaton.accepting(self.config())
    }

    fn following_in(&self, caches: &mut Caches) -> ByteSet {
        match self.config() {
            Config::DEAD => ByteSet::default(),
            config => caches.automaton.following(config),
        }
    }

    /// Runs `work` with the caches locked, then checks the size of the caches.
    fn with_caches<T>(&mut self, work: impl FnOnce(&mut Self, &mut Caches) -> T) -> T {
        let generation = Arc::clone(&self.generation);
        let mut caches = generation.lock();
        let result = work(self, &mut caches);
        self.constraint.check_size(&generation, &caches);
        result
    }

    /// Returns the length and first token of a closing path that is at most as long as any bound
    /// that a caller relies on.
    ///
    /// With each committed token, the closing path becomes the rest of the previous path, if the
    /// token is the first token of that path. If the config's own path is shorter, that path is
    /// used instead. The result depends on the committed tokens alone, and not on earlier queries.
    fn own_way(&mut self, caches: &mut Caches) -> Option<OwnWay> {
        let Caches { automaton, budget, .. } = caches;
        let vocabulary = self.constraint.vocabulary();
        let mut way = self.way.take().filter(|way| way.position <= self.tokens.len());
        let from = way.as_ref().map_or(0, |way| way.position);
        let mut bound = None;
        for position in from..=self.tokens.len() {
            let config = self.configs[position];
            if position > from {
                let token = self.tokens[position - 1];
                way = if let Some(way) = way.take() {
                    (way.tokens().first() == Some(&token)).then(|| way.after_first())
                } else {
                    // If the completion of the config before leads here, this config's own path is
                    // at most as long.
                    let before = self.configs[position - 1];
                    let follows = budget.first(automaton, vocabulary, before) == Some(token)
                        && budget::after_first(automaton, vocabulary, before, token) != config;
                    let way = follows.then(|| budget.way(automaton, vocabulary, before, position - 1));
                    way.flatten().map(ClosingPath::after_first)
                };
            }
            bound = budget.closing_tokens(automaton, vocabulary, config).map(|bound| bound as usize);
            way = way.filter(|way| bound.is_none_or(|bound| way.tokens().len() <= bound));
        }
        let config = self.config();
        if way.is_none() && bound.is_some() {
            way = budget.way(automaton, vocabulary, config, self.tokens.len());
        }
        self.way = way;
        if let Some(way) = &self.way {
            return Some(OwnWay { tokens: way.tokens().len(), first: way.tokens().first().copied() });
        }
        let tokens = bound?;
        Some(OwnWay { tokens, first: budget.first(automaton, vocabulary, config) })
    }

    /// Moves to the current generation of the caches and replays the committed tokens there. Keeps
    /// the closing path, so that a bound returned before still holds.
    fn move_on(&mut self) {
        let vocabulary = Arc::clone(self.constraint.vocabulary());
        std::mem::replace(&mut self.generation, self.constraint.generation()).release();
        let generation = Arc::clone(&self.generation);
        let mut caches = generation.lock();
        let automaton = &mut caches.automaton;
        let mut config = automaton.start();
        self.configs.truncate(1);
        self.configs[0] = config;
        for &token in &self.tokens {
            let ends = vocabulary.is_end(token) && (config == Config::DEAD || automaton.accepting(config));
            config = if ends { Config::DEAD } else { automaton.after(config, token, &vocabulary) };
            self.configs.push(config);
        }
    }
}
