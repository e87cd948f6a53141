//! The head: logits, of which not all are always wanted.
//!
//! Of a few tokens only their rows are computed. Where only the largest logit matters, as it does to greedy decoding, bounds of all
//! products come first, for three fifths of the bytes of an 8-bit head: what cannot be the largest is not computed at all ([`PackedRows::bounds`]).
//!
//! [`PackedRows::bounds`]: formwork_kernels::PackedRows::bounds

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use formwork_kernels::{Activation, Sketch, TILE_ROWS, Team};
use formwork_lm::{Wanted, masked};
use formwork_vocab::TokenSet;

use super::product::{all_rows, some_rows};
use super::workspace::{Workspace, room};
use super::{Network, Progress};
use crate::ops::{rms_norm, scale, softcap};
use crate::weights::Packed;

/// The whole head is computed where more than one token in this many is wanted.
const SPARSE: usize = 4;
/// Of fewer tokens than one in this many all logits are computed, whether they can be the largest or not.
const FEW: usize = 64;
/// Rows that are computed together at most, in memory that is kept.
const TOGETHER: usize = 32;
/// Tiles in a piece of work for a thread.
const PIECE_TILES: usize = 64;

/// A row of logits that a run wants.
struct Row<'a> {
    /// What goes into the head.
    x: Vec<f32>,
    /// The tokens that it is wanted for; `None` for all.
    tokens: Option<&'a TokenSet>,
    is_largest: bool,
}

/// Which of the head's rows are computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    /// Those of the tokens that are wanted.
    Wanted,
    /// Those that may be the largest.
    Largest,
}

