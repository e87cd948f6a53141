//! Reads the text of a value, or the beginning of such a text, into leaves.

use super::spelling::{Decode, Decoded};
use super::values::{HERE, Leaf, Leaves, PathId, Step, Values};
use crate::options::Profile;

/// The incomplete token at the end of a text, and the path that it belongs to.
#[derive(Clone, Debug)]
pub(crate) enum OpenToken {
    /// There is no incomplete token, or only an opening bracket.
    Between,
    /// The beginning of a member name: the path of the object, and the characters read.
    Name(PathId, String),
    /// The beginning of a string: its path, and the characters read.
    Text(PathId, String),
    /// A number that may go on: its path, and the text read.
    Number(PathId, String),
    /// The beginning of `null`, `false` or `true` at this path.
    Literal(PathId),
    /// A number that cannot be compared, because its exponent is too long.
    Unreadable,
}

/// An array or object that is being read.
#[derive(Clone, Debug)]
struct Container {
    path: PathId,
    /// True for an object, false for an array.
    object: bool,
    /// Number of items or members before the current one.
    before: u32,
}

/// Reads the text of one value. The text must be well-formed and have no white space between its
/// tokens.
///
/// Between two calls, the reader stands between two tokens.
#[derive(Clone, Debug)]
pub(crate) struct ValueReader {
    /// Path of the next value.
    at: PathId,
    /// The arrays and objects around the next token, the outermost first.
    open: Vec<Container>,
    /// True if the next string is a member name.
    name: bool,
}

impl ValueReader {
    /// Creates a reader at the start of a value.
    pub(crate) const fn new() -> Self {
        Self { at: HERE, open: Vec::new(), name: false }
    }

    /// Reads all complete tokens of `text` and appends the leaves found to `leaves`. Returns the
    /// length of these tokens in bytes, and the incomplete token after them.
    pub(crate) fn read(
        &mut self,
        text: &[u8],
        values: &mut Values,
        leaves: &mut Leaves,
    ) -> (usize, OpenToken) {
        let mut rest = text;
        loop {
            match self.token(rest, values, leaves) {
                Ok([]) => return (text.len(), OpenToken::Between),
                Ok(after) => rest = after,
                Err(open) => return (text.len() - rest.len(), open),
            }
        }
    }

    /// Reads one token. Returns the text after the token. If the token is incomplete, returns it as
    /// an error.
    fn token<'t>(
        &mut self,
        text: &'t [u8],
        values: &mut Values,
        leaves: &mut Leaves,
    ) -> Result<&'t [u8], OpenToken> {
        let Some((&byte, rest)) = text.split_first() else { return Ok(text) };
        let start = self.at;
        match byte {
            b'{' | b'[' => {
                // An empty container is a leaf, so the next byte must be known.
                if rest.is_empty() {
                    return Err(OpenToken::Between);
                }
                let object = byte == b'{';
                let closed = rest.first().is_some_and(|&next| next == b'}' || next == b']');
                if closed {
                    leaves.push((start, if object { Leaf::EmptyObject } else { Leaf::EmptyArray }));
                }
                self.open.push(Container { path: start, object, before: 0 });
                self.name = object;
                if !object && !closed {
                    self.at = values.path(start, Step::Item(0));
                }
                Ok(rest)
            }
            b'}' | b']' => {
                self.open.pop();
                self.name = false;
                Ok(rest)
            }
            b',' => {
                if let Some(container) = self.open.last_mut() {
                    container.before += 1;
                    self.name = container.object;
                    if !container.object {
                        self.at = values.path(container.path, Step::Item(container.before));
                    }
                }
                Ok(rest)
            }
            b'"' => self.string(rest, values, leaves),
            b'-' | b'0'..=b'9' => {
                let len = text.iter().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
                let digits: String = text[..len].iter().map(|&byte| char::from(byte)).collect();
                if len == text.len() {
                    return Err(OpenToken::Number(start, digits));
                }
                let number = values.number(&digits).ok_or(OpenToken::Unreadable)?;
                leaves.push((start, Leaf::Number(number)));
                Ok(&text[len..])
            }
            b'n' | b'f' | b't' => {
                let (literal, leaf) = match byte {
                    b'n' => (4, Leaf::Null),
                    b'f' => (5, Leaf::Bool(false)),
                    _ => (4, Leaf::Bool(true)),
                };
                let after = text.get(literal..).ok_or(OpenToken::Literal(start))?;
                leaves.push((start, leaf));
                Ok(after)
            }
            _ => Ok(rest),
        }
    }

    fn string<'t>(
        &mut self,
        text: &'t [u8],
        values: &mut Values,
        leaves: &mut Leaves,
    ) -> Result<&'t [u8], OpenToken> {
        let owner = self.open.last().map_or(HERE, |container| container.path);
        let mut word = String::new();
        let mut decode = Decode::Whole;
        for (at, &byte) in text.iter().enumerate() {
            match decode.step(byte, Profile::Accept) {
                Decoded::Char(c) => {
                    word.push(c);
                    decode = Decode::Whole;
                }
                Decoded::Partial(next) => decode = next,
                Decoded::Quote | Decoded::Reject => {
                    let word = values.word(&word);
                    if self.name {
                        self.at = values.path(owner, Step::Member(word));
                        self.name = false;
                    } else {
                        leaves.push((self.at, Leaf::Text(word)));
                    }
                    return Ok(&text[at + 1..]);
                }
            }
        }
        Err(if self.name { OpenToken::Name(owner, word) } else { OpenToken::Text(self.at, word) })
    }
}
