//! The block types of 32 elements.

use crate::float::from_half;
use crate::format::{BlockFormat, GROUP, Head, Header, each};

pub(crate) struct Q4_0;
pub(crate) struct Q4_1;
pub(crate) struct Q5_0;
pub(crate) struct Q5_1;
pub(crate) struct Q8_0;

/// Returns the 16-bit integer at `bytes[at..at + 2]`.
#[inline(always)]
pub(crate) fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Reads the raw header of a block that starts with a scale.
#[inline(always)]
pub(crate) fn scale_head(block: &[u8]) -> Head {
    Head { halves: [word(block, 0), 0], ..Head::default() }
}

/// Reads the raw header of a block that starts with a scale and an offset.
#[inline(always)]
fn offset_head(block: &[u8]) -> Head {
    Head { halves: [word(block, 0), word(block, 2)], ..Head::default() }
}

/// Decodes a header with one scale, and at most one offset, for the whole block.
#[inline(always)]
pub(crate) fn plain_header(head: &Head) -> Header {
    Header { scale: [from_half(head.halves[0]); 16], offset: [from_half(head.halves[1]); 16] }
}

/// Returns the nibbles of 16 bytes: first the low ones, then the high ones.
#[inline(always)]
pub(crate) fn nibbles(bytes: &[u8]) -> [u8; GROUP] {
    let bytes: &[u8; 16] = &bytes.as_chunks().0[0];
    let mut codes = [0; GROUP];
    for i in 0..16 {
        codes[i] = bytes[i] & 15;
        codes[i + 16] = bytes[i] >> 4;
    }
    codes
}

/// Returns 32 five-bit codes. The low four bits of code `i` are `nibbles(bytes)[i]`. The fifth bit
/// is bit `i` of `high`, which has four bytes.
#[inline(always)]
fn five_bits(high: &[u8], bytes: &[u8]) -> [u8; GROUP] {
    let bytes: &[u8; 16] = &bytes.as_chunks().0[0];
    let high = [word(high, 0), word(high, 2)];
    let mut codes = [0; GROUP];
    for i in 0..16 {
        codes[i] = bytes[i] & 15 | ((high[0] >> i & 1) << 4) as u8;
        codes[i + 16] = bytes[i] >> 4 | ((high[1] >> i & 1) << 4) as u8;
    }
    codes
}

impl BlockFormat for Q4_0 {
    const LEN: usize = 32;
    const BYTES: usize = 18;
    const BITS: usize = 4;
    const HALVES: usize = 1;
    const BIAS: Option<u32> = Some(3);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        scale_head(block)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        plain_header(head)
    }

    #[inline(always)]
    fn codes(block: &[u8], _: usize) -> [u8; GROUP] {
        nibbles(&block[2..18])
    }
}

impl BlockFormat for Q4_1 {
    const LEN: usize = 32;
    const BYTES: usize = 20;
    const BITS: usize = 4;
    const HALVES: usize = 2;
    const OFFSET: bool = true;

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        offset_head(block)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        plain_header(head)
    }

    #[inline(always)]
    fn codes(block: &[u8], _: usize) -> [u8; GROUP] {
        nibbles(&block[4..20])
    }
}

impl BlockFormat for Q5_0 {
    const LEN: usize = 32;
    const BYTES: usize = 22;
    const BITS: usize = 5;
    const HALVES: usize = 1;
    const BIAS: Option<u32> = Some(4);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        scale_head(block)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        plain_header(head)
    }

    #[inline(always)]
    fn codes(block: &[u8], _: usize) -> [u8; GROUP] {
        five_bits(&block[2..6], &block[6..22])
    }
}

impl BlockFormat for Q5_1 {
    const LEN: usize = 32;
    const BYTES: usize = 24;
    const BITS: usize = 5;
    const HALVES: usize = 2;
    const OFFSET: bool = true;

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        offset_head(block)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        plain_header(head)
    }

    #[inline(always)]
    fn codes(block: &[u8], _: usize) -> [u8; GROUP] {
        five_bits(&block[4..8], &block[8..24])
    }
}

impl BlockFormat for Q8_0 {
    const LEN: usize = 32;
    const BYTES: usize = 34;
    const BITS: usize = 8;
    const HALVES: usize = 1;
    const BIAS: Option<u32> = Some(7);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        scale_head(block)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        plain_header(head)
    }

    #[inline(always)]
    fn codes(block: &[u8], _: usize) -> [u8; GROUP] {
        let bytes: &[u8; GROUP] = &block[2..34].as_chunks().0[0];
        each(|i| bytes[i] ^ 0x80)
    }
}
