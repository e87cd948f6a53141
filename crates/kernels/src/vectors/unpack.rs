//! Unpacking of codes and heads into the vectors that are multiplied.

#![allow(unsafe_op_in_unsafe_fn, reason = "nearly every line is an operation of `Vector`")]

mod odd_scales;

use super::{Bytes, Vector};
use crate::format::BlockFormat;
use crate::k::{Q2K, Q3K, Q4K, Q5K, Q6K};
use crate::layout::{PIECES, PLANE, TILE_ROWS};
use crate::legacy::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use crate::nvfp4::{Nvfp4, UNBIAS};
use crate::split_bits::SplitBits;
use crate::table::{Iq4Nl, Iq4Xs, Mxfp4};
use crate::ternary::{Q1_0, Q2_0, Tq1_0, Tq2_0};

/// Scales and offsets of a group, with a row in each lane. The first entry of an array is for the
/// first half of the group, the second entry for the second half. They are equal if the halves
/// share a scale.
pub(crate) struct Scales<V: Vector> {
    pub(crate) scale: [V::Floats; 2],
    pub(crate) offset: [V::Floats; 2],
}

impl<V: Vector> Clone for Scales<V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V: Vector> Copy for Scales<V> {}

impl<V: Vector> Scales<V> {
    /// Creates scales for a type without offsets. The value of `offset` in the result has no
    /// meaning.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`.
    #[inline(always)]
    unsafe fn plain(scale: V::Floats) -> Self {
        Self { scale: [scale; 2], offset: [scale; 2] }
    }

    /// Creates scales and offsets that both halves of the group share.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`.
    #[inline(always)]
    unsafe fn offset(scale: V::Floats, offset: V::Floats) -> Self {
        Self { scale: [scale; 2], offset: [offset; 2] }
    }
}

/// Unpacks the levels of a group. Element `i` of the result holds piece `i` of the vector's rows.
///
/// # Safety
/// The processor must support the instructions of `V`. `codes` must point to the vector's first row
/// in the group's codes, and `low` to the same row in its separately stored low bits. Each plane
/// must be valid for reading a vector from there. If `B` has no separate low bits, `low` may be any
/// address.
#[inline(always)]
pub(crate) unsafe fn levels<B: BlockFormat, V: Vector>(
    codes: *const u8,
    low: *const u8,
) -> [V::Ints; PIECES] {
    if B::LOW > 0 {
        let (mut pieces, low) = (nibbles::<V>(codes), low_levels::<B, V>(low));
        for (piece, low) in pieces.iter_mut().zip(low) {
            *piece = V::or(if B::LOW == 2 { V::shl::<2>(*piece) } else { V::shl::<4>(*piece) }, low);
        }
        return pieces;
    }
    let mut pieces = match B::BITS {
        8 => {
            let mut pieces = [V::zero(); PIECES];
            for (index, piece) in pieces.iter_mut().enumerate() {
                *piece = plane::<V>(codes, index);
            }
            pieces
        }
        4..=6 => nibbles::<V>(codes),
        1 => single_bits::<V>(codes),
        _ => pairs::<V>(codes),
    };
    match B::BITS {
        3 => {
            let (high, mask) = (plane::<V>(codes, 2), V::splat_bytes(4));
            let high = [
                V::shl::<2>(high),
                V::shl::<1>(high),
                high,
                V::right::<1>(high),
                V::right::<2>(high),
                V::right::<3>(high),
                V::right::<4>(high),
                V::right::<5>(high),
            ];
            add_bits::<V>(&mut pieces, high, mask);
        }
        5 => {
            let (high, mask) = (plane::<V>(codes, 4), V::splat_bytes(16));
            let high = [
                V::shl::<4>(high),
                V::shl::<3>(high),
                V::shl::<2>(high),
                V::shl::<1>(high),
                high,
                V::right::<1>(high),
                V::right::<2>(high),
                V::right::<3>(high),
            ];
            add_bits::<V>(&mut pieces, high, mask);
        }
        6 => {
            let (low, high, mask) = (plane::<V>(codes, 4), plane::<V>(codes, 5), V::splat_bytes(48));
            let high = [
                V::shl::<4>(low),
                V::shl::<2>(low),
                low,
                V::right::<2>(low),
                V::shl::<4>(high),
                V::shl::<2>(high),
                high,
                V::right::<2>(high),
            ];
            add_bits::<V>(&mut pieces, high, mask);
        }
        _ => {}
    }
    if let Some(levels) = &B::LEVELS {
        for piece in &mut pieces {
            *piece = V::look_up(levels, *piece);
        }
    }
    pieces
}

