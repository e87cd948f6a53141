//! Products with vectors of any length.
//!
//! The code is written once for all processors. A [`Vector`] type has the operations of a
//! processor. `unpack` turns packed bits into the bytes that are multiplied. `gemm` has the loops
//! over tiles and tokens.
//!
//! Products of bytes have unsigned weights (levels) and signed activations. Only the tile registers
//! of AMX take signed weights. Integer sums are exact. The float arithmetic is that of the portable
//! code with a row in each lane, so the results have the same bits.

#![allow(unsafe_code, reason = "vector instructions, and loads from slices of known length")]

pub(crate) mod attention;
pub(crate) mod bounds;
pub(crate) mod f16_as_i16;
pub(crate) mod floats;
pub(crate) mod gemm;
mod unpack;

pub(crate) use self::floats::LoadColumn;
pub(crate) use self::gemm::{Packed, Panel, Source, Span, meet_panel};
pub(crate) use self::unpack::{Kind, Unpack};
use crate::activation::Activation;
use crate::layout::PLANE;
use crate::matrix_mut::MatrixMut;

/// A vector with a row in each 32-bit lane. Each implementation needs certain processor
/// instructions.
///
/// # Safety
/// Every function needs a processor that supports the implementation's instructions. Pointers must
/// be valid for the bytes that a function reads or writes, and may have any alignment.
pub(crate) trait Vector: Sized {
    /// A vector of integers, one 32-bit lane per row.
    type Ints: Copy;
    /// A vector of floats, one 32-bit lane per row.
    type Floats: Copy;
    /// A vector of bytes, one per row.
    type Bytes: Bytes;
    /// Number of lanes.
    const ROWS: usize;
    /// True if [`Vector::dot_wide`] subtracts the bias of 128 from the weights, so that the caller
    /// must not.
    const TAKES_WIDE_BIAS: bool;

    /// True if [`Vector::dot_narrow`] is faster than [`Vector::dot`].
    const NARROWS: bool = false;

    /// Calls [`meet_panel`] in a function of its own, which all block types of the kind `K` share.
    /// A vector that holds all rows of a tile does not use panels.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions. The other requirements of
    /// [`meet_panel`] apply.
    unsafe fn meet<K: Kind>(panel: &Panel, x: &[Activation<'_>], out: MatrixMut<'_>);

    /// Calls [`Span::block`] in a function of its own. The compiler takes much longer for a function
    /// that contains the code for several numbers of tokens.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions. The other requirements of
    /// [`Span::block`] apply.
    unsafe fn block<S: Source<Self>, const T: usize, const FINE: bool>(
        span: Span,
        source: &S,
        x: &[Activation<'_>],
        out: MatrixMut<'_>,
    );

    /// Calls [`Panel::fill`] in a function of its own, as [`Vector::block`] does.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions. The other requirements of
    /// [`Panel::fill`] apply.
    unsafe fn fill<B: Unpack, const SIGNED: bool>(panel: &mut Panel, packed: &Packed<B>);

    /// Loads a vector of integers.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions, and `from` must be valid for
    /// reading `4 * ROWS` bytes.
    unsafe fn load(from: *const u8) -> Self::Ints;

    /// Stores a vector of integers.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions, and `to` must be valid for
    /// writing `4 * ROWS` bytes.
    unsafe fn store(to: *mut u8, bytes: Self::Ints);

    /// Loads one byte per row.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions, and `from` must be valid for
    /// reading `ROWS` bytes.
    unsafe fn load_bytes(from: *const u8) -> Self::Bytes;

    /// Returns lanes of 0.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn zero() -> Self::Ints;

    /// Returns `value` in every lane.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn each_int(value: i32) -> Self::Ints;

    /// Returns `value` in every byte of every lane.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn splat_bytes(value: i8) -> Self::Ints;

    /// Returns the bitwise AND.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn and(a: Self::Ints, b: Self::Ints) -> Self::Ints;

    /// Returns the bitwise OR.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn or(a: Self::Ints, b: Self::Ints) -> Self::Ints;

    /// Adds lanes, wrapping on overflow.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn add(a: Self::Ints, b: Self::Ints) -> Self::Ints;

    /// Subtracts each byte of `b` from the byte of `a` at the same place, wrapping on overflow.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn minus_bytes(a: Self::Ints, b: Self::Ints) -> Self::Ints;

    /// Shifts each 16-bit element left by `N` bits.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn shl<const N: u32>(a: Self::Ints) -> Self::Ints;

    /// Shifts each 16-bit element right by `N` bits, and shifts in zeros.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn right<const N: u32>(a: Self::Ints) -> Self::Ints;

    /// Shifts each lane left by `by` bits.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn shl_lanes(a: Self::Ints, by: u32) -> Self::Ints;

    /// Replaces each byte of `codes` by `levels[byte]`. The bytes must be less than 16.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn look_up(levels: &[u8; 16], codes: Self::Ints) -> Self::Ints;

    /// Adds to each lane the products of its four unsigned weights with four signed bytes. The
    /// weights must be at most 127.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn dot(sums: Self::Ints, weights: Self::Ints, x: Self::Ints) -> Self::Ints;

    /// Does the same as [`Vector::dot`] in lanes of 16 bits. Each lane gets the products of two weights.
    /// No sum may exceed 16 bits.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn dot_narrow(sums: Self::Ints, weights: Self::Ints, x: Self::Ints) -> Self::Ints {
        // SAFETY: the requirements are the same.
        unsafe { Self::dot(sums, weights, x) }
    }

    /// Returns the sums of the pairs of 16-bit lanes that [`Vector::dot_narrow`] computed.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn widen_narrow(sums: Self::Ints) -> Self::Ints {
        sums
    }