impl Network {
    /// The logits that runs want after their last tokens, `[runs][rows][vocabulary]`.
    pub(super) fn logits(&self, runs: &[Progress<'_>], workspace: &mut Workspace) -> Vec<Vec<Vec<f32>>> {
        let head = &self.weights.head;
        let is_sparse = |row: &Row<'_>| row.tokens.is_some_and(|set| set.count() * SPARSE < head.rows);
        let runs: Vec<_> = runs.iter().map(|progress| self.rows(progress)).collect();
        // Several tokens read the head together, and then it is read whole.
        let is_few = |row: &Row<'_>| row.tokens.is_some_and(|set| set.count() * FEW < head.rows);
        let is_alone = runs.iter().flatten().filter(|row| !is_few(row)).count() == 1;
        let part = |row: &Row<'_>| match row.tokens {
            _ if row.is_largest && is_alone && !is_few(row) && self.has_bounds() => Part::Largest,
            Some(_) if is_sparse(row) => Part::Wanted,
            _ => Part::All,
        };
        let full: Vec<&Row<'_>> = runs.iter().flatten().filter(|row| part(row) == Part::All).collect();
        let mut full = self.full_logits(&full, workspace).into_iter();
        let mut logits = |row: &Row<'_>| match (part(row), row.tokens) {
            (Part::Largest, tokens) => self.largest_logits(&row.x, tokens, workspace),
            (Part::Wanted, Some(tokens)) => self.some_logits(&row.x, tokens, workspace),
            _ => full.next().unwrap_or_default(),
        };
        runs.iter().map(|rows| rows.iter().map(&mut logits).collect()).collect()
    }

    /// Rows of logits that are computed whole.
    fn full_logits(&self, rows: &[&Row<'_>], workspace: &mut Workspace) -> Vec<Vec<f32>> {
        let head = &self.weights.head;
        let Workspace { rounded, logits, together, .. } = workspace;
        let finished = |mut logits: Vec<f32>, row: &Row<'_>| {
            self.finish(&mut logits);
            masked(logits, row.tokens)
        };
        if let [row] = rows {
            let mut logits = logits.take(head.rows);
            all_rows(&self.team, rounded, head, &row.x, &mut logits);
            return vec![finished(logits, row)];
        }
        let mut all = Vec::with_capacity(rows.len());
        for rows in rows.chunks(TOGETHER) {
            let x: Vec<f32> = rows.iter().flat_map(|row| &row.x).copied().collect();
            // [tokens, vocabulary]
            let together = room(together, rows.len() * head.rows);
            all_rows(&self.team, rounded, head, &x, together);
            let from = together.chunks_exact(head.rows).zip(rows);
            let mut each: Vec<_> = from.map(|from| (from, logits.take(head.rows))).collect();
            self.team.for_each(&mut each, |((together, row), logits)| {
                logits.copy_from_slice(together);
                *logits = finished(std::mem::take(logits), row);
            });
            all.extend(each.into_iter().map(|(_, logits)| logits));
        }
        all
    }

    /// The rows that a run wants, oldest first.
    fn rows<'a>(&self, progress: &Progress<'a>) -> Vec<Row<'a>> {
        let x = self.normed(&progress.x);
        let is_largest = matches!(progress.run.wanted, Wanted::Largest(_));
        let row = |(x, tokens): (&[f32], _)| Row { x: x.to_vec(), tokens, is_largest };
        x.chunks_exact(self.spec.hidden).zip(progress.run.wanted.rows()).map(row).collect()
    }

    /// What the head meets, from the residual stream.
    pub(super) fn normed(&self, x: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; x.len()];
        rms_norm(&self.team, x, &self.weights.output_norm, self.spec.norm_epsilon, &mut out);
        out
    }

    /// A row of logits of which only some tokens are wanted.
    fn some_logits(
        &self,
        x: &[f32],
        wanted: &TokenSet,
        Workspace { rounded, logits, .. }: &mut Workspace,
    ) -> Vec<f32> {
        let head = &self.weights.head;
        let rows = wanted.iter().map(|token| token.0).filter(|&token| token < head.rows as u32);
        let rows: Vec<u32> = rows.collect();
        let mut some = some_rows(&self.team, rounded, head, x, &rows);
        self.finish(&mut some);
        let mut logits = logits.take(head.rows);
        logits.fill(f32::NEG_INFINITY);
        for (&row, logit) in rows.iter().zip(some) {
            logits[row as usize] = logit;
        }
        logits
    }

    /// Turns products with rows of the head into logits.
    fn finish(&self, products: &mut [f32]) {
        scale(products, self.spec.logit_scale);
        if let Some(cap) = self.spec.logit_softcap {
            softcap(products, cap);
        }
    }

    /// Whether the largest logit can be told by bounds.
    fn has_bounds(&self) -> bool {
        self.weights.head.is_nested() && self.spec.logit_scale > 0.0
    }

    /// A row of logits of which the largest is there, that of a wanted token, with all that equal it.
    fn largest_logits(
        &self,
        x: &[f32],
        wanted: Option<&TokenSet>,
        Workspace { head: outlook, rounded, logits, .. }: &mut Workspace,
    ) -> Vec<f32> {
        let head = &self.weights.head;
        let mut logits = logits.take(head.rows);
        let x = rounded.alone(&self.team, head.operand(), x);
        let sketch = outlook.sketch(x);
        let rows = Rows { team: &self.team, head, wanted };
        let best = rows.upper_bounds(sketch, &mut logits);
        let least = best.map_or(f32::NEG_INFINITY, |row| {
            self.surely_less(head.tile(row / TILE_ROWS, x)[row % TILE_ROWS])
        });
        let computed = rows.replace(&mut logits, least, |tile| {
            let mut logits = head.tile(tile, x);
            self.finish(&mut logits);
            logits
        });
        outlook.learn(computed * TILE_ROWS, wanted.map_or(head.rows, TokenSet::count));
        logits
    }

    /// A product so much below `product` that what is less gives a smaller logit, however logits are rounded.
    fn surely_less(&self, product: f32) -> f32 {
        /// Many times as much as roundings are, relative to the largest logit there can be.
        const MARGIN: f32 = 1e-5;
        let less = product - MARGIN * product.abs().max(f32::MIN_POSITIVE / MARGIN);
        let Some(cap) = self.spec.logit_softcap else { return less };
        // Caps bring logits nearer to each other.
        let scaled = product * self.spec.logit_scale / cap;
        let capped = (scaled.tanh() - MARGIN).atanh() * cap / self.spec.logit_scale;
        if capped.is_nan() { f32::NEG_INFINITY } else { less.min(capped) }
    }
}

/// Rows of the head, those of wanted tokens; `None` for all.
#[derive(Clone, Copy)]
struct Rows<'a> {
    team: &'a Team,
    head: &'a Packed,
    wanted: Option<&'a TokenSet>,
}

