//! Kernels with vectors of 32 bytes (AVX2, FMA and F16C).

pub(crate) use super::quantize::{quantize, quantize_words};
use super::vector::{Avx2, Eight};
use crate::activation::{Activation, Q8Block, rest_groups};
use crate::attention::{Bytes, POSITIONS, Query, Words};
use crate::bounds::{Bounds, CoarseQuery};
use crate::format::GROUP;
use crate::layout::Tiles;
use crate::matrix_mut::MatrixMut;
use crate::recurrence::{COLUMNS, Recurrence, advance_columns};
use crate::vectors::{LoadColumn, Unpack, attention, bounds, f16_as_i16, floats, gemm};

/// Computes the products of tiles of blocks.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C. The requirements of [`gemm::products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn products<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { gemm::products::<B, Eight<Avx2>>(tiles, x, out) }
}

/// Computes the products of tiles of 16-bit floats.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C. The requirements of [`f16_as_i16::products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn word_products<F: LoadColumn>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { f16_as_i16::products::<F, Eight<Avx2>>(tiles, x, out) }
}

/// Computes the products of tiles of floats.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C. The requirements of [`floats::products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn float_products<F: LoadColumn>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { floats::products::<F, Eight<Avx2>>(tiles, x, out) }
}

/// Computes the bounds of the products of a tile's rows.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C. The requirements of [`bounds::bounds`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn bounds<B: Unpack>(tile: Tiles<'_>, x: &CoarseQuery) -> Bounds {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { bounds::bounds::<B, Eight<Avx2>>(tile, x) }
}

/// Computes the products of queries with a block of keys.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C. The requirements of [`attention::key_products`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn key_products(
    queries: &[Query<'_>],
    block: &Words<'_>,
    out: &mut [&mut [f32; POSITIONS]],
) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { attention::key_products::<Eight<Avx2>>(queries, block, out) }
}

/// Adds the weighted values of a block to the outputs.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C. The requirements of [`attention::add_values`] apply.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn add_values(weights: &[&[f32; POSITIONS]], block: &Words<'_>, out: &mut [&mut [f32]]) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { attention::add_values::<Eight<Avx2>>(weights, block, out) }
}

/// Computes the residuals of rounded activations with the portable code, compiled for the tier.
///
/// # Safety
/// The processor must have AVX2.
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn rests(values: &[[f32; GROUP]], groups: &[Q8Block], rests: &mut [Q8Block]) {
    rest_groups(values, groups, rests);
}

/// Computes columns of a recurrence with the portable code, compiled for the tier.
///
/// # Safety
/// The processor must have AVX2 and FMA.
#[target_feature(enable = "avx2,fma")]
pub(crate) unsafe fn advance(
    run: &Recurrence<'_>,
    first: usize,
    state: &mut [[f32; COLUMNS]],
    out: &mut [[f32; COLUMNS]],
) {
    advance_columns(run, first, state, out);
}

/// Expands the keys of a block with the portable code, compiled for the tier.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn expand_keys(block: &Bytes<'_>, room: &mut [i16]) {
    crate::attention::expand_keys(block, room);
}

/// Expands the values of a block with the portable code, compiled for the tier.
///
/// # Safety
/// The processor must have AVX2, FMA and F16C.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn expand_values(block: &Bytes<'_>, dim: usize, room: &mut [i16]) {
    crate::attention::expand_values(block, dim, room);
}
