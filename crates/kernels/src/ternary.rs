//! The block types with integers of one or two bits, and a scale for each block.
//!
//! Packed rows of `TQ1_0` take 2.06 bits per element instead of the file's 1.69. Its five elements in
//! a byte are unpacked to two bits each.

use crate::format::{BlockFormat, GROUP, Head, Header, each};
use crate::k::thirty_two;
use crate::legacy::{plain_header, scale_head, word};

pub(crate) struct Tq1_0;
pub(crate) struct Tq2_0;
pub(crate) struct Q1_0;
pub(crate) struct Q2_0;

/// Returns the digit with index `index` of five digits of base three. A byte is the fraction of 256
/// whose digits after the point are the five digits, rounded up.
#[inline(always)]
fn digit(byte: u8, index: usize) -> u8 {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    let rest = byte.wrapping_mul(POWERS[index]);
    ((u16::from(rest) * 3) >> 8) as u8
}

/// Reads the raw header of a block that ends with a scale.
#[inline(always)]
fn last_head(block: &[u8]) -> Head {
    scale_head(&block[block.len() - 2..])
}

impl BlockFormat for Tq1_0 {
    const LEN: usize = 256;
    const BYTES: usize = 54;
    const BITS: usize = 2;
    const HALVES: usize = 1;
    const BIAS: Option<u32> = Some(0);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        last_head(block)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        plain_header(head)
    }

    /// Decodes 32 bytes of five digits, sixteen of five and four of four. The first digits of a run
    /// of bytes come first, then the second ones, and so on.
    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        each(|i| match GROUP * index + i {
            at @ 0..160 => digit(block[at % 32], at / 32),
            at @ 160..240 => digit(block[32 + at % 16], (at - 160) / 16),
            at => digit(block[48 + at % 4], (at - 240) / 4),
        })
    }
}

impl BlockFormat for Tq2_0 {
    const LEN: usize = 256;
    const BYTES: usize = 66;
    const BITS: usize = 2;
    const HALVES: usize = 1;
    const BIAS: Option<u32> = Some(0);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        last_head(block)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        plain_header(head)
    }

    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let bytes = thirty_two(&block[index / 4 * 32..]);
        let shift = index % 4 * 2;
        each(|i| bytes[i] >> shift & 3)
    }
}

impl BlockFormat for Q1_0 {
    const LEN: usize = 128;
    const BYTES: usize = 18;
    const BITS: usize = 1;
    const HALVES: usize = 1;
    const BIAS: Option<u32> = Some(0);
    /// -1 and 1, plus the bias.
    const LEVELS: Option<[u8; 16]> = Some([0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        scale_head(block)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        plain_header(head)
    }

    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let words: [u16; 2] = each(|i| word(block, 2 + 4 * index + 2 * i));
        each(|i| (words[i / 16] >> (i % 16) & 1) as u8)
    }
}

impl BlockFormat for Q2_0 {
    const LEN: usize = 64;
    const BYTES: usize = 18;
    const BITS: usize = 2;
    const HALVES: usize = 1;
    const BIAS: Option<u32> = Some(0);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        scale_head(block)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        plain_header(head)
    }

    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let bytes: &[u8; 8] = &block[2 + 8 * index..].as_chunks().0[0];
        each(|i| bytes[i / 4] >> (i % 4 * 2) & 3)
    }
}