impl Rows<'_> {
    /// Those of a tile that are wanted, a bit each.
    fn wanted(self, tile: usize) -> u16 {
        self.wanted.map_or(u16::MAX, |wanted| bits(wanted, tile))
    }

    /// Writes upper bounds of the products of wanted rows to `out`, and -inf for others. Gives the row with the greatest lower
    /// bound.
    fn upper_bounds(self, x: &Sketch, out: &mut [f32]) -> Option<usize> {
        let overall = Mutex::new((None, f32::NEG_INFINITY));
        self.team.for_chunks(out, PIECE_TILES * TILE_ROWS, |piece, out| {
            let (mut best, mut greatest) = (None, f32::NEG_INFINITY);
            for (tile, out) in (piece * PIECE_TILES..).zip(out.chunks_mut(TILE_ROWS)) {
                let wanted = self.wanted(tile);
                let bounds = if wanted == 0 { None } else { self.head.bounds(tile, x) };
                out.fill(f32::NEG_INFINITY);
                let Some(bounds) = bounds else { continue };
                for (row, out) in out.iter_mut().enumerate().filter(|(row, _)| wanted >> row & 1 == 1) {
                    *out = bounds.upper[row];
                    if bounds.lower[row] > greatest {
                        (best, greatest) = (Some(tile * TILE_ROWS + row), bounds.lower[row]);
                    }
                }
            }
            let mut overall = overall.lock().unwrap_or_else(PoisonError::into_inner);
            // The first of equals, whoever comes first.
            if greatest > overall.1 || (greatest >= overall.1 && best < overall.0) {
                *overall = (best, greatest);
            }
        });
        overall.into_inner().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Writes the logits of tiles with a row of which the bound is not below `least` over their bounds, and -inf over the others.
    /// Gives how many tiles there were.
    fn replace(
        self,
        bounds: &mut [f32],
        least: f32,
        logits: impl Fn(usize) -> [f32; TILE_ROWS] + Sync,
    ) -> usize {
        let all_computed = AtomicUsize::new(0);
        self.team.for_chunks(bounds, PIECE_TILES * TILE_ROWS, |piece, bounds| {
            let mut computed = 0;
            for (tile, bounds) in (piece * PIECE_TILES..).zip(bounds.chunks_mut(TILE_ROWS)) {
                let wanted = self.wanted(tile);
                // Where a bound is no number, the logit may be anything.
                let is_less = bounds.iter().all(|bound| *bound < least);
                bounds.fill(f32::NEG_INFINITY);
                if wanted == 0 || is_less {
                    continue;
                }
                let logits = logits(tile).into_iter().zip(bounds).enumerate();
                for (_, (logit, out)) in logits.filter(|(row, _)| wanted >> row & 1 == 1) {
                    *out = logit;
                }
                computed += 1;
            }
            all_computed.fetch_add(computed, Relaxed);
        });
        all_computed.into_inner()
    }
}

/// The tokens of a tile that are in a set, a bit each.
fn bits(set: &TokenSet, tile: usize) -> u16 {
    const TILES: usize = 64 / TILE_ROWS;
    let word = set.words().get(tile / TILES).copied().unwrap_or_default();
    (word >> (tile % TILES * TILE_ROWS)) as u16
}

/// How much of the head is read at first, as has paid before. Results do not depend on it.
#[derive(Debug)]
pub(super) struct Outlook {
    sketch: Sketch,
    /// What bounds may be off by, of what they would be with high bits alone: see [`Sketch::take`].
    share: f32,
}

impl Default for Outlook {
    fn default() -> Self {
        Self { sketch: Sketch::default(), share: 0.75 }
    }
}

impl Outlook {
    fn sketch(&mut self, x: Activation<'_>) -> &Sketch {
        self.sketch.take(x, self.share);
        &self.sketch
    }

    /// Where many rows had to be computed, bounds should be narrower; where few, they need not be as narrow.
    fn learn(&mut self, computed: usize, wanted: usize) {
        let share = if computed * 16 > wanted {
            self.share * 0.9
        } else if computed * 64 < wanted {
            self.share * 1.03
        } else {
            self.share
        };
        self.share = share.clamp(0.2, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use formwork_vocab::TokenId;

    use super::*;

    #[test]
    fn tokens_of_tiles_are_those_of_the_set() {
        let mut set = TokenSet::empty(100);
        for token in [0, 15, 16, 63, 64, 99] {
            set.insert(TokenId(token));
        }
        let tiles: Vec<u16> = (0..8).map(|tile| bits(&set, tile)).collect();
        assert_eq!(tiles, [0x8001, 1, 0, 0x8000, 1, 0, 8, 0]);
    }
}
