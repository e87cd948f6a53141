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

use super::reading::{OpenToken, ValueReader};
use super::sets::Sets;

pub(crate) type ValueId = u32;

/// An interned set of values; the empty one is 0.
pub(crate) type SetId = u32;

/// What is in place of a set once two items have been equal, where that is all that matters.
pub(crate) const PAIRED: SetId = SetId::MAX;

/// The empty set.
pub(crate) const NOTHING: SetId = 0;

pub(crate) type PathId = u32;
pub(crate) type WordId = u32;

/// The path to a value itself.
pub(crate) const HERE: PathId = 0;

/// The most digits of an exponent; a number with more is no item of an array whose items must differ.
const EXPONENT_DIGITS: usize = 17;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Leaf {
    Null,
    Bool(bool),
    Number(WordId),
    Text(WordId),
    EmptyArray,
    EmptyObject,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Step {
    Item(u32),
    Member(WordId),
}

/// Paths, values and sets of values, each once.
#[derive(Debug)]
pub(crate) struct Values {
    /// Strings, and numbers in one spelling each.
    words: Vec<Box<str>>,
    word_ids: FxHashMap<Box<str>, WordId>,
    /// The path that each one goes on from, and its last step.
    paths: Vec<(PathId, Step)>,
    path_ids: FxHashMap<(PathId, Step), PathId>,
    /// By id: sorted leaves.
    leaves: Vec<Box<[(PathId, Leaf)]>>,
    value_ids: FxHashMap<Box<[(PathId, Leaf)]>, ValueId>,
    sets: Sets,
    byte_len: usize,
}

/// The leaves of a value.
pub(crate) type Leaves = Vec<(PathId, Leaf)>;

/// What has been read of an item, and the values seen that it may still become.
#[derive(Debug)]
pub(crate) struct Prospect {
    reader: ValueReader,
    /// The bytes of the tokens that are complete.
    pub(crate) read: u32,
    rivals: Vec<ValueId>,
    open: OpenToken,
}

impl Prospect {
    pub(crate) const fn byte_len(&self) -> usize {
        size_of::<Self>() + 4 * self.rivals.len() + 64
    }
}

impl Default for Values {
    fn default() -> Self {
        Self {
            words: Vec::new(),
            word_ids: FxHashMap::default(),
            paths: vec![(HERE, Step::Item(u32::MAX))],
            path_ids: FxHashMap::default(),
            leaves: Vec::new(),
            value_ids: FxHashMap::default(),
            sets: Sets::default(),
            byte_len: 0,
        }
    }
}

impl Values {
    /// The value of a complete text without white space around its tokens.
    pub(crate) fn value(&mut self, text: &[u8]) -> Option<ValueId> {
        let mut leaves = Leaves::new();
        let (_, open) = ValueReader::new().read(text, self, &mut leaves);
        match open {
            OpenToken::Between => {}
            OpenToken::Number(path, digits) => leaves.push((path, Leaf::Number(self.number(&digits)?))),
            _ => return None,
        }
        leaves.sort_unstable();
        leaves.dedup();
        Some(self.of_leaves(leaves))
    }

    /// The value with some sorted leaves.
    fn of_leaves(&mut self, leaves: Leaves) -> ValueId {
        if let Some(&known) = self.value_ids.get(leaves.as_slice()) {
            return known;
        }
        let id = self.leaves.len() as ValueId;
        self.byte_len += 2 * size_of_val(leaves.as_slice()) + 64;
        self.leaves.push(leaves.clone().into());
        self.value_ids.insert(leaves.into(), id);
        id
    }

    /// The value of a string.
    pub(crate) fn text(&mut self, text: &str) -> ValueId {
        let word = self.word(text);
        self.of_leaves(vec![(HERE, Leaf::Text(word))])
    }

    pub(crate) fn has(&self, set: SetId, value: ValueId) -> bool {
        self.sets.has(set, value)
    }

    /// The set with a value that it does not have; `None` where it has it.
    pub(crate) fn with(&mut self, set: SetId, value: ValueId) -> Option<SetId> {
        (!self.sets.has(set, value)).then(|| self.sets.with(set, value))
    }

    /// The start of an item, where some values have been seen, and some `others` matter as well.
    pub(crate) fn start(&self, seen: SetId, others: &[ValueId]) -> Prospect {
        let mut rivals = self.sets.values(seen);
        rivals.extend(others);
        Prospect { reader: ValueReader::new(), read: 0, rivals, open: OpenToken::Between }
    }

    /// After more of an item: all that comes after what has been read. `None` where it can be no value seen any more.
    pub(crate) fn go_on(&mut self, before: &Prospect, text: &[u8]) -> Option<Prospect> {
        let mut reader = before.reader.clone();
        let mut leaves = Leaves::new();
        let (read, open) = reader.read(text, self, &mut leaves);
        let rivals = before.rivals.iter().copied();
        let rivals: Vec<_> = rivals.filter(|&value| self.may_be(value, &leaves, &open)).collect();
        let read = before.read + read as u32;
        (!rivals.is_empty()).then_some(Prospect { reader, read, rivals, open })
    }

    /// Where an item is inside a string or a name: the characters by which it may go on to a value seen, and whether the
    /// string may end for that.
    pub(crate) fn next_chars(&self, Prospect { rivals, open, .. }: &Prospect) -> (Vec<char>, bool) {
        let (mut chars, mut ends) = (Vec::new(), false);
        let mut add = |rest: &str| match rest.chars().next() {
            Some(c) => chars.push(c),
            None => ends = true,
        };
        for &value in rivals {
            match open {
                OpenToken::Text(path, start) => {
                    self.text_at(value, *path).and_then(|text| text.strip_prefix(&**start)).map(&mut add);
                }
                OpenToken::Name(path, start) => {
                    self.names_at(value, *path)
                        .filter_map(|name| name.strip_prefix(&**start))
                        .for_each(&mut add);
                }
                _ => {}
            }
        }
        (chars, ends)
    }

    /// Whether what has been read may be of a value; it may be said of one that it cannot become, never the reverse.
    fn may_be(&self, value: ValueId, read: &Leaves, open: &OpenToken) -> bool {
        let leaves = &self.leaves[value as usize];
        if !read.iter().all(|leaf| leaves.binary_search(leaf).is_ok()) {
            return false;
        }
        match open {
            OpenToken::Between => true,
            OpenToken::Name(path, start) => {
                self.names_at(value, *path).any(|name| name.starts_with(&**start))
            }
            OpenToken::Text(path, start) => {
                self.text_at(value, *path).is_some_and(|text| text.starts_with(&**start))
            }
            OpenToken::Number(path, digits) => match self.leaf_at(value, *path) {
                Some(Leaf::Number(number)) => may_be_number(digits, &self.words[number as usize]),
                _ => false,
            },
            OpenToken::Literal(path) => {
                matches!(self.leaf_at(value, *path), Some(Leaf::Null | Leaf::Bool(_)))
            }
            OpenToken::Unreadable => false,
        }
    }

    fn leaf_at(&self, value: ValueId, path: PathId) -> Option<Leaf> {
        let leaves = &self.leaves[value as usize];
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
        self.leaves[value as usize].iter().filter_map(move |&(mut at, _)| {
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

    pub(crate) fn word(&mut self, word: &str) -> WordId {
        if let Some(&known) = self.word_ids.get(word) {
            return known;
        }
        let id = self.words.len() as WordId;
        self.byte_len += 2 * word.len() + 64;
        self.words.push(word.into());
        self.word_ids.insert(word.into(), id);
        id
    }

    pub(crate) fn path(&mut self, parent: PathId, step: Step) -> PathId {
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
    pub(crate) fn number(&mut self, text: &str) -> Option<WordId> {
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

    pub(crate) const fn byte_len(&self) -> usize {
        self.byte_len + self.sets.byte_len()
    }
}

/// Whether the beginning of a number may go on to one in its own spelling: its digits, as far as they are there, must be
/// that one's, with any zeros around them.
fn may_be_number(text: &str, number: &str) -> bool {
    let (sign, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (negative, number) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let digits = text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E')).filter(|&byte| byte != b'.');
    let mut digits = digits.skip_while(|&byte| byte == b'0');
    let Some((significant, _)) = number.split_once('e') else { return digits.next().is_none() };
    let expected = significant.bytes().chain(std::iter::repeat(b'0'));
    sign == negative && digits.zip(expected).all(|(digit, expected)| digit == expected)
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
        let number = values.value(b"-120").unwrap();
        let numbers = values.with(NOTHING, number).unwrap();
        assert_eq!(values.with(set, value), None);
        // Byte by byte, as texts grow.
        let mut after = |set, text: &str| {
            let mut prospect = values.start(set, &[]);
            for end in 1..=text.len() {
                prospect = values.go_on(&prospect, &text.as_bytes()[prospect.read as usize..end])?;
            }
            Some(values.next_chars(&prospect))
        };
        for text in ["", "{", "{\"s", "{\"name\":\"ab", "{\"size\":1", "{\"size\":12,\"name\":"] {
            assert!(after(set, text).is_some(), "{text}");
        }
        for text in ["1", "\"", "{\"x", "{\"name\":\"b", "{\"size\":13,", "{\"name\":\"ab\""] {
            assert!(after(set, text).is_none(), "{text}");
        }
        for text in ["-", "-1", "-12", "-1200", "-0.0", "-1.2e", "-120.00"] {
            assert!(after(numbers, text).is_some(), "{text}");
        }
        for text in ["1", "0", "-2", "-121", "-0.2"] {
            assert!(after(numbers, text).is_none(), "{text}");
        }
        assert_eq!(after(set, "{\"name\":\"ab"), Some((vec!['c'], false)));
        assert_eq!(after(set, "{\"name\":\"abc"), Some((vec![], true)));
        assert_eq!(after(set, "{\""), Some((vec!['n', 's'], false)));
    }
}
