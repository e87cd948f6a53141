//! Vectors of 32 bytes (AVX2) and of 64 bytes (AVX-512).

#![allow(unsafe_op_in_unsafe_fn, reason = "nearly every line is an intrinsic")]

use std::arch::x86_64::{
    __m128i, __m256, __m256i, __m512, __m512i, _mm_add_epi8, _mm_and_si128, _mm_cvtsi32_si128,
    _mm_loadl_epi64, _mm_loadu_si128, _mm_max_epu8, _mm_min_epu8, _mm_or_si128, _mm_set1_epi8, _mm_sll_epi16,
    _mm_srl_epi16, _mm_storeu_si128, _mm_sub_epi8, _mm256_abs_epi8, _mm256_add_epi16, _mm256_add_epi32,
    _mm256_add_ps, _mm256_and_si256, _mm256_andnot_ps, _mm256_broadcastsi128_si256, _mm256_castsi256_ps,
    _mm256_castsi256_si128, _mm256_cvtepi8_epi32, _mm256_cvtepi32_ps, _mm256_cvtepu8_epi32,
    _mm256_cvtepu16_epi32, _mm256_cvtph_ps, _mm256_cvtps_epi32, _mm256_dpbusd_avx_epi32,
    _mm256_dpwssd_avx_epi32, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_maddubs_epi16, _mm256_mul_ps, _mm256_or_si256, _mm256_packs_epi32, _mm256_permute4x64_epi64,
    _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_set1_ps,
    _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_sign_epi8, _mm256_sll_epi16, _mm256_sll_epi32,
    _mm256_srl_epi16, _mm256_storeu_ps, _mm256_storeu_si256, _mm256_sub_epi8, _mm256_xor_si256,
    _mm512_abs_ps, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_broadcast_i32x4,
    _mm512_castsi512_ps, _mm512_cvtepi8_epi32, _mm512_cvtepi32_epi16, _mm512_cvtepi32_ps,
    _mm512_cvtepu8_epi32, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_cvtps_epi32, _mm512_dpbusd_epi32,
    _mm512_dpwssd_epi32, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mul_ps,
    _mm512_or_si512, _mm512_packs_epi32, _mm512_set1_epi8, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_set1_ps, _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_sll_epi32, _mm512_slli_epi16,
    _mm512_srli_epi16, _mm512_storeu_ps, _mm512_storeu_si512, _mm512_sub_epi8,
};
use std::marker::PhantomData;

use crate::activation::Activation;
use crate::matrix_mut::MatrixMut;
use crate::vectors::{Bytes, Kind, Packed, Panel, Source, Span, Unpack, Vector, meet_panel};

// Needs SSE4.1, which AVX2 includes. The `# Safety` sections of `Bytes` apply.
impl Bytes for __m128i {
    #[inline(always)]
    unsafe fn each(value: u8) -> Self {
        _mm_set1_epi8(value.cast_signed())
    }

    #[inline(always)]
    unsafe fn and(self, other: Self) -> Self {
        _mm_and_si128(self, other)
    }

    #[inline(always)]
    unsafe fn or(self, other: Self) -> Self {
        _mm_or_si128(self, other)
    }

    #[inline(always)]
    unsafe fn shl(self, by: u32) -> Self {
        _mm_sll_epi16(self, _mm_cvtsi32_si128(by as i32))
    }

    #[inline(always)]
    unsafe fn right(self, by: u32) -> Self {
        _mm_srl_epi16(self, _mm_cvtsi32_si128(by as i32))
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        _mm_add_epi8(self, other)
    }

    #[inline(always)]
    unsafe fn minus(self, other: Self) -> Self {
        _mm_sub_epi8(self, other)
    }

    #[inline(always)]
    unsafe fn smaller(self, other: Self) -> Self {
        _mm_min_epu8(self, other)
    }

