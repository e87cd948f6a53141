//! Block types whose low bits are stored separately. An estimate of a row's product can skip the
//! low bits.
//!
//! The estimate uses the high four bits of each code, with the low bits at their midpoint. The
//! error bound follows from the distances of the row's low bits from the midpoint: see
//! [`bounds`](crate::bounds).

use std::marker::PhantomData;

use crate::format::{BlockFormat, GROUP, Head, Header};

/// The block type `B`, packed so that the high four bits of codes are stored apart from the low
/// bits. `B` must have more than four bits.
pub(crate) struct SplitBits<B>(PhantomData<B>);

impl<B: BlockFormat> BlockFormat for SplitBits<B> {
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

/// Returns the midpoint of the low bits: 8 for four low bits, 2 for two.
pub(crate) const fn middle<B: BlockFormat>() -> i32 {
    1 << B::LOW >> 1
}

/// Returns the number of elements that share a scale.
const fn scaled<B: BlockFormat>() -> usize {
    if B::SPLIT { GROUP / 2 } else { GROUP }
}

/// Returns the sum of squared distances of a group's low bits from their midpoint. If the halves of
/// a group have their own scales, returns the larger sum of the two halves.
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

/// Returns the square root of the largest [`spread`] that a group can have.
fn largest_spread<B: BlockFormat>() -> f32 {
    middle::<B>() as f32 * (scaled::<B>() as f32).sqrt()
}

/// Returns the unit of the byte that a row stores for its largest [`spread`]: see [`low_byte`].
pub(crate) fn spread_step<B: BlockFormat>() -> f32 {
    largest_spread::<B>() / 255.0
}

/// Encodes the square root of a spread as a byte in units of [`spread_step`], rounded up.
pub(crate) fn low_byte<B: BlockFormat>(spread: u32) -> u8 {
    // At least 1, because errors of rounding alone are measured in the same unit.
    let steps = (spread.max(1) as f32).sqrt() / spread_step::<B>();
    // One extra unit covers the rounding errors of this computation.
    (steps as u8).saturating_add(1)
}
