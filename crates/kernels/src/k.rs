//! The block types of 256 elements, with small integer scales inside a block.

use crate::float::half;
use crate::format::{BlockFormat, GROUP, Header, each};

pub(crate) struct Q2K;
pub(crate) struct Q3K;
pub(crate) struct Q4K;
pub(crate) struct Q5K;
pub(crate) struct Q6K;

/// The header of [`Q4K`] and [`Q5K`]: a scale and a minimum for each of eight groups, six bits each, in twelve bytes. The
/// first four of both are the low bits of bytes 0..8; the last four have their low nibbles in bytes 8..12 and their high
/// bits on top of the first.
#[inline(always)]
fn six_bit_header(block: &[u8]) -> Header {
    let (d, min) = (half(block, 0), half(block, 2));
    let scales: &[u8; 12] = &block[4..16].as_chunks().0[0];
    let mut header = Header { scale: [0.0; 16], offset: [0.0; 16] };
    for i in 0..4 {
        header.scale[i] = d * f32::from(scales[i] & 63);
        header.scale[i + 4] = d * f32::from(scales[i + 8] & 15 | scales[i] >> 6 << 4);
        header.offset[i] = -(min * f32::from(scales[i + 4] & 63));
        header.offset[i + 4] = -(min * f32::from(scales[i + 8] >> 4 | scales[i + 4] >> 6 << 4));
    }
    header
}

#[inline(always)]
fn thirty_two(bytes: &[u8]) -> &[u8; GROUP] {
    &bytes.as_chunks().0[0]
}

impl BlockFormat for Q4K {
    const LEN: usize = 256;
    const BYTES: usize = 144;
    const OFFSET: bool = true;

    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        six_bit_header(block)
    }

    #[inline(always)]
    fn group(block: &[u8], index: usize) -> [i16; GROUP] {
        let bytes = thirty_two(&block[16 + index / 2 * 32..]);
        let shift = index % 2 * 4;
        each(|i| i16::from(bytes[i] >> shift & 15))
    }
}

impl BlockFormat for Q5K {
    const LEN: usize = 256;
    const BYTES: usize = 176;
    const OFFSET: bool = true;

    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        six_bit_header(block)
    }

    #[inline(always)]
    fn group(block: &[u8], index: usize) -> [i16; GROUP] {
        let high = thirty_two(&block[16..48]);
        let bytes = thirty_two(&block[48 + index / 2 * 32..]);
        let shift = index % 2 * 4;
        each(|i| i16::from(bytes[i] >> shift & 15 | (high[i] >> index & 1) << 4))
    }
}

impl BlockFormat for Q6K {
    const LEN: usize = 256;
    const BYTES: usize = 210;
    const SPLIT: bool = true;

    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        let d = half(block, 208);
        let scales: &[u8; 16] = &block[192..208].as_chunks().0[0];
        Header { scale: each(|i| d * f32::from(scales[i] as i8)), offset: [0.0; 16] }
    }

    /// Half a block, four groups, shares 64 bytes of low nibbles and 32 bytes of high bit pairs.
    #[inline(always)]
    fn group(block: &[u8], index: usize) -> [i16; GROUP] {
        let (half_block, part) = (index / 4, index % 4);
        let low = thirty_two(&block[half_block * 64 + part % 2 * 32..]);
        let high = thirty_two(&block[128 + half_block * 32..]);
        let (low_shift, high_shift) = (part / 2 * 4, part * 2);
        each(|i| i16::from(low[i] >> low_shift & 15 | (high[i] >> high_shift & 3) << 4) - 32)
    }
}

impl BlockFormat for Q3K {
    const LEN: usize = 256;
    const BYTES: usize = 110;
    const SPLIT: bool = true;

    /// Sixteen six-bit scales in twelve bytes: low nibbles in the first eight, bit pairs in the last four.
    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        let d = half(block, 108);
        let bytes: &[u8; 12] = &block[96..108].as_chunks().0[0];
        let scale = |i: usize| {
            let nibble = bytes[i % 8] >> (i / 8 * 4) & 15;
            let pair = bytes[8 + i % 4] >> (i / 4 * 2) & 3;
            d * f32::from((nibble | pair << 4) as i8 - 32)
        };
        Header { scale: each(scale), offset: [0.0; 16] }
    }

    /// Two low bits in `block[32..96]`, and a high bit in `block[0..32]` that is clear where 4 is to be taken off.
    #[inline(always)]
    fn group(block: &[u8], index: usize) -> [i16; GROUP] {
        let high = thirty_two(block);
        let low = thirty_two(&block[32 + index / 4 * 32..]);
        let shift = index % 4 * 2;
        each(|i| i16::from(low[i] >> shift & 3 | (high[i] >> index & 1) << 2) - 4)
    }
}

impl BlockFormat for Q2K {
    const LEN: usize = 256;
    const BYTES: usize = 84;
    const SPLIT: bool = true;
    const OFFSET: bool = true;

    #[inline(always)]
    fn header(block: &[u8]) -> Header {
        let (d, min) = (half(block, 80), half(block, 82));
        let scales: &[u8; 16] = &block[..16].as_chunks().0[0];
        Header {
            scale: each(|i| d * f32::from(scales[i] & 15)),
            offset: each(|i| -(min * f32::from(scales[i] >> 4))),
        }
    }

    #[inline(always)]
    fn group(block: &[u8], index: usize) -> [i16; GROUP] {
        let bytes = thirty_two(&block[16 + index / 4 * 32..]);
        let shift = index % 4 * 2;
        each(|i| i16::from(bytes[i] >> shift & 3))
    }
}
