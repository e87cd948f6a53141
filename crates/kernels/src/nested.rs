//! Block types whose low bits lie apart, so that a first look at a row need not read them.
//!
//! The high four bits of a code and the middle of what its low bits can be give a product to within a bound that follows from
//! how far the low bits of the row are from that middle: see [`bounds`](crate::bounds).

use std::marker::PhantomData;

use crate::format::{BlockFormat, GROUP, Head, Header};

/// The same blocks with the low bits of their codes, all but four, apart. The type must have more than four.
pub(crate) struct Nested<B>(PhantomData<B>);

impl<B: BlockFormat> BlockFormat for Nested<B> {
    const LEN: usize = B::LEN;
    const BYTES: usize = B::BYTES;
    const BITS: usize = B::BITS;
    const LOW: usize = B::BITS - 4;
    const HALVES: usize = B::HALVES;
    const SMALL: usize = B::SMALL;
    const SPLIT: bool = B::SPLIT;
    const OFFSET: bool = B::OFFSET;
    const BIAS: Option<u32> = B::BIAS;
    const LEVELS: Option<[u8; 16]> = B::LEVELS;

    #[inline(always)]
    fn head(block: &[u8]) -> Head {
        B::head(block)
    }

    #[inline(always)]
    fn header(head: &Head) -> Header {
        B::header(head)
    }

    #[inline(always)]
    fn codes(block: &[u8], index: usize) -> [u8; GROUP] {
        B::codes(block, index)
    }
}

/// The middle of what the low bits can be.
pub(crate) const fn middle<B: BlockFormat>() -> i32 {
    1 << B::LOW >> 1
}

/// Elements that share a scale.
const fn scaled<B: BlockFormat>() -> usize {
    if B::SPLIT { GROUP / 2 } else { GROUP }
}

/// The sum of the squares of how far the low bits of a group are from their middle: of a half, the larger, where halves have
/// scales of their own.
#[inline(always)]
pub(crate) fn spread<B: BlockFormat>(codes: &[u8; GROUP]) -> u32 {
    let square = |code: &u8| {
        let rest = i32::from(code & ((1 << B::LOW) - 1)) - middle::<B>();
        (rest * rest) as u32
    };
    let half = |half: &[u8]| half.iter().map(square).sum::<u32>();
    let (first, second) = codes.split_at(GROUP / 2);
    if B::SPLIT { half(first).max(half(second)) } else { half(first) + half(second) }
}

/// The square root of the largest [`spread`] there can be.
fn largest_spread<B: BlockFormat>() -> f32 {
    middle::<B>() as f32 * (scaled::<B>() as f32).sqrt()
}

/// The steps in which a row tells the square root of its largest [`spread`]: see [`low_byte`].
pub(crate) fn spread_step<B: BlockFormat>() -> f32 {
    largest_spread::<B>() / 255.0
}

/// The square root of a spread in a byte, never less than it is.
pub(crate) fn low_byte<B: BlockFormat>(spread: u32) -> u8 {
    // At least 1: what is off by rounding alone is counted in the same unit.
    let steps = (spread.max(1) as f32).sqrt() / spread_step::<B>();
    // One step more, for the roundings on the way.
    (steps as u8).saturating_add(1)
}
