//! Products of the matrices of adapters, which are added to those of the model's matrices.
//!
//! For each matrix, the tokens with the same adapter are computed together. Activations are not rounded,
//! and the result of a token does not depend on the other tokens.

use std::cell::RefCell;

use formwork_kernels::{Activation, MatrixMut, RowGroup, TILE_ROWS, Team};
use smallvec::SmallVec;

use super::product::Input;
use super::workspace::room;
use crate::adapter::{Delta, EmbeddingDelta};
use crate::weights::Packed;

/// Number of tokens in a parallel task that computes products with the first matrix.
const TOKENS: usize = 8;
/// Number of rows of the second matrix in a parallel task.
const ROWS: usize = 16 * TILE_ROWS;
/// Maximum number of tokens that are computed together, which bounds the memory of a thread.
const TOGETHER: usize = 64;

thread_local! {
    /// Products of the rows of a task with the second matrix. Shape: `[tokens, rows]`.
    static PRODUCTS: RefCell<Vec<f32>> = RefCell::default();
}

/// Adds the products of the adapters of all tokens to `out`, the products of `matrix`. Shape of `out`:
/// `[tokens, rows]`. `low` is memory for intermediate results.
pub(super) fn add_deltas(
    team: &Team,
    low: &mut Vec<f32>,
    input: Input<'_>,
    matrix: &Packed,
    out: &mut [f32],
) {
    let adapters = input.adapters;
    for (first, adapter) in adapters.iter().enumerate() {
        let Some(adapter) = *adapter else { continue };
        let is_same = |other: usize| adapters[other].is_some_and(|other| std::ptr::eq(other, adapter));
        if (0..first).any(is_same) {
            continue;
        }
        let Some(delta) = adapter.delta(matrix) else { continue };
        let own = (first..adapters.len()).filter(|&token| is_same(token));
        let own: SmallVec<[usize; 8]> = own.collect();
        for tokens in own.chunks(TOGETHER) {
            add_delta(team, low, (input.x, tokens), delta, out);
        }
    }
}

/// Adds the products of one adapter to the rows `tokens` of `out`.
fn add_delta(
    team: &Team,
    low: &mut Vec<f32>,
    (x, tokens): (&[f32], &[usize]),
    delta: &Delta,
    out: &mut [f32],
) {
    let Delta { a, b } = delta;
    let (columns, rank) = (a.columns, a.rows);
    let x = tokens.iter().map(|&token| Activation::new(&x[token * columns..(token + 1) * columns], &[]));
    let x: SmallVec<[Activation<'_>; 8]> = x.collect();
    let low = room(low, tokens.len() * rank);
    team.for_chunks(low, TOKENS * rank, |chunk, low| {
        let x = &x[chunk * TOKENS..][..low.len() / rank];
        a.products(0, x, MatrixMut::new(low, rank));
    });
    let low = low.chunks_exact(rank).map(|low| Activation::new(low, &[]));
    let low: SmallVec<[Activation<'_>; 8]> = low.collect();
    let mut groups = [RowGroup::new([MatrixMut::new(out, b.rows)], ROWS)];
    team.for_rows(&mut groups, |_, first_row, [mut out]| {
        let rows = out.rows();
        PRODUCTS.with_borrow_mut(|products| {
            let products = room(products, tokens.len() * rows);
            b.products(first_row / TILE_ROWS, &low, MatrixMut::new(products, rows));
            for (&token, products) in tokens.iter().zip(products.chunks_exact(rows)) {
                for (out, product) in out.token(token).iter_mut().zip(products) {
                    *out += product;
                }
            }
        });
    });
}

impl EmbeddingDelta {
    /// Adds the change of the embedding of the token at `index` to `x`, of shape `[hidden]`.
    pub(super) fn add(&self, index: usize, x: &mut [f32]) {
        let rank = self.b.columns;
        let low = Activation::new(&self.a[index * rank..(index + 1) * rank], &[]);
        PRODUCTS.with_borrow_mut(|products| {
            let products = room(products, x.len());
            self.b.products(0, &[low], MatrixMut::new(products, x.len()));
            x.iter_mut().zip(products).for_each(|(x, product)| *x += *product);
        });
    }
}
