//! The index as a representation of JSON that the `jsonschema` crate validates.

use std::borrow::Cow;

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object};
use serde_json::{Number, Value};

use super::{Cell, Kind, build, number_of, string};

/// The representation.
pub(in super::super) struct OnTape;

/// A value of a tape, or a name by itself.
#[derive(Clone, Copy)]
pub(in super::super) enum NodeRef<'a> {
    At { text: &'a str, cells: &'a [Cell], index: usize },
    Name(&'a str),
}

impl<'a> NodeRef<'a> {
    pub(super) fn root(text: &'a str, cells: &'a [Cell]) -> Self {
        Self::At { text, cells, index: 0 }
    }

    #[inline]
    fn kind(&self) -> Kind {
        match self {
            Self::At { cells, index, .. } => cells[*index].kind,
            Self::Name(_) => Kind::String,
        }
    }

    #[inline]
    fn items(&self) -> Items<'a> {
        match *self {
            Self::At { text, cells, index } => {
                let cell = cells[index];
                Items { text, cells, at: index + 1, end: cell.next as usize, count: cell.end as usize }
            }
            Self::Name(_) => Items { text: "", cells: &[], at: 0, end: 0, count: 0 },
        }
    }
}

impl Json for OnTape {
    type Node<'a> = NodeRef<'a>;
    type PreparedKey = String;
    type StringBuffer = ();

    // A look-up goes through the members, so that one pass through them is better than any two.
    const KEYS_PER_LOOKUP: usize = 1 << 16;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>((): &mut (), string: &str, f: impl FnOnce(NodeRef<'_>) -> T) -> T {
        f(NodeRef::Name(string))
    }
}

impl<'a> Node<'a, OnTape> for NodeRef<'a> {
    type Object = Items<'a>;
    type Array = Items<'a>;
    type Number = Number;

    #[inline]
    fn as_object(&self) -> Option<Items<'a>> {
        (self.kind() == Kind::Object).then(|| self.items())
    }

    #[inline]
    fn as_array(&self) -> Option<Items<'a>> {
        (self.kind() == Kind::Array).then(|| self.items())
    }

    #[inline]
    fn as_string(&self) -> Option<Cow<'a, str>> {
        match *self {
            Self::At { text, cells, index } => string(text, &cells[index]),
            Self::Name(name) => Some(Cow::Borrowed(name)),
        }
    }

    fn as_number(&self) -> Option<Number> {
        match *self {
            Self::At { text, cells, index } => number_of(text, &cells[index]),
            Self::Name(_) => None,
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        match self.kind() {
            Kind::True => Some(true),
            Kind::False => Some(false),
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    fn is_number(&self) -> bool {
        matches!(self.kind(), Kind::Integer | Kind::Float)
    }

    #[inline]
    fn is_string(&self) -> bool {
        matches!(self.kind(), Kind::String | Kind::Escaped)
    }

    #[inline]
    fn json_type(&self) -> JsonType {
        match self.kind() {
            Kind::Null => JsonType::Null,
            Kind::True | Kind::False => JsonType::Boolean,
            Kind::Integer | Kind::Float => JsonType::Number,
            Kind::String | Kind::Escaped => JsonType::String,
            Kind::Array => JsonType::Array,
            Kind::Object => JsonType::Object,
        }
    }

    /// All bytes but those that go on with a character; many at a time, where characters are decoded one by one.
    fn string_length(&self) -> Option<u64> {
        let string = self.as_string()?;
        let starts = string.as_bytes().iter().filter(|&&byte| byte & 0xC0 != 0x80);
        Some(starts.count() as u64)
    }

    #[inline]
    fn equals_value(&self, expected: &Value) -> bool {
        match (expected, self.as_string()) {
            (Value::String(expected), Some(string)) => *expected == string,
            (Value::String(_), None) | (_, Some(_)) => false,
            (expected, None) => jsonschema::json::cmp::equal(&self.to_value(), expected),
        }
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Owned(match *self {
            Self::At { text, cells, index } => build(text, cells, index),
            Self::Name(name) => name.into(),
        })
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(match *self {
            Self::At { cells, index, .. } => NodeIdentity::new(std::ptr::from_ref(&cells[index]) as usize),
            Self::Name(name) => NodeIdentity::new(name.as_ptr() as usize),
        })
    }
}

/// The members of an object, or the elements of an array.
#[derive(Clone, Copy)]
pub(in super::super) struct Items<'a> {
    text: &'a str,
    cells: &'a [Cell],
    at: usize,
    end: usize,
    count: usize,
}

impl<'a> Items<'a> {
    #[inline]
    fn next_node(&mut self) -> Option<NodeRef<'a>> {
        if self.at >= self.end {
            return None;
        }
        let node = NodeRef::At { text: self.text, cells: self.cells, index: self.at };
        self.at = self.cells[self.at].next as usize;
        Some(node)
    }
}

impl<'a> Object<'a, OnTape> for Items<'a> {
    type Node = NodeRef<'a>;
    type MemberName = Cow<'a, str>;
    type MembersIter = Members<'a>;

    fn len(&self) -> usize {
        self.count
    }

    fn get(&self, key: &String) -> Option<NodeRef<'a>> {
        self.members().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    fn members(&self) -> Members<'a> {
        Members(*self)
    }
}

impl<'a> Array<'a, OnTape> for Items<'a> {
    type Node = NodeRef<'a>;
    type ElementsIter = Elements<'a>;

    fn len(&self) -> usize {
        self.count
    }

    fn elements(&self) -> Elements<'a> {
        Elements(*self)
    }
}

/// The members, in their order.
pub(in super::super) struct Members<'a>(Items<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, NodeRef<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let name = self.0.next_node()?.as_string()?;
        Some((name, self.0.next_node()?))
    }
}

/// The elements, in their order.
pub(in super::super) struct Elements<'a>(Items<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = NodeRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_node()
    }
}
