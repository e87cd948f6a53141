//! The products of tiles of blocks with many tokens.

use std::ptr::with_exposed_provenance;

use super::super::vector::Sixteen;
use super::{Integers, Shape, multiply, release};
use crate::activation::{Activation, Q8Block};
use crate::format::GROUP;
use crate::layout::{PIECES, PLANE, TILE_ROWS};
use crate::outputs::Outputs;
use crate::products::Tiles;
use crate::vectors::sweep::{self, PANEL, Packed, Panel, ROUND, Span, is_fine, load, store};
use crate::vectors::{Kind, Unpack, Vector};

/// Tokens whose products are made together: as many as a register has lines, or half of them where there are fewer.
const MANY: usize = TILE_ROWS;
const FEW: usize = MANY / 2;
/// Tokens that go over the tiles together at most: see [`ROUND`].
const ROUND_TOKENS: usize = 8 * MANY;

/// The products of tiles. Those of a few tokens, and of activations of 16 bits, are made by vectors.
///
/// # Safety
/// The registers must be usable and the processor have AVX-512 with VNNI, activations must be as long as rows, and `out` have as many
/// tokens, and no more rows than the tiles.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in super::super) unsafe fn products<B: Unpack>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    mut out: Outputs<'_>,
) {
    let mut token = 0;
    for x in x.chunk_by(|a, b| is_fine(a) == is_fine(b)) {
        let out = out.of(token..token + x.len());
        token += x.len();
        match Tokens::of(x) {
            Some(tokens) if tokens.count >= MANY => rounds::<B, MANY>(tiles, tokens, out),
            Some(tokens) if tokens.count >= FEW => rounds::<B, FEW>(tiles, tokens, out),
            _ => sweep::products::<B, Sixteen>(tiles, x, out),
        }
    }
}

/// Activations of 8 bits, each token's at the same distance from those of the one before.
#[derive(Clone, Copy)]
struct Tokens {
    /// The address of the first token's first group.
    first: usize,
    /// In bytes.
    stride: usize,
    count: usize,
}