    /// Adds to each lane the products of its four unsigned weights, which may be up to 255, with
    /// four signed bytes. See [`Vector::TAKES_WIDE_BIAS`].
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn dot_wide(sums: Self::Ints, weights: Self::Ints, x: Self::Ints) -> Self::Ints;

    /// Adds to each lane the products of its two signed 16-bit integers.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn dot_words(sums: Self::Ints, weights: Self::Ints, x: Self::Ints) -> Self::Ints;

    /// Rounds floats to the nearest integers, ties to even.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn round(a: Self::Floats) -> Self::Ints;

    /// Narrows lanes to 16-bit integers with saturation. Each 16 bytes of the result hold four
    /// lanes of `a`, then four of `b`.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn pack(a: Self::Ints, b: Self::Ints) -> Self::Ints;

    /// Stores lanes as 16-bit integers, in order. All lanes must be in the range of 16 bits.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions, and `to` must be valid for
    /// writing `2 * ROWS` bytes.
    unsafe fn store_words(to: *mut i16, a: Self::Ints);

    /// Converts integers to floats.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn to_floats(a: Self::Ints) -> Self::Floats;

    /// Reinterprets the bits of each lane as a float.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn as_floats(a: Self::Ints) -> Self::Floats;

    /// Widens each byte to a 32-bit lane, with zero extension.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn widen(bytes: Self::Bytes) -> Self::Ints;

    /// Widens each byte to a 32-bit lane, with sign extension.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn widen_signed(bytes: Self::Bytes) -> Self::Ints;

    /// Loads one 16-bit float per lane and converts it to 32 bits.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions, and `from` must be valid for
    /// reading `2 * ROWS` bytes.
    unsafe fn halves(from: *const u8) -> Self::Floats;

    /// Loads one 16-bit integer per lane, with zero extension.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions, and `from` must be valid for
    /// reading `2 * ROWS` bytes.
    unsafe fn words(from: *const u8) -> Self::Ints;

