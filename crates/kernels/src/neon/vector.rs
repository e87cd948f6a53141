//! Vectors of eight rows, as pairs of 16-byte registers.

#![allow(unsafe_op_in_unsafe_fn, reason = "nearly every line is an intrinsic")]

use std::arch::aarch64::{
    float32x4_t, int8x16_t, int16x8_t, int32x4_t, uint8x8_t, uint16x4_t, vabsq_f32, vadd_u8, vaddq_f32,
    vaddq_s32, vand_u8, vandq_s32, vcombine_s16, vcvtnq_s32_f32, vcvtq_f32_s32, vdup_n_s8, vdup_n_u8,
    vdupq_n_f32, vdupq_n_s8, vdupq_n_s16, vdupq_n_s32, vdupq_n_u64, veorq_s8, vfmaq_f32, vget_high_u16,
    vget_low_s8, vget_low_s16, vget_low_u16, vld1_u8, vld1q_f32, vld1q_u8, vmax_u8, vmin_u8, vmovl_high_s16,
    vmovl_high_u16, vmovl_s8, vmovl_s16, vmovl_u8, vmovl_u16, vmull_high_s8, vmull_high_s16, vmull_s8,
    vmull_s16, vmulq_f32, vorr_u8, vorrq_s32, vpadalq_s16, vpaddq_s16, vpaddq_s32, vqmovn_s32, vqtbl1q_u8,
    vreinterpret_s8_u8, vreinterpretq_f32_s32, vreinterpretq_f32_u64, vreinterpretq_s8_s32,
    vreinterpretq_s16_s32, vreinterpretq_s32_s8, vreinterpretq_s32_s16, vreinterpretq_s32_u8,
    vreinterpretq_s32_u16, vreinterpretq_s32_u32, vreinterpretq_u8_s32, vreinterpretq_u16_s32,
    vreinterpretq_u16_u8, vshl_u8, vshlq_s32, vshlq_u16, vst1q_f32, vst1q_s16, vst1q_u8, vsub_u8, vsubq_s8,
};
use std::arch::asm;
use std::marker::PhantomData;

use crate::activation::Activation;
use crate::matrix_mut::MatrixMut;
use crate::vectors::{Bytes, Kind, Packed, Panel, Source, Span, Unpack, Vector, meet_panel};

/// Vectors of eight rows, with the dot products of `D`.
pub(super) struct Eight<D>(PhantomData<D>);

