//! Finds the tokens that consist of characters of one class.
//!
//! Inside `[a-z ]*`, after the first digit of a number, or in a string with a pattern, a machine
//! accepts any characters of some class ([`Tolerance`]). Stepping over these characters one by one
//! would be wasted work. Bytes are therefore partitioned into fewer than 63 *cells*: groups of
//! letters, the digits, each punctuation mark, the control characters, and two cells for characters
//! beyond ASCII. Tokens with bytes in the same cells form a group. A class contains all tokens of a
//! group if the class contains all cells of the group. The walk then skips the parts of the trie
//! that have only such tokens.

use std::sync::{Arc, Mutex, PoisonError};

use formwork_vocab::{TokenId, TokenSet, TokenTrie, TrieNode, Vocabulary};
use rustc_hash::FxHashMap;

use crate::ByteSet;
use crate::machine::automaton::Automaton;
use crate::machine::{Config, Tolerance};

/// A set of cells, one bit each.
type CellSet = u64;

/// Bit for text that is not UTF-8. An incomplete last character does not set the bit.
const ILL_FORMED: CellSet = 1 << 63;

/// The cell of characters beyond ASCII, except those in [`ODD`].
const BEYOND_ASCII: u32 = 62;

/// Byte that stands for all characters of [`ODD`] in the class of a [`Tolerance`]. The byte never
/// occurs in UTF-8.
pub(crate) const ODD_BYTE: u8 = 0xff;

/// The cell of the characters in [`ODD`], which expressions often treat differently from other
/// characters beyond ASCII.
const ODD_CELL: u32 = 60;

/// The white space and line breaks beyond ASCII, as inclusive ranges. In a pattern, `\S` excludes
/// all of them, and `.` excludes some.
pub(crate) const ODD: [(char, char); 8] = [
    ('\u{a0}', '\u{a0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{2000}', '\u{200a}'),
    ('\u{2028}', '\u{2029}'),
    ('\u{202f}', '\u{202f}'),
    ('\u{205f}', '\u{205f}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{feff}', '\u{feff}'),
];

/// The cell of control characters, which JSON strings contain only as escapes.
const CONTROL: u32 = 61;

/// The tokens of a vocabulary, grouped by the cells of their characters.
pub(crate) struct CharClasses {
    groups: Vec<ClassGroup>,
    /// For each node of the trie, the cells of all tokens that start with the node's prefix. The
    /// cells of the prefix are included.
    within: Vec<CellSet>,
    /// For each node of the trie, the cells of the bytes below the node, without those of its
    /// prefix. A byte from 0x80 up counts as [`ILL_FORMED`].
    below: Vec<CellSet>,
    /// For each node of the trie, the length of the longest path below the node, in bytes.
    height: Vec<u32>,
    /// Number of characters of the longest token.
    longest: u32,
    /// Results of [`CharClasses::tokens`], by the cells and maximum number of characters of the
    /// tolerance.
    known: Mutex<FxHashMap<(CellSet, u32), Arc<TokenSet>>>,
}

/// Maximum number of results that [`CharClasses`] caches. A few large schemas have about as many
/// classes.
const REMEMBERED: usize = 64;

/// The tokens that consist of the same cells.
struct ClassGroup {
    cells: CellSet,
    /// `(characters, token)` for each token, sorted. `characters` is the token's number of
    /// characters.
    tokens: Vec<(u32, TokenId)>,
    /// The same tokens as a set; `None` if there are at most [`LARGE`] tokens.
    set: Option<TokenSet>,
}

/// Groups with more tokens than this also have a set. Adding a set over 128,000 tokens to another
/// takes as long as adding 500 single tokens.
const LARGE: usize = 500;

impl CharClasses {
    /// Returns the table of `vocabulary`. Builds the table on first use.
    pub(crate) fn of(vocabulary: &Vocabulary) -> Arc<Self> {
        vocabulary.derived(Self::new)
    }

    fn new(vocabulary: &Vocabulary) -> Self {
        let mut groups: FxHashMap<CellSet, Vec<(u32, TokenId)>> = FxHashMap::default();
        let NodeClasses { within, below, height } = measure_nodes(vocabulary, |token, cells, chars| {
            groups.entry(cells).or_default().push((chars, token));
        });
        let groups = groups.into_iter().map(|(cells, mut tokens)| {
            tokens.sort_unstable();
            let set = (tokens.len() > LARGE).then(|| {
                let mut set = vocabulary.empty_set();
                for &(_, token) in &tokens {
                    set.insert(token);
                }
                set
            });
            ClassGroup { cells, tokens, set }
        });
        let groups: Vec<ClassGroup> = groups.collect();
        let longest = groups.iter().filter_map(ClassGroup::longest).max().unwrap_or(0);
        Self { groups, within, below, height, longest, known: Mutex::default() }
    }

