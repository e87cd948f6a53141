//! Kernels with vectors of 64 bytes (AVX-512 with VNNI).

pub(crate) use super::avx2::{expand_keys, expand_values, quantize, quantize_words};
use super::vector::Sixteen;
use crate::activation::{Activation, Q8Block, rest_groups};
use crate::attention::{POSITIONS, Query, Words};
use crate::bounds::{Bounds, CoarseQuery};
use crate::format::GROUP;
use crate::layout::Tiles;
use crate::matrix_mut::MatrixMut;
use crate::recurrence::{COLUMNS, Recurrence, advance_columns};
use crate::vectors::{LoadColumn, Unpack, attention, bounds, f16_as_i16, floats, gemm};

/// Computes the products of tiles of blocks.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-512 F, BW, VL and VNNI. The requirements of
/// [`gemm::products`] apply.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) unsafe fn products<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { gemm::products::<B, Sixteen>(tiles, x, out) }
}

/// Computes the products of tiles of 16-bit floats.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-512 F, BW, VL and VNNI. The requirements of
/// [`f16_as_i16::products`] apply.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) unsafe fn word_products<F: LoadColumn>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { f16_as_i16::products::<F, Sixteen>(tiles, x, out) }
}

/// Computes the products of tiles of floats.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-512 F, BW and VL. The requirements of
/// [`floats::products`] apply.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn float_products<F: LoadColumn>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { floats::products::<F, Sixteen>(tiles, x, out) }
}

/// Computes the bounds of the products of a tile's rows.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-512 F, BW, VL and VNNI. The requirements of
/// [`bounds::bounds`] apply.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) unsafe fn bounds<B: Unpack>(tile: Tiles<'_>, x: &CoarseQuery) -> Bounds {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { bounds::bounds::<B, Sixteen>(tile, x) }
}

/// Computes the products of queries with a block of keys.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-512 F, BW, VL and VNNI. The requirements of
/// [`attention::key_products`] apply.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) unsafe fn key_products(
    queries: &[Query<'_>],
    block: &Words<'_>,
    out: &mut [&mut [f32; POSITIONS]],
) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { attention::key_products::<Sixteen>(queries, block, out) }
}

/// Adds the weighted values of a block to the outputs.
///
/// # Safety
/// The processor must have AVX2, FMA, F16C and AVX-512 F, BW, VL and VNNI. The requirements of
/// [`attention::add_values`] apply.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) unsafe fn add_values(weights: &[&[f32; POSITIONS]], block: &Words<'_>, out: &mut [&mut [f32]]) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { attention::add_values::<Sixteen>(weights, block, out) }
}

/// Computes the residuals of rounded activations with the portable code, compiled for the tier.
///
/// # Safety
/// The processor must have AVX2 and AVX-512 F, BW and VL.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn rests(values: &[[f32; GROUP]], groups: &[Q8Block], rests: &mut [Q8Block]) {
    rest_groups(values, groups, rests);
}

/// Computes columns of a recurrence with the portable code, compiled for the tier.
///
/// # Safety
/// The processor must have AVX2, FMA and AVX-512 F, BW and VL.
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn advance(
    run: &Recurrence<'_>,
    first: usize,
    state: &mut [[f32; COLUMNS]],
    out: &mut [[f32; COLUMNS]],
) {
    advance_columns(run, first, state, out);
}