    #[inline(always)]
    unsafe fn larger(self, other: Self) -> Self {
        _mm_max_epu8(self, other)
    }
}

/// Vectors of sixteen rows, with AVX-512 and VNNI.
pub(crate) struct Sixteen;

// Needs AVX2, FMA, F16C and AVX-512 F, BW, VL and VNNI. The `# Safety` sections of `Vector` apply.
impl Vector for Sixteen {
    type Ints = __m512i;
    type Floats = __m512;
    type Bytes = __m128i;
    const ROWS: usize = 16;
    const TAKES_WIDE_BIAS: bool = false;

    unsafe fn meet<K: Kind>(_: &Panel, _: &[Activation<'_>], _: MatrixMut<'_>) {
        unreachable!("no panels for vectors of a whole tile");
    }

    #[inline(never)]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn block<S: Source<Self>, const T: usize, const FINE: bool>(
        span: Span,
        source: &S,
        x: &[Activation<'_>],
        out: MatrixMut<'_>,
    ) {
        span.block::<S, Self, T, FINE>(source, x, out);
    }

    #[inline(never)]
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn fill<B: Unpack, const SIGNED: bool>(panel: &mut Panel, packed: &Packed<B>) {
        panel.fill::<B, Self, SIGNED>(packed);
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> __m512i {
        _mm512_loadu_si512(from.cast())
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, bytes: __m512i) {
        _mm512_storeu_si512(to.cast(), bytes);
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> __m128i {
        _mm_loadu_si128(from.cast())
    }

    #[inline(always)]
    unsafe fn zero() -> __m512i {
        _mm512_setzero_si512()
    }

    #[inline(always)]
    unsafe fn each_int(value: i32) -> __m512i {
        _mm512_set1_epi32(value)
    }

    #[inline(always)]
    unsafe fn splat_bytes(value: i8) -> __m512i {
        _mm512_set1_epi8(value)
    }

    #[inline(always)]
    unsafe fn and(a: __m512i, b: __m512i) -> __m512i {
        _mm512_and_si512(a, b)
    }

    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        _mm512_or_si512(a, b)
    }

    #[inline(always)]
    unsafe fn add(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi32(a, b)
    }

    #[inline(always)]
    unsafe fn minus_bytes(a: __m512i, b: __m512i) -> __m512i {
        _mm512_sub_epi8(a, b)
    }

    #[inline(always)]
    unsafe fn shl<const N: u32>(a: __m512i) -> __m512i {
        _mm512_slli_epi16::<N>(a)
    }

    #[inline(always)]
    unsafe fn right<const N: u32>(a: __m512i) -> __m512i {
        _mm512_srli_epi16::<N>(a)
    }

    #[inline(always)]
    unsafe fn shl_lanes(a: __m512i, by: u32) -> __m512i {
        _mm512_sll_epi32(a, _mm_cvtsi32_si128(by as i32))
    }

    #[inline(always)]
    unsafe fn look_up(levels: &[u8; 16], codes: __m512i) -> __m512i {
        let levels = _mm512_broadcast_i32x4(_mm_loadu_si128(levels.as_ptr().cast()));
        _mm512_shuffle_epi8(levels, codes)
    }

    #[inline(always)]
    unsafe fn dot(sums: __m512i, weights: __m512i, x: __m512i) -> __m512i {
        _mm512_dpbusd_epi32(sums, weights, x)
    }

    #[inline(always)]
    unsafe fn dot_wide(sums: __m512i, weights: __m512i, x: __m512i) -> __m512i {
        _mm512_dpbusd_epi32(sums, weights, x)
    }

    #[inline(always)]
    unsafe fn dot_words(sums: __m512i, weights: __m512i, x: __m512i) -> __m512i {
        _mm512_dpwssd_epi32(sums, weights, x)
    }

    #[inline(always)]
    unsafe fn round(a: __m512) -> __m512i {
        _mm512_cvtps_epi32(a)
    }

    #[inline(always)]
    unsafe fn pack(a: __m512i, b: __m512i) -> __m512i {
        _mm512_packs_epi32(a, b)
    }

    #[inline(always)]
    unsafe fn store_words(to: *mut i16, a: __m512i) {
        _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(a));
    }

    #[inline(always)]
    unsafe fn to_floats(a: __m512i) -> __m512 {
        _mm512_cvtepi32_ps(a)
    }

    #[inline(always)]
    unsafe fn as_floats(a: __m512i) -> __m512 {
        _mm512_castsi512_ps(a)
    }

    #[inline(always)]
    unsafe fn widen(bytes: __m128i) -> __m512i {
        _mm512_cvtepu8_epi32(bytes)
    }

    #[inline(always)]
    unsafe fn widen_signed(bytes: __m128i) -> __m512i {
        _mm512_cvtepi8_epi32(bytes)
    }

    #[inline(always)]
    unsafe fn halves(from: *const u8) -> __m512 {
        _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))
    }

    #[inline(always)]
    unsafe fn words(from: *const u8) -> __m512i {
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()))
    }

    #[inline(always)]
    unsafe fn load_floats(from: *const f32) -> __m512 {
        _mm512_loadu_ps(from)
    }

    #[inline(always)]
    unsafe fn store_floats(to: *mut f32, floats: __m512) {
        _mm512_storeu_ps(to, floats);
    }

    #[inline(always)]
    unsafe fn each_float(value: f32) -> __m512 {
        _mm512_set1_ps(value)
    }

    #[inline(always)]
    unsafe fn each_two(values: [f32; 2]) -> __m512 {
        let bits = u64::from(values[1].to_bits()) << 32 | u64::from(values[0].to_bits());
        _mm512_castsi512_ps(_mm512_set1_epi64(bits.cast_signed()))
    }

    #[inline(always)]
    unsafe fn abs(a: __m512) -> __m512 {
        _mm512_abs_ps(a)
    }

    #[inline(always)]
    unsafe fn add_floats(a: __m512, b: __m512) -> __m512 {
        _mm512_add_ps(a, b)
    }

    #[inline(always)]
    unsafe fn times(a: __m512, b: __m512) -> __m512 {
        _mm512_mul_ps(a, b)
    }

    #[inline(always)]
    unsafe fn add_product(a: __m512, b: __m512, c: __m512) -> __m512 {
        _mm512_fmadd_ps(a, b, c)
    }
}