    /// Loads a vector of floats.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions, and `from` must be valid for
    /// reading `4 * ROWS` bytes.
    unsafe fn load_floats(from: *const f32) -> Self::Floats;

    /// Stores a vector of floats.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions, and `to` must be valid for
    /// writing `4 * ROWS` bytes.
    unsafe fn store_floats(to: *mut f32, floats: Self::Floats);

    /// Returns `value` in every lane.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn each_float(value: f32) -> Self::Floats;

    /// Returns a vector with `values[0]` in the even lanes and `values[1]` in the odd lanes.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn each_two(values: [f32; 2]) -> Self::Floats;

    /// Returns absolute values.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn abs(a: Self::Floats) -> Self::Floats;

    /// Adds lanes.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn add_floats(a: Self::Floats, b: Self::Floats) -> Self::Floats;

    /// Multiplies lanes.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn times(a: Self::Floats, b: Self::Floats) -> Self::Floats;

    /// Returns `a * b + c`, fused.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn add_product(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats;
}

/// A vector with one byte per row, for the small integers of block heads.
///
/// # Safety
/// Every function needs a processor that supports the instructions of the [`Vector`] that uses the
/// type.
pub(crate) trait Bytes: Copy {
    /// Returns `value` in every byte.
    ///
    /// # Safety
    /// The processor must support the instructions of the [`Vector`].
    unsafe fn each(value: u8) -> Self;

    /// Returns the bitwise AND.
    ///
    /// # Safety
    /// The processor must support the instructions of the [`Vector`].
    unsafe fn and(self, other: Self) -> Self;

    /// Returns the bitwise OR.
    ///
    /// # Safety
    /// The processor must support the instructions of the [`Vector`].
    unsafe fn or(self, other: Self) -> Self;

    /// Shifts each byte left by `by` bits. The bits that are shifted in may come from the
    /// neighbouring byte.
    ///
    /// # Safety
    /// The processor must support the instructions of the [`Vector`].
    unsafe fn shl(self, by: u32) -> Self;

    /// Shifts each byte right by `by` bits. The bits that are shifted in may come from the
    /// neighbouring byte.
    ///
    /// # Safety
    /// The processor must support the instructions of the [`Vector`].
    unsafe fn right(self, by: u32) -> Self;

    /// Adds bytes, wrapping on overflow.
    ///
    /// # Safety
    /// The processor must support the instructions of the [`Vector`].
    unsafe fn add(self, other: Self) -> Self;

    /// Subtracts bytes, wrapping on overflow.
    ///
    /// # Safety
    /// The processor must support the instructions of the [`Vector`].
    unsafe fn minus(self, other: Self) -> Self;

    /// Returns the unsigned minimum of each pair of bytes.
    ///
    /// # Safety
    /// The processor must support the instructions of the [`Vector`].
    unsafe fn smaller(self, other: Self) -> Self;

    /// Returns the unsigned maximum of each pair of bytes.
    ///
    /// # Safety
    /// The processor must support the instructions of the [`Vector`].
    unsafe fn larger(self, other: Self) -> Self;
}

/// Prefetches the cache line at `from` into the second-level cache.
///
/// # Safety
/// No requirements: prefetching is allowed for any address, and every processor of the architecture
/// has the instruction.
#[inline(always)]
unsafe fn prefetch(from: *const u8) {
    // SAFETY: the instruction reads nothing, and every processor of the architecture supports it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(from.cast());
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{}]", in(reg) from, options(nostack, preserves_flags, readonly));
    }
}

/// Prefetches `bytes` bytes from `from` on, in steps of a cache line of 64 bytes.
///
/// # Safety
/// No requirements, as for [`prefetch`].
#[inline(always)]
unsafe fn prefetch_all(from: *const u8, bytes: usize) {
    for line in (0..bytes).step_by(PLANE) {
        // SAFETY: prefetching has no requirements.
        unsafe { prefetch(from.wrapping_add(line)) };
    }
}
