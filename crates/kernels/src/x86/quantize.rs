//! Rounding of activations with AVX2.

#![allow(unsafe_op_in_unsafe_fn, reason = "nearly every line is an intrinsic")]

use std::arch::x86_64::{
    __m256, __m256i, _mm_add_epi32, _mm_add_ps, _mm_add_ss, _mm_cvtsi128_si32, _mm_cvtss_f32,
    _mm_extract_epi32, _mm_hadd_epi32, _mm_max_epu32, _mm_movehdup_ps, _mm_movehl_ps, _mm_shuffle_epi32,
    _mm256_add_epi32, _mm256_and_si256, _mm256_castps_si256, _mm256_castps256_ps128, _mm256_castsi256_si128,
    _mm256_cvtps_epi32, _mm256_extractf128_ps, _mm256_extracti128_si256, _mm256_fmadd_ps, _mm256_hadd_epi32,
    _mm256_loadu_ps, _mm256_max_epu32, _mm256_mul_ps, _mm256_packs_epi16, _mm256_packs_epi32,
    _mm256_permute4x64_epi64, _mm256_permutevar8x32_epi32, _mm256_set1_epi32, _mm256_set1_ps,
    _mm256_setr_epi32, _mm256_setzero_si256, _mm256_storeu_si256,
};

use crate::activation::{Q8Block, inverse, step};
use crate::f16_as_i16::{Q16Block, factor};
use crate::format::GROUP;

/// Rounds groups to 8 bits. The portable code takes twice as long, even if it is compiled for AVX2.
///
/// # Safety
/// The processor must have AVX2.
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn quantize(values: &[[f32; GROUP]], groups: &mut [Q8Block]) {
    for (values, group) in values.iter().zip(groups) {
        let (floats, most) = load(values);
        let scale = step(most);
        let Some(inverse) = inverse(scale) else {
            *group = Q8Block::new([0; GROUP], scale, [0; 2]);
            continue;
        };
        let mut integers = [_mm256_setzero_si256(); 4];
        for (integers, floats) in integers.iter_mut().zip(floats) {
            *integers = _mm256_cvtps_epi32(_mm256_mul_ps(floats, _mm256_set1_ps(inverse)));
        }
        let mut q = [0i8; GROUP];
        _mm256_storeu_si256(q.as_mut_ptr().cast(), bytes(integers));
        *group = Q8Block::new(q, scale, half_sums(integers));
    }
}

/// Rounds groups to 16 bits, with sums in the order of the portable code.
///
/// # Safety
/// The processor must have AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn quantize_words(values: &[[f32; GROUP]], groups: &mut [Q16Block]) {
    for (values, group) in values.iter().zip(groups) {
        let (mut floats, most) = load(values);
        let most = f32::from_bits(most);
        let Some(inverse) = inverse(most) else {
            *group = Q16Block { q: [0; GROUP], scale: most };
            continue;
        };
        for floats in &mut floats {
            *floats = _mm256_mul_ps(*floats, _mm256_set1_ps(inverse));
        }
        let mut chains = _mm256_mul_ps(floats[0], floats[0]);
        for floats in &floats[1..] {
            chains = _mm256_fmadd_ps(*floats, *floats, chains);
        }
        let fours = _mm_add_ps(_mm256_castps256_ps128(chains), _mm256_extractf128_ps::<1>(chains));
        let twos = _mm_add_ps(fours, _mm_movehl_ps(fours, fours));
        let factor = factor(_mm_cvtss_f32(_mm_add_ss(twos, _mm_movehdup_ps(twos))));
        let integer = |i: usize| _mm256_cvtps_epi32(_mm256_mul_ps(floats[i], _mm256_set1_ps(factor)));
        group.scale = most / factor;
        for half in 0..2 {
            let words = _mm256_packs_epi32(integer(2 * half), integer(2 * half + 1));
            // The instruction packs the halves of vectors separately.
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
            _mm256_storeu_si256(group.q[16 * half..].as_mut_ptr().cast(), words);
        }
    }
}

/// Returns the floats of a group, and the bits of their largest magnitude.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn load(values: &[f32; GROUP]) -> ([__m256; 4], u32) {
    let mut floats = [_mm256_set1_ps(0.0); 4];
    let mut most = _mm256_setzero_si256();
    for (i, floats) in floats.iter_mut().enumerate() {
        *floats = _mm256_loadu_ps(values[8 * i..8 * i + 8].as_ptr());
        let unsigned = _mm256_and_si256(_mm256_castps_si256(*floats), _mm256_set1_epi32(0x7fff_ffff));
        most = _mm256_max_epu32(most, unsigned);
    }
    (floats, largest(most))
}

/// Returns the largest lane, unsigned.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn largest(lanes: __m256i) -> u32 {
    let four = _mm_max_epu32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
    let two = _mm_max_epu32(four, _mm_shuffle_epi32::<0b11_10_11_10>(four));
    let one = _mm_max_epu32(two, _mm_shuffle_epi32::<0b01>(two));
    _mm_cvtsi128_si32(one) as u32
}

/// Narrows 32 integers to 8 bits, in order.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn bytes([a, b, c, d]: [__m256i; 4]) -> __m256i {
    // The instructions pack the halves of vectors separately, which leaves pieces of four in the
    // order 0 2 4 6, 1 3 5 7.
    let packed = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// Returns the sum of the first two vectors and the sum of the last two.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn half_sums([a, b, c, d]: [__m256i; 4]) -> [i32; 2] {
    let pairs = _mm256_hadd_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
    let pairs = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
    let sums = _mm_hadd_epi32(pairs, pairs);
    [_mm_cvtsi128_si32(sums), _mm_extract_epi32::<1>(sums)]
}
