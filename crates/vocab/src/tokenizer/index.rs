use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::{TokenId, Vocabulary};

const FREE: u64 = u64::MAX;

/// Finds a token by its exact bytes.
///
/// An open-addressed table of ids beside the vocabulary that owns the bytes: a quarter of a million tokens take 4 MB
/// and a few milliseconds, where a map with owned keys would copy every string again.
#[derive(Debug)]
pub(super) struct Index {
    /// The upper half of a slot is the upper half of the hash, the lower half the token.
    slots: Box<[u64]>,
    max_len: usize,
}

impl Index {
    /// Indexes `members`; of several with the same bytes the first counts. Tokens without bytes are left out.
    pub(super) fn new(vocabulary: &Vocabulary, members: impl Iterator<Item = TokenId>) -> Self {
        let size = (2 * vocabulary.len()).next_power_of_two();
        let mut index = Self { slots: vec![FREE; size].into_boxed_slice(), max_len: 0 };
        for token in members {
            let bytes = vocabulary.bytes(token);
            if bytes.is_empty() {
                continue;
            }
            index.max_len = index.max_len.max(bytes.len());
            if let Err(slot) = index.probe(vocabulary, bytes) {
                index.slots[slot] = tag(hash(bytes)) | u64::from(token.0);
            }
        }
        index
    }

    /// The token with exactly these bytes.
    pub(super) fn find(&self, vocabulary: &Vocabulary, bytes: &[u8]) -> Option<TokenId> {
        if bytes.len() > self.max_len { None } else { self.probe(vocabulary, bytes).ok() }
    }

    /// The token with these bytes, or the free slot where it belongs. The table is at most half full, so it ends.
    fn probe(&self, vocabulary: &Vocabulary, bytes: &[u8]) -> Result<TokenId, usize> {
        let hash = hash(bytes);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let entry = self.slots[slot];
            if entry == FREE {
                return Err(slot);
            }
            let token = TokenId(entry as u32);
            if tag(entry) == tag(hash) && vocabulary.bytes(token) == bytes {
                return Ok(token);
            }
            slot = (slot + 1) & mask;
        }
    }
}

const fn tag(hash: u64) -> u64 {
    hash & 0xffff_ffff_0000_0000
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}
