//! Kernels with NEON and its extension for dot products of bytes.

pub(crate) use super::plain::{
    add_values, advance, expand_keys, expand_values, float_products, key_products, quantize, quantize_words,
    rests, word_products,
};
use super::vector::{Dot, Eight};
use crate::activation::Activation;
use crate::bounds::{Bounds, CoarseQuery};
use crate::layout::Tiles;
use crate::matrix_mut::MatrixMut;
use crate::vectors::{Unpack, bounds, gemm};

/// Computes the products of tiles of blocks.
///
/// # Safety
/// The processor must have the `dotprod` extension. The requirements of [`gemm::products`] apply.
#[target_feature(enable = "dotprod")]
pub(crate) unsafe fn products<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], out: MatrixMut<'_>) {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { gemm::products::<B, Eight<Dot>>(tiles, x, out) }
}

/// Computes the bounds of the products of a tile's rows.
///
/// # Safety
/// The processor must have the `dotprod` extension. The requirements of [`bounds::bounds`] apply.
#[target_feature(enable = "dotprod")]
pub(crate) unsafe fn bounds<B: Unpack>(tile: Tiles<'_>, x: &CoarseQuery) -> Bounds {
    // SAFETY: the caller ensures the requirements, which are those of the call.
    unsafe { bounds::bounds::<B, Eight<Dot>>(tile, x) }
}
