use std::fmt;

/// Index of a token in its vocabulary.
///
/// ```
/// use formwork_vocab::TokenId;
/// assert_eq!(TokenId(42).index(), 42);
/// assert_eq!(TokenId(42).to_string(), "42");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TokenId(pub u32);

impl TokenId {
    /// Returns the id as an index, for example into a row of logits.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Role of a token. The role decides whether a grammar sees the token's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TokenKind {
    /// Ordinary text. A grammar sees the token's bytes.
    Text,
    /// A single raw byte, spelt `<0xNN>` in the file, for text that no other token covers. A
    /// grammar sees this byte.
    Byte,
    /// A marker such as end-of-sequence. Its spelling is never text, so a grammar can refer to the
    /// token by id only.
    Control,
    /// An entry without a meaning, for example padding. Such a token is never generated.
    Unused,
}

impl TokenKind {
    /// Reports whether the token's bytes are part of the text that a grammar sees.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Byte)
    }
}