/// Unpacks the separately stored low bits of a group, piece by piece.
///
/// # Safety
/// The requirements of [`levels`] apply.
#[inline(always)]
pub(crate) unsafe fn low_levels<B: BlockFormat, V: Vector>(low: *const u8) -> [V::Ints; PIECES] {
    if B::LOW == 2 { pairs::<V>(low) } else { nibbles::<V>(low) }
}

/// Unpacks codes of four bits, piece by piece. For types with split bits, these are the high bits.
///
/// # Safety
/// The requirements of [`levels`] apply.
#[inline(always)]
pub(crate) unsafe fn nibbles<V: Vector>(codes: *const u8) -> [V::Ints; PIECES] {
    let (mut pieces, mask) = ([V::zero(); PIECES], V::splat_bytes(15));
    for piece in 0..4 {
        let both = plane::<V>(codes, piece);
        pieces[piece] = V::and(both, mask);
        pieces[piece + 4] = V::and(V::right::<4>(both), mask);
    }
    pieces
}

/// Unpacks codes of two bits, piece by piece.
///
/// # Safety
/// The requirements of [`levels`] apply.
#[inline(always)]
unsafe fn pairs<V: Vector>(codes: *const u8) -> [V::Ints; PIECES] {
    let (mut pieces, mask) = ([V::zero(); PIECES], V::splat_bytes(3));
    for quarter in 0..2 {
        let four = plane::<V>(codes, quarter);
        pieces[4 * quarter] = V::and(four, mask);
        pieces[4 * quarter + 1] = V::and(V::right::<2>(four), mask);
        pieces[4 * quarter + 2] = V::and(V::right::<4>(four), mask);
        pieces[4 * quarter + 3] = V::and(V::right::<6>(four), mask);
    }
    pieces
}

/// Unpacks codes of one bit, piece by piece.
///
/// # Safety
/// The requirements of [`levels`] apply.
#[inline(always)]
unsafe fn single_bits<V: Vector>(codes: *const u8) -> [V::Ints; PIECES] {
    let (mut pieces, bits) = ([V::zero(); PIECES], plane::<V>(codes, 0));
    let shifted = [
        bits,
        V::right::<1>(bits),
        V::right::<2>(bits),
        V::right::<3>(bits),
        V::right::<4>(bits),
        V::right::<5>(bits),
        V::right::<6>(bits),
        V::right::<7>(bits),
    ];
    add_bits::<V>(&mut pieces, shifted, V::splat_bytes(1));
    pieces
}

/// Loads the rows of a vector from plane `index` of a group.
///
/// # Safety
/// The requirements of [`levels`] apply, and the group must have the plane.
#[inline(always)]
unsafe fn plane<V: Vector>(codes: *const u8, index: usize) -> V::Ints {
    V::load(codes.add(index * PLANE))
}

/// Adds `bits[i] & mask` to piece `i`, for all pieces.
///
/// # Safety
/// The processor must support the instructions of `V`.
#[inline(always)]
unsafe fn add_bits<V: Vector>(pieces: &mut [V::Ints; PIECES], bits: [V::Ints; PIECES], mask: V::Ints) {
    for i in 0..PIECES {
        pieces[i] = V::or(pieces[i], V::and(bits[i], mask));
    }
}

