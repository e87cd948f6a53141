//! Values of items that must differ, and the parts of such values that have been read.
//!
//! Two texts have the same value if they hold the same scalars at the same paths. A value is
//! therefore the set of its leaves, each with its path. A leaf is a scalar, or an empty array or
//! object. Members are identified by name, in any order. Numbers are compared by their decimal
//! value: `1`, `1.0` and `10e-1` are equal. Equal values have equal ids, and so do equal sets of
//! values. No function here recurses.
//!
//! An incomplete text is read in the same way, to decide whether the text may still become a given
//! value. The value must have all leaves of the text, and the incomplete leaf must begin one of the
//! value's leaves.

use rustc_hash::FxHashMap;

use super::reading::{OpenToken, ValueReader};
use super::sets::Sets;

/// Index of an interned value.
pub(crate) type ValueId = u32;

/// Index of an interned set of values. The empty set is 0.
pub(crate) type SetId = u32;

/// Marks an array that must have two equal items and has them already. Takes the place of the set
/// of values seen.
pub(crate) const PAIRED: SetId = SetId::MAX;

/// The empty set.
pub(crate) const NOTHING: SetId = 0;

/// Index of an interned path. A path leads from the root of a value to one of its parts.
pub(crate) type PathId = u32;
/// Index of an interned string or number.
pub(crate) type WordId = u32;

/// The empty path, which leads to the whole value.
pub(crate) const HERE: PathId = 0;

/// Maximum length of an exponent, sign included. Numbers with longer exponents cannot be compared
/// and are rejected.
const EXPONENT_DIGITS: usize = 17;

/// A scalar, or an empty array or object, at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Leaf {
    Null,
    Bool(bool),
    /// A number in the canonical spelling of [`Values::number`].
    Number(WordId),
    Text(WordId),
    EmptyArray,
    EmptyObject,
}

/// One step of a path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Step {
    /// To the item with this index.
    Item(u32),
    /// To the member with this name.
    Member(WordId),
}

/// Interned paths, values and sets of values.
#[derive(Debug)]
pub(crate) struct Values {
    /// Strings, and numbers in the canonical spelling of [`Values::number`].
    words: Vec<Box<str>>,
    word_ids: FxHashMap<Box<str>, WordId>,
    /// For each path, its parent path and its last step.
    paths: Vec<(PathId, Step)>,
    path_ids: FxHashMap<(PathId, Step), PathId>,
    /// For each value, its sorted leaves.
    leaves: Vec<Box<[(PathId, Leaf)]>>,
    value_ids: FxHashMap<Box<[(PathId, Leaf)]>, ValueId>,
    sets: Sets,
    byte_len: usize,
}

/// The leaves of a value, each with its path.
pub(crate) type Leaves = Vec<(PathId, Leaf)>;

/// The part of an item that has been read, and its *rivals*: the values that the complete item may
/// still be equal to.
#[derive(Debug)]
pub(crate) struct Prospect {
    reader: ValueReader,
    /// Length of the complete tokens of the item so far, in bytes.
    pub(crate) read: u32,
    /// The values that the complete item may still be equal to.
    rivals: Vec<ValueId>,
    /// The incomplete token after the complete ones.
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
    /// Returns the value of a complete text without white space between its tokens.
    ///
    /// Returns `None` if the text is incomplete or has a number that cannot be compared.
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

    /// Returns the value with the given leaves, which must be sorted.
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

    /// Returns the value of the string `text`.
    pub(crate) fn text(&mut self, text: &str) -> ValueId {
        let word = self.word(text);
        self.of_leaves(vec![(HERE, Leaf::Text(word))])
    }

    pub(crate) fn has(&self, set: SetId, value: ValueId) -> bool {
        self.sets.has(set, value)
    }

    /// Returns the set that consists of `value` and the values of `set`. Returns `None` if `set`
    /// contains `value` already.
    pub(crate) fn with(&mut self, set: SetId, value: ValueId) -> Option<SetId> {
        (!self.sets.has(set, value)).then(|| self.sets.with(set, value))
    }

    /// Returns the prospect at the start of an item. The item may become one of the values in
    /// `seen`, or one of `others`.
    pub(crate) fn start(&self, seen: SetId, others: &[ValueId]) -> Prospect {
        let mut rivals = self.sets.values(seen);
        rivals.extend(others);
        Prospect { reader: ValueReader::new(), read: 0, rivals, open: OpenToken::Between }
    }

    /// Returns the prospect after more of the item. `text` is the text of the item without its
    /// first `before.read` bytes.
    ///
    /// Returns `None` if the item can become none of the rivals.
    pub(crate) fn go_on(&mut self, before: &Prospect, text: &[u8]) -> Option<Prospect> {
        let mut reader = before.reader.clone();
        let mut leaves = Leaves::new();
        let (read, open) = reader.read(text, self, &mut leaves);
        let rivals = before.rivals.iter().copied();
        let rivals: Vec<_> = rivals.filter(|&value| self.may_be(value, &leaves, &open)).collect();
        let read = before.read + read as u32;
        (!rivals.is_empty()).then_some(Prospect { reader, read, rivals, open })
    }

    /// Returns each character that can continue the incomplete string or name on the way to a
    /// rival.
    ///
    /// The second result is true if the string or name may end here and the item still become a
    /// rival.
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

    /// Reports whether an item may become `value`, after the leaves `read` and the incomplete token
    /// `open`. The result may be true although the item can no longer become `value`.
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

    /// Returns the leaf that `value` has at `path`.
    fn leaf_at(&self, value: ValueId, path: PathId) -> Option<Leaf> {
        let leaves = &self.leaves[value as usize];
        let at = leaves.partition_point(|&(other, _)| other < path);
        leaves.get(at).filter(|(other, _)| *other == path).map(|&(_, leaf)| leaf)
    }

    /// Returns the string that `value` has at `path`.
    fn text_at(&self, value: ValueId, path: PathId) -> Option<&str> {
        match self.leaf_at(value, path)? {
            Leaf::Text(word) => Some(&self.words[word as usize]),
            _ => None,
        }
    }

    /// Returns the names of the members of the object that `value` has at `path`. A name may occur
    /// several times.
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

    /// Interns a string.
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

    /// Interns the path that leads from `parent` by one more `step`.
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

    /// Interns the canonical spelling of a number: its digits without zeros at either end, and a
    /// power of ten. For example, `-1.20` becomes `-12e-1`.
    ///
    /// Returns `None` if the exponent is longer than [`EXPONENT_DIGITS`].
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

/// Reports whether `text`, the beginning of a number, may become `number`. `number` has the
/// canonical spelling of [`Values::number`].
///
/// The digits so far must be a prefix of the digits of `number`, apart from zeros around them.
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
    fn a_prefix_may_become_the_value() {
        let values = &mut Values::default();
        let value = values.value(b"{\"name\":\"abc\",\"size\":12}").unwrap();
        let set = values.with(NOTHING, value).unwrap();
        let number = values.value(b"-120").unwrap();
        let numbers = values.with(NOTHING, number).unwrap();
        assert_eq!(values.with(set, value), None);
        // Byte by byte, like the text of an item.
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
