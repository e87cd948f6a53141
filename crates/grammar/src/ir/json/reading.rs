//! Reads the text of a value, or its beginning, into leaves.

use super::spelling::{Decode, Decoded};
use super::values::{HERE, Leaf, Leaves, PathId, Step, Values};
use crate::options::Profile;

/// What a text ends in.
#[derive(Clone, Debug)]
pub(crate) enum OpenToken {
    /// Anything but what follows.
    Between,
    Name(PathId, String),
    Text(PathId, String),
    Number(PathId, String),
    /// `null`, `false` or `true`, not complete.
    Literal(PathId),
    /// A number that cannot be compared.
    Unreadable,
}

/// An array or object being read.
#[derive(Clone, Debug)]
struct Container {
    path: PathId,
    object: bool,
    /// Items or members before the one being read.
    before: u32,
}

/// Between two tokens of a text without white space between them, well-formed as far as it goes.
#[derive(Clone, Debug)]
pub(crate) struct ValueReader {
    /// Where the next value is.
    at: PathId,
    open: Vec<Container>,
    /// Whether the next string is a name.
    name: bool,
}

impl ValueReader {
    /// At the start of a value.
    pub(crate) const fn new() -> Self {
        Self { at: HERE, open: Vec::new(), name: false }
    }

    /// Reads the tokens that are complete; gives how many bytes that were, and what the rest is the beginning of.
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

    /// Reads a token and gives what is left, or what the text ends in.
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
                // Whether it is empty has to be seen first.
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
