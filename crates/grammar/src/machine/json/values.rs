//! The values of items that must differ, and what is read of one.
//!
//! Two texts are the same value if they hold the same scalars at the same places, so that is what a value is here: the
//! set of its leaves, each with the path that leads to it. Members are told apart by name, whatever their order, and
//! numbers are compared digit by digit, as what they stand for: `1`, `1.0` and `10e-1` are one. Equal values have equal
//! ids, and so have equal sets of them. Nothing recurses.
//!
//! The same reading of a text that is not complete tells whether it may still become a value: all leaves that it has must
//! be the value's, and what has been read of the next one must begin it.

use rustc_hash::FxHashMap;

use super::spelling::{Decode, Decoded};
use crate::frontend::json_schema::Profile;

pub(super) type ValueId = u32;

/// An interned set of values; the empty one is 0.
pub(super) type SetId = u32;

/// The empty set.
pub(super) const NOTHING: SetId = 0;

type PathId = u32;
type WordId = u32;

/// The path to a value itself.
const HERE: PathId = 0;

/// The most digits of an exponent; a number with more is no item of an array whose items must differ.
const EXPONENT_DIGITS: usize = 17;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Leaf {
    Null,
    Bool(bool),
    Number(WordId),
    Text(WordId),
    EmptyArray,
    EmptyObject,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Step {
    Item(u32),
    Member(WordId),
}

/// Paths, values and sets of values, each once.
#[derive(Debug)]
pub(super) struct Values {
    /// Strings, and numbers in one spelling each.
    words: Vec<Box<str>>,
    word_ids: FxHashMap<Box<str>, WordId>,
    /// The path that each one goes on from, and its last step.
    paths: Vec<(PathId, Step)>,
    path_ids: FxHashMap<(PathId, Step), PathId>,
    /// Sorted leaves.
    values: Vec<Box<[(PathId, Leaf)]>>,
    value_ids: FxHashMap<Box<[(PathId, Leaf)]>, ValueId>,
    /// Sorted values.
    sets: Vec<Box<[ValueId]>>,
    set_ids: FxHashMap<Box<[ValueId]>, SetId>,
    byte_len: usize,
}

/// What has been read of a value.
pub(super) struct Reading {
    leaves: Vec<(PathId, Leaf)>,
    open: Open,
}

/// What the text ends in.
enum Open {
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

impl Default for Values {
    fn default() -> Self {
        Self {
            words: Vec::new(),
            word_ids: FxHashMap::default(),
            paths: vec![(HERE, Step::Item(u32::MAX))],
            path_ids: FxHashMap::default(),
            values: Vec::new(),
            value_ids: FxHashMap::default(),
            sets: vec![Box::default()],
            set_ids: FxHashMap::from_iter([(Box::default(), NOTHING)]),
            byte_len: 0,
        }
    }
}

impl Values {
    /// The value of a complete text without white space around its tokens.
    pub(super) fn value(&mut self, text: &[u8]) -> Option<ValueId> {
        let Reading { mut leaves, open } = self.read(text);
        match open {
            Open::Between => {}
            Open::Number(path, digits) => leaves.push((path, Leaf::Number(self.number(&digits)?))),
            _ => return None,
        }
        leaves.sort_unstable();
        leaves.dedup();
        if let Some(&known) = self.value_ids.get(leaves.as_slice()) {
            return Some(known);
        }
        let id = self.values.len() as ValueId;
        self.byte_len += 2 * size_of_val(leaves.as_slice()) + 64;
        self.values.push(leaves.clone().into());
        self.value_ids.insert(leaves.into(), id);
        Some(id)
    }

    pub(super) fn has(&self, set: SetId, value: ValueId) -> bool {
        self.sets[set as usize].binary_search(&value).is_ok()
    }

    /// The set with a value that it does not have; `None` where it has it.
    pub(super) fn with(&mut self, set: SetId, value: ValueId) -> Option<SetId> {
        let mut values = self.sets[set as usize].to_vec();
        let at = values.binary_search(&value).err()?;
        values.insert(at, value);
        if let Some(&known) = self.set_ids.get(values.as_slice()) {
            return Some(known);
        }
        let id = self.sets.len() as SetId;
        self.byte_len += 2 * size_of_val(values.as_slice()) + 64;
        self.sets.push(values.clone().into());
        self.set_ids.insert(values.into(), id);
        Some(id)
    }

    /// Whether a text may go on to one of the values of a set.
    pub(super) fn may_become(&mut self, set: SetId, text: &[u8]) -> bool {
        let reading = self.read(text);
        self.sets[set as usize].iter().any(|&value| self.may_be(value, &reading))
    }

    /// Where a text ends inside a string or a name: the characters by which it may go on to one of the values of a set,
    /// and whether the string may end for that.
    pub(super) fn next_chars(&mut self, set: SetId, text: &[u8]) -> (Vec<char>, bool) {
        let reading = self.read(text);
        let (mut chars, mut ends) = (Vec::new(), false);
        let mut add = |rest: &str| match rest.chars().next() {
            Some(c) => chars.push(c),
            None => ends = true,
        };
        for &value in self.sets[set as usize].iter().filter(|&&value| self.may_be(value, &reading)) {
            match &reading.open {
                Open::Text(path, start) => {
                    self.text_at(value, *path).and_then(|text| text.strip_prefix(&**start)).map(&mut add);
                }
                Open::Name(path, start) => {
                    self.names_at(value, *path)
                        .filter_map(|name| name.strip_prefix(&**start))
                        .for_each(&mut add);
                }
                _ => {}
            }
        }
        (chars, ends)
    }

    /// Whether what has been read may go on to a value; it may be said of one that it cannot become, never the reverse.
    fn may_be(&self, value: ValueId, reading: &Reading) -> bool {
        let leaves = &self.values[value as usize];
        if !reading.leaves.iter().all(|leaf| leaves.binary_search(leaf).is_ok()) {
            return false;
        }
        match &reading.open {
            Open::Between => true,
            Open::Name(path, start) => self.names_at(value, *path).any(|name| name.starts_with(&**start)),
            Open::Text(path, start) => {
                self.text_at(value, *path).is_some_and(|text| text.starts_with(&**start))
            }
            Open::Number(path, _) => matches!(self.leaf_at(value, *path), Some(Leaf::Number(_))),
            Open::Literal(path) => matches!(self.leaf_at(value, *path), Some(Leaf::Null | Leaf::Bool(_))),
            Open::Unreadable => false,
        }
    }

    fn leaf_at(&self, value: ValueId, path: PathId) -> Option<Leaf> {
        let leaves = &self.values[value as usize];
        let at = leaves.partition_point(|&(other, _)| other < path);
        leaves.get(at).filter(|(other, _)| *other == path).map(|&(_, leaf)| leaf)
    }

    fn text_at(&self, value: ValueId, path: PathId) -> Option<&str> {
        match self.leaf_at(value, path)? {
            Leaf::Text(word) => Some(&self.words[word as usize]),
            _ => None,
        }
    }

    /// The names of the members that a value has at a path, some of them maybe several times.
    fn names_at(&self, value: ValueId, path: PathId) -> impl Iterator<Item = &str> {
        self.values[value as usize].iter().filter_map(move |&(mut at, _)| {
            loop {
                match self.paths[at as usize] {
                    _ if at == HERE => return None,
                    (parent, Step::Member(name)) if parent == path => {
                        return Some(&*self.words[name as usize]);
                    }
                    (parent, _) => at = parent,
                }
            }
        })
    }

    fn word(&mut self, word: &str) -> WordId {
        if let Some(&known) = self.word_ids.get(word) {
            return known;
        }
        let id = self.words.len() as WordId;
        self.byte_len += 2 * word.len() + 64;
        self.words.push(word.into());
        self.word_ids.insert(word.into(), id);
        id
    }

    fn path(&mut self, parent: PathId, step: Step) -> PathId {
        if let Some(&known) = self.path_ids.get(&(parent, step)) {
            return known;
        }
        let id = self.paths.len() as PathId;
        self.byte_len += 64;
        self.paths.push((parent, step));
        self.path_ids.insert((parent, step), id);
        id
    }

    /// The one spelling of a number that stands for all: its digits without zeros at either end, and a power of ten.
    fn number(&mut self, text: &str) -> Option<WordId> {
        let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let digits = [integer, fraction].concat();
        let digits = digits.trim_start_matches('0');
        let significant = digits.trim_end_matches('0');
        if significant.is_empty() {
            return Some(self.word("0"));
        }
        if exponent.len() > EXPONENT_DIGITS {
            return None;
        }
        let exponent: i64 = exponent.parse().ok()?;
        let exponent = exponent - fraction.len() as i64 + (digits.len() - significant.len()) as i64;
        Some(self.word(&format!("{sign}{significant}e{exponent}")))
    }

    fn read(&mut self, text: &[u8]) -> Reading {
        let mut reader = Reader { values: self, at: HERE, open: Vec::new(), name: false, leaves: Vec::new() };
        let mut rest = text;
        let open = loop {
            match reader.token(rest) {
                Ok([]) => break Open::Between,
                Ok(after) => rest = after,
                Err(open) => break open,
            }
        };
        Reading { leaves: reader.leaves, open }
    }

    pub(super) const fn byte_len(&self) -> usize {
        self.byte_len
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_equal_ids() {
        let values = &mut Values::default();
        let classes: [&[&str]; 14] = [
            &["1", "1.0", "1e0", "10e-1", "0.1E+1", "1.000"],
            &["-1", "-1.0"],
            &["0", "-0", "0.0", "0e9", "0e99999999999999999999999"],
            &["10", "1e1", "1.0e1"],
            &["true"],
            &["false"],
            &["null"],
            &["\"\""],
            &["\"a\"", "\"\\u0061\""],
            &["[]"],
            &["{}"],
            &["[[],{}]"],
            &["{\"a\":1,\"b\":[2,{\"c\":null}]}", "{\"b\":[2.0,{\"\\u0063\":null}],\"a\":1}"],
            &["[1,[2]]", "[1.0,[20e-1]]"],
        ];
        let mut ids = Vec::new();
        for texts in classes {
            let id = values.value(texts[0].as_bytes()).unwrap();
            for text in texts {
                assert_eq!(values.value(text.as_bytes()), Some(id), "{text}");
            }
            assert!(!ids.contains(&id), "{texts:?}");
            ids.push(id);
        }
        assert_eq!(values.value(b"1e999999999999999999999"), None);
    }

    #[test]
    fn a_text_may_become_what_it_begins() {
        let values = &mut Values::default();
        let value = values.value(b"{\"name\":\"abc\",\"size\":12}").unwrap();
        let set = values.with(NOTHING, value).unwrap();
        for text in ["", "{", "{\"s", "{\"name\":\"ab", "{\"size\":1", "{\"size\":12,\"name\":"] {
            assert!(values.may_become(set, text.as_bytes()), "{text}");
        }
        for text in ["1", "\"", "{\"x", "{\"name\":\"b", "{\"size\":13,", "{\"name\":\"ab\""] {
            assert!(!values.may_become(set, text.as_bytes()), "{text}");
        }
        assert_eq!(values.next_chars(set, b"{\"name\":\"ab"), (vec!['c'], false));
        assert_eq!(values.next_chars(set, b"{\"name\":\"abc"), (vec![], true));
        assert_eq!(values.next_chars(set, b"{\""), (vec!['n', 's'], false));
        assert_eq!(values.with(set, value), None);
    }
}