/// Dot products of signed bytes: four products are added to each 32-bit lane.
///
/// # Safety
/// Every function needs a processor that supports the implementation's instructions.
pub(super) trait Fours: Sized {
    /// Calls [`meet_panel`] in a function with the implementation's instructions enabled.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions. The other requirements of
    /// [`meet_panel`] apply.
    unsafe fn meet<K: Kind>(panel: &Panel, x: &[Activation<'_>], out: MatrixMut<'_>);

    /// Calls [`Span::block`] in a function with the implementation's instructions enabled.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions. The other requirements of
    /// [`Span::block`] apply.
    unsafe fn block<S: Source<Eight<Self>>, const T: usize, const FINE: bool>(
        span: Span,
        source: &S,
        x: &[Activation<'_>],
        out: MatrixMut<'_>,
    );

    /// Calls [`Panel::fill`] in a function with the implementation's instructions enabled.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions. The other requirements of
    /// [`Panel::fill`] apply.
    unsafe fn fill<B: Unpack, const SIGNED: bool>(panel: &mut Panel, packed: &Packed<B>);

    /// Adds to each lane the products of its four weights with four activations, which must be
    /// greater than -128.
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn dot(sums: int32x4_t, weights: int8x16_t, x: int8x16_t) -> int32x4_t;
}

/// Dot products with the instructions that every processor has.
pub(super) struct Plain;
/// Dot products with the instructions of the `dotprod` extension.
pub(super) struct Dot;

// Needs NEON, which every processor of the architecture has. The `# Safety` sections of `Fours`
// apply.
impl Fours for Plain {
    unsafe fn meet<K: Kind>(panel: &Panel, x: &[Activation<'_>], out: MatrixMut<'_>) {
        meet_panel::<K, Eight<Self>>(panel, x, out);
    }

    #[inline(never)]
    unsafe fn block<S: Source<Eight<Self>>, const T: usize, const FINE: bool>(
        span: Span,
        source: &S,
        x: &[Activation<'_>],
        out: MatrixMut<'_>,
    ) {
        span.block::<S, Eight<Self>, T, FINE>(source, x, out);
    }

    #[inline(never)]
    unsafe fn fill<B: Unpack, const SIGNED: bool>(panel: &mut Panel, packed: &Packed<B>) {
        panel.fill::<B, Eight<Self>, SIGNED>(packed);
    }

    /// Adds two products in 16 bits before widening. Their sum fits: `2 * 128 * 127 < 2^15`.
    ///
    /// # Safety
    /// The requirements of [`Fours::dot`] apply.
    #[inline(always)]
    unsafe fn dot(sums: int32x4_t, weights: int8x16_t, x: int8x16_t) -> int32x4_t {
        let low = vmull_s8(vget_low_s8(weights), vget_low_s8(x));
        vpadalq_s16(sums, vpaddq_s16(low, vmull_high_s8(weights, x)))
    }
}

// Needs NEON and `dotprod`. The `# Safety` sections of `Fours` apply.
impl Fours for Dot {
    #[target_feature(enable = "dotprod")]
    unsafe fn meet<K: Kind>(panel: &Panel, x: &[Activation<'_>], out: MatrixMut<'_>) {
        meet_panel::<K, Eight<Self>>(panel, x, out);
    }

    #[inline(never)]
    #[target_feature(enable = "dotprod")]
    unsafe fn block<S: Source<Eight<Self>>, const T: usize, const FINE: bool>(
        span: Span,
        source: &S,
        x: &[Activation<'_>],
        out: MatrixMut<'_>,
    ) {
        span.block::<S, Eight<Self>, T, FINE>(source, x, out);
    }

    #[inline(never)]
    #[target_feature(enable = "dotprod")]
    unsafe fn fill<B: Unpack, const SIGNED: bool>(panel: &mut Panel, packed: &Packed<B>) {
        panel.fill::<B, Eight<Self>, SIGNED>(packed);
    }

    /// Adds four products with one instruction. Uses inline assembly, because the intrinsic is not
    /// stable.
    ///
    /// # Safety
    /// The requirements of [`Fours::dot`] apply.
    #[inline(always)]
    unsafe fn dot(mut sums: int32x4_t, weights: int8x16_t, x: int8x16_t) -> int32x4_t {
        asm!(
            "sdot {sums:v}.4s, {weights:v}.16b, {x:v}.16b",
            sums = inout(vreg) sums,
            weights = in(vreg) weights,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags),
        );
        sums
    }
}

/// Applies `of` to both vectors of a pair.
#[inline(always)]
fn both<A: Copy, T>([low, high]: [A; 2], of: impl Fn(A) -> T) -> [T; 2] {
    [of(low), of(high)]
}

/// Applies `of` to the first vectors of both pairs, and to the second vectors.
#[inline(always)]
fn pairs<A: Copy, B: Copy, T>(a: [A; 2], b: [B; 2], of: impl Fn(A, B) -> T) -> [T; 2] {
    [of(a[0], b[0]), of(a[1], b[1])]
}

// Needs NEON and the instructions of `D`. The `# Safety` sections of `Vector` apply.
impl<D: Fours> Vector for Eight<D> {
    type Ints = [int32x4_t; 2];
    type Floats = [float32x4_t; 2];
    type Bytes = uint8x8_t;
    const ROWS: usize = 8;
    const TAKES_WIDE_BIAS: bool = true;

    #[inline(always)]
    unsafe fn meet<K: Kind>(panel: &Panel, x: &[Activation<'_>], out: MatrixMut<'_>) {
        D::meet::<K>(panel, x, out);
    }

    #[inline(always)]
    unsafe fn block<S: Source<Self>, const T: usize, const FINE: bool>(
        span: Span,
        source: &S,
        x: &[Activation<'_>],
        out: MatrixMut<'_>,
    ) {
        D::block::<S, T, FINE>(span, source, x, out);
    }

    #[inline(always)]
    unsafe fn fill<B: Unpack, const SIGNED: bool>(panel: &mut Panel, packed: &Packed<B>) {
        D::fill::<B, SIGNED>(panel, packed);
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self::Ints {
        both([from, from.add(16)], |from| vreinterpretq_s32_u8(vld1q_u8(from)))
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, bytes: Self::Ints) {
        pairs([to, to.add(16)], bytes, |to, bytes| vst1q_u8(to, vreinterpretq_u8_s32(bytes)));
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> uint8x8_t {
        vld1_u8(from)
    }

    #[inline(always)]
    unsafe fn zero() -> Self::Ints {
        Self::each_int(0)
    }

    #[inline(always)]
    unsafe fn each_int(value: i32) -> Self::Ints {
        [vdupq_n_s32(value); 2]
    }

    #[inline(always)]
    unsafe fn splat_bytes(value: i8) -> Self::Ints {
        [vreinterpretq_s32_s8(vdupq_n_s8(value)); 2]
    }

    #[inline(always)]
    unsafe fn and(a: Self::Ints, b: Self::Ints) -> Self::Ints {
        pairs(a, b, |a, b| vandq_s32(a, b))
    }

    #[inline(always)]
    unsafe fn or(a: Self::Ints, b: Self::Ints) -> Self::Ints {
        pairs(a, b, |a, b| vorrq_s32(a, b))
    }

    #[inline(always)]
    unsafe fn add(a: Self::Ints, b: Self::Ints) -> Self::Ints {
        pairs(a, b, |a, b| vaddq_s32(a, b))
    }

    #[inline(always)]
    unsafe fn minus_bytes(a: Self::Ints, b: Self::Ints) -> Self::Ints {
        pairs(a, b, |a, b| vreinterpretq_s32_s8(vsubq_s8(vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b))))
    }

    #[inline(always)]
    unsafe fn shl<const N: u32>(a: Self::Ints) -> Self::Ints {
        both(a, |a| vreinterpretq_s32_u16(vshlq_u16(vreinterpretq_u16_s32(a), vdupq_n_s16(N as i16))))
    }

    #[inline(always)]
    unsafe fn right<const N: u32>(a: Self::Ints) -> Self::Ints {
        both(a, |a| vreinterpretq_s32_u16(vshlq_u16(vreinterpretq_u16_s32(a), vdupq_n_s16(-(N as i16)))))
    }

    #[inline(always)]
    unsafe fn shl_lanes(a: Self::Ints, by: u32) -> Self::Ints {
        both(a, |a| vshlq_s32(a, vdupq_n_s32(by as i32)))
    }

    #[inline(always)]
    unsafe fn look_up(levels: &[u8; 16], codes: Self::Ints) -> Self::Ints {
        let levels = vld1q_u8(levels.as_ptr());
        both(codes, |codes| vreinterpretq_s32_u8(vqtbl1q_u8(levels, vreinterpretq_u8_s32(codes))))
    }

    #[inline(always)]
    unsafe fn dot(sums: Self::Ints, weights: Self::Ints, x: Self::Ints) -> Self::Ints {
        let dot = |i: usize| D::dot(sums[i], vreinterpretq_s8_s32(weights[i]), vreinterpretq_s8_s32(x[i]));
        [dot(0), dot(1)]
    }

    #[inline(always)]
    unsafe fn dot_wide(sums: Self::Ints, weights: Self::Ints, x: Self::Ints) -> Self::Ints {
        let signed =
            |weights| vreinterpretq_s32_s8(veorq_s8(vreinterpretq_s8_s32(weights), vdupq_n_s8(i8::MIN)));
        Self::dot(sums, both(weights, signed), x)
    }

    #[inline(always)]
    unsafe fn dot_words(sums: Self::Ints, weights: Self::Ints, x: Self::Ints) -> Self::Ints {
        let products = pairs(weights, x, |weights, x| {
            let (weights, x) = (vreinterpretq_s16_s32(weights), vreinterpretq_s16_s32(x));
            let low = vmull_s16(vget_low_s16(weights), vget_low_s16(x));
            vpaddq_s32(low, vmull_high_s16(weights, x))
        });
        Self::add(sums, products)
    }

    #[inline(always)]
    unsafe fn round(a: Self::Floats) -> Self::Ints {
        both(a, |a| vcvtnq_s32_f32(a))
    }

    #[inline(always)]
    unsafe fn pack(a: Self::Ints, b: Self::Ints) -> Self::Ints {
        pairs(a, b, |a, b| vreinterpretq_s32_s16(words(a, b)))
    }

    #[inline(always)]
    unsafe fn store_words(to: *mut i16, a: Self::Ints) {
        vst1q_s16(to, words(a[0], a[1]));
    }

    #[inline(always)]
    unsafe fn to_floats(a: Self::Ints) -> Self::Floats {
        both(a, |a| vcvtq_f32_s32(a))
    }

    #[inline(always)]
    unsafe fn as_floats(a: Self::Ints) -> Self::Floats {
        both(a, |a| vreinterpretq_f32_s32(a))
    }

    #[inline(always)]
    unsafe fn widen(bytes: uint8x8_t) -> Self::Ints {
        let words = vmovl_u8(bytes);
        both([vmovl_u16(vget_low_u16(words)), vmovl_high_u16(words)], |a| vreinterpretq_s32_u32(a))
    }

    #[inline(always)]
    unsafe fn widen_signed(bytes: uint8x8_t) -> Self::Ints {
        let words = vmovl_s8(vreinterpret_s8_u8(bytes));
        [vmovl_s16(vget_low_s16(words)), vmovl_high_s16(words)]
    }

    #[inline(always)]
    unsafe fn halves(from: *const u8) -> Self::Floats {
        let halves = vreinterpretq_u16_u8(vld1q_u8(from));
        both([vget_low_u16(halves), vget_high_u16(halves)], |four| floats(four))
    }

    #[inline(always)]
    unsafe fn words(from: *const u8) -> Self::Ints {
        let words = vreinterpretq_u16_u8(vld1q_u8(from));
        both([vmovl_u16(vget_low_u16(words)), vmovl_high_u16(words)], |a| vreinterpretq_s32_u32(a))
    }

    #[inline(always)]
    unsafe fn load_floats(from: *const f32) -> Self::Floats {
        both([from, from.add(4)], |from| vld1q_f32(from))
    }

    #[inline(always)]
    unsafe fn store_floats(to: *mut f32, floats: Self::Floats) {
        pairs([to, to.add(4)], floats, |to, floats| vst1q_f32(to, floats));
    }

    #[inline(always)]
    unsafe fn each_float(value: f32) -> Self::Floats {
        [vdupq_n_f32(value); 2]
    }

    #[inline(always)]
    unsafe fn each_two(values: [f32; 2]) -> Self::Floats {
        let bits = u64::from(values[1].to_bits()) << 32 | u64::from(values[0].to_bits());
        [vreinterpretq_f32_u64(vdupq_n_u64(bits)); 2]
    }

    #[inline(always)]
    unsafe fn abs(a: Self::Floats) -> Self::Floats {
        both(a, |a| vabsq_f32(a))
    }

    #[inline(always)]
    unsafe fn add_floats(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        pairs(a, b, |a, b| vaddq_f32(a, b))
    }

    #[inline(always)]
    unsafe fn times(a: Self::Floats, b: Self::Floats) -> Self::Floats {
        pairs(a, b, |a, b| vmulq_f32(a, b))
    }

    #[inline(always)]
    unsafe fn add_product(a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        [vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1])]
    }
}

/// Converts four 16-bit floats to 32 bits. Uses inline assembly, because the intrinsic is newer
/// than the oldest supported compiler.
///
/// # Safety
/// No requirements: every processor of the architecture has the instruction.
#[inline(always)]
unsafe fn floats(halves: uint16x4_t) -> float32x4_t {
    let floats: float32x4_t;
    asm!(
        "fcvtl {floats:v}.4s, {halves:v}.4h",
        floats = lateout(vreg) floats,
        halves = in(vreg) halves,
        options(pure, nomem, nostack, preserves_flags),
    );
    floats
}

/// Narrows the lanes of two vectors to 16-bit integers with saturation.
///
/// # Safety
/// No requirements: every processor of the architecture has the instructions.
#[inline(always)]
unsafe fn words(a: int32x4_t, b: int32x4_t) -> int16x8_t {
    vcombine_s16(vqmovn_s32(a), vqmovn_s32(b))
}

// Needs NEON. The `# Safety` sections of `Bytes` apply.
impl Bytes for uint8x8_t {
    #[inline(always)]
    unsafe fn each(value: u8) -> Self {
        vdup_n_u8(value)
    }

    #[inline(always)]
    unsafe fn and(self, other: Self) -> Self {
        vand_u8(self, other)
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        vorr_u8(self, other)
    }

    #[inline(always)]
    unsafe fn shl(self, by: u32) -> Self {
        vshl_u8(self, vdup_n_s8(by as i8))
    }

    #[inline(always)]
    unsafe fn right(self, by: u32) -> Self {
        vshl_u8(self, vdup_n_s8(-(by as i8)))
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        vadd_u8(self, other)
    }

    #[inline(always)]
    unsafe fn minus(self, other: Self) -> Self {
        vsub_u8(self, other)
    }

    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        vmin_u8(self, other)
    }

    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        vmax_u8(self, other)
    }
}