/// The properties of a block type that matter for multiplying unpacked groups.
pub(crate) trait Kind {
    /// True if the halves of a group have their own scales: see [`BlockFormat::SPLIT`].
    const SPLIT: bool = false;
    /// True if groups have offsets: see [`BlockFormat::OFFSET`].
    const OFFSET: bool = false;
    /// True if levels are biased: see [`BlockFormat::BIAS`].
    const BIASED: bool = !Self::OFFSET;
    /// True if levels have up to eight bits instead of seven.
    const WIDE: bool = false;
    /// Maximum number of pairs of products of levels and activations whose sum fits in 16 bits.
    const PAIRS: usize = 1;
}

// `BITS` is the maximum number of bits of a level.
pub(crate) struct Biased<const BITS: u32 = 7>;
pub(crate) struct Wide;
pub(crate) struct SplitBiased<const BITS: u32 = 7>;
pub(crate) struct Offset<const BITS: u32 = 7>;
pub(crate) struct SplitOffset<const BITS: u32 = 7>;

/// Returns [`Kind::PAIRS`] of levels with `bits` bits. Activations are at most 127.
const fn most_pairs(bits: u32) -> usize {
    i16::MAX as usize / (2 * 127 * ((1 << bits) - 1))
}

impl<const BITS: u32> Kind for Biased<BITS> {
    const PAIRS: usize = most_pairs(BITS);
}

impl Kind for Wide {
    const WIDE: bool = true;
}

impl<const BITS: u32> Kind for SplitBiased<BITS> {
    const SPLIT: bool = true;
    const PAIRS: usize = most_pairs(BITS);
}

impl<const BITS: u32> Kind for Offset<BITS> {
    const OFFSET: bool = true;
    const PAIRS: usize = most_pairs(BITS);
}

impl<const BITS: u32> Kind for SplitOffset<BITS> {
    const SPLIT: bool = true;
    const OFFSET: bool = true;
    const PAIRS: usize = most_pairs(BITS);
}

/// A block type whose heads can be unpacked into scales and offsets for a vector of rows.
pub(crate) trait Unpack: BlockFormat {
    type Kind: Kind;

    /// Returns the scales and offsets of group `index` of a block.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`. `heads.bytes` must point to the heads of
    /// a block in a tile of this type. The tile must have `V::ROWS` rows from `heads.first` on, and
    /// `index` must be less than `LEN / GROUP`.
    unsafe fn scales<V: Vector>(heads: Heads, index: usize) -> Scales<V>;
}

/// The heads of one block for all rows of a tile, and the rows to read.
#[derive(Clone, Copy)]
pub(crate) struct Heads {
    /// Start of the raw block headers of the tile's rows. Each header field is stored for all rows in
    /// turn.
    pub(crate) bytes: *const u8,
    /// Tile row that is in the first lane of the vector.
    pub(crate) first: usize,
}

impl Heads {
    /// Loads the 16-bit float with index `index` from the head of each row of the vector.
    ///
    /// # Safety
    /// The requirements of [`Unpack::scales`] apply, and `index` must be less than `HALVES` of the
    /// block type.
    #[inline(always)]
    unsafe fn half<V: Vector>(self, index: usize) -> V::Floats {
        V::halves(self.bytes.add(2 * (index * TILE_ROWS + self.first)))
    }

    /// Loads the small integer with index `index` from the head of each row of the vector.
    ///
    /// # Safety
    /// The requirements of [`Unpack::scales`] apply, and `index` must be less than `SMALL` of the
    /// block type.
    #[inline(always)]
    unsafe fn small<B: BlockFormat, V: Vector>(self, index: usize) -> V::Bytes {
        V::load_bytes(self.bytes.add((2 * B::HALVES + index) * TILE_ROWS + self.first))
    }
}

/// Returns `bytes >> shift & mask` for each byte. The mask must clear the bits that come from the
/// neighbouring byte.
///
/// # Safety
/// The processor must support the instructions of the vector that uses `T`.
#[inline(always)]
unsafe fn bits<T: Bytes>(bytes: T, shift: u32, mask: u8) -> T {
    bytes.right(shift).and(T::each(mask))
}

