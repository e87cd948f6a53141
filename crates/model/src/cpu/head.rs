//! The head of the model, which computes logits from hidden states.
//!
//! If only a few tokens are requested, only their rows of the head are computed.
//!
//! If only the largest logit is requested, as in greedy decoding, the head first computes bounds of
//! all products ([`PackedRows::bounds`]). For an 8-bit head, this reads three fifths of its bytes.
//! Rows that cannot have the largest logit are then skipped.
//!
//! [`PackedRows::bounds`]: formwork_kernels::PackedRows::bounds

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use formwork_kernels::{Activation, CoarseQuery, TILE_ROWS, Team};
use formwork_lm::{Wanted, masked};
use formwork_vocab::TokenSet;

use super::product::{Rounded, all_rows, some_rows};
use super::workspace::{Workspace, room};
use super::{Network, Progress};
use crate::adapter::Delta;
use crate::ops::{normalise, scale, softcap};
use crate::weights::Packed;

/// Single rows of the head are computed if fewer than 1 in `SPARSE` tokens are requested.
/// Otherwise, the whole head is computed.
const SPARSE: usize = 4;
/// Bounds are not used if fewer than 1 in `FEW` tokens are requested. All requested logits are
/// computed instead.
const FEW: usize = 64;
/// Maximum number of rows of logits that are computed together. The memory for them is kept for
/// later passes.
const TOGETHER: usize = 32;
/// Number of tiles of the head in a parallel task.
const PIECE_TILES: usize = 64;

/// Row of logits that a run requests.
pub(super) struct Row<'a> {
    /// Input of the head for this row. Shape: `[hidden]`.
    pub(super) x: Vec<f32>,
    /// Requested tokens. `None` if all tokens are requested.
    pub(super) tokens: Option<&'a TokenSet>,
    pub(super) is_largest: bool,
    /// Change of the head by the adapter of the run.
    pub(super) change: Option<&'a Delta>,
}

/// Rows of the head that are computed for one row of logits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    /// The rows of the requested tokens.
    Wanted,
    /// The rows that may have the largest logit.
    Largest,
}

