//! Products of activations with weight matrices: packed rows meet activations that are rounded to 8 bits, those of a sequence's first
//! token to 16. Rows of 16-bit floats meet activations of 16 bits.
//!
//! A token's result does not depend on the tokens that come with it, bit by bit, whatever their number.

use formwork_kernels::{Activation, GROUP, Operand, Outputs, Q8Block, Q16Block, RowGroup, TILE_ROWS, Team};
use smallvec::SmallVec;

use super::workspace::room;
use crate::ops::gated;
use crate::spec::Activation as Gate;
use crate::weights::{Linear, Packed};

/// How exactly activations are rounded where they meet quantised weights.
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

/// What meets matrices.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    /// `[tokens, columns]`
    pub(super) x: &'a [f32],
    /// One for each token.
    pub(super) roundings: &'a [Rounding],
}

/// Multiplies activations with matrices of as many columns, to `[tokens, rows]` each.
pub(super) fn products<const N: usize>(
    team: &Team,
    rounded: &mut Rounded,
    input: Input<'_>,
    parts: [(&Linear<Packed>, &mut [f32]); N],
) {
    let operands = parts.each_ref().map(|(linear, _)| linear.weight.operand());
    let x = rounded.rows(team, &operands, input);
    all_products(team, &x, parts.map(|(linear, out)| [(Factor::from(linear), out)]), |_| {});
}

/// The same with two matrices of as many rows: `gate = f(gate) * up`.
pub(super) fn gated_products(
    team: &Team,
    rounded: &mut Rounded,
    input: Input<'_>,
    parts: [(&Linear<Packed>, &mut [f32]); 2],
    activation: Gate,
) {
    let operands = parts.each_ref().map(|(linear, _)| linear.weight.operand());
    let x = rounded.rows(team, &operands, input);
    let parts = parts.map(|(linear, out)| (Factor::from(linear), out));
    all_products(team, &x, [parts], |[mut gate, mut up]| {
        for token in 0..gate.tokens() {
            gated(activation, gate.token(token), up.token(token));
        }
    });
}

/// Bytes of weights in the largest and in the smallest piece of work for a thread. The largest fits the second-level
/// cache, so that several tokens share one read of it.
const LARGEST_PIECE: usize = 1 << 18;
const SMALLEST_PIECE: usize = 1 << 13;
/// Pieces for each thread: small enough that all end at about the same time.
const PIECES: usize = 16;
/// Tokens that are many.
const MANY: usize = 16;

/// A matrix, and what is added to its products.
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
    /// Of rows from one on, which is a tile's first.
    fn products(&self, x: &[Activation<'_>], first_row: usize, out: &mut Outputs<'_>) {
        self.matrix.products(first_row / TILE_ROWS, x, out.of(0..x.len()));
        let Some(bias) = self.bias else { return };
        for token in 0..x.len() {
            for (y, b) in out.token(token).iter_mut().zip(&bias[first_row..]) {
                *y += b;
            }
        }
    }
}

/// The products of `N` groups of `M` matrices with as many rows, of which the same rows go together, and then to `then`.
fn all_products<const N: usize, const M: usize>(
    team: &Team,
    x: &[Activation<'_>],
    groups: [[(Factor<'_>, &mut [f32]); M]; N],
    then: impl Fn([Outputs<'_>; M]) + Sync,
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
        // Some kernels have many tokens meet two tiles at once.
        let tiles = if x.len() < MANY { tiles } else { tiles.next_multiple_of(2) };
        let outputs = group.map(|(factor, out)| Outputs::new(out, factor.matrix.rows));
        RowGroup::new(outputs, tiles * TILE_ROWS)
    });
    team.for_rows(&mut groups, |group, first_row, mut outputs| {
        for (factor, out) in factors[group].iter().zip(&mut outputs) {
            factor.products(x, first_row, out);
        }
        then(outputs);
    });
}

/// Groups of activations that are worth a thread.
const GROUPS: usize = 256;

/// The activations of a token each: those of a few are on the stack.
type Activations<'a> = SmallVec<[Activation<'a>; 8]>;

/// Room for activations rounded by groups, and for what that leaves of each token's where they are fine.
#[derive(Debug, Default)]
pub(super) struct Rounded {
    groups: Vec<Q8Block>,
    rests: Vec<Q8Block>,
    words: Vec<Q16Block>,
}

impl Rounded {
    /// Rounds the rows of `x`, one per token, which are whole groups.
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

    /// Rounds the rows of `x` to words.
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

    /// One token's activations, rounded to what an operand calls for.
    pub(super) fn alone<'a>(&'a mut self, team: &Team, operand: Operand, x: &'a [f32]) -> Activation<'a> {
        self.rows(team, &[operand], Input { x, roundings: &[Rounding::Coarse] })[0]
    }

    /// The rows of `x`, one per token, rounded to what each of the operands calls for.
    pub(super) fn rows<'a>(
        &'a mut self,
        team: &Team,
        operands: &[Operand],
        Input { x, roundings }: Input<'a>,
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

/// The products of `x`, `[tokens, columns]`, with the rows of `matrix`: `[tokens, rows]`.
pub(super) fn all_rows(team: &Team, rounded: &mut Rounded, matrix: &Packed, x: &[f32], out: &mut [f32]) {
    let roundings: SmallVec<[Rounding; 8]> = SmallVec::from_elem(Rounding::Coarse, x.len() / matrix.columns);
    let x = rounded.rows(team, &[matrix.operand()], Input { x, roundings: &roundings });
    all_products(team, &x, [[(Factor { matrix, bias: None }, out)]], |_| {});
}

/// Tiles that are worth a thread.
const TILES: usize = 16;

/// The products of one token's `x` with some rows of `matrix`, in the order of `rows`, which rise. Equal to those of
/// [`all_rows`], bit by bit.
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
