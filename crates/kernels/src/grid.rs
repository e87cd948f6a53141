//! The block types with grids: an index into a table stands for four or eight neighbouring
//! elements.
//!
//! Packed tiles contain codes of single elements instead of indices, because vectors look up bytes
//! in tables of 16 levels only. A code is an index of a level: the low bits are the magnitude, and
//! the highest bit is the sign. Packed rows are therefore larger than rows in a file:
//!
//! | type | bits per element in a file | bits per element when packed |
//! |---|---|---|
//! | `IQ1_S` | 1.56 | 2.19 |
//! | `IQ1_M` | 1.75 | 3.31 |
//! | `IQ2_XXS` | 2.06 | 3.19 |
//! | `IQ2_XS` | 2.31 | 3.31 |
//! | `IQ2_S` | 2.56 | 3.31 |
//! | `IQ3_XXS` | 3.06 | 4.19 |
//! | `IQ3_S` | 3.44 | 4.19 |
//!
//! All scales are odd multiples of a unit: `unit * d * (2 * s + 1)`, where `d` is the scale of the
//! block and `s` has three or four bits.

use crate::float::from_half;
use crate::format::{BlockFormat, GROUP, Head, Header, each};
use crate::grids;
use crate::k::head;
use crate::legacy::word;
use crate::table::biased;

pub(crate) struct Iq1S;
pub(crate) struct Iq1M;
pub(crate) struct Iq2Xxs;
pub(crate) struct Iq2Xs;
pub(crate) struct Iq2S;
pub(crate) struct Iq3Xxs;
pub(crate) struct Iq3S;

/// A type whose scales are odd multiples of a unit. The raw header contains the scale of the block
/// and the factors `s`. Each byte has two factors, the first one in its low half.
pub(crate) trait OddScales: BlockFormat {
    /// Factor of all scales, a power of two.
    const UNIT: f32;
}

/// Levels of IQ2. The fourth magnitude does not occur.
const IQ2_LEVELS: [u8; 16] = biased([8, 25, 43, 0, -8, -25, -43, 0, 0, 0, 0, 0, 0, 0, 0, 0], IQ2_BIAS);
const IQ2_BIAS: u32 = 6;

/// Levels of [`Iq3Xxs`]: halves of its magnitudes, which are even.
const IQ3_XXS_LEVELS: [u8; 16] =
    biased([2, 6, 10, 14, 18, 22, 26, 31, -2, -6, -10, -14, -18, -22, -26, -31], IQ3_XXS_BIAS);
const IQ3_XXS_BIAS: u32 = 5;

const IQ3_S_LEVELS: [u8; 16] =
    biased([1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15], IQ3_S_BIAS);
const IQ3_S_BIAS: u32 = 4;

/// Levels of [`Iq1M`], in eighths: -1, 0 and 1, each plus or minus [`DELTA`].
const IQ1_M_LEVELS: [u8; 16] = biased([-7, 1, 9, 0, -9, -1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0], IQ1_M_BIAS);
const IQ1_M_BIAS: u32 = 4;

/// Distance of the elements of IQ1 from whole multiples of their scale.
pub(crate) const DELTA: f32 = 0.125;

/// Creates a raw header from the scale of a block and the factors of its `N` pairs of scales.
#[inline(always)]
fn paired<const N: usize>(scale: u16, factor: impl Fn(usize) -> u8) -> Head {
    let pairs: [u8; N] = each(|i| factor(2 * i) | factor(2 * i + 1) << 4);
    head::<N>([scale, 0], &pairs)
}

#[inline(always)]
fn odd_header<B: OddScales>(head: &Head) -> Header {
    let unit = from_half(head.halves[0]) * B::UNIT;
    // Only the first eight bytes have factors. Eight scales have only four of them.
    let scale = |i: usize| unit * f32::from(2 * (head.bytes[i / 2] >> (i % 2 * 4) & 15) + 1);
    Header { scale: each(scale), offset: [0.0; 16] }
}

/// Returns the 32-bit integer at `bytes[at..at + 4]`.
#[inline(always)]
fn double_word(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) | u32::from(word(bytes, at + 2)) << 16
}

/// Adds the sign of the last element to the signs of the other seven. The number of negative
/// elements is even.
#[inline(always)]
fn even_signs(seven: u8) -> u8 {
    seven | (seven.count_ones() as u8 & 1) << 7
}

/// Returns the `index`-th seven of 28 sign bits, as eight signs.
#[inline(always)]
fn quarter_signs(signs: u32, index: usize) -> u8 {
    even_signs((signs >> (7 * index)) as u8 & 127)
}

