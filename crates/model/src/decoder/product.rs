//! Products of activations with weight matrices, on one of three numeric paths.
//!
//! [`Path::Dot`] works on the quantised rows as they are: the choice for few tokens, where reading the weights is the
//! cost. [`Path::Gemm`] expands a matrix to `f32` once for many tokens and leaves the rest to the tensor library.
//! [`Path::Fine`] lies between: the quantised rows meet activations of twice as many bits.

use std::ops::Range;

use candle_core::{Device, Tensor};
use formwork_kernels::{Activation, GROUP, Q8Block};
use rayon::prelude::*;

use crate::ops::add;
use crate::weights::{Linear, Matrix};

/// How products are computed. The results differ by rounding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Path {
    /// Row by row on quantised weights and activations; a token's result does not depend on the other tokens.
    Dot,
    /// The same with activations of 16 bits: what rounding to 8 has taken goes through as a token of its own. As exact as
    /// [`Path::Gemm`] for most purposes.
    Fine,
    /// Matrix by matrix in `f32`.
    Gemm,
}

/// From so many tokens of a prompt on its products are fine, and from so many on expanding the weights pays for that.
const FINE_FROM: usize = 16;
const GEMM_FROM: usize = 96;

impl Path {
    /// The path of so many tokens of a prompt that go together.
    pub(super) const fn of_prompt(tokens: usize) -> Self {
        match tokens {
            ..FINE_FROM => Self::Dot,
            FINE_FROM..GEMM_FROM => Self::Fine,
            _ => Self::Gemm,
        }
    }
}

/// Multiplies `x`, `[tokens, columns]`, with matrices of as many columns; gives `[tokens, rows]` each.
pub(super) fn products<const N: usize>(
    path: Path,
    x: &[f32],
    linears: [&Linear; N],
) -> candle_core::Result<[Vec<f32>; N]> {
    let has_floats = linears.iter().any(|linear| linear.weight.is_float());
    let mut out = match path {
        Path::Dot => dot(x, linears.map(|linear| &linear.weight)),
        Path::Fine if !has_floats => fine(x, linears.map(|linear| &linear.weight)),
        Path::Fine | Path::Gemm => gemm(x, linears)?,
    };
    for (out, linear) in out.iter_mut().zip(linears) {
        let Some(bias) = &linear.bias else { continue };
        for (y, b) in out.iter_mut().zip(bias.iter().cycle()) {
            *y += b;
        }
    }
    Ok(out)
}

/// Bytes of weights in the largest and in the smallest piece of work for a thread. The largest fits the second-level
/// cache, so that several tokens share one read of it.
const LARGEST_PIECE: usize = 1 << 18;
const SMALLEST_PIECE: usize = 1 << 14;
/// Rows that the kernels take together where there are several tokens.
const PANEL_ROWS: usize = 16;

/// Rows of one matrix, and where their products with each token go.
struct Piece<'a> {
    matrix: &'a Matrix,
    first: usize,
    /// `[tokens][rows]`
    out: Vec<&'a mut [f32]>,
}

fn dot<const N: usize>(x: &[f32], matrices: [&Matrix; N]) -> [Vec<f32>; N] {
    let columns = matrices[0].columns;
    let tokens = x.len() / columns;
    let groups = Activation::quantize(x);
    let bytes: usize = matrices.iter().map(|matrix| matrix.rows * matrix.row_bytes()).sum();
    let piece_bytes = (bytes / (4 * rayon::current_num_threads())).clamp(SMALLEST_PIECE, LARGEST_PIECE);
    let mut outs = matrices.map(|matrix| vec![0.0; tokens * matrix.rows]);
    if tokens == 0 {
        return outs;
    }
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for (matrix, out) in matrices.iter().zip(&mut outs) {
        let rows = (piece_bytes / matrix.row_bytes()).max(1).next_multiple_of(PANEL_ROWS);
        let from = pieces.len();
        pieces.extend((0..matrix.rows).step_by(rows).map(|first| Piece { matrix, first, out: Vec::new() }));
        for out in out.chunks_exact_mut(matrix.rows) {
            for (piece, out) in pieces[from..].iter_mut().zip(out.chunks_mut(rows)) {
                piece.out.push(out);
            }
        }
    }
    let x: Vec<Activation<'_>> = (0..tokens).map(|token| activation(x, &groups, columns, token)).collect();
    pieces
        .into_par_iter()
        .with_max_len(1)
        .for_each(|mut piece| piece.matrix.products(piece.first, &x, &mut piece.out));
    outs
}

