//! Kernels with vectors of 32 bytes and dot products of four bytes per lane (AVX-VNNI).

pub(crate) use super::avx2::{
    advance, bounds, expand_keys, expand_values, float_products, quantize, quantize_words, rests,
};
#[cfg(doc)]
use super::has_stand_in;
use super::vector::{AvxVnni, Eight};
use crate::activation::Activation;
use crate::attention::{POSITIONS, Query, Words};
use crate::layout::Tiles;
use crate::matrix_mut::MatrixMut;
use crate::vectors::{LoadColumn, Unpack, attention, f16_as_i16, gemm};

/// Computes the products of tiles of blocks.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-VNNI, or in tests the stand-in
/// ([`has_stand_in`]). The requirements of [`gemm::products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
#[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
pub(crate) unsafe fn products<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { gemm::products::<B, Eight<AvxVnni>>(tiles, x, out) }
}

/// Computes the products of tiles of 16-bit floats.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-VNNI, or in tests the stand-in
/// ([`has_stand_in`]). The requirements of [`f16_as_i16::products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
#[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
pub(crate) unsafe fn word_products<F: LoadColumn>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { f16_as_i16::products::<F, Eight<AvxVnni>>(tiles, x, out) }
}

/// Computes the products of queries with a block of keys.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-VNNI, or in tests the stand-in
/// ([`has_stand_in`]). The requirements of [`attention::key_products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
#[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
pub(crate) unsafe fn key_products(
    queries: &[Query<'_>],
    block: &Words<'_>,
    out: &mut [&mut [f32; POSITIONS]],
) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { attention::key_products::<Eight<AvxVnni>>(queries, block, out) }
}

/// Adds the weighted values of a block to the outputs.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-VNNI, or in tests the stand-in
/// ([`has_stand_in`]). The requirements of [`attention::add_values`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
#[cfg_attr(not(test), target_feature(enable = "avxvnni"))]
pub(crate) unsafe fn add_values(weights: &[&[f32; POSITIONS]], block: &Words<'_>, out: &mut [&mut [f32]]) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { attention::add_values::<Eight<AvxVnni>>(weights, block, out) }
}