/// Returns `factor` times the small integers `small`, which are unsigned.
///
/// # Safety
/// The processor must support the instructions of `V`.
#[inline(always)]
unsafe fn times<V: Vector>(factor: V::Floats, small: V::Bytes) -> V::Floats {
    V::times(factor, V::to_floats(V::widen(small)))
}

/// Returns `factor` times the small integers `small`, which are signed.
///
/// # Safety
/// The processor must support the instructions of `V`.
#[inline(always)]
unsafe fn times_signed<V: Vector>(factor: V::Floats, small: V::Bytes) -> V::Floats {
    V::times(factor, V::to_floats(V::widen_signed(small)))
}

/// Combines low nibbles and high bit pairs into six-bit integers, and subtracts 32.
///
/// # Safety
/// The processor must support the instructions of the vector that uses `T`.
#[inline(always)]
unsafe fn six_bits<T: Bytes>(nibble: T, pair: T) -> T {
    nibble.or(pair.shl(4)).minus(T::each(32))
}

macro_rules! plain_scales {
    ($($format:ty: $kind:ty),*) => {$(
        impl Unpack for $format {
            type Kind = $kind;

            #[inline(always)]
            unsafe fn scales<V: Vector>(heads: Heads, _: usize) -> Scales<V> {
                let scale = heads.half::<V>(0);
                if Self::OFFSET { Scales::offset(scale, heads.half::<V>(1)) } else { Scales::plain(scale) }
            }
        }
    )*};
}

impl<B: Unpack> Unpack for SplitBits<B> {
    type Kind = B::Kind;

    #[inline(always)]
    unsafe fn scales<V: Vector>(heads: Heads, index: usize) -> Scales<V> {
        B::scales::<V>(heads, index)
    }
}

plain_scales!(Q4_0: Biased<4>, Q4_1: Offset<4>, Q5_0: Biased<5>, Q5_1: Offset<5>, Q8_0: Wide, Iq4Nl: Wide);
plain_scales!(Tq1_0: Biased<4>, Tq2_0: Biased<4>, Q1_0: Biased<4>, Q2_0: Biased<4>);

/// Unpacks the scales of group `index` for [`Q4K`] and [`Q5K`]. The module `k` describes the twelve
/// bytes.
///
/// # Safety
/// The requirements of [`Unpack::scales`] apply.
#[inline(always)]
unsafe fn six_bit_scales<B: BlockFormat, V: Vector>(heads: Heads, index: usize) -> Scales<V> {
    let (scale, min) = if index < 4 {
        let (scale, min) = (heads.small::<B, V>(index), heads.small::<B, V>(index + 4));
        (bits(scale, 0, 63), bits(min, 0, 63))
    } else {
        let low = heads.small::<B, V>(index + 4);
        let (scale, min) = (heads.small::<B, V>(index - 4), heads.small::<B, V>(index));
        (bits(low, 0, 15).or(bits(scale, 2, 48)), bits(low, 4, 15).or(bits(min, 2, 48)))
    };
    let minus = V::times(heads.half::<V>(1), V::each_float(-1.0));
    Scales::offset(times::<V>(heads.half::<V>(0), scale), times::<V>(minus, min))
}

impl Unpack for Q4K {
    type Kind = Offset<4>;

    #[inline(always)]
    unsafe fn scales<V: Vector>(heads: Heads, index: usize) -> Scales<V> {
        six_bit_scales::<Self, V>(heads, index)
    }
}

impl Unpack for Q5K {
    type Kind = Offset<5>;

    #[inline(always)]
    unsafe fn scales<V: Vector>(heads: Heads, index: usize) -> Scales<V> {
        six_bit_scales::<Self, V>(heads, index)
    }
}

impl Unpack for Q6K {
    type Kind = SplitBiased<6>;

    #[inline(always)]
    unsafe fn scales<V: Vector>(heads: Heads, index: usize) -> Scales<V> {
        let d = heads.half::<V>(0);
        let scale = [
            times_signed::<V>(d, heads.small::<Self, V>(2 * index)),
            times_signed::<V>(d, heads.small::<Self, V>(2 * index + 1)),
        ];
        Scales { scale, offset: scale }
    }
}

