//! Bounds of the products of nested rows, computed without reading whole rows. Nested rows store
//! the high four bits of all codes apart from the low bits. For a matrix of very many rows, the
//! bounds usually show which row has the largest product.
//!
//! In most groups, only the high four bits of the weights are read, and the low bits are assumed to
//! be at their midpoint. By the Cauchy-Schwarz inequality, the error of a group's product is at
//! most the product of three factors: the scale, the norm of the low bits' distances from the
//! midpoint, and the norm of the activations. Groups with large activations are read in full,
//! because they would make up most of the error.

use crate::activation::{Activation, Q8Block};
use crate::format::{BlockFormat, GROUP, bias, each};
use crate::layout::{Parts, TILE_ROWS, head, head_bytes, levels};
use crate::split_bits::{middle, spread_step};

/// Lower and upper bounds of the products of the sixteen rows of a tile with an activation row.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// Lower bound of each row's product.
    pub lower: [f32; TILE_ROWS],
    /// Upper bound of each row's product. NaN if the product has no known bound.
    pub upper: [f32; TILE_ROWS],
}

/// The 8-bit activations of a token, prepared for
/// [`PackedRows::bounds`](crate::PackedRows::bounds). Contains the choice of groups whose weights
/// are read in full; the other groups are read without their low bits.
#[derive(Clone, Debug, Default)]
pub struct CoarseQuery {
    pub(crate) groups: Vec<CoarseGroup>,
    /// Indices of the groups whose weights are read without their low bits.
    pub(crate) coarse: Vec<u32>,
    /// Indices of the groups whose weights are read in full.
    pub(crate) whole: Vec<u32>,
}

/// A group of activations, with the maximum error of its product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CoarseGroup {
    pub(crate) x: Q8Block,
    /// Maximum error of the product, for a weight scale of 1 and low bits whose distances from the
    /// midpoint have the norm 1. The entries are for the first half, the second half and the whole
    /// group.
    pub(crate) slack: [f32; 3],
}

impl CoarseQuery {
    /// Replaces the contents by the 8-bit activations `x` and chooses the groups to read in full.
    ///
    /// Each group that is not read in full adds an error to the bounds. Groups are read in full in
    /// the order of this error, largest first, until the other groups have at most the fraction
    /// `share` of the sum of all errors.
    ///
    /// # Panics
    /// Panics if the activations have 16 bits, because the bounds do not cover their lower bits.
    pub fn take(&mut self, x: Activation<'_>, share: f32) {
        assert!(x.fine_rests().is_none(), "a coarse query requires 8-bit activations");
        self.groups.clear();
        self.groups.extend(x.groups().iter().map(CoarseGroup::new));
        let norm = |group: &u32| self.groups[*group as usize].slack[2];
        self.whole.clear();
        self.coarse.clear();
        self.coarse.extend(0..x.groups().len() as u32);
        self.coarse.sort_unstable_by(|a, b| norm(a).total_cmp(&norm(b)));
        let most = share * self.coarse.iter().map(norm).sum::<f32>();
        let mut sum = 0.0;
        let fits = |group: &&u32| {
            sum += norm(group);
            sum <= most
        };
        let count = self.coarse.iter().take_while(fits).count();
        self.whole.extend(self.coarse.drain(count..));
        // Sorts groups in the order of memory.
        self.coarse.sort_unstable();
        self.whole.sort_unstable();
        // Also covers the rounding of the float sums. A bound and a product have two terms per
        // group, with weights of up to 128.
        let rounding = (4 * x.groups().len() + 8) as f32 * f32::EPSILON * 128.0 * (GROUP as f32).sqrt();
        for (groups, unread) in [(&self.coarse, 1.0), (&self.whole, 0.0)] {
            for &group in groups {
                let slack = &mut self.groups[group as usize].slack;
                *slack = slack.map(|norm| norm * (unread + rounding));
            }
        }
    }
}

impl CoarseGroup {
    /// Computes the norms of the activations in both halves and in the whole group.
    fn new(x: &Q8Block) -> Self {
        let squares = |q: &[i8]| q.iter().map(|&q| i32::from(q) * i32::from(q)).sum::<i32>();
        let (first, second) = x.q.split_at(GROUP / 2);
        let squares = [squares(first), squares(second), squares(&x.q)];
        Self { x: *x, slack: squares.map(|squares| x.scale * (squares as f32).sqrt()) }
    }
}

/// Computes the bounds of the rows of `tile` with plain loops.
pub(crate) fn bounds<B: BlockFormat>(tile: &[u8], x: &CoarseQuery) -> Bounds {
    let columns = x.groups.len() * GROUP;
    let parts = Parts::of::<B>(tile, columns);
    let groups = B::LEN / GROUP;
    let halves = if B::SPLIT { 2 } else { 1 };
    let (mut sums, mut slacks) = ([0f32; TILE_ROWS], [0f32; TILE_ROWS]);
    for (list, is_whole) in [(&x.coarse, false), (&x.whole, true)] {
        for &group in list {
            let group = group as usize;
            let CoarseGroup { x, slack } = &x.groups[group];
            let heads = &parts.heads[group / groups * head_bytes::<B>()..];
            let levels = levels::<B, TILE_ROWS>(parts.codes::<B>(group), 0);
            for row in 0..TILE_ROWS {
                let header = B::header(&head::<B>(heads, row));
                for half in 0..halves {
                    let elements = half * GROUP / halves..(half + 1) * GROUP / halves;
                    let weight = |i: usize| {
                        let level = i32::from(levels[i / 4][row][i % 4]);
                        let low = if is_whole { level } else { level >> B::LOW << B::LOW | middle::<B>() };
                        low - i32::from(bias::<B>())
                    };
                    let integer: i32 = elements.map(|i| weight(i) * i32::from(x.q[i])).sum();
                    let scale = header.scale[group % groups * halves + half];
                    sums[row] = (scale * x.scale).mul_add(integer as f32, sums[row]);
                    slacks[row] = scale.abs().mul_add(slack[if B::SPLIT { half } else { 2 }], slacks[row]);
                }
            }
        }
    }
    let spreads = &parts.heads[columns / B::LEN * head_bytes::<B>()..];
    let slacks: [f32; TILE_ROWS] = each(|row| slacks[row] * (f32::from(spreads[row]) * spread_step::<B>()));
    Bounds { lower: each(|row| sums[row] - slacks[row]), upper: each(|row| sums[row] + slacks[row]) }
}
