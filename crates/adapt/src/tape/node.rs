//! Adapter that lets the `jsonschema` crate validate the index.

use std::borrow::Cow;

use jsonschema::json::{Array, Json, Node, NodeIdentity, Object};
use jsonschema::{JsonType, Validator};
use serde_json::{Number, Value};

use super::{Cell, CellKind, build, is_string, number_of, string};

/// The index as a JSON representation of the `jsonschema` crate.
pub(crate) struct OnTape;

/// A text with its cells.
pub(crate) struct View<'a> {
    pub(super) text: &'a str,
    pub(super) cells: &'a [Cell],
}

impl View<'_> {
    pub(super) fn is_valid(&self, validator: &Validator<OnTape>) -> bool {
        validator.is_valid(NodeRef::At(self, 0))
    }
}

/// A value of the index, or a string on its own.
#[derive(Clone, Copy)]
pub(crate) enum NodeRef<'a> {
    At(&'a View<'a>, u32),
    Name(&'a str),
}

impl<'a> NodeRef<'a> {
    #[inline]
    fn kind(self) -> CellKind {
        match self {
            Self::At(view, index) => view.cells[index as usize].kind,
            Self::Name(_) => CellKind::String,
        }
    }

    #[inline]
    fn items(self, kind: CellKind) -> Option<Items<'a>> {
        let Self::At(view, index) = self else { return None };
        let cell = view.cells.get(index as usize).filter(|cell| cell.kind == kind)?;
        Some(Items { view, at: index + 1, end: cell.next, count: cell.end })
    }
}

impl Json for OnTape {
    type Node<'a> = NodeRef<'a>;
    type PreparedKey = String;
    type StringBuffer = ();

    // A lookup scans the members, so one pass over all members is cheaper than any two lookups.
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
        self.items(CellKind::Object)
    }

    #[inline]
    fn as_array(&self) -> Option<Items<'a>> {
        self.items(CellKind::Array)
    }

    #[inline]
    fn as_string(&self) -> Option<Cow<'a, str>> {
        match *self {
            Self::At(view, index) => string(view.text, &view.cells[index as usize]),
            Self::Name(name) => Some(Cow::Borrowed(name)),
        }
    }

    fn as_number(&self) -> Option<Number> {
        match *self {
            Self::At(view, index) => number_of(view.text, &view.cells[index as usize]),
            Self::Name(_) => None,
        }
    }

    fn as_boolean(&self) -> Option<bool> {
        match self.kind() {
            CellKind::True => Some(true),
            CellKind::False => Some(false),
            _ => None,
        }
    }

    fn is_null(&self) -> bool {
        self.kind() == CellKind::Null
    }

    fn is_number(&self) -> bool {
        matches!(self.kind(), CellKind::Integer | CellKind::Float)
    }

    #[inline]
    fn is_string(&self) -> bool {
        matches!(self.kind(), CellKind::String | CellKind::Escaped)
    }

    #[inline]
    fn json_type(&self) -> JsonType {
        match self.kind() {
            CellKind::Null => JsonType::Null,
            CellKind::True | CellKind::False => JsonType::Boolean,
            CellKind::Integer | CellKind::Float => JsonType::Number,
            CellKind::String | CellKind::Escaped => JsonType::String,
            CellKind::Array => JsonType::Array,
            CellKind::Object => JsonType::Object,
        }
    }

    /// Counts all bytes except UTF-8 continuation bytes. This handles many bytes at a time, unlike
    /// decoding characters.
    fn string_length(&self) -> Option<u64> {
        let string = self.as_string()?;
        let starts = string.as_bytes().iter().filter(|&&byte| byte & 0xC0 != 0x80);
        Some(starts.count() as u64)
    }

    #[inline]
    fn equals_value(&self, expected: &Value) -> bool {
        match (expected, *self) {
            (Value::String(expected), Self::At(view, index)) => {
                is_string(view.text, &view.cells[index as usize], expected)
            }
            (Value::String(expected), Self::Name(name)) => expected == name,
            (_, _) if self.is_string() => false,
            (expected, _) => jsonschema::json::cmp::equal(&self.to_value(), expected),
        }
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Owned(match *self {
            Self::At(view, index) => build(view.text, view.cells, index as usize),
            Self::Name(name) => name.into(),
        })
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(match *self {
            Self::At(view, index) => NodeIdentity::tagged(std::ptr::from_ref(view) as usize, index),
            Self::Name(name) => NodeIdentity::new(name.as_ptr() as usize),
        })
    }
}

/// Iterator over the members of an object or the elements of an array.
#[derive(Clone, Copy)]
pub(crate) struct Items<'a> {
    view: &'a View<'a>,
    at: u32,
    end: u32,
    count: u32,
}

impl<'a> Items<'a> {
    #[inline]
    fn next_cell(&mut self) -> Option<(u32, &'a Cell)> {
        if self.at >= self.end {
            return None;
        }
        let index = self.at;
        let cell = self.view.cells.get(index as usize)?;
        self.at = cell.next;
        Some((index, cell))
    }
}

impl<'a> Object<'a, OnTape> for Items<'a> {
    type Node = NodeRef<'a>;
    type MemberName = Cow<'a, str>;
    type MembersIter = Members<'a>;

    fn len(&self) -> usize {
        self.count as usize
    }

    #[inline]
    fn get(&self, key: &String) -> Option<NodeRef<'a>> {
        let mut items = *self;
        while let Some((_, name)) = items.next_cell() {
            let (value, _) = items.next_cell()?;
            if is_string(self.view.text, name, key) {
                return Some(NodeRef::At(self.view, value));
            }
        }
        None
    }

    #[inline]
    fn members(&self) -> Members<'a> {
        Members(*self)
    }
}

impl<'a> Array<'a, OnTape> for Items<'a> {
    type Node = NodeRef<'a>;
    type ElementsIter = Elements<'a>;

    fn len(&self) -> usize {
        self.count as usize
    }

    fn elements(&self) -> Elements<'a> {
        Elements(*self)
    }
}

/// Iterator over the members, in the order of the text.
pub(crate) struct Members<'a>(Items<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, NodeRef<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (_, name) = self.0.next_cell()?;
        let (value, _) = self.0.next_cell()?;
        Some((string(self.0.view.text, name)?, NodeRef::At(self.0.view, value)))
    }
}

/// Iterator over the elements, in the order of the text.
pub(crate) struct Elements<'a>(Items<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = NodeRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (index, _) = self.0.next_cell()?;
        Some(NodeRef::At(self.0.view, index))
    }
}