    /// Returns the tokens that consist only of text that `tolerance` allows. Does not step the
    /// machine. `none` creates an empty set.
    pub(crate) fn tokens(&self, tolerance: &Tolerance, none: impl FnOnce() -> TokenSet) -> Arc<TokenSet> {
        let cells = within(tolerance.class);
        let key = (cells, tolerance.chars.min(self.longest));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(&key) {
            return Arc::clone(known);
        }
        let mut tokens = none();
        for group in self.groups.iter().filter(|group| group.cells & !cells == 0) {
            group.add_to(&mut tokens, tolerance.chars);
        }
        let tokens = Arc::new(tokens);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key, Arc::clone(&tokens));
        tokens
    }

    /// Reports whether the walk can skip the tokens below `node`. This is so if each of them is in
    /// the result of [`CharClasses::tokens`], or certainly cannot follow.
    ///
    /// The prefix of `node` has `depth` bytes, all in the class that `prospect` was created for.
    fn settles(&self, node: TrieNode, depth: u32, prospect: &Pruning) -> bool {
        // A text has at most as many characters as bytes.
        let longest = depth + self.height[node.index()];
        self.within[node.index()] & prospect.exits == 0 && longest <= prospect.bytes
    }
}

/// A simplified [`Tolerance`] without characters beyond ASCII. Any text of at most `chars`
/// characters in `cells` may follow a config. If nothing is known about the config, `chars` is 0.
#[derive(Clone, Copy)]
pub(crate) struct AsciiRun {
    cells: CellSet,
    chars: u32,
    accepting: Option<bool>,
}

impl AsciiRun {
    pub(crate) fn new(tolerance: Option<Tolerance>) -> Self {
        let none = Self { cells: 0, chars: 0, accepting: None };
        tolerance.map_or(none, |Tolerance { class, chars, accepting, .. }| Self {
            cells: within(class),
            chars,
            accepting,
        })
    }

    /// Returns [`Tolerance::accepting`] of the tolerance that this run was created from.
    pub(crate) const fn accepting(self) -> Option<bool> {
        self.accepting
    }
}

impl CharClasses {
    /// Reports whether `ascii_run` allows every path in the trie below `node`.
    pub(crate) fn goes_along(&self, node: TrieNode, ascii_run: AsciiRun) -> bool {
        self.below[node.index()] & !ascii_run.cells == 0 && self.height[node.index()] <= ascii_run.chars
    }

    /// Walks over the part of the trie that [`CharClasses::tokens`] does not decide, starting at
    /// `config`. Tokens are visited only if their first byte is in `first`.
    pub(crate) fn beyond(
        &self,
        automaton: &mut Automaton,
        trie: &TokenTrie,
        config: Config,
        (tolerance, first): (&Tolerance, ByteSet),
    ) -> Beyond {
        let prospect = Pruning::new(tolerance);
        let mut beyond = Beyond::default();
        let mut open = vec![(TrieNode::ROOT, config, 1, 0u32)];
        while let Some((node, config, depth, recent)) = open.pop() {
            let among = if depth == 1 { first } else { ByteSet::ALL };
            let plausible = automaton.plausible(config) & among;
            for (byte, child) in trie.children(node).filter(|&(byte, _)| plausible.contains(byte)) {
                let recent = recent << 8 | u32::from(byte);
                let tolerated = prospect.tolerates(byte, recent);
                if tolerated && self.settles(child, depth, &prospect) {
                    continue;
                }
                let named = automaton.step(config, byte);
                let next = automaton.without_names(named);
                beyond.forgets |= next != named;
                if tolerated && next != Config::DEAD {
                    beyond.tolerated.push((child, next));
                    open.push((child, next, depth + 1, recent));
                } else {
                    beyond.left.push((byte, child, next));
                }
            }
        }
        beyond
    }
}

