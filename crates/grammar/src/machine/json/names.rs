//! Sets of the names of an object's undeclared members, which must all differ.
//!
//! A set of names is a trie over the bytes of the decoded names. Equal subtrees are stored once, so
//! each node is itself the id of a set. The set of a node has the *remainders* of all names that
//! pass through the node: their parts after the node. Adding a name copies only the nodes on the
//! path of the name.
//!
//! A name being read is interned as its characters so far, together with its *rivals*. The rivals
//! are the remainders of the names seen that begin with these characters. A name without rivals
//! differs from all names seen, whatever characters follow.

use rustc_hash::FxHashMap;

/// Id of an interned set of names or of their remainders.
pub(super) type NamesId = u32;

/// The empty set.
pub(super) const NO_NAMES: NamesId = 0;

/// Id of an interned prefix of the name being read.
pub(super) type NameId = u32;

/// Id of a name whose characters are not stored. Either the characters so far begin a declared name
/// and no name seen, or the object needs no comparison of names.
pub(super) const UNREAD: NameId = 0;

/// Id of a name whose characters are unknown, but that differs from all other names. Masks look
/// ahead with such names.
pub(super) const UNKNOWN: NameId = 1;

#[derive(Debug)]
pub(super) struct Names {
    sets: Vec<Set>,
    set_ids: FxHashMap<Set, NamesId>,
    read: Vec<Read>,
    /// For each set of names seen, the id of the empty prefix.
    starts: FxHashMap<NamesId, NameId>,
    longer: FxHashMap<(NameId, char), NameId>,
    byte_len: usize,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Set {
    /// True if the set contains the empty name.
    ends: bool,
    /// For each first byte of a name in the set, the remainders of the names after this byte.
    /// Sorted by byte.
    children: Box<[(u8, NamesId)]>,
    /// Number of names in the set.
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    before: NameId,
    c: char,
    /// Length of the shortest spelling of the prefix, in bytes.
    spelled: u32,
    rivals: NamesId,
}

impl Default for Names {
    fn default() -> Self {
        let nothing = Set { ends: false, children: Box::default(), count: 0 };
        let none = Read { before: UNREAD, c: '\0', spelled: 0, rivals: NO_NAMES };
        Self {
            sets: vec![nothing.clone()],
            set_ids: FxHashMap::from_iter([(nothing, NO_NAMES)]),
            read: vec![none, none],
            starts: FxHashMap::default(),
            longer: FxHashMap::default(),
            byte_len: 0,
        }
    }
}

impl Names {
    fn set(&mut self, ends: bool, children: Vec<(u8, NamesId)>) -> NamesId {
        let below = children.iter().map(|&(_, child)| self.count(child)).sum::<u32>();
        let set = Set { ends, children: children.into(), count: below + u32::from(ends) };
        if let Some(&known) = self.set_ids.get(&set) {
            return known;
        }
        let id = self.sets.len() as NamesId;
        self.byte_len += 2 * (size_of::<Set>() + size_of_val(&*set.children)) + 16;
        self.sets.push(set.clone());
        self.set_ids.insert(set, id);
        id
    }

    pub(super) fn count(&self, set: NamesId) -> u32 {
        self.sets[set as usize].count
    }

    /// Reports whether the set contains the empty name. For a set of remainders, a name then ends
    /// here.
    pub(super) fn ends(&self, set: NamesId) -> bool {
        self.sets[set as usize].ends
    }

    /// Returns, for each first byte of a name in the set, the remainders of the names after this
    /// byte.
    pub(super) fn children(&self, set: NamesId) -> &[(u8, NamesId)] {
        &self.sets[set as usize].children
    }

    fn child(&self, set: NamesId, byte: u8) -> NamesId {
        let children = &self.sets[set as usize].children;
        let at = children.binary_search_by_key(&byte, |&(byte, _)| byte);
        at.map_or(NO_NAMES, |at| children[at].1)
    }

    /// Returns the remainders of the names in the set that begin with `c`.
    pub(super) fn after(&self, set: NamesId, c: char) -> NamesId {
        let mut utf8 = [0; 4];
        c.encode_utf8(&mut utf8).bytes().fold(set, |set, byte| self.child(set, byte))
    }

    /// Returns the first characters of the names in the set, each with the remainders of the names
    /// after it.
    pub(super) fn next_chars(&self, set: NamesId) -> Vec<(char, NamesId)> {
        let mut chars = Vec::new();
        let mut open = vec![(set, [0; 4], 0)];
        while let Some((set, mut utf8, len)) = open.pop() {
            for &(byte, child) in &self.sets[set as usize].children {
                utf8[len] = byte;
                match std::str::from_utf8(&utf8[..=len]).ok().and_then(|text| text.chars().next()) {
                    Some(c) => chars.push((c, child)),
                    None => open.push((child, utf8, len + 1)),
                }
            }
        }
        chars
    }