/// Products with quantised matrices, whose rows are whole groups.
fn fine<const N: usize>(x: &[f32], matrices: [&Matrix; N]) -> [Vec<f32>; N] {
    let groups = Activation::quantize(x);
    // All tokens, then what rounding takes from each.
    let mut both = x.to_vec();
    for (values, group) in x.as_chunks().0.iter().zip(&groups) {
        both.extend(group.residual(values));
    }
    let mut outs = dot(&both, matrices);
    for out in &mut outs {
        let rest = out.split_off(out.len() / 2);
        add(out, &rest);
    }
    outs
}

/// A token's row of `x` and of its rounding.
fn activation<'a>(x: &'a [f32], groups: &'a [Q8Block], columns: usize, token: usize) -> Activation<'a> {
    let values = &x[token * columns..(token + 1) * columns];
    // Rows that are not whole groups meet float weights only, which do not look at the groups.
    let len = columns / GROUP;
    let groups = if columns.is_multiple_of(GROUP) { &groups[token * len..(token + 1) * len] } else { &[] };
    Activation::new(values, groups)
}

/// Elements of a weight matrix that are expanded at a time, 16 MiB.
const PANEL: usize = 1 << 22;

fn gemm<const N: usize>(x: &[f32], linears: [&Linear; N]) -> candle_core::Result<[Vec<f32>; N]> {
    let columns = linears[0].weight.columns;
    let tokens = x.len() / columns;
    // [tokens, columns]
    let x = Tensor::from_slice(x, (tokens, columns), &Device::Cpu)?;
    let mut outs = linears.map(|_| Vec::new());
    for (out, linear) in outs.iter_mut().zip(linears) {
        let matrix = &linear.weight;
        let panel = (PANEL / columns).clamp(1, matrix.rows);
        if panel == matrix.rows {
            *out = panel_product(&x, matrix, 0..panel)?;
            continue;
        }
        out.resize(tokens * matrix.rows, 0.0);
        for first in (0..matrix.rows).step_by(panel) {
            let rows = first..(first + panel).min(matrix.rows);
            let product = panel_product(&x, matrix, rows.clone())?;
            for (out, product) in out.chunks_exact_mut(matrix.rows).zip(product.chunks_exact(rows.len())) {
                out[rows.clone()].copy_from_slice(product);
            }
        }
    }
    Ok(outs)
}

/// `x · Wᵀ` for some rows of `W`: `[tokens, rows]`.
fn panel_product(x: &Tensor, matrix: &Matrix, rows: Range<usize>) -> candle_core::Result<Vec<f32>> {
    const ROWS_AT_ONCE: usize = 16;
    // [rows, columns]
    let mut weights = vec![0.0; rows.len() * matrix.columns];
    weights.par_chunks_mut(ROWS_AT_ONCE * matrix.columns).enumerate().for_each(|(index, out)| {
        let first = rows.start + index * ROWS_AT_ONCE;
        matrix.dequantize(first..first + out.len() / matrix.columns, out);
    });
    let weights = Tensor::from_vec(weights, (rows.len(), matrix.columns), &Device::Cpu)?;
    x.matmul(&weights.t()?)?.flatten_all()?.to_vec1()
}

/// The products of `x`, `[tokens, columns]`, with the rows of `matrix`: `[tokens, rows]`. A token's do not depend on the
/// others.
pub(super) fn all_rows(matrix: &Matrix, x: &[f32]) -> Vec<f32> {
    let [out] = dot(x, [matrix]);
    out
}

/// The products of one token's `x` with some rows of `matrix`, in the order of `rows`. Equal to those of [`all_rows`], bit
/// by bit.
pub(super) fn some_rows(matrix: &Matrix, x: &[f32], rows: &[u32]) -> Vec<f32> {
    let groups = Activation::quantize(x);
    let x = Activation::new(x, &groups);
    let mut out = vec![0.0; rows.len()];
    out.par_iter_mut().zip(rows).with_min_len(64).for_each(|(out, &row)| {
        matrix.products(row as usize, &[x], &mut [std::slice::from_mut(out)]);
    });
    out
}