/// The result of [`CharClasses::beyond`].
#[derive(Default)]
pub(crate) struct Beyond {
    /// Visited nodes whose prefix is tolerated text, each with the config after the prefix.
    pub(crate) tolerated: Vec<(TrieNode, Config)>,
    /// Nodes at which the text first leaves the tolerance: the byte that leads to the node, the
    /// node, and the config there. The config may be dead.
    pub(crate) left: Vec<(u8, TrieNode, Config)>,
    /// True if member names read on the way were dropped with [`Automaton::without_names`].
    pub(crate) forgets: bool,
}

/// The nodes of the trie that have children and whose prefix ends with a complete character. They
/// are grouped by the cells of their prefixes.
pub(crate) struct Paths(Vec<PathGroup>);

/// Nodes whose prefixes consist of the same cells.
struct PathGroup {
    cells: CellSet,
    /// `(characters, node)` for each node, sorted. `characters` is the number of characters of the
    /// node's prefix.
    nodes: Vec<(u32, TrieNode)>,
}

/// The cells and the length of a node's prefix.
#[derive(Clone, Copy, Default)]
struct Path {
    cells: CellSet,
    chars: u32,
    /// The bytes of an incomplete last character, as a big-endian number. 0 if the last character
    /// is complete.
    unfinished: u32,
}

impl Paths {
    /// Returns the table of `vocabulary`. Builds the table on first use.
    pub(crate) fn of(vocabulary: &Vocabulary) -> Arc<Self> {
        vocabulary.derived(Self::new)
    }

    fn new(vocabulary: &Vocabulary) -> Self {
        let trie = vocabulary.trie();
        let mut paths = vec![Path::default(); trie.len()];
        let mut groups: FxHashMap<CellSet, Vec<(u32, TrieNode)>> = FxHashMap::default();
        for node in trie.nodes() {
            let path = paths[node.index()];
            for (byte, child) in trie.children(node) {
                paths[child.index()] = path.then(byte);
            }
            if path.unfinished == 0 && node != TrieNode::ROOT && trie.has_children(node) {
                groups.entry(path.cells).or_default().push((path.chars, node));
            }
        }
        let groups = groups.into_iter().map(|(cells, mut nodes)| {
            nodes.sort_unstable_by_key(|&(chars, node)| (chars, node.index()));
            PathGroup { cells, nodes }
        });
        Self(groups.collect())
    }

    /// Returns the nodes with children whose whole prefix is text that `tolerance` allows.
    pub(crate) fn along(&self, tolerance: &Tolerance) -> Vec<TrieNode> {
        let cells = within(tolerance.class);
        let mut along = Vec::new();
        for group in self.0.iter().filter(|group| group.cells & !cells == 0) {
            let end = group.nodes.partition_point(|&(chars, _)| chars <= tolerance.chars);
            along.extend(group.nodes[..end].iter().map(|&(_, node)| node));
        }
        along
    }
}

impl Path {
    fn then(self, byte: u8) -> Self {
        let Self { cells, chars, unfinished } = self;
        let chars = chars + u32::from(unfinished == 0);
        if unfinished == 0 && byte.is_ascii() {
            return Self { cells: cells | 1 << cell(byte), chars, unfinished };
        }
        let unfinished = unfinished << 8 | u32::from(byte);
        let bytes = unfinished.to_be_bytes();
        match str::from_utf8(&bytes[unfinished.leading_zeros() as usize / 8..]) {
            Ok(text) => {
                let odd = CellSet::from(text.chars().any(is_odd)) << ODD_CELL;
                Self { cells: cells | 1 << BEYOND_ASCII | odd, chars, unfinished: 0 }
            }
            Err(error) if error.error_len().is_none() => Self { cells, chars, unfinished },
            Err(_) => Self { cells: cells | ILL_FORMED, chars, unfinished: 0 },
        }
    }
}

/// Decides which parts of the trie a walk can skip.
struct Pruning {
    /// The cells whose bytes are all in the class of the tolerance.
    cells: CellSet,
    /// The other cells that contain a byte that may follow.
    exits: CellSet,
    /// Maximum length of a token that is decided without steps, in bytes. A token of this length
    /// whose bytes are all in `cells` certainly follows, or certainly does not follow.
    bytes: u32,
}

impl Pruning {
    fn new(tolerance: &Tolerance) -> Self {
        let cells = within(tolerance.class);
        let plausible = tolerance.class | tolerance.exits;
        let more = plausible.iter().filter(|&byte| !has_byte(cells, byte));
        let exits = more.fold(ILL_FORMED | 1 << ODD_CELL & !cells, |exits, byte| exits | 1 << cell(byte));
        Self { cells, exits, bytes: if tolerance.ends { u32::MAX } else { tolerance.chars } }
    }

