//! Products of activations with weight matrices: packed rows meet activations that are rounded to 8 bits, those of a sequence's first
//! token to 16.
//!
//! A token's result does not depend on the tokens that come with it, bit by bit, whatever their number.

use formwork_kernels::{Activation, GROUP, Q8Block, TILE_ROWS};
use rayon::prelude::*;

use crate::weights::{Linear, Packed};

/// How exactly activations are rounded where they meet quantised weights. Weights that are floats meet them as they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    /// To 8 bits, a step for 32 of them.
    Coarse,
    /// To 16 bits. Results are nearly those of `f32`.
    Fine,
}

impl Rounding {
    /// How a token is rounded that is at this position of its sequence.
    ///
    /// The first is what all others attend to when there is nothing to attend to, and many models give it activations far larger than
    /// others' for that: what rounding takes from it, it takes from every token.
    pub(super) const fn at(position: usize) -> Self {
        if position == 0 { Self::Fine } else { Self::Coarse }
    }
}

/// Multiplies `x`, `[tokens, columns]`, with matrices of as many columns; gives `[tokens, rows]` each. There is a rounding for each token.
pub(super) fn products<const N: usize>(
    roundings: &[Rounding],
    x: &[f32],
    linears: [&Linear<Packed>; N],
) -> [Vec<f32>; N] {
    let mut out = all_products(roundings, x, linears.map(|linear| &linear.weight));
    for (out, linear) in out.iter_mut().zip(linears) {
        let Some(bias) = &linear.bias else { continue };
        for (y, b) in out.iter_mut().zip(bias.iter().cycle()) {
            *y += b;
        }
    }
    out
}

/// Bytes of weights in the largest and in the smallest piece of work for a thread. The largest fits the second-level
/// cache, so that several tokens share one read of it.
const LARGEST_PIECE: usize = 1 << 18;
const SMALLEST_PIECE: usize = 1 << 14;

/// Tiles of one matrix, and where their products with each token go.
struct Piece<'a> {
    matrix: &'a Packed,
    first_tile: usize,
    /// By [`Rounding`]: `[tokens][rows]`
    out: [Vec<&'a mut [f32]>; 2],
}

fn all_products<const N: usize>(roundings: &[Rounding], x: &[f32], matrices: [&Packed; N]) -> [Vec<f32>; N] {
    let columns = matrices[0].columns;
    let tokens = roundings.len();
    let mut outs = matrices.map(|matrix| vec![0.0; tokens * matrix.rows]);
    if tokens == 0 {
        return outs;
    }
    let is_rounded = matrices.iter().any(|matrix| !matrix.is_float());
    let rounded = if is_rounded { Rounded::new(roundings, x) } else { Rounded::default() };
    let bytes: usize = matrices.iter().map(|matrix| matrix.rows / TILE_ROWS * matrix.tile_bytes()).sum();
    let piece_bytes = (bytes / (4 * rayon::current_num_threads())).clamp(SMALLEST_PIECE, LARGEST_PIECE);
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for (matrix, out) in matrices.iter().zip(&mut outs) {
        let tiles = (piece_bytes / matrix.tile_bytes()).max(1);
        let rows = tiles * TILE_ROWS;
        let from = pieces.len();
        let count = matrix.rows.div_ceil(rows);
        pieces.extend((0..count).map(|index| Piece {
            matrix,
            first_tile: index * tiles,
            out: [const { Vec::new() }; 2],
        }));
        for (out, &rounding) in out.chunks_exact_mut(matrix.rows).zip(roundings) {
            for (piece, out) in pieces[from..].iter_mut().zip(out.chunks_mut(rows)) {
                piece.out[rounding as usize].push(out);
            }
        }
    }
    let mut of_rounding = [const { Vec::new() }; 2];
    for (token, &rounding) in roundings.iter().enumerate() {
        of_rounding[rounding as usize].push(rounded.of(x, columns, token));
    }
    pieces.into_par_iter().with_max_len(1).for_each(|mut piece| {
        for (x, out) in of_rounding.iter().zip(&mut piece.out) {
            piece.matrix.products(piece.first_tile, x, out);
        }
    });
    outs
}

/// Groups of activations that are worth a thread.
const GROUPS: usize = 256;

/// Activations rounded by groups, and what that leaves of each token's where they are fine.
#[derive(Default)]
struct Rounded {
    groups: Vec<Q8Block>,
    rests: Vec<Vec<Q8Block>>,
}

impl Rounded {
    fn new(roundings: &[Rounding], x: &[f32]) -> Self {
        let mut groups = vec![Q8Block::default(); x.len() / GROUP];
        groups
            .par_chunks_mut(GROUPS)
            .zip(x.par_chunks(GROUPS * GROUP))
            .for_each(|(groups, x)| Activation::quantize_into(x, groups));
        let rows = x.chunks(x.len() / roundings.len()).zip(groups.chunks(groups.len() / roundings.len()));
        let rest = |((x, groups), rounding): (_, &Rounding)| match rounding {
            Rounding::Coarse => Vec::new(),
            Rounding::Fine => Activation::rests(x, groups),
        };
        let rests = rows.zip(roundings).map(rest).collect();
        Self { groups, rests }
    }

    /// A token's row of `x` with its rounding.
    fn of<'a>(&'a self, x: &'a [f32], columns: usize, token: usize) -> Activation<'a> {
        let values = &x[token * columns..(token + 1) * columns];
        // Rows that are not whole groups meet float weights only, which do not look at the groups.
        let len = columns / GROUP;
        if self.groups.is_empty() || !columns.is_multiple_of(GROUP) {
            return Activation::new(values, &[]);
        }
        let groups = &self.groups[token * len..(token + 1) * len];
        match &self.rests[token][..] {
            [] => Activation::new(values, groups),
            rests => Activation::fine(values, groups, rests),
        }
    }
}

/// The products of `x`, `[tokens, columns]`, with the rows of `matrix`: `[tokens, rows]`.
pub(super) fn all_rows(matrix: &Packed, x: &[f32]) -> Vec<f32> {
    let [out] = all_products(&vec![Rounding::Coarse; x.len() / matrix.columns], x, [matrix]);
    out
}

/// The products of one token's `x` with some rows of `matrix`, in the order of `rows`, which rise. Equal to those of
/// [`all_rows`], bit by bit.
pub(super) fn some_rows(matrix: &Packed, x: &[f32], rows: &[u32]) -> Vec<f32> {
    let rounded = Rounded::new(&[Rounding::Coarse], x);
    let x = rounded.of(x, matrix.columns, 0);
    let tile_of = |row: u32| row as usize / TILE_ROWS;
    let tiles: Vec<&[u32]> = rows.chunk_by(|&a, &b| tile_of(a) == tile_of(b)).collect();
    let of_tile = |rows: &&[u32]| {
        let products = matrix.tile(tile_of(rows[0]), x);
        rows.iter().map(move |&row| products[row as usize % TILE_ROWS]).collect::<Vec<_>>()
    };
    tiles.par_iter().with_min_len(16).flat_map_iter(of_tile).collect()
}
