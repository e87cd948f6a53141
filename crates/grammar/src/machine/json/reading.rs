//! Reads the text of a value, or its beginning, into leaves.

use super::spelling::{Decode, Decoded};
use super::values::{HERE, Leaf, PathId, Step, Values};
use crate::frontend::json_schema::Profile;

/// What has been read of a value.
pub(super) struct Reading {
    pub(super) leaves: Vec<(PathId, Leaf)>,
    pub(super) open: Open,
}

/// What the text ends in.
pub(super) enum Open {
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

impl Reading {
    /// Reads a text without white space between its tokens, well-formed as far as it goes.
    pub(super) fn of(text: &[u8], values: &mut Values) -> Self {
        let mut reader = Reader { values, at: HERE, open: Vec::new(), name: false, leaves: Vec::new() };
        let mut rest = text;
        let open = loop {
            match reader.token(rest) {
                Ok([]) => break Open::Between,
                Ok(after) => rest = after,
                Err(open) => break open,
            }
        };
        Self { leaves: reader.leaves, open }
    }
}

/// An array or object being read.
struct Container {
    path: PathId,
    object: bool,
    /// Items or members before the one being read.
    before: u32,
}

struct Reader<'a> {
    values: &'a mut Values,
    /// Where the next value is.
    at: PathId,
    open: Vec<Container>,
    /// Whether the next string is a name.
    name: bool,
    leaves: Vec<(PathId, Leaf)>,
}

impl Reader<'_> {
    /// Reads a token and gives what is left, or what the text ends in. The text is well-formed as far as it goes.
    fn token<'t>(&mut self, text: &'t [u8]) -> Result<&'t [u8], Open> {
        let Some((&byte, rest)) = text.split_first() else { return Ok(text) };
        let start = self.at;
        match byte {
            b'{' | b'[' => {
                let object = byte == b'{';
                let closed = rest.first().is_some_and(|&next| next == b'}' || next == b']');
                if closed {
                    self.leaves.push((start, if object { Leaf::EmptyObject } else { Leaf::EmptyArray }));
                }
                self.open.push(Container { path: start, object, before: 0 });
                self.name = object;
                if !object && !closed {
                    self.at = self.values.path(start, Step::Item(0));
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
                        self.at = self.values.path(container.path, Step::Item(container.before));
                    }
                }
                Ok(rest)
            }
            b'"' => self.string(rest),
            b'-' | b'0'..=b'9' => {
                let len = text.iter().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
                let digits: String = text[..len].iter().map(|&byte| char::from(byte)).collect();
                if len == text.len() {
                    return Err(Open::Number(start, digits));
                }
                let number = self.values.number(&digits).ok_or(Open::Unreadable)?;
                self.leaves.push((start, Leaf::Number(number)));
                Ok(&text[len..])
            }
            b'n' | b'f' | b't' => {
                let (literal, leaf) = match byte {
                    b'n' => (4, Leaf::Null),
                    b'f' => (5, Leaf::Bool(false)),
                    _ => (4, Leaf::Bool(true)),
                };
                let after = text.get(literal..).ok_or(Open::Literal(start))?;
                self.leaves.push((start, leaf));
                Ok(after)
            }
            _ => Ok(rest),
        }
    }

    fn string<'t>(&mut self, text: &'t [u8]) -> Result<&'t [u8], Open> {
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
                    let word = self.values.word(&word);
                    if self.name {
                        self.at = self.values.path(owner, Step::Member(word));
                        self.name = false;
                    } else {
                        self.leaves.push((self.at, Leaf::Text(word)));
                    }
                    return Ok(&text[at + 1..]);
                }
            }
        }
        Err(if self.name { Open::Name(owner, word) } else { Open::Text(self.at, word) })
    }
}