    /// Reports whether a text stays within `cells` with its last byte `byte`. `recent` has the last
    /// four bytes of the text, including `byte`, as a big-endian number.
    fn tolerates(&self, byte: u8, recent: u32) -> bool {
        has_byte(self.cells, byte)
            && (has_byte(self.cells, ODD_BYTE) || byte.is_ascii() || !ends_in_odd(recent))
    }
}

/// Reports whether the last character of a text is in [`ODD`]. `recent` has the last four bytes of
/// the text as a big-endian number.
fn ends_in_odd(recent: u32) -> bool {
    let bytes = recent.to_be_bytes();
    let last = (1..=2).find_map(|from| str::from_utf8(&bytes[from..]).ok());
    last.and_then(|text| text.chars().next_back()).is_some_and(is_odd)
}

impl ClassGroup {
    fn longest(&self) -> Option<u32> {
        Some(self.tokens.last()?.0)
    }

    fn add_to(&self, tokens: &mut TokenSet, chars: u32) {
        match &self.set {
            Some(set) if self.longest() <= Some(chars) => tokens.extend(set),
            _ => {
                let fitting = self.tokens.partition_point(|&(own, _)| own <= chars);
                for &(_, token) in &self.tokens[..fitting] {
                    tokens.insert(token);
                }
            }
        }
    }
}

/// Returns the cells and the number of characters of a token. An incomplete last character counts
/// as one. The number of characters of ill-formed text is its number of bytes.
fn measure(bytes: &[u8]) -> (CellSet, u32) {
    let mut cells = bytes.iter().fold(0, |cells, &byte| cells | 1 << cell(byte));
    let mut chars = 0;
    let mut left = bytes;
    while let Some((&first, rest)) = left.split_first() {
        chars += 1;
        left = rest;
        if !first.is_ascii() {
            let len = [0xc0, 0xe0, 0xf0].iter().filter(|&&lead| first >= lead).count() + 1;
            let whole = &bytes[bytes.len() - rest.len() - 1..][..len.min(rest.len() + 1)];
            match str::from_utf8(whole) {
                Ok(text) => cells |= CellSet::from(text.chars().any(is_odd)) << ODD_CELL,
                Err(error) if error.error_len().is_some() || whole.len() == len => {
                    return (cells | ILL_FORMED, bytes.len() as u32);
                }
                Err(_) => {}
            }
            left = &rest[whole.len() - 1..];
        }
    }
    (cells, chars)
}

fn is_odd(c: char) -> bool {
    ODD.iter().any(|&(low, high)| (low..=high).contains(&c))
}

/// The tables of [`CharClasses`] that have one entry for each node of the trie.
struct NodeClasses {
    within: Vec<CellSet>,
    below: Vec<CellSet>,
    height: Vec<u32>,
}

/// Computes the tables for all nodes of the trie. Calls `group(token, cells, characters)` for each
/// token.
fn measure_nodes(vocabulary: &Vocabulary, mut group: impl FnMut(TokenId, CellSet, u32)) -> NodeClasses {
    let trie = vocabulary.trie();
    let (mut within, mut below, mut height) = (vec![0; trie.len()], vec![0; trie.len()], vec![0; trie.len()]);
    for node in trie.nodes().rev() {
        let tokens = trie.tokens_at(node);
        if let Some(&first) = tokens.first() {
            let (cells, chars) = measure(vocabulary.bytes(first));
            within[node.index()] = cells;
            for &token in tokens {
                group(token, cells, chars);
            }
        }
        for (byte, child) in trie.children(node) {
            let own = if byte.is_ascii() { 1 << cell(byte) } else { ILL_FORMED };
            below[node.index()] |= own | below[child.index()];
            within[node.index()] |= within[child.index()];
            height[node.index()] = height[node.index()].max(height[child.index()] + 1);
        }
    }
    NodeClasses { within, below, height }
}

/// Returns the cells whose bytes are all in `class`.
fn within(class: ByteSet) -> CellSet {
    let mut outside = ILL_FORMED;
    for byte in (0..=u8::MAX).filter(|&byte| !class.contains(byte)) {
        outside |= 1 << cell(byte);
    }
    !outside
}

