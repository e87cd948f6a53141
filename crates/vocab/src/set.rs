use std::fmt;

use crate::TokenId;

/// A set of tokens of one vocabulary, stored as one bit per token.
///
/// ```
/// use formwork_vocab::{TokenId, TokenSet};
/// let mut set = TokenSet::empty(100);
/// set.insert(TokenId(3));
/// set.insert(TokenId(64));
/// assert!(set.contains(TokenId(64)) && !set.contains(TokenId(65)));
/// assert_eq!(set.iter().map(|t| t.0).collect::<Vec<_>>(), [3, 64]);
/// ```
#[derive(PartialEq, Eq, Hash)]
pub struct TokenSet {
    /// Bit `t % 64` of word `t / 64` stands for token `t`. Bits past `len` are zero.
    words: Box<[u64]>,
    len: usize,
}

impl TokenSet {
    /// Creates an empty set over a vocabulary of `len` tokens.
    pub fn empty(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)].into_boxed_slice(), len }
    }

    /// Creates the set of all `len` tokens of a vocabulary.
    pub fn full(len: usize) -> Self {
        let mut set = Self { words: vec![u64::MAX; len.div_ceil(64)].into_boxed_slice(), len };
        if let (Some(last), rest @ 1..) = (set.words.last_mut(), len % 64) {
            *last = (1 << rest) - 1;
        }
        set
    }

    /// Returns the number of tokens in the vocabulary. For the number of tokens in the set, see
    /// [`TokenSet::count`].
    pub const fn universe(&self) -> usize {
        self.len
    }

    /// Removes all tokens.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Adds `token`, which must be less than [`TokenSet::universe`].
    ///
    /// # Panics
    /// Panics if the index of `token` is not less than the vocabulary size, rounded up to a
    /// multiple of 64.
    pub fn insert(&mut self, token: TokenId) {
        self.words[token.index() / 64] |= 1 << (token.index() % 64);
    }

    /// Removes `token` if the set contains it.
    pub fn remove(&mut self, token: TokenId) {
        if let Some(word) = self.words.get_mut(token.index() / 64) {
            *word &= !(1 << (token.index() % 64));
        }
    }

    /// Adds all tokens of `other`, which must be a set over the same vocabulary.
    pub fn extend(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Reports whether the set contains `token`.
    pub fn contains(&self, token: TokenId) -> bool {
        self.words.get(token.index() / 64).is_some_and(|word| word >> (token.index() % 64) & 1 == 1)
    }

    /// Returns the number of tokens in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Reports whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Returns the only token of the set, or `None` if the set has no or several tokens.
    pub fn single(&self) -> Option<TokenId> {
        let mut members = self.iter();
        let first = members.next()?;
        members.next().is_none().then_some(first)
    }

    /// Returns an iterator over the tokens of the set, in increasing order.
    pub fn iter(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            std::iter::successors((word != 0).then_some(word), |rest| {
                let rest = rest & (rest - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |rest| TokenId((index * 64) as u32 + rest.trailing_zeros()))
        })
    }

    /// Returns the bits as words of 64 tokens: token `t` is bit `t % 64` of word `t / 64`. Bit 0 is
    /// the lowest bit.
    pub const fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the size of the bits in bytes, for memory accounting.
    pub const fn byte_len(&self) -> usize {
        self.words.len() * 8
    }
}

impl Clone for TokenSet {
    fn clone(&self) -> Self {
        Self { words: self.words.clone(), len: self.len }
    }

    /// Copies `source` into `self`. Reuses the memory of `self` if both vocabularies have the same
    /// size.
    fn clone_from(&mut self, source: &Self) {
        self.words.clone_from(&source.words);
        self.len = source.len;
    }
}

impl fmt::Debug for TokenSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenSet({} of {})", self.count(), self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_has_no_bit_past_the_end() {
        for len in [1, 63, 64, 65, 128, 130] {
            let set = TokenSet::full(len);
            assert_eq!(set.count(), len);
            assert_eq!(set.iter().count(), len);
            assert!(!set.contains(TokenId(len as u32)));
        }
    }

    #[test]
    fn single_is_none_unless_there_is_exactly_one() {
        let mut set = TokenSet::empty(70);
        assert_eq!(set.single(), None);
        set.insert(TokenId(69));
        assert_eq!(set.single(), Some(TokenId(69)));
        set.insert(TokenId(0));
        assert_eq!(set.single(), None);
        set.remove(TokenId(69));
        assert_eq!(set.single(), Some(TokenId(0)));
    }
}