impl Unpack for Q3K {
    type Kind = SplitBiased<6>;

    #[inline(always)]
    unsafe fn scales<V: Vector>(heads: Heads, index: usize) -> Scales<V> {
        let d = heads.half::<V>(0);
        let mut scale = [d; 2];
        for (half, scale) in scale.iter_mut().enumerate() {
            let i = 2 * index + half;
            let nibble = bits(heads.small::<Self, V>(i % 8), i as u32 / 8 * 4, 15);
            let pair = bits(heads.small::<Self, V>(8 + i % 4), i as u32 / 4 * 2, 3);
            *scale = times_signed::<V>(d, six_bits(nibble, pair));
        }
        Scales { scale, offset: scale }
    }
}

impl Unpack for Q2K {
    type Kind = SplitOffset<4>;

    #[inline(always)]
    unsafe fn scales<V: Vector>(heads: Heads, index: usize) -> Scales<V> {
        let d = heads.half::<V>(0);
        let minus = V::times(heads.half::<V>(1), V::each_float(-1.0));
        let small = [heads.small::<Self, V>(2 * index), heads.small::<Self, V>(2 * index + 1)];
        Scales {
            scale: [times::<V>(d, bits(small[0], 0, 15)), times::<V>(d, bits(small[1], 0, 15))],
            offset: [times::<V>(minus, bits(small[0], 4, 15)), times::<V>(minus, bits(small[1], 4, 15))],
        }
    }
}

impl Unpack for Iq4Xs {
    type Kind = Wide;

    #[inline(always)]
    unsafe fn scales<V: Vector>(heads: Heads, index: usize) -> Scales<V> {
        let nibble = bits(heads.small::<Self, V>(2 + index / 2), index as u32 % 2 * 4, 15);
        let pair = bits(heads.small::<Self, V>(index / 4), index as u32 % 4 * 2, 3);
        Scales::plain(times_signed::<V>(heads.half::<V>(0), six_bits(nibble, pair)))
    }
}

impl Unpack for Mxfp4 {
    type Kind = Biased;

    /// Returns half of `2^(exponent - 127)` as the scale. The results for the exponents 0 and 1 are
    /// subnormal. They are computed from the smallest normal float by multiplication.
    ///
    /// # Safety
    /// The requirements of [`Unpack::scales`] apply.
    #[inline(always)]
    unsafe fn scales<V: Vector>(heads: Heads, _: usize) -> Scales<V> {
        let (exponent, two) = (heads.small::<Self, V>(0), V::Bytes::each(2));
        let normal = exponent.larger(two).minus(V::Bytes::each(1));
        let factor = exponent.smaller(two).add(V::Bytes::each(125));
        Scales::plain(V::times(power_of_two::<V>(normal), power_of_two::<V>(factor)))
    }
}

impl Unpack for Nvfp4 {
    type Kind = SplitBiased;

    /// Moves the bits of the 8-bit scales to the place that they have in a 32-bit float. Only the
    /// biases of the exponents differ then.
    ///
    /// # Safety
    /// The requirements of [`Unpack::scales`] apply.
    #[inline(always)]
    unsafe fn scales<V: Vector>(heads: Heads, index: usize) -> Scales<V> {
        let scale = |half: usize| {
            let small = V::widen(heads.small::<Self, V>(2 * index + half));
            V::times(V::as_floats(V::shl_lanes(small, 20)), V::each_float(UNBIAS))
        };
        let scale = [scale(0), scale(1)];
        Scales { scale, offset: scale }
    }
}

/// Returns the floats `2^(exponent - 127)`, given the biased exponents.
///
/// # Safety
/// The processor must support the instructions of `V`.
#[inline(always)]
unsafe fn power_of_two<V: Vector>(exponents: V::Bytes) -> V::Floats {
    V::as_floats(V::shl_lanes(V::widen(exponents), 23))
}