/// Returns the cell of a byte. Cells are less than 63, so that a [`CellSet`] has room for
/// [`ILL_FORMED`].
const fn cell(byte: u8) -> u32 {
    match byte {
        b'a'..=b'f' => 0,
        b'g'..=b'z' => 1,
        b'A'..=b'F' => 2,
        b'G'..=b'Z' => 3,
        b'0'..=b'9' => 4,
        b' '..=b'/' => 5 + (byte - b' ') as u32,  // 5..=20
        b':'..=b'@' => 21 + (byte - b':') as u32, // 21..=27
        b'['..=b'`' => 28 + (byte - b'[') as u32, // 28..=33
        b'{'..=b'~' => 34 + (byte - b'{') as u32, // 34..=37
        0..=0x1f => CONTROL,
        0x7f => 38,
        ODD_BYTE => ODD_CELL,
        _ => BEYOND_ASCII,
    }
}

const fn has_byte(cells: CellSet, byte: u8) -> bool {
    cells >> cell(byte) & 1 == 1
}

#[cfg(test)]
mod tests {
    use formwork_vocab::{Token, TokenKind};

    use super::*;

    #[test]
    fn a_class_has_the_tokens_with_only_its_characters() {
        let texts: [&[u8]; 12] = [
            b"ab",
            b"abz",
            b"a b",
            b"AB",
            b"a1",
            b"\xc3\xa9",
            b"a\xc3",
            b"\xa9",
            b"\xc3a",
            b"",
            b"a\n",
            b"aaaa",
        ];
        let token = |bytes: &&[u8]| Token { bytes: bytes.to_vec(), kind: TokenKind::Text };
        let vocabulary =
            Vocabulary::new(texts.iter().map(token).collect(), vec![]).expect("a good vocabulary");
        let cells = CharClasses::of(&vocabulary);
        let of = |class: ByteSet, chars: u32| -> Vec<&[u8]> {
            let tokens = cells.tokens(&tolerance(class, chars), || vocabulary.empty_set());
            tokens.iter().map(|token| texts[token.index()]).collect()
        };
        let letters: ByteSet = (b'a'..=b'z').collect();
        assert_eq!(of(letters, u32::MAX), [&b"ab"[..], b"abz", b"aaaa"]);
        assert_eq!(of(letters, 2), [b"ab"]);
        let hexadecimal: ByteSet = (b'a'..=b'g').chain(b'0'..=b'9').collect();
        assert_eq!(
            of(hexadecimal, 9),
            [&b"ab"[..], b"a1", b"aaaa"],
            "no cell has g without the letters after it"
        );
        let all: ByteSet = (b' '..=b'~').chain(0x80..=0xff).collect();
        assert_eq!(of(all, 1), [&b"\xc3\xa9"[..]]);
        assert_eq!(of(all, 2), [&b"ab"[..], b"AB", b"a1", b"\xc3\xa9", b"a\xc3"]);
    }

    #[test]
    fn skips_a_node_only_if_all_of_its_tokens_are_known() {
        let token = |text: &str| Token { bytes: text.into(), kind: TokenKind::Text };
        let vocabulary =
            Vocabulary::new(vec![token("aaa"), token("ab\"")], vec![]).expect("a good vocabulary");
        let (cells, trie) = (CharClasses::of(&vocabulary), vocabulary.trie());
        let a = trie.child(TrieNode::ROOT, b'a').expect("both begin so");
        let (aa, ab) = (trie.child(a, b'a').expect("one"), trie.child(a, b'b').expect("the other"));
        let letters: ByteSet = (b'a'..=b'z').collect();
        let settles = |node, depth, tolerance| cells.settles(node, depth, &Pruning::new(&tolerance));
        let open = |chars| Tolerance { exits: !letters, ..tolerance(letters, chars) };
        assert!(settles(aa, 2, open(3)) && !settles(aa, 2, open(2)));
        assert!(!settles(ab, 2, open(9)) && !settles(a, 1, open(9)));
        let closed = Tolerance { exits: b"0".iter().copied().collect(), ends: true, ..tolerance(letters, 2) };
        assert!(settles(aa, 2, closed) && settles(ab, 2, closed) && settles(a, 1, closed));
    }

    fn tolerance(class: ByteSet, chars: u32) -> Tolerance {
        Tolerance { class, chars, exits: ByteSet::default(), ends: false, accepting: None }
    }
}
