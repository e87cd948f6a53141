//! Unpacking of the heads of types with grids, whose scales are odd multiples of a unit.

use super::{Biased, Heads, Offset, Scales, SplitBiased, Unpack, bits, times};
use crate::format::BlockFormat;
use crate::grid::{DELTA, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, OddScales};
use crate::vectors::{Bytes, Vector};

macro_rules! odd_scales {
    ($($format:ty: $kind:ty),*) => {$(
        impl Unpack for $format {
            type Kind = $kind;

            #[inline(always)]
            unsafe fn scales<V: Vector>(heads: Heads, index: usize) -> Scales<V> {
                if Self::SPLIT {
                    let scale = [
                        odd_scale::<Self, V>(heads, 2 * index),
                        odd_scale::<Self, V>(heads, 2 * index + 1),
                    ];
                    Scales { scale, offset: scale }
                } else {
                    Scales::plain(odd_scale::<Self, V>(heads, index))
                }
            }
        }
    )*};
}

odd_scales!(Iq2Xxs: Biased, Iq3Xxs: Biased, Iq3S: Biased);
odd_scales!(Iq2Xs: SplitBiased, Iq2S: SplitBiased, Iq1M: SplitBiased);

/// Unpacks the scale with index `index` of a block.
///
/// # Safety
/// The requirements of [`Unpack::scales`] apply, except that `index` must be less than the number of
/// the block's scales.
#[inline(always)]
unsafe fn odd_scale<B: OddScales, V: Vector>(heads: Heads, index: usize) -> V::Floats {
    let factor = bits(heads.small::<B, V>(index / 2), index as u32 % 2 * 4, 15);
    times::<V>(V::times(heads.half::<V>(0), V::each_float(B::UNIT)), twice_plus(factor, 1))
}

/// Returns `2 * bytes + more` for each byte.
///
/// # Safety
/// The processor must support the instructions of the vector that uses `T`.
#[inline(always)]
unsafe fn twice_plus<T: Bytes>(bytes: T, more: u8) -> T {
    bytes.add(bytes).add(T::each(more))
}

impl Unpack for Iq1S {
    type Kind = Offset;

    #[inline(always)]
    unsafe fn scales<V: Vector>(heads: Heads, index: usize) -> Scales<V> {
        let four = bits(heads.small::<Self, V>(index / 2), index as u32 % 2 * 4, 15);
        let scale = times::<V>(heads.half::<V>(0), twice_plus(bits(four, 0, 7), 1));
        let unit = V::times(scale, V::each_float(-DELTA));
        Scales::offset(scale, times::<V>(unit, twice_plus(bits(four, 3, 1), 7)))
    }
}