impl Network {
    /// Computes the logits that the runs request. Shape of the result: `[runs][rows][vocabulary]`.
    pub(super) fn logits<'a>(
        &'a self,
        runs: &'a [Progress<'_>],
        workspace: &mut Workspace,
    ) -> Vec<Vec<Vec<f32>>> {
        let runs: Vec<_> = runs.iter().map(|progress| self.rows(progress)).collect();
        self.logits_of(&runs, workspace)
    }

    /// Computes rows of logits. Shape of the result: `[runs][rows][vocabulary]`.
    pub(super) fn logits_of(&self, runs: &[Vec<Row<'_>>], workspace: &mut Workspace) -> Vec<Vec<Vec<f32>>> {
        let head = &self.weights.head;
        let is_sparse = |row: &Row<'_>| row.tokens.is_some_and(|set| set.count() * SPARSE < head.rows);
        // If several rows of logits need most of the head, they are computed together with a single
        // read of the whole head.
        let is_few = |row: &Row<'_>| row.tokens.is_some_and(|set| set.count() * FEW < head.rows);
        let is_alone = runs.iter().flatten().filter(|row| !is_few(row)).count() == 1;
        let part = |row: &Row<'_>| match row.tokens {
            // Bounds do not include the change.
            _ if row.is_largest && row.change.is_none() && is_alone && !is_few(row) && self.has_bounds() => {
                Part::Largest
            }
            Some(_) if is_sparse(row) => Part::Wanted,
            _ => Part::All,
        };
        let full: Vec<&Row<'_>> = runs.iter().flatten().filter(|row| part(row) == Part::All).collect();
        let mut full = self.full_logits(&full, workspace).into_iter();
        let mut logits = |row: &Row<'_>| match (part(row), row.tokens) {
            (Part::Largest, tokens) => self.largest_logits(&row.x, tokens, workspace),
            (Part::Wanted, Some(tokens)) => self.some_logits(row, tokens, workspace),
            _ => full.next().unwrap_or_default(),
        };
        runs.iter().map(|rows| rows.iter().map(&mut logits).collect()).collect()
    }

    /// Computes rows of logits with all rows of the head.
    fn full_logits(&self, rows: &[&Row<'_>], workspace: &mut Workspace) -> Vec<Vec<f32>> {
        let head = &self.weights.head;
        let Workspace { rounded, logits, together, .. } = workspace;
        let is_changed = rows.iter().any(|row| row.change.is_some());
        let finished = |mut logits: Vec<f32>, row: &Row<'_>| {
            self.finish(&mut logits);
            masked(logits, row.tokens)
        };
        if let [row] = rows {
            let mut logits = logits.take(head.rows);
            all_rows(&self.team, rounded, head, &row.x, &mut logits);
            self.add_change(row, None, rounded, &mut logits);
            return vec![finished(logits, row)];
        }
        let mut all = Vec::with_capacity(rows.len());
        for rows in rows.chunks(TOGETHER) {
            let x: Vec<f32> = rows.iter().flat_map(|row| &row.x).copied().collect();
            // Shape: `[tokens, vocabulary]`.
            let together = room(together, rows.len() * head.rows);
            all_rows(&self.team, rounded, head, &x, together);
            if is_changed {
                for (row, products) in rows.iter().zip(together.chunks_exact_mut(head.rows)) {
                    self.add_change(row, None, rounded, products);
                }
            }
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

    /// Returns the rows of logits that a run requests, oldest first.
    fn rows<'a>(&self, progress: &'a Progress<'_>) -> Vec<Row<'a>> {
        let x = self.normed(&progress.x);
        let is_largest = matches!(progress.run.wanted, Wanted::Largest(_));
        let adapter = progress.sequence.adapter.as_deref();
        let change = adapter.and_then(|adapter| adapter.delta(&self.weights.head));
        let row = |(x, tokens): (&[f32], _)| Row { x: x.to_vec(), tokens, is_largest, change };
        x.chunks_exact(self.spec.hidden).zip(progress.run.wanted.rows()).map(row).collect()
    }

    /// Applies the final norm to the residual stream `x`. Returns the input of the head, with the
    /// shape of `x`.
    pub(super) fn normed(&self, x: &[f32]) -> Vec<f32> {
        let Some(norm) = &self.weights.output_norm else { return x.to_vec() };
        let mut out = vec![0.0; x.len()];
        normalise(&self.team, &self.spec, x, norm, &mut out);
        out
    }

    /// Computes one row of logits, with the logits of the tokens `wanted`. All other logits are
    /// `-inf`.
    fn some_logits(
        &self,
        row: &Row<'_>,
        wanted: &TokenSet,
        Workspace { rounded, logits, .. }: &mut Workspace,
    ) -> Vec<f32> {
        let head = &self.weights.head;
        let rows = wanted.iter().map(|token| token.0).filter(|&token| token < head.rows as u32);
        let rows: Vec<u32> = rows.collect();
        let mut some = some_rows(&self.team, rounded, head, &row.x, &rows);
        self.add_change(row, Some(&rows), rounded, &mut some);
        self.finish(&mut some);
        let mut logits = logits.take(head.rows);
        logits.fill(f32::NEG_INFINITY);
        for (&row, logit) in rows.iter().zip(some) {
            logits[row as usize] = logit;
        }
        logits
    }

    /// Adds the change of the head to products of a row with the head. `rows` are the indices of the
    /// rows of the head, or `None` for all of them.
    fn add_change(&self, row: &Row<'_>, rows: Option<&[u32]>, rounded: &mut Rounded, products: &mut [f32]) {
        let Some(Delta { a, b }) = row.change else { return };
        let mut low = vec![0.0; a.rows];
        all_rows(&self.team, rounded, a, &row.x, &mut low);
        let change = if let Some(rows) = rows {
            some_rows(&self.team, rounded, b, &low, rows)
        } else {
            let mut change = vec![0.0; b.rows];
            all_rows(&self.team, rounded, b, &low, &mut change);
            change
        };
        products.iter_mut().zip(change).for_each(|(product, change)| *product += change);
    }

    /// Converts products of the input with rows of the head to logits, in place.
    fn finish(&self, products: &mut [f32]) {
        scale(products, self.spec.logit_scale);
        if let Some(cap) = self.spec.logit_softcap {
            softcap(products, cap);
        }
    }

    /// Reports whether the largest logit can be found by means of bounds.
    fn has_bounds(&self) -> bool {
        self.weights.head.is_nested() && self.spec.logit_scale > 0.0
    }

    /// Computes one row of logits that contains the largest logit of the tokens `wanted`. Each of
    /// these tokens whose logit equals the largest is included. Most other logits are `-inf`.
    fn largest_logits(
        &self,
        x: &[f32],
        wanted: Option<&TokenSet>,
        Workspace { head: outlook, rounded, logits, .. }: &mut Workspace,
    ) -> Vec<f32> {
        let head = &self.weights.head;
        let mut logits = logits.take(head.rows);
        let x = rounded.alone(&self.team, head.operand(), x);
        let coarse_query = outlook.coarse_query(x);
        let rows = Rows { team: &self.team, head, wanted };
        let best = rows.upper_bounds(coarse_query, &mut logits);
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

    /// Returns a limit slightly below `product`. A product below the limit gives a smaller logit
    /// than `product`, despite rounding errors.
    fn surely_less(&self, product: f32) -> f32 {
        /// Relative margin, which is many times larger than rounding errors. If logits are capped,
        /// the margin is relative to the cap.
        const MARGIN: f32 = 1e-5;
        let less = product - MARGIN * product.abs().max(f32::MIN_POSITIVE / MARGIN);
        let Some(cap) = self.spec.logit_softcap else { return less };
        // The cap reduces differences between logits, so the limit must be lower.
        let scaled = product * self.spec.logit_scale / cap;
        let capped = (scaled.tanh() - MARGIN).atanh() * cap / self.spec.logit_scale;
        if capped.is_nan() { f32::NEG_INFINITY } else { less.min(capped) }
    }
}

/// The head, and the tokens whose rows are requested. `None` if all tokens are requested.
#[derive(Clone, Copy)]
struct Rows<'a> {
    team: &'a Team,
    head: &'a Packed,
    wanted: Option<&'a TokenSet>,
}

impl Rows<'_> {
    /// Returns the requested rows of a tile as a bit mask. Bit `i` stands for row `i` of the tile.
    fn wanted(self, tile: usize) -> u16 {
        self.wanted.map_or(u16::MAX, |wanted| bits(wanted, tile))
    }

    /// Writes an upper bound of the product with each requested row to `out`, and `-inf` for all
    /// other rows. Returns the row with the greatest lower bound, or `None` if no row has bounds.
    fn upper_bounds(self, x: &CoarseQuery, out: &mut [f32]) -> Option<usize> {
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
            // Ties go to the lower row, independent of the order in which threads finish.
            if greatest > overall.1 || (greatest >= overall.1 && best < overall.0) {
                *overall = (best, greatest);
            }
        });
        overall.into_inner().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Computes all tiles with an upper bound of at least `least`. In `bounds`, the bounds of their
    /// requested rows are replaced by logits, and all other entries by `-inf`. Returns the number
    /// of computed tiles.
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
                // A NaN bound is not less than `least`, so the tile is computed. Its logits may
                // have any value.
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

/// Returns the tokens of a set that belong to a tile, as a bit mask.
fn bits(set: &TokenSet, tile: usize) -> u16 {
    const TILES: usize = 64 / TILE_ROWS;
    let word = set.words().get(tile / TILES).copied().unwrap_or_default();
    (word >> (tile % TILES * TILE_ROWS)) as u16
}

/// Choice of the bytes of the head that are read for bounds. The choice adapts to earlier passes.
/// It affects the speed, but not the results.
#[derive(Debug)]
pub(super) struct Outlook {
    coarse_query: CoarseQuery,
    /// Fraction of the uncertainty that may remain in the bounds, compared to reading only the high
    /// bits. See [`CoarseQuery::take`].
    share: f32,
}

impl Default for Outlook {
    fn default() -> Self {
        Self { coarse_query: CoarseQuery::default(), share: 0.75 }
    }
}

impl Outlook {
    fn coarse_query(&mut self, x: Activation<'_>) -> &CoarseQuery {
        self.coarse_query.take(x, self.share);
        &self.coarse_query
    }

    /// Adapts the choice to the last pass, which computed `computed` of the `wanted` rows. If this
    /// was a large part, later bounds are tighter. If it was a small part, later bounds are looser.
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
