//! Products of activations with weight matrices.
//!
//! The rounding of activations depends on the weights:
//!
//! - For quantised weights, activations are rounded to 8 bits, or to 16 bits for the first token of
//!   a sequence.
//! - For weights in 16-bit floats, all activations are rounded to 16 bits.
//! - For weights in `f32`, activations are not rounded.
//!
//! The result of a token is bit-identical regardless of the other tokens and of their number.

use formwork_kernels::{Activation, GROUP, MatrixMut, Operand, Q8Block, Q16Block, RowGroup, TILE_ROWS, Team};
use smallvec::SmallVec;

use super::adapted::add_deltas;
use super::workspace::room;
use crate::adapter::Adapter;
use crate::ops::gated;
use crate::spec::Activation as Gate;
use crate::weights::{Linear, Packed};

/// Precision to which the activations of a token are rounded, for products with quantised weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rounding {
    /// 8 bits, with one scale for every 32 activations.
    Coarse,
    /// 16 bits. Results are close to those in `f32`.
    Fine,
}

impl Rounding {
    /// Returns the rounding for the token at `position` in its sequence.
    ///
    /// Only the first token is rounded finely, because a rounding error in it affects all tokens.
    /// It often acts as an attention sink: other tokens attend to it if nothing else is relevant.
    /// In many models, it has far larger activations than other tokens.
    pub(super) const fn at(position: usize) -> Self {
        if position == 0 { Self::Fine } else { Self::Coarse }
    }
}

/// Activations to multiply by matrices.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    /// Activations before rounding. Shape: `[tokens, columns]`.
    pub(super) x: &'a [f32],
    /// One rounding for each token.
    pub(super) roundings: &'a [Rounding],
    /// The adapter of each token. Empty if no token has one.
    pub(super) adapters: &'a [Option<&'a Adapter>],
}

/// Multiplies activations by several matrices, each with its output. All matrices must have the
/// same number of columns. Shape of an output: `[tokens, rows]`.
pub(super) fn products<const N: usize>(
    team: &Team,
    rounded: &mut Rounded,
    input: Input<'_>,
    mut parts: [(&Linear<Packed>, &mut [f32]); N],
) {
    let operands = parts.each_ref().map(|(linear, _)| linear.weight.operand());
    let x = rounded.rows(team, &operands, input);
    let groups = parts.each_mut().map(|(linear, out)| [(Factor::from(*linear), &mut **out)]);
    all_products(team, &x, groups, |_| {});
    drop(x);
    if !input.adapters.is_empty() {
        for (linear, out) in parts {
            add_deltas(team, &mut rounded.low, input, &linear.weight, out);
        }
    }
}

/// Multiplies activations by the gate matrix and the up matrix. Then computes `gate = f(gate) * up`
/// in the output of the gate, where `f` is the activation function.
pub(super) fn gated_products(
    team: &Team,
    rounded: &mut Rounded,
    input: Input<'_>,
    parts: [(&Linear<Packed>, &mut [f32]); 2],
    activation: Gate,
) {
    if !input.adapters.is_empty() {
        let [(gate_linear, gate), (up_linear, up)] = parts;
        products(team, rounded, input, [(gate_linear, &mut *gate), (up_linear, &mut *up)]);
        team.for_chunks(gate, ELEMENTS, |chunk, gate| {
            gated(activation, gate, &up[chunk * ELEMENTS..][..gate.len()]);
        });
        return;
    }
    let operands = parts.each_ref().map(|(linear, _)| linear.weight.operand());
    let x = rounded.rows(team, &operands, input);
    let parts = parts.map(|(linear, out)| (Factor::from(linear), out));
    all_products(team, &x, [parts], |[mut gate, mut up]| {
        for token in 0..gate.tokens() {
            gated(activation, gate.token(token), up.token(token));
        }
    });
}

/// Number of elements of a parallel task that applies an activation function.
const ELEMENTS: usize = 1 << 12;

/// Maximum size of a parallel task, in bytes of weights. The weights of a task fit the second-level
/// cache, so that several tokens share one read from memory. [`SMALLEST_PIECE`] is the minimum
/// size.
const LARGEST_PIECE: usize = 1 << 18;
const SMALLEST_PIECE: usize = 1 << 13;
/// Number of parallel tasks for each thread, within these limits. With this number, all threads
/// finish at about the same time.
const PIECES: usize = 16;
/// Minimum number of tokens for which every task has an even number of tiles. Some kernels compute
/// two tiles at once.
const MANY: usize = 16;

