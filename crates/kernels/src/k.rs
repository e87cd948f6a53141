//! The block types of 256 elements (K-quants), with small integer scales inside a block.

use crate::float::from_half;
use crate::format::{BlockFormat, GROUP, Head, Header, each};
use crate::legacy::word;

pub(crate) struct Q2K;
pub(crate) struct Q3K;
pub(crate) struct Q4K;
pub(crate) struct Q5K;
pub(crate) struct Q6K;

#[inline(always)]
pub(crate) fn thirty_two(bytes: &[u8]) -> &[u8; GROUP] {
    &bytes.as_chunks().0[0]
}

/// Creates a raw header from `halves` and the first `N` bytes of `small`.
#[inline(always)]
pub(crate) fn head<const N: usize>(halves: [u16; 2], small: &[u8]) -> Head {
    let mut bytes = [0; 16];
    bytes[..N].copy_from_slice(&small[..N]);
    Head { halves, bytes }
}

/// Decodes the header of [`Q4K`] and [`Q5K`]: six-bit scales and minimums of eight groups in twelve
/// bytes.
///
/// For groups 0 to 3, the scale is the low six bits of byte `i`, and the minimum the low six bits
/// of byte `i + 4`. For groups 4 to 7, byte `i + 4` contains the low four bits of both: of the
/// scale in its low half, of the minimum in its high half. The upper two bits of the scale are the
/// top bits of byte `i - 4`, and those of the minimum the top bits of byte `i`.
#[inline(always)]
fn six_bit_header(head: &Head) -> Header {
    let (d, min) = (from_half(head.halves[0]), from_half(head.halves[1]));
    let scales = &head.bytes;
    let mut header = Header { scale: [0.0; 16], offset: [0.0; 16] };
    for i in 0..4 {
        header.scale[i] = d * f32::from(scales[i] & 63);
        header.scale[i + 4] = d * f32::from(scales[i + 8] & 15 | scales[i] >> 6 << 4);
        header.offset[i] = -(min * f32::from(scales[i + 4] & 63));
        header.offset[i + 4] = -(min * f32::from(scales[i + 8] >> 4 | scales[i + 4] >> 6 << 4));
    }
    header
}

impl BlockFormat for Q4K {
    const LEN: usize = 256;
    const BYTES: usize = 144;
    const BITS: usize = 4;
    const HALVES: usize = 2;
    const SMALL: usize = 12;
    const OFFSET: bool = true;

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        head::<12>([word(block, 0), word(block, 2)], &block[4..16])
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        six_bit_header(head)
    }

    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let bytes = thirty_two(&block[16 + index / 2 * 32..]);
        let shift = index % 2 * 4;
        each(|i| bytes[i] >> shift & 15)
    }
}

impl BlockFormat for Q5K {
    const LEN: usize = 256;
    const BYTES: usize = 176;
    const BITS: usize = 5;
    const HALVES: usize = 2;
    const SMALL: usize = 12;
    const OFFSET: bool = true;

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        head::<12>([word(block, 0), word(block, 2)], &block[4..16])
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        six_bit_header(head)
    }

    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let high = thirty_two(&block[16..48]);
        let bytes = thirty_two(&block[48 + index / 2 * 32..]);
        let shift = index % 2 * 4;
        each(|i| bytes[i] >> shift & 15 | (high[i] >> index & 1) << 4)
    }
}

impl BlockFormat for Q6K {
    const LEN: usize = 256;
    const BYTES: usize = 210;
    const BITS: usize = 6;
    const HALVES: usize = 1;
    const SMALL: usize = 16;
    const SPLIT: bool = true;
    const BIAS: Option<u32> = Some(5);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        head::<16>([word(block, 208), 0], &block[192..208])
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        let d = from_half(head.halves[0]);
        Header { scale: each(|i| d * f32::from(head.bytes[i] as i8)), offset: [0.0; 16] }
    }

    /// Combines low nibbles and high bit pairs. The four groups of each half block share 64 bytes
    /// of nibbles and 32 bytes of bit pairs.
    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let (half_block, part) = (index / 4, index % 4);
        let low = thirty_two(&block[half_block * 64 + part % 2 * 32..]);
        let high = thirty_two(&block[128 + half_block * 32..]);
        let (low_shift, high_shift) = (part / 2 * 4, part * 2);
        each(|i| low[i] >> low_shift & 15 | (high[i] >> high_shift & 3) << 4)
    }
}

impl BlockFormat for Q3K {
    const LEN: usize = 256;
    const BYTES: usize = 110;
    const BITS: usize = 3;
    const HALVES: usize = 1;
    const SMALL: usize = 12;
    const SPLIT: bool = true;
    const BIAS: Option<u32> = Some(2);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        head::<12>([word(block, 108), 0], &block[96..108])
    }

    /// Decodes sixteen six-bit scales in twelve bytes. The first eight bytes contain the low
    /// nibbles, the last four the high bit pairs.
    #[inline(always)]
    fn header(head: &Head) -> Header {
        let d = from_half(head.halves[0]);
        let scale = |i: usize| {
            let nibble = head.bytes[i % 8] >> (i / 8 * 4) & 15;
            let pair = head.bytes[8 + i % 4] >> (i / 4 * 2) & 3;
            d * f32::from((nibble | pair << 4) as i8 - 32)
        };
        Header { scale: each(scale), offset: [0.0; 16] }
    }

    /// Combines two low bits in `block[32..96]` and a high bit in `block[0..32]`. The integer of an
    /// element is its code minus 4.
    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let high = thirty_two(block);
        let low = thirty_two(&block[32 + index / 4 * 32..]);
        let shift = index % 4 * 2;
        each(|i| low[i] >> shift & 3 | (high[i] >> index & 1) << 2)
    }
}

impl BlockFormat for Q2K {
    const LEN: usize = 256;
    const BYTES: usize = 84;
    const BITS: usize = 2;
    const HALVES: usize = 2;
    const SMALL: usize = 16;
    const SPLIT: bool = true;
    const OFFSET: bool = true;

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        head::<16>([word(block, 80), word(block, 82)], &block[..16])
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        let (d, min) = (from_half(head.halves[0]), from_half(head.halves[1]));
        Header {
            scale: each(|i| d * f32::from(head.bytes[i] & 15)),
            offset: each(|i| -(min * f32::from(head.bytes[i] >> 4))),
        }
    }

    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let bytes = thirty_two(&block[16 + index / 4 * 32..]);
        let shift = index % 4 * 2;
        each(|i| bytes[i] >> shift & 3)
    }
}
