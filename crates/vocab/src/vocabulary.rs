use std::sync::Arc;

use crate::derived::Derived;
use crate::error::Kind;
use crate::{TokenId, TokenKind, TokenSet, TokenTrie, VocabError};

/// Maximum number of tokens in a vocabulary.
const MAX_TOKENS: usize = 1 << 24;

/// A token's bytes and kind, as input for a [`Vocabulary`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// Bytes that the token adds to the output. These are not the bytes of its spelling in the
    /// file.
    pub bytes: Vec<u8>,
    /// Role of the token.
    pub kind: TokenKind,
}

/// All tokens of a model with their bytes, and a trie over the text tokens.
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
    /// Token `t` has the bytes `bytes[starts[t]..starts[t + 1]]`.
    starts: Vec<u32>,
    kinds: Vec<TokenKind>,
    ends: Vec<TokenId>,
    trie: TokenTrie,
    spells_utf8: bool,
    derived: Derived,
}

impl Vocabulary {
    /// Builds a vocabulary. The index of a token in `tokens` is its id. `ends` are the tokens that
    /// end a sequence, and become control tokens.
    ///
    /// # Errors
    /// Returns an error if there are no tokens or more than 2^24, or if an end token is outside the
    /// vocabulary.
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

    /// Returns a copy of the vocabulary in which the tokens `ends` end a sequence too.
    ///
    /// # Errors
    /// Returns an error if one of `ends` is outside the vocabulary.
    pub fn with_ends(&self, ends: &[TokenId]) -> Result<Self, VocabError> {
        let tokens = self.ids().map(|id| Token { bytes: self.bytes(id).to_vec(), kind: self.kind(id) });
        Self::new(tokens.collect(), [self.ends(), ends].concat())
    }

    /// Returns the number of tokens in the vocabulary.
    pub fn len(&self) -> usize {
        self.kinds.len()
    }

    /// Reports whether the vocabulary has no tokens. Always false, because [`Vocabulary::new`]
    /// rejects an empty list.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Returns the bytes of `token`, or an empty slice if `token` is outside the vocabulary.
    pub fn bytes(&self, token: TokenId) -> &[u8] {
        match (self.starts.get(token.index()), self.starts.get(token.index() + 1)) {
            (Some(&from), Some(&to)) => &self.bytes[from as usize..to as usize],
            _ => &[],
        }
    }

    /// Returns the kind of `token`, or [`TokenKind::Unused`] if `token` is outside the vocabulary.
    pub fn kind(&self, token: TokenId) -> TokenKind {
        self.kinds.get(token.index()).copied().unwrap_or(TokenKind::Unused)
    }

    /// Returns the tokens that end a sequence, in increasing order.
    pub fn ends(&self) -> &[TokenId] {
        &self.ends
    }

    /// Reports whether `token` ends a sequence.
    pub fn is_end(&self, token: TokenId) -> bool {
        self.ends.contains(&token)
    }

    /// Returns the trie over all tokens whose bytes a grammar sees. Their kind is text or byte.
    pub const fn trie(&self) -> &TokenTrie {
        &self.trie
    }

    /// Creates an empty token set for this vocabulary.
    pub fn empty_set(&self) -> TokenSet {
        TokenSet::empty(self.len())
    }

    /// Reports whether the tokens can spell any UTF-8 text. This requires a text or byte token for
    /// each byte that occurs in UTF-8.
    pub fn spells_utf8(&self) -> bool {
        self.spells_utf8
    }

    /// Returns the value that `derive` computes from the vocabulary. The first call for a type `T`
    /// computes the value, and later calls return the cached value.
    ///
    /// Other crates use this for tables that live as long as the vocabulary. Clones of the
    /// vocabulary share the values.
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

    /// Returns an iterator over all ids, in increasing order.
    pub fn ids(&self) -> impl Iterator<Item = TokenId> + use<> {
        (0..self.len() as u32).map(TokenId)
    }
}