/// A matrix with the bias that is added to its products.
#[derive(Clone, Copy)]
struct Factor<'a> {
    matrix: &'a Packed,
    bias: Option<&'a [f32]>,
}

impl<'a> From<&'a Linear<Packed>> for Factor<'a> {
    fn from(linear: &'a Linear<Packed>) -> Self {
        Self { matrix: &linear.weight, bias: linear.bias.as_deref() }
    }
}

impl Factor<'_> {
    /// Computes the products with the rows of the matrix from `first_row` on, as many as `out` has
    /// room for. `first_row` must be the first row of a tile.
    fn products(&self, x: &[Activation<'_>], first_row: usize, out: &mut MatrixMut<'_>) {
        self.matrix.products(first_row / TILE_ROWS, x, out.of(0..x.len()));
        let Some(bias) = self.bias else { return };
        for token in 0..x.len() {
            for (y, b) in out.token(token).iter_mut().zip(&bias[first_row..]) {
                *y += b;
            }
        }
    }
}

/// Multiplies activations by `N` groups of `M` matrices. The matrices of a group must have the same
/// number of rows.
///
/// Each parallel task computes the same rows of all matrices in a group. Then it calls `then` with
/// the outputs for these rows.
fn all_products<const N: usize, const M: usize>(
    team: &Team,
    x: &[Activation<'_>],
    groups: [[(Factor<'_>, &mut [f32]); M]; N],
    then: impl Fn([MatrixMut<'_>; M]) + Sync,
) {
    if x.is_empty() {
        return;
    }
    let factors = groups.each_ref().map(|group| group.each_ref().map(|(factor, _)| *factor));
    let bytes_of = |factor: &Factor<'_>| factor.matrix.rows / TILE_ROWS * factor.matrix.tile_bytes();
    let bytes: usize = factors.as_flattened().iter().map(bytes_of).sum();
    let piece_bytes = (bytes / (PIECES * team.threads())).clamp(SMALLEST_PIECE, LARGEST_PIECE);
    let mut groups = groups.map(|group| {
        let tile_bytes: usize = group.iter().map(|(factor, _)| factor.matrix.tile_bytes()).sum();
        let tiles = (piece_bytes / tile_bytes).max(1);
        // For many tokens, some kernels compute two tiles at once.
        let tiles = if x.len() < MANY { tiles } else { tiles.next_multiple_of(2) };
        let outputs = group.map(|(factor, out)| MatrixMut::new(out, factor.matrix.rows));
        RowGroup::new(outputs, tiles * TILE_ROWS)
    });
    team.for_rows(&mut groups, |group, first_row, mut outputs| {
        for (factor, out) in factors[group].iter().zip(&mut outputs) {
            factor.products(x, first_row, out);
        }
        then(outputs);
    });
}

/// Number of groups of activations that a parallel task rounds.
const GROUPS: usize = 256;

/// Rounded activations, with one element for each token. Up to 8 elements are stored on the stack.
type Activations<'a> = SmallVec<[Activation<'a>; 8]>;

/// Memory for rounded activations, which later products reuse.
///
/// `groups` has the activations in 8 bits. For tokens with the rounding [`Rounding::Fine`], `rests`
/// has the differences to the exact activations. `words` has the activations in 16 bits.
#[derive(Debug, Default)]
pub(super) struct Rounded {
    groups: Vec<Q8Block>,
    rests: Vec<Q8Block>,
    words: Vec<Q16Block>,
    /// Products with the first matrices of adapters, which need no rounded activations.
    low: Vec<f32>,
}

impl Rounded {
    /// Rounds the rows of `x` to 8 bits. For tokens with the rounding [`Rounding::Fine`], also
    /// computes the rests. A row must consist of whole groups.
    fn round(&mut self, team: &Team, roundings: &[Rounding], x: &[f32]) {
        let columns = x.len() / roundings.len();
        let groups = room(&mut self.groups, x.len() / GROUP);
        team.for_chunks(groups, GROUPS, |chunk, groups| {
            Activation::quantize_into(&x[chunk * GROUPS * GROUP..][..groups.len() * GROUP], groups);
        });
        let rows = x.chunks_exact(columns).zip(groups.chunks_exact(columns / GROUP));
        let fine = || roundings.iter().filter(|&&rounding| rounding == Rounding::Fine);
        let rests = room(&mut self.rests, fine().count() * (columns / GROUP));
        let rows = rows.zip(roundings).filter(|(_, rounding)| **rounding == Rounding::Fine);
        for (((x, groups), _), rests) in rows.zip(rests.chunks_exact_mut(columns / GROUP)) {
            Activation::rests_into(x, groups, rests);
        }
    }

    /// Rounds the rows of `x` to 16 bits.
    fn round_to_words(&mut self, team: &Team, columns: usize, x: &[f32]) {
        let count = Q16Block::count(columns);
        let rows_at_once = (GROUPS / count).max(1);
        let words = room(&mut self.words, x.len() / columns * count);
        team.for_chunks(words, rows_at_once * count, |chunk, words| {
            let rows = x[chunk * rows_at_once * columns..].chunks_exact(columns);
            for (words, x) in words.chunks_exact_mut(count).zip(rows) {
                Q16Block::quantize_into(x, words);
            }
        });
    }

    /// Rounds the activations `x` of a single token, for products with weights of type `operand`.
    pub(super) fn alone<'a>(&'a mut self, team: &Team, operand: Operand, x: &'a [f32]) -> Activation<'a> {
        self.rows(team, &[operand], Input { x, roundings: &[Rounding::Coarse], adapters: &[] })[0]
    }

    /// Rounds the rows of `x`, one for each token, for products with weights of all the types in
    /// `operands`.
    pub(super) fn rows<'a>(
        &'a mut self,
        team: &Team,
        operands: &[Operand],
        Input { x, roundings, .. }: Input<'a>,
    ) -> Activations<'a> {
        if roundings.is_empty() {
            return Activations::new();
        }
        let columns = x.len() / roundings.len();
        let has_bytes = operands.contains(&Operand::Bytes);
        if has_bytes {
            self.round(team, roundings, x);
        }
        let has_words = operands.contains(&Operand::Words);
        if has_words {
            self.round_to_words(team, columns, x);
        }
        let groups = if has_bytes { columns / GROUP } else { 0 };
        let mut rests = self.rests.chunks_exact(groups.max(1));
        let words = if has_words { Q16Block::count(columns) } else { 0 };
        let of = |(token, (values, rounding)): (usize, (&'a [f32], &Rounding))| {
            let of_token = |len: usize| token * len..(token + 1) * len;
            let groups = &self.groups[of_token(groups)];
            let x = match rounding {
                Rounding::Fine if has_bytes => {
                    Activation::fine(values, groups, rests.next().unwrap_or_default())
                }
                _ => Activation::new(values, groups),
            };
            x.with_words(&self.words[of_token(words)])
        };
        x.chunks_exact(columns).zip(roundings).enumerate().map(of).collect()
    }
}

/// Multiplies `x` by all rows of `matrix`. Shape of `x`: `[tokens, columns]`. Shape of `out`:
/// `[tokens, rows]`.
pub(super) fn all_rows(team: &Team, rounded: &mut Rounded, matrix: &Packed, x: &[f32], out: &mut [f32]) {
    let roundings: SmallVec<[Rounding; 8]> = SmallVec::from_elem(Rounding::Coarse, x.len() / matrix.columns);
    let x = rounded.rows(team, &[matrix.operand()], Input { x, roundings: &roundings, adapters: &[] });
    all_products(team, &x, [[(Factor { matrix, bias: None }, out)]], |_| {});
}

/// Number of tiles that a parallel task of [`some_rows`] computes.
const TILES: usize = 16;

/// Multiplies the activations `x` of one token by some rows of `matrix`. `rows` are the indices of
/// these rows, in ascending order.
///
/// The result is bit-identical to these rows in the output of [`all_rows`].
pub(super) fn some_rows(
    team: &Team,
    rounded: &mut Rounded,
    matrix: &Packed,
    x: &[f32],
    rows: &[u32],
) -> Vec<f32> {
    let x = rounded.alone(team, matrix.operand(), x);
    let tile_of = |row: u32| row as usize / TILE_ROWS;
    let mut some = vec![0.0; rows.len()];
    let mut out = &mut *some;
    let tiles = rows.chunk_by(|&a, &b| tile_of(a) == tile_of(b));
    let outs = tiles.clone().map(|rows| out.split_off_mut(..rows.len()).unwrap_or_default());
    let mut tiles: Vec<(&[u32], &mut [f32])> = tiles.zip(outs).collect();
    team.for_chunks(&mut tiles, TILES, |_, tiles| {
        for (rows, out) in tiles {
            let products = matrix.tile(tile_of(rows[0]), x);
            for (&row, out) in rows.iter().zip(&mut **out) {
                *out = products[row as usize % TILE_ROWS];
            }
        }
    });
    some
}
