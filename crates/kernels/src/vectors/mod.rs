//! Products by vectors of whatever length.
//!
//! The code is written once for all: [`Vector`] is what it needs of a processor, `unpack` says how packed bits become the bytes that
//! are multiplied, and `sweep` in which order tiles meet tokens. Products of bytes are of unsigned weights and signed activations,
//! but for tile registers, where both are signed; sums of them are exact, and all else is the portable code's arithmetic with a row in each
//! lane, so the results have the same bits.

#![allow(unsafe_code, reason = "vector instructions, and loads of what slices of known length hold")]
#![allow(unsafe_op_in_unsafe_fn, reason = "every line would be a block of its own")]

pub(crate) mod attention;
pub(crate) mod bounds;
pub(crate) mod floats;
pub(crate) mod sweep;
mod unpack;
pub(crate) mod words;

pub(crate) use self::floats::LoadColumn;
pub(crate) use self::sweep::{Panel, meet_panel};
pub(crate) use self::unpack::{Kind, Unpack};
use crate::activation::Activation;
use crate::layout::PLANE;
use crate::outputs::Outputs;

/// A vector with a row in each lane of 32 bits.
///
/// # Safety
/// Every function needs a processor with the instructions, and pointers to as many bytes as it reads or writes.
pub(crate) trait Vector: Sized {
    type Ints: Copy;
    type Floats: Copy;
    type Bytes: Bytes;
    /// Lanes.
    const ROWS: usize;
    /// Whether [`Vector::dot_wide`] takes the bias of 128 off the weights.
    const TAKES_WIDE_BIAS: bool;

    /// [`meet_panel`] as a function of its own: all block types of a kind share it. Where a vector has all rows of a tile, there are no
    /// panels.
    unsafe fn meet<K: Kind>(panel: &Panel, x: &[Activation<'_>], out: Outputs<'_>);

    unsafe fn load(from: *const u8) -> Self::Ints;
    unsafe fn store(to: *mut u8, bytes: Self::Ints);
    /// As many bytes as there are lanes.
    unsafe fn load_bytes(from: *const u8) -> Self::Bytes;
    unsafe fn zero() -> Self::Ints;
    unsafe fn each_int(value: i32) -> Self::Ints;
    unsafe fn each_byte(value: i8) -> Self::Ints;
    unsafe fn and(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    unsafe fn or(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// Adds lanes.
    unsafe fn add(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// Subtracts bytes.
    unsafe fn minus_bytes(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// Shifts pairs of bytes.
    unsafe fn left<const N: u32>(a: Self::Ints) -> Self::Ints;
    unsafe fn right<const N: u32>(a: Self::Ints) -> Self::Ints;
    /// Shifts lanes.
    unsafe fn left_lanes(a: Self::Ints, by: u32) -> Self::Ints;
    unsafe fn look_up(levels: &[u8; 16], codes: Self::Ints) -> Self::Ints;
    /// Adds to each lane the products of its four unsigned weights, 63 at most, with four signed bytes.
    unsafe fn dot(sums: Self::Ints, weights: Self::Ints, x: Self::Ints) -> Self::Ints;
    /// The same of weights up to 255.
    unsafe fn dot_wide(sums: Self::Ints, weights: Self::Ints, x: Self::Ints) -> Self::Ints;
    /// Adds to each lane the products of its two signed words.
    unsafe fn dot_words(sums: Self::Ints, weights: Self::Ints, x: Self::Ints) -> Self::Ints;
    /// The nearest integers, of two the even one.
    unsafe fn round(a: Self::Floats) -> Self::Ints;
    /// Words of lanes: of every 16 bytes first those of `a`, then those of `b`.
    unsafe fn pack(a: Self::Ints, b: Self::Ints) -> Self::Ints;
    /// Lanes as words, in order.
    unsafe fn store_words(to: *mut i16, a: Self::Ints);
    unsafe fn to_floats(a: Self::Ints) -> Self::Floats;
    /// The floats of the same bits.
    unsafe fn as_floats(a: Self::Ints) -> Self::Floats;
    /// A byte to each lane.
    unsafe fn widen(bytes: Self::Bytes) -> Self::Ints;
    unsafe fn widen_signed(bytes: Self::Bytes) -> Self::Ints;
    /// Floats of 16 bits.
    unsafe fn halves(from: *const u8) -> Self::Floats;
    /// Words of 16 bits, one to each lane.
    unsafe fn words(from: *const u8) -> Self::Ints;
    unsafe fn load_floats(from: *const f32) -> Self::Floats;
    unsafe fn store_floats(to: *mut f32, floats: Self::Floats);
    unsafe fn each_float(value: f32) -> Self::Floats;
    /// Two floats over and over.
    unsafe fn each_two(values: [f32; 2]) -> Self::Floats;
    unsafe fn abs(a: Self::Floats) -> Self::Floats;
    unsafe fn plus(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    unsafe fn times(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// `a * b + c`
    unsafe fn add_product(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
}

/// Small integers of heads, a byte for each lane.
///
/// # Safety
/// As with [`Vector`].
pub(crate) trait Bytes: Copy {
    unsafe fn each(value: u8) -> Self;
    unsafe fn and(self, other: Self) -> Self;
    unsafe fn or(self, other: Self) -> Self;
    /// Shifts; bits may come over from the neighbour.
    unsafe fn left(self, by: u32) -> Self;
    unsafe fn right(self, by: u32) -> Self;
    unsafe fn plus(self, other: Self) -> Self;
    unsafe fn minus(self, other: Self) -> Self;
    /// Of each two.
    unsafe fn smaller(self, other: Self) -> Self;
    unsafe fn larger(self, other: Self) -> Self;
}

/// Asks for a line of the cache, into the second level. Any address will do.
#[inline(always)]
unsafe fn prefetch(from: *const u8) {
    #[cfg(target_arch = "x86_64")]
    std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(from.cast());
    #[cfg(target_arch = "aarch64")]
    std::arch::asm!("prfm pldl2keep, [{}]", in(reg) from, options(nostack, preserves_flags, readonly));
}

/// Asks for lines, one for each 64 of so many bytes.
#[inline(always)]
unsafe fn prefetch_all(from: *const u8, bytes: usize) {
    for line in (0..bytes).step_by(PLANE) {
        prefetch(from.wrapping_add(line));
    }
}