/// Returns 32 codes. `eight` returns the magnitudes of eight elements, of `BITS` bits each, and
/// their signs.
#[inline(always)]
fn signed_codes<const BITS: usize>(eight: impl Fn(usize) -> (u32, u8)) -> [u8; GROUP] {
    let mut codes = [0; GROUP];
    for (i, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let (magnitudes, signs) = eight(i);
        *codes = each(|j| {
            let magnitude = (magnitudes >> (BITS * j)) as u8 & ((1 << BITS) - 1);
            magnitude | (signs >> j & 1) << BITS
        });
    }
    codes
}

/// Returns eight magnitudes of two bits. Bits of `index` above those of an index are ignored.
#[inline(always)]
fn two_bits<const N: usize>(grid: &[u16; N], index: usize) -> u32 {
    // The length of every grid is a power of two.
    u32::from(grid[index % N])
}

/// Returns eight magnitudes of three bits: those of the entries `2 * pair` and `2 * pair + 1`.
#[inline(always)]
fn three_bits<const N: usize>(grid: &[u16; N], index: impl Fn(usize) -> usize, pair: usize) -> u32 {
    let four = |i: usize| u32::from(grid[index(i) % N]);
    four(2 * pair) | four(2 * pair + 1) << 12
}

impl BlockFormat for Iq2Xxs {
    const LEN: usize = 256;
    const BYTES: usize = 66;
    const BITS: usize = 3;
    const HALVES: usize = 1;
    const SMALL: usize = 4;
    const BIAS: Option<u32> = Some(IQ2_BIAS);
    const LEVELS: Option<[u8; 16]> = Some(IQ2_LEVELS);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        paired::<4>(word(block, 0), |group| block[9 + 8 * group] >> 4)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        odd_header::<Self>(head)
    }

    /// Decodes four bytes with indices and four bytes with 28 signs.
    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let eights = &block[2 + 8 * index..];
        let signs = double_word(eights, 4);
        signed_codes::<2>(|i| (two_bits(&grids::IQ2_XXS, eights[i].into()), quarter_signs(signs, i)))
    }
}

impl OddScales for Iq2Xxs {
    const UNIT: f32 = 0.125;
}

impl BlockFormat for Iq2Xs {
    const LEN: usize = 256;
    const BYTES: usize = 74;
    const BITS: usize = 3;
    const HALVES: usize = 1;
    const SMALL: usize = 8;
    const SPLIT: bool = true;
    const BIAS: Option<u32> = Some(IQ2_BIAS);
    const LEVELS: Option<[u8; 16]> = Some(IQ2_LEVELS);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        head::<8>([word(block, 0), 0], &block[66..])
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        odd_header::<Self>(head)
    }

    /// Decodes words of nine index bits and seven signs.
    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        signed_codes::<2>(|i| {
            let word = word(block, 2 + 8 * index + 2 * i);
            (two_bits(&grids::IQ2_XS, word.into()), even_signs((word >> 9) as u8))
        })
    }
}

impl OddScales for Iq2Xs {
    const UNIT: f32 = 0.125;
}

impl BlockFormat for Iq2S {
    const LEN: usize = 256;
    const BYTES: usize = 82;
    const BITS: usize = 3;
    const HALVES: usize = 1;
    const SMALL: usize = 8;
    const SPLIT: bool = true;
    const BIAS: Option<u32> = Some(IQ2_BIAS);
    const LEVELS: Option<[u8; 16]> = Some(IQ2_LEVELS);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        head::<8>([word(block, 0), 0], &block[74..])
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        odd_header::<Self>(head)
    }

    /// Combines the low eight bits of indices, their upper two bits and all signs.
    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let (low, signs, high) = (&block[2 + 4 * index..], &block[34 + 4 * index..], block[66 + index]);
        signed_codes::<2>(|i| {
            let entry = usize::from(low[i]) | usize::from(high >> (2 * i) & 3) << 8;
            (two_bits(&grids::IQ2_S, entry), signs[i])
        })
    }
}

impl OddScales for Iq2S {
    const UNIT: f32 = 0.125;
}

