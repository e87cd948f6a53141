//! Products of activations with weight matrices: packed rows meet activations that are rounded to 8 bits, those of a sequence's first
//! token to 16. Rows of 16-bit floats meet activations of 16 bits.
//!
//! A token's result does not depend on the tokens that come with it, bit by bit, whatever their number.

use formwork_kernels::{Activation, GROUP, Operand, Outputs, Q8Block, Q16Block, TILE_ROWS, Team};
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

/// Multiplies `x`, `[tokens, columns]`, with matrices of as many columns, to `[tokens, rows]` each. There is a rounding for each token.
pub(super) fn products<const N: usize>(
    team: &Team,
    rounded: &mut Rounded,
    roundings: &[Rounding],
    x: &[f32],
    parts: [(&Linear<Packed>, &mut [f32]); N],
) {
    let parts = parts.map(|(linear, out)| [Part::new(&linear.weight, linear.bias.as_deref(), out)]);
    all_products(team, rounded, roundings, x, parts, |_| {});
}

/// The same with two matrices of as many rows: `gate = f(gate) * up`.
pub(super) fn gated_products(
    team: &Team,
    rounded: &mut Rounded,
    roundings: &[Rounding],
    x: &[f32],
    [gate, up]: [(&Linear<Packed>, &mut [f32]); 2],
    activation: Gate,
) {
    let parts = [gate, up].map(|(linear, out)| Part::new(&linear.weight, linear.bias.as_deref(), out));
    all_products(team, rounded, roundings, x, [parts], |[gate, up]| {
        for token in 0..gate.out.tokens() {
            gated(activation, gate.out.token(token), up.out.token(token));
        }
    });
}

/// Bytes of weights in the largest and in the smallest piece of work for a thread. The largest fits the second-level
/// cache, so that several tokens share one read of it.
const LARGEST_PIECE: usize = 1 << 18;
const SMALLEST_PIECE: usize = 1 << 14;
/// Pieces for each thread. Those that meet many tokens take long, and are smaller, so that all threads end at about the same time.
const FOR_FEW: usize = 4;
const FOR_MANY: usize = 16;
/// Tokens that are many.
const MANY: usize = 16;
/// Pieces that are shared out together: the list is on the stack.
const PIECES: usize = 256;

/// Tiles of a matrix, what is added to their products, and where these go.
struct Part<'a> {
    matrix: &'a Packed,
    first_tile: usize,
    /// Of these rows.
    bias: Option<&'a [f32]>,
    /// `[tokens, rows]`
    out: Outputs<'a>,
}

impl<'a> Part<'a> {
    /// All of a matrix.
    fn new(matrix: &'a Packed, bias: Option<&'a [f32]>, out: &'a mut [f32]) -> Self {
        Self { matrix, first_tile: 0, bias, out: Outputs::new(out, matrix.rows) }
    }

    /// Takes the first tiles off.
    fn split_off(&mut self, tiles: usize) -> Self {
        let first_tile = self.first_tile;
        self.first_tile += tiles;
        let out = self.out.split_off(self.out.rows().min(tiles * TILE_ROWS));
        let bias = self.bias.as_mut().and_then(|bias| bias.split_off(..out.rows()));
        Self { matrix: self.matrix, first_tile, bias, out }
    }

    fn compute(&mut self, x: &[Activation<'_>]) {
        self.matrix.products(self.first_tile, x, self.out.of(0..x.len()));
        let Some(bias) = self.bias else { return };
        for token in 0..x.len() {
            for (y, b) in self.out.token(token).iter_mut().zip(bias) {
                *y += b;
            }
        }
    }
}

/// The products of `N` groups of `M` matrices with as many rows, of which the same rows go together, and then to `then`.
fn all_products<const N: usize, const M: usize>(
    team: &Team,
    rounded: &mut Rounded,
    roundings: &[Rounding],
    x: &[f32],
    groups: [[Part<'_>; M]; N],
    then: impl Fn(&mut [Part<'_>; M]) + Sync,
) {
    if roundings.is_empty() {
        return;
    }
    let parts = groups.as_flattened();
    let operands: SmallVec<[Operand; 4]> = parts.iter().map(|part| part.matrix.operand()).collect();
    let x = rounded.rows(team, &operands, roundings, x);
    let bytes_of = |part: &Part<'_>| part.matrix.rows / TILE_ROWS * part.matrix.tile_bytes();
    let bytes: usize = parts.iter().map(bytes_of).sum();
    let is_many = roundings.len() >= MANY;
    let count = if is_many { FOR_MANY } else { FOR_FEW } * team.threads();
    let piece_bytes = (bytes / count).clamp(SMALLEST_PIECE, LARGEST_PIECE);
    let mut pieces: SmallVec<[[Part<'_>; M]; PIECES]> = SmallVec::new();
    let compute = |pieces: &mut [[Part<'_>; M]]| {
        team.for_each(pieces, |parts| {
            parts.iter_mut().for_each(|part| part.compute(&x));
            then(parts);
        });
    };
    for mut rest in groups {
        let tile_bytes: usize = rest.iter().map(|part| part.matrix.tile_bytes()).sum();
        let tiles = (piece_bytes / tile_bytes).max(1);
        // Some kernels have many tokens meet two tiles at once.
        let tiles = if is_many { tiles.next_multiple_of(2) } else { tiles };
        while rest[0].out.rows() > 0 {
            if pieces.len() == PIECES {
                compute(&mut pieces);
                pieces.clear();
            }
            pieces.push(rest.each_mut().map(|part| part.split_off(tiles)));
        }
    }
    compute(&mut pieces);
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

    /// The rows of `x`, one per token, rounded to what each of the operands calls for.
    pub(super) fn rows<'a>(
        &'a mut self,
        team: &Team,
        operands: &[Operand],
        roundings: &[Rounding],
        x: &'a [f32],
    ) -> Activations<'a> {
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
    all_products(team, rounded, &roundings, x, [[Part::new(matrix, None, out)]], |_| {});
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
    let x = rounded.rows(team, &[matrix.operand()], &[Rounding::Coarse], x)[0];
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
