//! Dot products by vectors of 16 bytes (NEON), with and without the extension that adds products of bytes up by fours.

#![allow(unsafe_code, reason = "instructions that not every processor has")]
#![allow(unsafe_op_in_unsafe_fn, reason = "every line would be a block of its own")]

mod vector;

use self::vector::{Dot, Eight, Plain};
use crate::activation::Activation;
use crate::attention::{POSITIONS, Query, Words};
use crate::bounds::{Bounds, Sketch};
use crate::outputs::Outputs;
use crate::products::{Tier, Tiles};
use crate::vectors::{LoadColumn, Unpack, attention, bounds, floats, sweep, words};

/// The products of tiles of blocks.
///
/// # Safety
/// The processor must have the tier, which must not be the portable one; activations must be as long as rows, and `out` have as
/// many tokens, and no more rows than the tiles.
pub(crate) unsafe fn products<B: Unpack>(
    tier: Tier,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: Outputs<'_>,
) {
    match tier {
        Tier::NeonDot => products_dot::<B>(tiles, x, out),
        _ => sweep::products::<B, Eight<Plain>>(tiles, x, out),
    }
}

#[target_feature(enable = "dotprod")]
unsafe fn products_dot<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: Outputs<'_>) {
    sweep::products::<B, Eight<Dot>>(tiles, x, out);
}

/// The bounds of the products of a tile's rows.
///
/// # Safety
/// As with [`products`], and rows must be as long as the activations.
pub(crate) unsafe fn bounds<B: Unpack>(tier: Tier, tile: Tiles<'_>, x: &Sketch) -> Bounds {
    match tier {
        Tier::NeonDot => bounds_dot::<B>(tile, x),
        _ => bounds::bounds::<B, Eight<Plain>>(tile, x),
    }
}

#[target_feature(enable = "dotprod")]
unsafe fn bounds_dot<B: Unpack>(tile: Tiles<'_>, x: &Sketch) -> Bounds {
    bounds::bounds::<B, Eight<Dot>>(tile, x)
}

/// The products of tiles of floats.
///
/// # Safety
/// As with [`products`].
pub(crate) unsafe fn float_products<F: LoadColumn>(
    _: Tier,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: Outputs<'_>,
) {
    floats::products::<F, Eight<Plain>>(tiles, x, out);
}

/// The products of tiles of 16-bit floats.
///
/// # Safety
/// As with [`products`].
pub(crate) unsafe fn word_products<F: LoadColumn>(
    _: Tier,
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    out: Outputs<'_>,
) {
    words::products::<F, Eight<Plain>>(tiles, x, out);
}

/// The products of queries with a block of keys.
///
/// # Safety
/// Queries must be as long as the keys.
pub(crate) unsafe fn key_products(
    _: Tier,
    queries: &[Query<'_>],
    block: &Words<'_>,
    out: &mut [&mut [f32; POSITIONS]],
) {
    attention::key_products::<Eight<Plain>>(queries, block, out);
}

/// Adds values times their weights.
///
/// # Safety
/// Outputs must be as long as values.
pub(crate) unsafe fn add_values(
    _: Tier,
    weights: &[&[f32; POSITIONS]],
    block: &Words<'_>,
    out: &mut [&mut [f32]],
) {
    attention::add_values::<Eight<Plain>>(weights, block, out);
}