/// Vectors of eight rows with AVX2, and with the dot products of `D`.
pub(crate) struct Eight<D>(PhantomData<D>);

/// Dot products of bytes and of 16-bit integers. Four products of bytes, or two of 16-bit integers,
/// are added to each 32-bit lane.
///
/// # Safety
/// Every function needs a processor that supports the implementation's instructions.
pub(super) trait Fours: Sized {
    /// True if [`Fours::dot_wide`] subtracts the bias of 128 from the weights, so that the caller
    /// must not.
    const TAKES_WIDE_BIAS: bool;
    /// The value of [`Vector::NARROWS`].
    const NARROWS: bool = false;
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

    /// Implements [`Vector::dot`].
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn dot(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i;

    /// Implements [`Vector::dot_narrow`].
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    #[inline(always)]
    unsafe fn dot_narrow(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        Self::dot(sums, weights, x)
    }

    /// Implements [`Vector::widen_narrow`].
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    #[inline(always)]
    unsafe fn widen_narrow(sums: __m256i) -> __m256i {
        sums
    }

    /// Implements [`Vector::dot_wide`].
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn dot_wide(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i;

    /// Implements [`Vector::dot_words`].
    ///
    /// # Safety
    /// The processor must support the implementation's instructions.
    unsafe fn dot_words(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i;
}

pub(crate) struct Avx2;
pub(crate) struct AvxVnni;

// Needs AVX2, FMA and F16C. The `# Safety` sections of `Fours` apply.
impl Fours for Avx2 {
    const TAKES_WIDE_BIAS: bool = true;
    const NARROWS: bool = true;

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn meet<K: Kind>(panel: &Panel, x: &[Activation<'_>], out: MatrixMut<'_>) {
        meet_panel::<K, Eight<Self>>(panel, x, out);
    }

    #[inline(never)]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn block<S: Source<Eight<Self>>, const T: usize, const FINE: bool>(
        span: Span,
        source: &S,
        x: &[Activation<'_>],
        out: MatrixMut<'_>,
    ) {
        span.block::<S, Eight<Self>, T, FINE>(source, x, out);
    }

    #[inline(never)]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn fill<B: Unpack, const SIGNED: bool>(panel: &mut Panel, packed: &Packed<B>) {
        panel.fill::<B, Eight<Self>, SIGNED>(packed);
    }

    /// Adds two products in 16 bits before widening. Their sum fits: `2 * 127 * 127 < 2^15`.
    ///
    /// # Safety
    /// The requirements of [`Fours::dot`] apply.
    #[inline(always)]
    unsafe fn dot(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        let pairs = _mm256_maddubs_epi16(weights, x);
        _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
    }

    #[inline(always)]
    unsafe fn dot_narrow(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        _mm256_add_epi16(sums, _mm256_maddubs_epi16(weights, x))
    }

    #[inline(always)]
    unsafe fn widen_narrow(sums: __m256i) -> __m256i {
        _mm256_madd_epi16(sums, _mm256_set1_epi16(1))
    }

    /// Subtracts the bias and moves the signs of the weights to the activations. Magnitudes are
    /// then at most 128, and the sum of two products fits in 16 bits: `2 * 128 * 127 < 2^15`.
    ///
    /// # Safety
    /// The requirements of [`Fours::dot_wide`] apply.
    #[inline(always)]
    unsafe fn dot_wide(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        let signed = _mm256_xor_si256(weights, _mm256_set1_epi8(i8::MIN));
        Self::dot(sums, _mm256_abs_epi8(signed), _mm256_sign_epi8(x, signed))
    }

    #[inline(always)]
    unsafe fn dot_words(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        _mm256_add_epi32(sums, _mm256_madd_epi16(weights, x))
    }
}

// Needs AVX2, FMA, F16C and AVX-VNNI, or in tests the stand-in. The `# Safety` sections of `Fours`
// apply.
impl Fours for AvxVnni {
    const TAKES_WIDE_BIAS: bool = false;

    #[target_feature(enable = "avx2,fma,f16c")]
    #[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
    unsafe fn meet<K: Kind>(panel: &Panel, x: &[Activation<'_>], out: MatrixMut<'_>) {
        meet_panel::<K, Eight<Self>>(panel, x, out);
    }

    #[inline(never)]
    #[target_feature(enable = "avx2,fma,f16c")]
    #[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
    unsafe fn block<S: Source<Eight<Self>>, const T: usize, const FINE: bool>(
        span: Span,
        source: &S,
        x: &[Activation<'_>],
        out: MatrixMut<'_>,
    ) {
        span.block::<S, Eight<Self>, T, FINE>(source, x, out);
    }

    #[inline(never)]
    #[target_feature(enable = "avx2,fma,f16c")]
    #[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
    unsafe fn fill<B: Unpack, const SIGNED: bool>(panel: &mut Panel, packed: &Packed<B>) {
        panel.fill::<B, Eight<Self>, SIGNED>(packed);
    }

    #[inline(always)]
    unsafe fn dot(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        #[cfg(test)]
        if stand_in::is_needed() {
            return stand_in::dot(sums, weights, x);
        }
        _mm256_dpbusd_avx_epi32(sums, weights, x)
    }

    #[inline(always)]
    unsafe fn dot_wide(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        Self::dot(sums, weights, x)
    }

    #[inline(always)]
    unsafe fn dot_words(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        #[cfg(test)]
        if stand_in::is_needed() {
            return stand_in::dot_words(sums, weights, x);
        }
        _mm256_dpwssd_avx_epi32(sums, weights, x)
    }
}

// Needs AVX2, FMA, F16C and the instructions of `D`. The `# Safety` sections of `Vector` apply.
impl<D: Fours> Vector for Eight<D> {
    type Ints = __m256i;
    type Floats = __m256;
    type Bytes = __m128i;
    const ROWS: usize = 8;
    const TAKES_WIDE_BIAS: bool = D::TAKES_WIDE_BIAS;
    const NARROWS: bool = D::NARROWS;

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
    unsafe fn load(from: *const u8) -> __m256i {
        _mm256_loadu_si256(from.cast())
    }

    #[inline(always)]
    unsafe fn store(to: *mut u8, bytes: __m256i) {
        _mm256_storeu_si256(to.cast(), bytes);
    }

    #[inline(always)]
    unsafe fn load_bytes(from: *const u8) -> __m128i {
        _mm_loadl_epi64(from.cast())
    }

    #[inline(always)]
    unsafe fn zero() -> __m256i {
        _mm256_setzero_si256()
    }

    #[inline(always)]
    unsafe fn each_int(value: i32) -> __m256i {
        _mm256_set1_epi32(value)
    }

    #[inline(always)]
    unsafe fn splat_bytes(value: i8) -> __m256i {
        _mm256_set1_epi8(value)
    }

    #[inline(always)]
    unsafe fn and(a: __m256i, b: __m256i) -> __m256i {
        _mm256_and_si256(a, b)
    }

    #[inline(always)]
    unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
        _mm256_or_si256(a, b)
    }

    #[inline(always)]
    unsafe fn add(a: __m256i, b: __m256i) -> __m256i {
        _mm256_add_epi32(a, b)
    }

    #[inline(always)]
    unsafe fn minus_bytes(a: __m256i, b: __m256i) -> __m256i {
        _mm256_sub_epi8(a, b)
    }

    #[inline(always)]
    unsafe fn shl<const N: u32>(a: __m256i) -> __m256i {
        _mm256_sll_epi16(a, _mm_cvtsi32_si128(N as i32))
    }

    #[inline(always)]
    unsafe fn right<const N: u32>(a: __m256i) -> __m256i {
        _mm256_srl_epi16(a, _mm_cvtsi32_si128(N as i32))
    }

    #[inline(always)]
    unsafe fn shl_lanes(a: __m256i, by: u32) -> __m256i {
        _mm256_sll_epi32(a, _mm_cvtsi32_si128(by as i32))
    }

    #[inline(always)]
    unsafe fn look_up(levels: &[u8; 16], codes: __m256i) -> __m256i {
        let levels = _mm256_broadcastsi128_si256(_mm_loadu_si128(levels.as_ptr().cast()));
        _mm256_shuffle_epi8(levels, codes)
    }

    #[inline(always)]
    unsafe fn dot_narrow(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        D::dot_narrow(sums, weights, x)
    }

    #[inline(always)]
    unsafe fn widen_narrow(sums: __m256i) -> __m256i {
        D::widen_narrow(sums)
    }

    #[inline(always)]
    unsafe fn dot(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        D::dot(sums, weights, x)
    }

    #[inline(always)]
    unsafe fn dot_wide(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        D::dot_wide(sums, weights, x)
    }

    #[inline(always)]
    unsafe fn dot_words(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        D::dot_words(sums, weights, x)
    }

    #[inline(always)]
    unsafe fn round(a: __m256) -> __m256i {
        _mm256_cvtps_epi32(a)
    }

    #[inline(always)]
    unsafe fn pack(a: __m256i, b: __m256i) -> __m256i {
        _mm256_packs_epi32(a, b)
    }

    #[inline(always)]
    unsafe fn store_words(to: *mut i16, a: __m256i) {
        // The instruction packs the halves of vectors separately.
        let words = _mm256_permute4x64_epi64::<0b10_00>(_mm256_packs_epi32(a, a));
        _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(words));
    }

    #[inline(always)]
    unsafe fn to_floats(a: __m256i) -> __m256 {
        _mm256_cvtepi32_ps(a)
    }

    #[inline(always)]
    unsafe fn as_floats(a: __m256i) -> __m256 {
        _mm256_castsi256_ps(a)
    }

    #[inline(always)]
    unsafe fn widen(bytes: __m128i) -> __m256i {
        _mm256_cvtepu8_epi32(bytes)
    }

    #[inline(always)]
    unsafe fn widen_signed(bytes: __m128i) -> __m256i {
        _mm256_cvtepi8_epi32(bytes)
    }

    #[inline(always)]
    unsafe fn halves(from: *const u8) -> __m256 {
        _mm256_cvtph_ps(_mm_loadu_si128(from.cast()))
    }

    #[inline(always)]
    unsafe fn words(from: *const u8) -> __m256i {
        _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()))
    }

    #[inline(always)]
    unsafe fn load_floats(from: *const f32) -> __m256 {
        _mm256_loadu_ps(from)
    }

    #[inline(always)]
    unsafe fn store_floats(to: *mut f32, floats: __m256) {
        _mm256_storeu_ps(to, floats);
    }

    #[inline(always)]
    unsafe fn each_float(value: f32) -> __m256 {
        _mm256_set1_ps(value)
    }

    #[inline(always)]
    unsafe fn each_two(values: [f32; 2]) -> __m256 {
        let bits = u64::from(values[1].to_bits()) << 32 | u64::from(values[0].to_bits());
        _mm256_castsi256_ps(_mm256_set1_epi64x(bits.cast_signed()))
    }

    #[inline(always)]
    unsafe fn abs(a: __m256) -> __m256 {
        _mm256_andnot_ps(_mm256_set1_ps(-0.0), a)
    }

    #[inline(always)]
    unsafe fn add_floats(a: __m256, b: __m256) -> __m256 {
        _mm256_add_ps(a, b)
    }

    #[inline(always)]
    unsafe fn times(a: __m256, b: __m256) -> __m256 {
        _mm256_mul_ps(a, b)
    }

    #[inline(always)]
    unsafe fn add_product(a: __m256, b: __m256, c: __m256) -> __m256 {
        _mm256_fmadd_ps(a, b, c)
    }
}

/// The dot products of `AvxVnni` in the encoding of AVX-512, for tests on processors that have only
/// that encoding.
///
/// The functions that inline these products are then compiled without the `avxvnni` feature. With
/// the feature, the compiler would choose the AVX-VNNI encoding.
#[cfg(test)]
mod stand_in {
    use std::arch::x86_64::{__m256i, _mm256_dpbusd_epi32, _mm256_dpwssd_epi32};

    pub(super) fn is_needed() -> bool {
        !is_x86_feature_detected!("avxvnni")
    }

    /// Replaces `_mm256_dpbusd_avx_epi32`.
    ///
    /// # Safety
    /// The processor must have AVX2 and AVX-512 VL and VNNI.
    #[target_feature(enable = "avx2,avx512vl,avx512vnni")]
    pub(super) unsafe fn dot(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        _mm256_dpbusd_epi32(sums, weights, x)
    }

    /// Replaces `_mm256_dpwssd_avx_epi32`.
    ///
    /// # Safety
    /// The processor must have AVX2 and AVX-512 VL and VNNI.
    #[target_feature(enable = "avx2,avx512vl,avx512vnni")]
    pub(super) unsafe fn dot_words(sums: __m256i, weights: __m256i, x: __m256i) -> __m256i {
        _mm256_dpwssd_epi32(sums, weights, x)
    }
}
