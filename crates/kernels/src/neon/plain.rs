//! Kernels with vectors of 16 bytes (NEON), which every processor of the architecture has.

use super::vector::{Eight, Plain};
use crate::activation::{Activation, Q8Block, quantize_groups, rest_groups};
use crate::attention::{Bytes, POSITIONS, Query, Words};
use crate::bounds::{Bounds, CoarseQuery};
use crate::f16_as_i16::{self as rounding, Q16Block};
use crate::format::GROUP;
use crate::layout::Tiles;
use crate::matrix_mut::MatrixMut;
use crate::recurrence::{COLUMNS, Recurrence, advance_columns};
use crate::vectors::{LoadColumn, Unpack, attention, bounds, f16_as_i16, floats, gemm};

/// Computes the products of tiles of blocks.
///
/// # Safety
/// The requirements of [`gemm::products`] apply.
pub(crate) unsafe fn products<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { gemm::products::<B, Eight<Plain>>(tiles, x, out) }
}

/// Computes the products of tiles of 16-bit floats.
///
/// # Safety
/// The requirements of [`f16_as_i16::products`] apply.
pub(crate) unsafe fn word_products<F: LoadColumn>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { f16_as_i16::products::<F, Eight<Plain>>(tiles, x, out) }
}

/// Computes the products of tiles of floats.
///
/// # Safety
/// The requirements of [`floats::products`] apply.
pub(crate) unsafe fn float_products<F: LoadColumn>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { floats::products::<F, Eight<Plain>>(tiles, x, out) }
}

/// Computes the bounds of the products of a tile's rows.
///
/// # Safety
/// The requirements of [`bounds::bounds`] apply.
pub(crate) unsafe fn bounds<B: Unpack>(tile: Tiles<'_>, x: &CoarseQuery) -> Bounds {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { bounds::bounds::<B, Eight<Plain>>(tile, x) }
}

/// Computes the products of queries with a block of keys.
///
/// # Safety
/// The requirements of [`attention::key_products`] apply.
pub(crate) unsafe fn key_products(
    queries: &[Query<'_>],
    block: &Words<'_>,
    out: &mut [&mut [f32; POSITIONS]],
) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { attention::key_products::<Eight<Plain>>(queries, block, out) }
}

/// Adds the weighted values of a block to the outputs.
///
/// # Safety
/// The requirements of [`attention::add_values`] apply.
pub(crate) unsafe fn add_values(weights: &[&[f32; POSITIONS]], block: &Words<'_>, out: &mut [&mut [f32]]) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { attention::add_values::<Eight<Plain>>(weights, block, out) }
}

/// Rounds activations to 8 bits with the portable code.
///
/// # Safety
/// No requirements. The functions of other tiers have some.
pub(crate) unsafe fn quantize(values: &[[f32; GROUP]], groups: &mut [Q8Block]) {
    quantize_groups(values, groups);
}

/// Rounds activations to 16 bits with the portable code.
///
/// # Safety
/// No requirements, as for [`quantize`].
pub(crate) unsafe fn quantize_words(values: &[[f32; GROUP]], groups: &mut [Q16Block]) {
    rounding::quantize_words(values, groups);
}

/// Computes the residuals of rounded activations with the portable code.
///
/// # Safety
/// No requirements, as for [`quantize`].
pub(crate) unsafe fn rests(values: &[[f32; GROUP]], groups: &[Q8Block], rests: &mut [Q8Block]) {
    rest_groups(values, groups, rests);
}

/// Computes columns of a recurrence with the portable code, compiled for the tier.
///
/// # Safety
/// The processor must have NEON.
#[target_feature(enable = "neon")]
pub(crate) unsafe fn advance(
    run: &Recurrence<'_>,
    first: usize,
    state: &mut [[f32; COLUMNS]],
    out: &mut [[f32; COLUMNS]],
) {
    advance_columns(run, first, state, out);
}

/// Expands the keys of a block with the portable code.
///
/// # Safety
/// No requirements, as for [`quantize`].
pub(crate) unsafe fn expand_keys(block: &Bytes<'_>, room: &mut [i16]) {
    crate::attention::expand_keys(block, room);
}

/// Expands the values of a block with the portable code.
///
/// # Safety
/// No requirements, as for [`quantize`].
pub(crate) unsafe fn expand_values(block: &Bytes<'_>, dim: usize, room: &mut [i16]) {
    crate::attention::expand_values(block, dim, room);
}
