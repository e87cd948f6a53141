//! The block types of 32 elements.

use super::float::half;
use super::{BlockFormat, GROUP, Group, each};

pub(super) struct Q4_0;
pub(super) struct Q4_1;
pub(super) struct Q5_0;
pub(super) struct Q5_1;
pub(super) struct Q8_0;

/// The nibbles of 16 bytes: the low ones first, then the high ones.
#[inline]
fn nibbles(bytes: &[u8]) -> [u8; GROUP] {
    let bytes: &[u8; 16] = &bytes.as_chunks().0[0];
    each(|i| if i < 16 { bytes[i] & 15 } else { bytes[i - 16] >> 4 })
}

/// The nibbles of `bytes` with a fifth bit each from the four bytes at `high`.
#[inline]
fn five_bits(high: &[u8], bytes: &[u8]) -> [u8; GROUP] {
    let low = nibbles(bytes);
    let halves = [u16::from_le_bytes([high[0], high[1]]), u16::from_le_bytes([high[2], high[3]])];
    each(|i| low[i] | ((halves[i / 16] >> (i % 16) & 1) << 4) as u8)
}

impl BlockFormat for Q4_0 {
    const LEN: usize = 32;
    const BYTES: usize = 18;

    #[inline]
    fn group(block: &[u8], _: usize) -> Group {
        let q = nibbles(&block[2..18]);
        let q = each(|i| q[i] as i8 - 8);
        Group { q, scale: [half(block, 0); 2], offset: [0.0; 2] }
    }
}

impl BlockFormat for Q4_1 {
    const LEN: usize = 32;
    const BYTES: usize = 20;
    const OFFSET: bool = true;

    #[inline]
    fn group(block: &[u8], _: usize) -> Group {
        let q = nibbles(&block[4..20]);
        let q = each(|i| q[i] as i8);
        Group { q, scale: [half(block, 0); 2], offset: [half(block, 2); 2] }
    }
}

impl BlockFormat for Q5_0 {
    const LEN: usize = 32;
    const BYTES: usize = 22;

    #[inline]
    fn group(block: &[u8], _: usize) -> Group {
        let q = five_bits(&block[2..6], &block[6..22]);
        let q = each(|i| q[i] as i8 - 16);
        Group { q, scale: [half(block, 0); 2], offset: [0.0; 2] }
    }
}

impl BlockFormat for Q5_1 {
    const LEN: usize = 32;
    const BYTES: usize = 24;
    const OFFSET: bool = true;

    #[inline]
    fn group(block: &[u8], _: usize) -> Group {
        let q = five_bits(&block[4..8], &block[8..24]);
        let q = each(|i| q[i] as i8);
        Group { q, scale: [half(block, 0); 2], offset: [half(block, 2); 2] }
    }
}

impl BlockFormat for Q8_0 {
    const LEN: usize = 32;
    const BYTES: usize = 34;

    #[inline]
    fn group(block: &[u8], _: usize) -> Group {
        let bytes: &[u8; GROUP] = &block[2..34].as_chunks().0[0];
        Group { q: each(|i| bytes[i] as i8), scale: [half(block, 0); 2], offset: [0.0; 2] }
    }
}
