use std::sync::Arc;

use crate::derived::Derived;
use crate::error::Kind;
use crate::{TokenId, TokenKind, TokenSet, TokenTrie, VocabError};

/// The largest vocabulary accepted, in tokens.
const MAX_TOKENS: usize = 1 << 24;

/// A token as it enters a [`Vocabulary`]: the bytes it stands for and what kind it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// The bytes that the token adds to the output, already decoded from the tokenizer's own spelling.
    pub bytes: Vec<u8>,
    /// What the token stands for.
    pub kind: TokenKind,
}

/// Every token of a model with its bytes, and a trie over those that are text.
///
/// ```
/// use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
/// let text = |s: &str| Token { bytes: s.into(), kind: TokenKind::Text };
/// let end = Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control };
/// let vocabulary = Vocabulary::new(vec![text("a"), text("ab"), end], vec![TokenId(2)])?;
/// assert_eq!(vocabulary.bytes(TokenId(1)), b"ab");
/// assert!(vocabulary.is_end(TokenId(2)));
/// # Ok::<(), formwork_vocab::VocabError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Vocabulary {
    bytes: Vec<u8>,
    /// Token `t` is `bytes[starts[t]..starts[t + 1]]`.
    starts: Vec<u32>,
    kinds: Vec<TokenKind>,
    ends: Vec<TokenId>,
    trie: TokenTrie,
    spells_utf8: bool,
    derived: Derived,
}

impl Vocabulary {
    /// Builds a vocabulary; `ends` are the tokens that end a sequence.
    ///
    /// # Errors
    /// When there are no tokens, too many, or an end token is outside.
    pub fn new(tokens: Vec<Token>, mut ends: Vec<TokenId>) -> Result<Self, VocabError> {
        if tokens.is_empty() {
            return Err(Kind::Empty.into());
        }
        if tokens.len() > MAX_TOKENS {
            return Err(Kind::TooManyTokens { given: tokens.len(), limit: MAX_TOKENS }.into());
        }
        ends.sort_unstable();
        ends.dedup();
        if let Some(end) = ends.iter().find(|end| end.index() >= tokens.len()) {
            return Err(Kind::EndOutside { given: end.0, limit: tokens.len() }.into());
        }
        let mut bytes = Vec::with_capacity(tokens.iter().map(|token| token.bytes.len()).sum());
        let mut starts = Vec::with_capacity(tokens.len() + 1);
        let mut kinds = Vec::with_capacity(tokens.len());
        starts.push(0);
        for token in tokens {
            bytes.extend_from_slice(&token.bytes);
            starts.push(bytes.len() as u32);
            kinds.push(token.kind);
        }
        for end in &ends {
            kinds[end.index()] = TokenKind::Control;
        }
        let texts = (0..kinds.len()).filter(|&index| kinds[index].is_text());
        let trie = TokenTrie::new(texts.map(|index| {
            let range = starts[index] as usize..starts[index + 1] as usize;
            (&bytes[range], TokenId(index as u32))
        }));
        let utf8 = (0..=0xbf).chain(0xc2..=0xf4);
        let spells_utf8 = utf8.into_iter().all(|byte: u8| trie.prefixes(&[byte]).next().is_some());
        Ok(Self { bytes, starts, kinds, ends, trie, spells_utf8, derived: Derived::default() })
    }

    /// The same vocabulary with `ends` added to the tokens that end a sequence.
    ///
    /// # Errors
    /// When one of them is outside.
    pub fn with_ends(&self, ends: &[TokenId]) -> Result<Self, VocabError> {
        let tokens = self.ids().map(|id| Token { bytes: self.bytes(id).to_vec(), kind: self.kind(id) });
        Self::new(tokens.collect(), [self.ends(), ends].concat())
    }

    /// How many tokens there are; also the length of a logits row.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there are no tokens. Never true: [`Vocabulary::new`] refuses that.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// The bytes that `token` stands for; empty when it is outside the vocabulary.
    pub fn bytes(&self, token: TokenId) -> &[u8] {
        match (self.starts.get(token.index()), self.starts.get(token.index() + 1)) {
            (Some(&from), Some(&to)) => &self.bytes[from as usize..to as usize],
            _ => &[],
        }
    }

    /// What kind `token` is; [`TokenKind::Unused`] when it is outside the vocabulary.
    pub fn kind(&self, token: TokenId) -> TokenKind {
        self.kinds.get(token.index()).copied().unwrap_or(TokenKind::Unused)
    }

    /// The tokens that end a sequence, in increasing order.
    pub fn ends(&self) -> &[TokenId] {
        &self.ends
    }

    /// Whether `token` ends a sequence.
    pub fn is_end(&self, token: TokenId) -> bool {
        self.ends.contains(&token)
    }

    /// The trie over all text tokens.
    pub const fn trie(&self) -> &TokenTrie {
        &self.trie
    }

    /// The set of no tokens, of this vocabulary's size.
    pub fn empty_set(&self) -> TokenSet {
        TokenSet::empty(self.len())
    }

    /// Whether every byte that occurs in UTF-8 is a text token of its own, so that any text can be spelt.
    pub fn spells_utf8(&self) -> bool {
        self.spells_utf8
    }

    /// What `derive` makes of this vocabulary, made once for every type: tables that other crates need as long as the
    /// vocabulary lives. Clones share it.
    ///
    /// ```
    /// use formwork_vocab::{Token, TokenKind, Vocabulary};
    /// struct Longest(usize);
    /// let token = |s: &str| Token { bytes: s.into(), kind: TokenKind::Text };
    /// let vocabulary = Vocabulary::new(vec![token("a"), token("bcd")], vec![])?;
    /// let measure = |v: &Vocabulary| Longest(v.ids().map(|id| v.bytes(id).len()).max().unwrap_or(0));
    /// assert_eq!(vocabulary.derived(measure).0, 3);
    /// # Ok::<(), formwork_vocab::VocabError>(())
    /// ```
    pub fn derived<T: Send + Sync + 'static>(&self, derive: impl FnOnce(&Self) -> T) -> Arc<T> {
        self.derived.get(|| derive(self))
    }

    /// All ids in order.
    pub fn ids(&self) -> impl Iterator<Item = TokenId> + use<> {
        (0..self.len() as u32).map(TokenId)
    }
}
