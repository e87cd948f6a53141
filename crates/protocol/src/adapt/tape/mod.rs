//! JSON text as an index of its parts, which is read and validated without building values.
//!
//! A [`Tape`] has one small node for each value and name, in the order of the text: strings and numbers stay where they are written.
//! 100 KB of records are indexed in about a tenth of a millisecond (`cargo bench -p formwork-benches --bench adapt`), a fifth of what
//! their [`Value`] takes, and the `jsonschema` crate validates the index as it does values ([`node`]).
//!
//! It is JSON and nothing else, with two things that JSON leaves open decided: a name that comes twice in an object is refused, since
//! nobody can tell which is meant, and so is a number that neither 64 bits nor a double hold.

mod node;
mod parse;
mod text;

use std::borrow::Cow;

use jsonschema::Validator;
use serde_json::{Map, Number, Value};

pub(super) use node::OnTape;
use node::View;
pub(super) use parse::plain_until;
pub(crate) use parse::pointer_token;
pub(super) use parse::{DEEPEST, Fault, Place, SyntaxError};
pub(crate) use text::in_one_line;
pub(super) use text::{escape, number, number_length, quoted, unescape};

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    True,
    False,
    Integer,
    Float,
    String,
    /// With escapes.
    Escaped,
    Array,
    Object,
}

/// A value, or the name of a member.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    kind: Kind,
    /// Where it begins in the text; a string after its quote.
    start: u32,
    /// Where it ends there, a string before its quote; of an array or an object, how many items it has.
    end: u32,
    /// The node after it and all within it.
    next: u32,
}

/// The index of a text.
#[derive(Clone, Debug)]
pub(super) struct Tape<'t> {
    text: &'t str,
    cells: Vec<Cell>,
}

/// A text with its index.
#[derive(Clone, Debug)]
pub(super) struct Document {
    text: String,
    cells: Vec<Cell>,
}

impl Document {
    /// Its value.
    pub(super) fn value(&self) -> Value {
        build(&self.text, &self.cells, 0)
    }

    pub(super) fn is_valid(&self, validator: &Validator<OnTape>) -> bool {
        View { text: &self.text, cells: &self.cells }.is_valid(validator)
    }

    /// As what it was parsed.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

impl<'t> Tape<'t> {
    /// The index of `text`, which is one JSON value with blanks around it.
    pub(super) fn parse(text: &'t str, max_depth: usize) -> Result<Self, SyntaxError> {
        parse::parse(text, max_depth).map(|cells| Self { text, cells })
    }

    /// Its value.
    pub(super) fn value(&self) -> Value {
        build(self.text, &self.cells, 0)
    }

    /// The string that it is, if it is one.
    pub(super) fn as_str(&self) -> Option<Cow<'t, str>> {
        string(self.text, self.cells.first()?)
    }

    pub(super) fn is_valid(&self, validator: &Validator<OnTape>) -> bool {
        View { text: self.text, cells: &self.cells }.is_valid(validator)
    }

    /// With a text of its own.
    pub(super) fn into_document(self) -> Document {
        Document { text: self.text.to_owned(), cells: self.cells }
    }
}

#[inline]
fn string<'t>(text: &'t str, cell: &Cell) -> Option<Cow<'t, str>> {
    let inner = || &text[cell.start as usize..cell.end as usize];
    match cell.kind {
        Kind::String => Some(Cow::Borrowed(inner())),
        // Escapes were checked when it was indexed.
        Kind::Escaped => Some(unescape(inner()).map_or(Cow::Borrowed(inner()), Cow::Owned)),
        _ => None,
    }
}

/// Whether a cell is that string.
#[inline]
fn is_string(text: &str, cell: &Cell, expected: &str) -> bool {
    match cell.kind {
        Kind::String => {
            let length = (cell.end - cell.start) as usize;
            length == expected.len()
                && text.as_bytes()[cell.start as usize..cell.end as usize] == *expected.as_bytes()
        }
        Kind::Escaped => string(text, cell).is_some_and(|string| string == expected),
        _ => false,
    }
}

fn number_of(text: &str, cell: &Cell) -> Option<Number> {
    matches!(cell.kind, Kind::Integer | Kind::Float)
        .then(|| number(&text[cell.start as usize..cell.end as usize]))?
}

/// The value of a node. It is as deep as the text may be.
fn build(text: &str, cells: &[Cell], index: usize) -> Value {
    let cell = &cells[index];
    match cell.kind {
        Kind::Null => Value::Null,
        Kind::True => Value::Bool(true),
        Kind::False => Value::Bool(false),
        Kind::Integer | Kind::Float => number_of(text, cell).map_or(Value::Null, Value::Number),
        Kind::String | Kind::Escaped => {
            Value::String(string(text, cell).map(Cow::into_owned).unwrap_or_default())
        }
        Kind::Array => {
            let mut items = Vec::with_capacity(cell.end as usize);
            let mut at = index + 1;
            while at < cell.next as usize {
                items.push(build(text, cells, at));
                at = cells[at].next as usize;
            }
            Value::Array(items)
        }
        Kind::Object => {
            let mut members = Map::with_capacity(cell.end as usize);
            let mut at = index + 1;
            while at < cell.next as usize {
                let name = string(text, &cells[at]).map(Cow::into_owned).unwrap_or_default();
                members.insert(name, build(text, cells, at + 1));
                at = cells[at + 1].next as usize;
            }
            Value::Object(members)
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
