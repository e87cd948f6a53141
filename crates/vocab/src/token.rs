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
    /// Returns the id as an index into a row of logits.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Role of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TokenKind {
    /// Bytes of ordinary text, which a grammar may emit.
    Text,
    /// A single raw byte (`<0xNN>`), for text that no other token covers. A grammar may emit the
    /// byte.
    Byte,
    /// A marker such as end-of-sequence. A marker is never text, so a grammar refers to it by id
    /// only.
    Control,
    /// An entry that pads the table and is never emitted.
    Unused,
}

impl TokenKind {
    /// Reports whether the token's bytes are part of the text that a grammar sees.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Byte)
    }
}