impl Tokens {
    fn of(x: &[Activation<'_>]) -> Option<Self> {
        // Every token is read from its distance to the first.
        let at = |x: &Activation<'_>| x.groups().as_ptr().expose_provenance();
        let distance = |pair: &[Activation<'_>]| at(&pair[1]).wrapping_sub(at(&pair[0]));
        let stride = distance(x.get(..2)?);
        let is_even = !is_fine(&x[0]) && x.windows(2).all(|pair| distance(pair) == stride);
        is_even.then(|| Self { first: at(&x[0]), stride, count: x.len() })
    }

    /// Those from one on.
    fn from(self, token: usize, count: usize) -> Self {
        let first = self.first.wrapping_add(self.stride.wrapping_mul(token));
        Self { first, count, ..self }
    }
}

/// All tokens, by rounds, in blocks of `T`, of which there is one at least.
#[inline(always)]
unsafe fn rounds<B: Unpack, const T: usize>(tiles: Tiles<'_>, tokens: Tokens, mut out: Outputs<'_>) {
    let pieces = if B::Kind::SPLIT { PIECES / 2 } else { PIECES };
    Shape { tokens: T, pieces }.configure();
    let most = (ROUND / (tiles.columns / GROUP * size_of::<Q8Block>())).clamp(2 * MANY, ROUND_TOKENS) / T * T;
    let mut first = 0;
    while first < tokens.count {
        let rest = tokens.count - first;
        // What would be less than a block of its own is shared with the round before.
        let count = if rest < most + T { rest } else { most };
        round::<B, T>(tiles, tokens.from(first, count), out.of(first..first + count));
        first += count;
    }
    release();
}

/// A round of tokens with panels of all tiles.
#[inline(always)]
unsafe fn round<B: Unpack, const T: usize>(tiles: Tiles<'_>, tokens: Tokens, mut out: Outputs<'_>) {
    let (groups, rows) = (tiles.columns / GROUP, out.rows());
    let mut panel = Panel::new(0);
    let mut ring = Ring::default();
    for (row, tile) in (0..rows).step_by(TILE_ROWS).zip(tiles.bytes.chunks_exact(tiles.tile_bytes)) {
        for first in (0..groups).step_by(PANEL) {
            panel.span = Span { first, count: PANEL.min(groups - first), row };
            panel.fill::<B, Sixteen, true>(&Packed::new(tile, tiles.columns, first, 0));
            let mut done = 0;
            while done < tokens.count {
                // The last block has tokens of the one before where others are lacking.
                let at = done.min(tokens.count - T);
                let out = out.of(at..at + T);
                block::<B::Kind, T>(&panel, tokens.from(at, T), done - at, &mut ring, out);
                done = at + T;
            }
        }
    }
}

/// Integers of the pair of products that is made and of the one before.
#[repr(align(64))]
#[derive(Default)]
struct Ring([[Integers; 2]; 2]);

/// Adds the products of a panel's groups with a block of tokens, but for the first `skipped`. Products are made by pairs, of two
/// groups or of a group's two halves, one pair ahead of the floats: what a register has stored takes a while to be read.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn block<K: Kind, const T: usize>(
    panel: &Panel,
    tokens: Tokens,
    skipped: usize,
    ring: &mut Ring,
    mut out: Outputs<'_>,
) {
    let Span { first, count, row } = panel.span;
    let x = with_exposed_provenance::<Q8Block>(tokens.first + first * size_of::<Q8Block>());
    let mut sums = [Sixteen::each_float(0.0); T];
    if first > 0 {
        for (t, sums) in sums.iter_mut().enumerate() {
            *sums = load::<Sixteen>(&out.token(t)[row..]);
        }
    }
    let pairs = if K::SPLIT { count } else { count.div_ceil(2) };
    for index in 0..=pairs {
        if index < pairs {
            let [integers, others] = &mut ring.0[index % 2];
            let [(a, low), (b, high)] = if K::SPLIT {
                [(index, 0), (index, PIECES / 2)]
            } else {
                // Of an odd number the last is made twice.
                [(2 * index, 0), ((2 * index + 1).min(count - 1), 0)]
            };
            let q = |group: usize, piece: usize| x.wrapping_add(group).cast::<i8>().wrapping_add(4 * piece);
            let levels = |group: usize, piece: usize| {
                (&raw const panel.groups[group].levels).cast::<i8>().wrapping_add(piece * PLANE)
            };
            multiply(
                [q(a, low), q(b, high)],
                tokens.stride,
                [levels(a, low), levels(b, high)],
                [integers, others],
            );
        }
        if let Some(index) = index.checked_sub(1) {
            let pair = &ring.0[index % 2];
            let groups =
                if K::SPLIT { [(index, 0), (index, 1)] } else { [(2 * index, 0), (2 * index + 1, 0)] };
            for ((group, part), integers) in groups.into_iter().zip(pair) {
                if group < count {
                    let scales = panel.groups[group].scales.load::<K, Sixteen>();
                    let (scale, offset) = (scales.scale[part], scales.offset[part]);
                    let mut at = x.wrapping_add(group).addr();
                    for t in 0..T {
                        let all = &*with_exposed_provenance::<Q8Block>(at);
                        let scale = Sixteen::times(scale, Sixteen::each_float(all.scale));
                        let integers = Sixteen::load(integers[t].as_ptr().cast());
                        sums[t] = Sixteen::add_product(scale, Sixteen::to_floats(integers), sums[t]);
                        if K::OFFSET {
                            let sum = if K::SPLIT { all.sums[part] } else { all.sum };
                            sums[t] = Sixteen::add_product(offset, Sixteen::each_float(sum), sums[t]);
                        }
                        at = at.wrapping_add(tokens.stride);
                    }
                }
            }
        }
    }
    for (t, sums) in sums.into_iter().enumerate().skip(skipped) {
        store::<Sixteen>(&mut out.token(t)[row..], sums);
    }
}
