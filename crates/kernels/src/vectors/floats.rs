//! Products of rows of floats. A vector of weights from one column, one per row, is multiplied with
//! the activation of each token in this column.

#![allow(unsafe_op_in_unsafe_fn, reason = "nearly every line is an operation of `Vector`")]

use super::gemm::store;
use super::{Vector, prefetch_all};
use crate::activation::Activation;
use crate::float::{Bf16, CHAINS, F16, F32, FloatFormat};
use crate::layout::{TILE_ROWS, Tiles};
use crate::matrix_mut::MatrixMut;

/// Number of tokens in a round, a pass over all tiles.
const ROUND: usize = 48;
/// Prefetch distance in bytes, into the second-level cache.
pub(crate) const AHEAD: usize = 8192;

/// A float type that vectors can load.
pub(crate) trait LoadColumn: FloatFormat {
    /// Loads the weights of a column.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`, and `from` must be valid for reading one
    /// weight per lane.
    unsafe fn load_column<V: Vector>(from: *const u8) -> V::Floats;
}

impl LoadColumn for F32 {
    #[inline(always)]
    unsafe fn load_column<V: Vector>(from: *const u8) -> V::Floats {
        V::load_floats(from.cast())
    }
}

impl LoadColumn for F16 {
    #[inline(always)]
    unsafe fn load_column<V: Vector>(from: *const u8) -> V::Floats {
        V::halves(from)
    }
}

impl LoadColumn for Bf16 {
    #[inline(always)]
    unsafe fn load_column<V: Vector>(from: *const u8) -> V::Floats {
        V::as_floats(V::shl_lanes(V::words(from), 16))
    }
}

/// Computes the products of tiles.
///
/// # Safety
/// The processor must support the instructions of `V`. `tiles` must be packed as `F`. Activations
/// must be as long as rows. `out` must have the number of tokens of `x`, and at most the rows of
/// the tiles.
#[inline(always)]
pub(crate) unsafe fn products<F: LoadColumn, V: Vector>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    mut out: MatrixMut<'_>,
) {
    let rows = out.rows();
    for (first, x) in (0..x.len()).step_by(ROUND).zip(x.chunks(ROUND)) {
        for row in (0..rows).step_by(V::ROWS) {
            let tile = &tiles.bytes[row / TILE_ROWS * tiles.tile_bytes..][..tiles.tile_bytes];
            let tile = &tile[row % TILE_ROWS * F::BYTES..];
            let mut token = 0;
            while token < x.len() {
                let (x, out) = (&x[token..], out.of(first + token..first + x.len()));
                token += match x.len() {
                    1 => block::<F, V, 1>(tile, row, x, out),
                    2 | 4 => block::<F, V, 2>(tile, row, x, out),
                    _ => block::<F, V, 3>(tile, row, x, out),
                };
            }
        }
    }
}

/// Multiplies the rows of a vector with the first `T` tokens. Returns `T`. The partial sums of
/// three tokens fit the registers of AVX2.
///
/// # Safety
/// The requirements of [`products`] apply. `tile` must start at the first row of the vector, and
/// `x` and `out` must have at least `T` tokens.
#[inline(always)]
unsafe fn block<F: LoadColumn, V: Vector, const T: usize>(
    tile: &[u8],
    row: usize,
    x: &[Activation<'_>],
    mut out: MatrixMut<'_>,
) -> usize {
    let columns = x[0].values().len();
    let mut values = [std::ptr::null::<f32>(); T];
    for t in 0..T {
        values[t] = x[t].values().as_ptr();
    }
    let mut chains = [[V::each_float(0.0); T]; CHAINS];
    let column_bytes = TILE_ROWS * F::BYTES;
    let whole = columns / CHAINS * CHAINS;
    for first in (0..whole).step_by(CHAINS) {
        let from = tile.as_ptr().add(first * column_bytes);
        prefetch_all(from.wrapping_add(AHEAD), CHAINS * column_bytes);
        for (column, chains) in chains.iter_mut().enumerate() {
            let weights = F::load_column::<V>(from.add(column * column_bytes));
            for t in 0..T {
                let x = V::each_float(*values[t].add(first + column));
                chains[t] = V::add_product(weights, x, chains[t]);
            }
        }
    }
    for column in whole..columns {
        let weights = F::load_column::<V>(tile.as_ptr().add(column * column_bytes));
        for t in 0..T {
            let x = V::each_float(*values[t].add(column));
            let chain = &mut chains[column - whole][t];
            *chain = V::add_product(weights, x, *chain);
        }
    }
    let [first, second, third, fourth] = chains;
    let of_tokens = first.into_iter().zip(second).zip(third.into_iter().zip(fourth));
    for (t, ((a, b), (c, d))) in of_tokens.enumerate() {
        store::<V>(&mut out.token(t)[row..], V::add_floats(V::add_floats(a, b), V::add_floats(c, d)));
    }
    T
}
