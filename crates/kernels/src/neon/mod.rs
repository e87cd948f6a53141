//! Dot products with vectors of 16 bytes (NEON), with and without the extension for dot products of
//! bytes.

#![allow(unsafe_code, reason = "instructions that some processors lack")]
#![allow(unsafe_op_in_unsafe_fn, reason = "nearly every line is unsafe")]

mod vector;

use self::vector::{Dot, Eight, Plain};
use crate::activation::Activation;
use crate::attention::{POSITIONS, Query, Words};
use crate::bounds::{Bounds, CoarseQuery};
use crate::matrix_mut::MatrixMut;
use crate::products::{Tier, Tiles};
use crate::vectors::{LoadColumn, Unpack, attention, bounds, f16_as_i16, floats, gemm};

/// Computes the products of tiles of blocks.
///
/// # Safety
/// The processor must support `tier`, which must be one of this module. `tiles` must be packed as
/// `B`. Activations must be rounded to 8 or 16 bits and as long as rows. `out` must have the number
/// of tokens of `x`, and at most the rows of the tiles.
pub(crate) unsafe fn products<B: Unpack>(
    tier: Tier,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    match tier {
        Tier::NeonDot => products_dot::<B>(tiles, x, out),
        _ => gemm::products::<B, Eight<Plain>>(tiles, x, out),
    }
}

/// Computes [`products`] with the `dotprod` extension.
///
/// # Safety
/// The processor must have the extension, and the requirements of [`products`] apply.
#[target_feature(enable = "dotprod")]
unsafe fn products_dot<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    gemm::products::<B, Eight<Dot>>(tiles, x, out);
}

/// Computes the bounds of the products of a tile's rows.
///
/// # Safety
/// The processor must support `tier`, which must be one of this module. `tile` must be a single
/// tile that is packed as `B`, and its rows must be as long as the activations of `x`.
pub(crate) unsafe fn bounds<B: Unpack>(tier: Tier, tile: Tiles<'_>, x: &CoarseQuery) -> Bounds {
    match tier {
        Tier::NeonDot => bounds_dot::<B>(tile, x),
        _ => bounds::bounds::<B, Eight<Plain>>(tile, x),
    }
}

/// Computes [`bounds()`] with the `dotprod` extension.
///
/// # Safety
/// The processor must have the extension, and the requirements of [`bounds()`] apply.
#[target_feature(enable = "dotprod")]
unsafe fn bounds_dot<B: Unpack>(tile: Tiles<'_>, x: &CoarseQuery) -> Bounds {
    bounds::bounds::<B, Eight<Dot>>(tile, x)
}

/// Computes the products of tiles of floats.
///
/// # Safety
/// The requirements of [`products`] apply, except that activations need not be rounded.
pub(crate) unsafe fn float_products<F: LoadColumn>(
    _: Tier,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    floats::products::<F, Eight<Plain>>(tiles, x, out);
}

/// Computes the products of tiles of 16-bit floats.
///
/// # Safety
/// The requirements of [`products`] apply, with activations that are rounded to 16-bit blocks.
pub(crate) unsafe fn word_products<F: LoadColumn>(
    _: Tier,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: MatrixMut<'_>,
) {
    f16_as_i16::products::<F, Eight<Plain>>(tiles, x, out);
}

/// Computes the products of queries with a block of keys.
///
/// # Safety
/// Every query must have as many pairs as the keys. `out` must be as long as `queries`.
/// `block.positions` must be at most [`POSITIONS`].
pub(crate) unsafe fn key_products(
    _: Tier,
    queries: &[Query<'_>],
    block: &Words<'_>,
    out: &mut [&mut [f32; POSITIONS]],
) {
    attention::key_products::<Eight<Plain>>(queries, block, out);
}

/// Adds the weighted values of a block to the outputs.
///
/// # Safety
/// Every output must be as long as a value. `out` must be as long as `weights`. `block.positions`
/// must be at most [`POSITIONS`].
pub(crate) unsafe fn add_values(
    _: Tier,
    weights: &[&[f32; POSITIONS]],
    block: &Words<'_>,
    out: &mut [&mut [f32]],
) {
    attention::add_values::<Eight<Plain>>(weights, block, out);
}