    /// Returns all names of the set.
    pub(super) fn all(&self, set: NamesId) -> Vec<String> {
        let mut names = Vec::new();
        let mut name = Vec::new();
        let mut open = vec![(set, 0, None)];
        while let Some((set, depth, byte)) = open.pop() {
            name.truncate(depth);
            name.extend(byte);
            let set = &self.sets[set as usize];
            open.extend(set.children.iter().map(|&(byte, child)| (child, name.len(), Some(byte))));
            if set.ends {
                names.extend(String::from_utf8(name.clone()));
            }
        }
        names
    }

    /// Returns the id of the set with `name` added.
    pub(super) fn with(&mut self, set: NamesId, name: &str) -> NamesId {
        let mut path = Vec::with_capacity(name.len());
        let mut at = set;
        for byte in name.bytes() {
            path.push((at, byte));
            at = self.child(at, byte);
        }
        let mut node = self.set(true, self.sets[at as usize].children.to_vec());
        for (at, byte) in path.into_iter().rev() {
            let Set { ends, children, .. } = &self.sets[at as usize];
            let (ends, mut children) = (*ends, children.to_vec());
            match children.binary_search_by_key(&byte, |&(byte, _)| byte) {
                Ok(known) => children[known].1 = node,
                Err(free) => children.insert(free, (byte, node)),
            }
            node = self.set(ends, children);
        }
        node
    }

    /// Returns the id of the empty prefix of a name, in an object with the names `seen`.
    pub(super) fn start(&mut self, seen: NamesId) -> NameId {
        let next = self.read.len() as NameId;
        let id = *self.starts.entry(seen).or_insert(next);
        if id == next {
            self.add(Read { before: UNREAD, c: '\0', spelled: 0, rivals: seen });
        }
        id
    }

    /// Returns the id of the prefix `name` with the character `c` appended.
    pub(super) fn then(&mut self, name: NameId, c: char) -> NameId {
        let next = self.read.len() as NameId;
        let id = *self.longer.entry((name, c)).or_insert(next);
        if id == next {
            let Read { spelled, rivals, .. } = self.read[name as usize];
            let spelled = spelled + crate::ir::json::shortest_spelling(c).len;
            self.add(Read { before: name, c, spelled, rivals: self.after(rivals, c) });
        }
        id
    }

    fn add(&mut self, read: Read) {
        self.read.push(read);
        self.byte_len += size_of::<Read>() + 2 * size_of::<(NameId, char, NameId)>();
    }

    /// Returns the remainders of the seen names that begin with the prefix `name`.
    pub(super) fn rivals(&self, name: NameId) -> NamesId {
        self.read[name as usize].rivals
    }

    /// Returns the least number of bytes that spell the prefix `name`.
    pub(super) fn spelled(&self, name: NameId) -> u32 {
        self.read[name as usize].spelled
    }

    /// Returns the characters of the prefix `name`, which must be stored.
    pub(super) fn text(&self, name: NameId) -> String {
        let mut chars = Vec::new();
        let mut at = name;
        loop {
            let Read { before, c, .. } = self.read[at as usize];
            // Only the empty prefix has nothing before it, and it holds no character.
            if before == UNREAD {
                break;
            }
            chars.push(c);
            at = before;
        }
        chars.into_iter().rev().collect()
    }

    pub(super) const fn byte_len(&self) -> usize {
        self.byte_len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_have_equal_ids() {
        let mut names = Names::default();
        let words = ["", "a", "ab", "é", "ê", "日本", "日", "b"];
        let one = words.iter().fold(NO_NAMES, |set, word| names.with(set, word));
        let other = words.iter().rev().fold(NO_NAMES, |set, word| names.with(set, word));
        assert_eq!(one, other);
        assert_eq!(names.with(one, "日"), one);
        assert_eq!(names.count(one), words.len() as u32);
        let mut all = names.all(one);
        all.sort();
        assert_eq!(all, ["", "a", "ab", "b", "é", "ê", "日", "日本"]);
    }

    #[test]
    fn a_name_has_rivals_while_it_is_a_prefix_of_one_seen() {
        let mut names = Names::default();
        let seen = ["ab", "é", "éa"].iter().fold(NO_NAMES, |set, word| names.with(set, word));
        let mut chars: Vec<char> = names.next_chars(seen).into_iter().map(|(c, _)| c).collect();
        chars.sort_unstable();
        assert_eq!(chars, ['a', 'é']);
        let mut at = |text: &str| {
            let start = names.start(seen);
            let name = text.chars().fold(start, |name, c| names.then(name, c));
            assert_eq!(names.text(name), text);
            let rivals = names.rivals(name);
            (names.count(rivals), names.ends(rivals))
        };
        assert_eq!(at(""), (3, false));
        assert_eq!(at("a"), (1, false));
        assert_eq!(at("ab"), (1, true));
        assert_eq!(at("é"), (2, true));
        assert_eq!(at("abc"), (0, false));
        assert_eq!(at("x"), (0, false));
    }

    #[test]
    fn a_thousand_names_take_little_memory() {
        let mut names = Names::default();
        (0..1000).fold(NO_NAMES, |set, at| names.with(set, &format!("some name {at}")));
        assert!(names.byte_len() < 4 << 20, "{}", names.byte_len());
    }
}
