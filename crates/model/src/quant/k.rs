//! The block types of 256 elements, with small integer scales inside a block.

use super::float::half;
use super::{BlockFormat, GROUP, Group, each};

pub(super) struct Q2K;
pub(super) struct Q3K;
pub(super) struct Q4K;
pub(super) struct Q5K;
pub(super) struct Q6K;

/// Scale and minimum of a group of [`Q4K`] and [`Q5K`]: six bits each, eight pairs in twelve bytes. The first four pairs
/// are the low bits of bytes 0..8; the last four have their low nibbles in bytes 8..12 and their high bits on top of the
/// first.
#[inline(always)]
fn scale_and_min(scales: &[u8], index: usize) -> (f32, f32) {
    let (scale, min) = if index < 4 {
        (scales[index] & 63, scales[index + 4] & 63)
    } else {
        (
            scales[index + 4] & 15 | scales[index - 4] >> 6 << 4,
            scales[index + 4] >> 4 | scales[index] >> 6 << 4,
        )
    };
    (f32::from(scale), f32::from(min))
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
    fn group(block: &[u8], index: usize) -> Group {
        let (scale, min) = scale_and_min(&block[4..16], index);
        let bytes = thirty_two(&block[16 + index / 2 * 32..]);
        let shift = index % 2 * 4;
        let q = each(|i| (bytes[i] >> shift & 15) as i16);
        Group { q, scale: [half(block, 0) * scale; 2], offset: [-(half(block, 2) * min); 2] }
    }
}

impl BlockFormat for Q5K {
    const LEN: usize = 256;
    const BYTES: usize = 176;
    const OFFSET: bool = true;

    #[inline(always)]
    fn group(block: &[u8], index: usize) -> Group {
        let (scale, min) = scale_and_min(&block[4..16], index);
        let high = thirty_two(&block[16..48]);
        let bytes = thirty_two(&block[48 + index / 2 * 32..]);
        let shift = index % 2 * 4;
        let q = each(|i| (bytes[i] >> shift & 15 | (high[i] >> index & 1) << 4) as i16);
        Group { q, scale: [half(block, 0) * scale; 2], offset: [-(half(block, 2) * min); 2] }
    }
}

impl BlockFormat for Q6K {
    const LEN: usize = 256;
    const BYTES: usize = 210;
    const SPLIT: bool = true;

    /// Half a block, four groups, shares 64 bytes of low nibbles and 32 bytes of high bit pairs.
    #[inline(always)]
    fn group(block: &[u8], index: usize) -> Group {
        let (half_block, part) = (index / 4, index % 4);
        let low = thirty_two(&block[half_block * 64 + part % 2 * 32..]);
        let high = thirty_two(&block[128 + half_block * 32..]);
        let scales = &block[192 + index * 2..];
        let d = half(block, 208);
        let q = each(|i| (low[i] >> (part / 2 * 4) & 15 | (high[i] >> (part * 2) & 3) << 4) as i16 - 32);
        Group { q, scale: [d * f32::from(scales[0] as i8), d * f32::from(scales[1] as i8)], offset: [0.0; 2] }
    }
}

impl BlockFormat for Q3K {
    const LEN: usize = 256;
    const BYTES: usize = 110;
    const SPLIT: bool = true;

    /// Two low bits in `block[32..96]`, and a high bit in `block[0..32]` that is clear where 4 is to be taken off.
    #[inline(always)]
    fn group(block: &[u8], index: usize) -> Group {
        let high = thirty_two(block);
        let low = thirty_two(&block[32 + index / 4 * 32..]);
        let shift = index % 4 * 2;
        let q = each(|i| (low[i] >> shift & 3 | (high[i] >> index & 1) << 2) as i16 - 4);
        let d = half(block, 108);
        let scale = |at: usize| {
            // Sixteen six-bit scales in twelve bytes: low nibbles in the first eight, bit pairs in the last four.
            let nibble = if at < 8 { block[96 + at] & 15 } else { block[96 + at - 8] >> 4 };
            let pair = block[104 + at % 4] >> (at / 4 * 2) & 3;
            d * f32::from((nibble | pair << 4) as i8 - 32)
        };
        Group { q, scale: [scale(index * 2), scale(index * 2 + 1)], offset: [0.0; 2] }
    }
}

impl BlockFormat for Q2K {
    const LEN: usize = 256;
    const BYTES: usize = 84;
    const SPLIT: bool = true;
    const OFFSET: bool = true;

    #[inline(always)]
    fn group(block: &[u8], index: usize) -> Group {
        let bytes = thirty_two(&block[16 + index / 4 * 32..]);
        let shift = index % 4 * 2;
        let q = each(|i| (bytes[i] >> shift & 3) as i16);
        let (d, min) = (half(block, 80), half(block, 82));
        let scales = &block[index * 2..];
        let scale = |at: usize| d * f32::from(scales[at] & 15);
        let offset = |at: usize| -(min * f32::from(scales[at] >> 4));
        Group { q, scale: [scale(0), scale(1)], offset: [offset(0), offset(1)] }
    }
}