impl BlockFormat for Iq3Xxs {
    const LEN: usize = 256;
    const BYTES: usize = 98;
    const BITS: usize = 4;
    const HALVES: usize = 1;
    const SMALL: usize = 4;
    const BIAS: Option<u32> = Some(IQ3_XXS_BIAS);
    const LEVELS: Option<[u8; 16]> = Some(IQ3_XXS_LEVELS);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        paired::<4>(word(block, 0), |group| block[69 + 4 * group] >> 4)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        odd_header::<Self>(head)
    }

    /// Decodes eight bytes with indices and four bytes with 28 signs.
    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let fours = &block[2 + 8 * index..];
        let signs = double_word(block, 66 + 4 * index);
        signed_codes::<3>(|i| {
            (three_bits(&grids::IQ3_XXS, |four| fours[four].into(), i), quarter_signs(signs, i))
        })
    }
}

impl OddScales for Iq3Xxs {
    const UNIT: f32 = 0.5;
}

impl BlockFormat for Iq3S {
    const LEN: usize = 256;
    const BYTES: usize = 110;
    const BITS: usize = 4;
    const HALVES: usize = 1;
    const SMALL: usize = 4;
    const BIAS: Option<u32> = Some(IQ3_S_BIAS);
    const LEVELS: Option<[u8; 16]> = Some(IQ3_S_LEVELS);

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        head::<4>([word(block, 0), 0], &block[106..])
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        odd_header::<Self>(head)
    }

    /// Combines the low eight bits of indices, their ninth bit and all signs.
    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let (low, high, signs) = (&block[2 + 8 * index..], block[66 + index], &block[74 + 4 * index..]);
        let entry = |four: usize| usize::from(low[four]) | usize::from(high >> four & 1) << 8;
        signed_codes::<3>(|i| (three_bits(&grids::IQ3_S, entry, i), signs[i]))
    }
}

impl OddScales for Iq3S {
    const UNIT: f32 = 1.0;
}

impl BlockFormat for Iq1S {
    const LEN: usize = 256;
    const BYTES: usize = 50;
    const BITS: usize = 2;
    const HALVES: usize = 1;
    const SMALL: usize = 4;
    const OFFSET: bool = true;

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        paired::<4>(word(block, 0), |group| block[35 + 2 * group] >> 4)
    }

    /// Decodes factors of three bits. The fourth bit is the sign of the distance from whole
    /// multiples of the scale.
    #[inline(always)]
    fn header(head: &Head) -> Header {
        let d = from_half(head.halves[0]);
        let mut header = Header { scale: [0.0; 16], offset: [0.0; 16] };
        for i in 0..8 {
            let four = head.bytes[i / 2] >> (i % 2 * 4) & 15;
            header.scale[i] = d * f32::from(2 * (four & 7) + 1);
            // The levels are greater by one than the integers. An offset of minus one and plus or
            // minus `DELTA` is -7 or -9 times `DELTA`.
            header.offset[i] = header.scale[i] * -DELTA * f32::from(2 * (four >> 3) + 7);
        }
        header
    }

    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let (low, high) = (&block[2 + 4 * index..], word(block, 34 + 2 * index));
        let mut codes = [0; GROUP];
        for (i, codes) in codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let entry = usize::from(low[i]) | usize::from(high >> (3 * i) & 7) << 8;
            let eight = two_bits(&grids::IQ1, entry);
            *codes = each(|j| (eight >> (2 * j)) as u8 & 3);
        }
        codes
    }
}

impl BlockFormat for Iq1M {
    const LEN: usize = 256;
    const BYTES: usize = 56;
    const BITS: usize = 3;
    const HALVES: usize = 1;
    const SMALL: usize = 8;
    const SPLIT: bool = true;
    const BIAS: Option<u32> = Some(IQ1_M_BIAS);
    const LEVELS: Option<[u8; 16]> = Some(IQ1_M_LEVELS);

    /// Decodes four words. Each has the factors of four scales in its low twelve bits, and four
    /// bits of the block's scale above them.
    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        let words: [u16; 4] = each(|i| word(block, 48 + 2 * i));
        let scale = words.iter().rev().fold(0, |scale, word| scale << 4 | word >> 12);
        paired::<8>(scale, |i| (words[i / 4] >> (i % 4 * 3)) as u8 & 7)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        odd_header::<Self>(head)
    }

    /// Combines the low eight bits of indices and nibbles with their upper three bits. The fourth
    /// bit of a nibble is the sign of the distance from whole multiples of the scale.
    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        let (low, high) = (&block[4 * index..], &block[32 + 2 * index..]);
        signed_codes::<2>(|i| {
            let four = high[i / 2] >> (i % 2 * 4) & 15;
            let entry = usize::from(low[i]) | usize::from(four & 7) << 8;
            (two_bits(&grids::IQ1, entry), if four < 8 { 0 } else { u8::MAX })
        })
    }
}

impl OddScales for Iq1M {
    const UNIT: f32 = DELTA;
}
