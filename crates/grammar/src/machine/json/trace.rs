//! The texts of items that must differ from other items, interned byte by byte.
//!
//! A text is stored as its last byte and the id of the text before that byte. The beginning of a
//! text may be unknown. All that is known about an unknown part is that it makes the item differ
//! from all other items. Masks look ahead with such texts.

use rustc_hash::FxHashMap;

pub(super) type TextId = u32;

/// The empty text.
pub(super) const EMPTY: TextId = 0;

#[derive(Debug)]
pub(super) struct Trace {
    nodes: Vec<Node>,
    ids: FxHashMap<(TextId, u8), TextId>,
    /// The texts that consist only of unknown bytes, by length.
    unknown: FxHashMap<u32, TextId>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    before: TextId,
    byte: u8,
    len: u32,
    /// Number of unknown bytes at the start of the text.
    unknown: u32,
}

impl Default for Trace {
    fn default() -> Self {
        let empty = Node { before: EMPTY, byte: 0, len: 0, unknown: 0 };
        Self { nodes: vec![empty], ids: FxHashMap::default(), unknown: FxHashMap::default() }
    }
}

impl Trace {
    /// Returns `text` with `byte` appended.
    pub(super) fn then(&mut self, text: TextId, byte: u8) -> TextId {
        let Node { len, unknown, .. } = self.nodes[text as usize];
        *self.ids.entry((text, byte)).or_insert_with(|| {
            self.nodes.push(Node { before: text, byte, len: len + 1, unknown });
            self.nodes.len() as TextId - 1
        })
    }

    /// Returns the text of `len` unknown bytes.
    pub(super) fn unknown(&mut self, len: u32) -> TextId {
        *self.unknown.entry(len).or_insert_with(|| {
            self.nodes.push(Node { before: EMPTY, byte: 0, len, unknown: len });
            self.nodes.len() as TextId - 1
        })
    }

    pub(super) fn len(&self, text: TextId) -> u32 {
        self.nodes[text as usize].len
    }

    /// Returns `text` without its last byte.
    pub(super) fn before(&self, text: TextId) -> TextId {
        self.nodes[text as usize].before
    }

    /// Reports whether some bytes of `text` after its first `start` bytes are unknown.
    pub(super) fn hides(&self, text: TextId, start: u32) -> bool {
        self.nodes[text as usize].unknown > start
    }

    /// Returns the bytes of `text` after its first `start` bytes. These bytes must be known.
    pub(super) fn bytes(&self, text: TextId, start: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len(text).saturating_sub(start) as usize);
        let mut at = text;
        while self.len(at) > start {
            let node = self.nodes[at as usize];
            bytes.push(node.byte);
            at = node.before;
        }
        bytes.reverse();
        bytes
    }

    /// Returns the known bytes of `text`, starting with the last byte.
    pub(super) fn backwards(&self, text: TextId) -> impl Iterator<Item = u8> {
        let is_known = |at: &TextId| self.nodes[*at as usize].len > self.nodes[*at as usize].unknown;
        std::iter::successors(Some(text).filter(is_known), move |&at| Some(self.before(at)).filter(is_known))
            .map(|at| self.nodes[at as usize].byte)
    }

    pub(super) fn byte_len(&self) -> usize {
        self.nodes.len() * (size_of::<Node>() + 2 * size_of::<(TextId, u8, TextId)>())
    }
}
