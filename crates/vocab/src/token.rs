use std::fmt;

/// The index of a token in its vocabulary.
///
/// ```
/// use formwork_vocab::TokenId;
/// assert_eq!(TokenId(42).index(), 42);
/// assert_eq!(TokenId(42).to_string(), "42");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TokenId(pub u32);

impl TokenId {
    /// The id as an index into a logits row.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a token stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TokenKind {
    /// Bytes of ordinary text; a grammar may emit it.
    Text,
    /// One raw byte (`<0xNN>`), for text that no other token covers; a grammar may emit it.
    Byte,
    /// A marker with a meaning of its own, such as end-of-sequence. It is never text: a grammar reaches it only by id.
    Control,
    /// An entry that pads the table and is never emitted.
    Unused,
}

impl TokenKind {
    /// Whether the token's bytes are part of the text that a grammar sees.
    pub const fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Byte)
    }
}
