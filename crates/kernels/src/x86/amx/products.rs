//! Products of tiles of blocks with many tokens.

use std::ptr::with_exposed_provenance;

use super::super::avx512;
use super::super::vector::Sixteen;
use super::{Integers, Shape, multiply, release};
use crate::activation::{Activation, Q8Block};
use crate::format::GROUP;
use crate::layout::{PIECES, PLANE, TILE_ROWS, Tiles};
use crate::matrix_mut::MatrixMut;
use crate::vectors::gemm::{PANEL, Packed, Panel, ROUND, Span, is_fine, load, store};
use crate::vectors::{Kind, Unpack, Vector};

/// Number of tokens in a block: as many as a register has lines.
const MANY: usize = TILE_ROWS;
/// Number of tokens in a block if there are fewer than [`MANY`].
const FEW: usize = MANY / 2;
/// Maximum number of tokens in a round: see [`ROUND`].
const ROUND_TOKENS: usize = 8 * MANY;

/// Computes the products of tiles. Uses vectors instead of tile registers for a few tokens and for
/// 16-bit activations.
///
/// # Safety
/// This process must be allowed to use the tile registers. The processor must have AVX2, FMA, F16C
/// and AVX-512 F, BW, VL and VNNI. `tiles` must be packed as `B`. Activations must be rounded to 8
/// or 16 bits and as long as rows. `out` must have the number of tokens of `x`, and at most the
/// rows of the tiles.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(crate) unsafe fn products<B: Unpack>(tiles: Tiles<'_>, x: &[Activation<'_>], mut out: MatrixMut<'_>) {
    let mut token = 0;
    for x in x.chunk_by(|a, b| is_fine(a) == is_fine(b)) {
        let out = out.of(token..token + x.len());
        token += x.len();
        // SAFETY: the caller ensures the requirements. `rounds` gets at least as many tokens as its
        // blocks have, and `Tokens::of` takes their addresses from activations.
        unsafe {
            match Tokens::of(x) {
                Some(tokens) if tokens.count >= MANY => rounds::<B, MANY>(tiles, tokens, out),
                Some(tokens) if tokens.count >= FEW => rounds::<B, FEW>(tiles, tokens, out),
                _ => avx512::products::<B>(tiles, x, out),
            }
        }
    }
}

/// The 8-bit activations of some tokens, which lie at equal distances in memory.
#[derive(Clone, Copy)]
struct Tokens {
    /// Address of the first group of the first token.
    first: usize,
    /// Distance between tokens, in bytes.
    stride: usize,
    count: usize,
}

impl Tokens {
    /// Returns the tokens of `x`. Returns `None` if there are fewer than two, if they have 16 bits
    /// or if their distances in memory differ.
    fn of(x: &[Activation<'_>]) -> Option<Self> {
        // Exposes provenance, because every token is read at an address that is computed from the
        // first.
        let at = |x: &Activation<'_>| x.groups().as_ptr().expose_provenance();
        let distance = |pair: &[Activation<'_>]| at(&pair[1]).wrapping_sub(at(&pair[0]));
        let stride = distance(x.get(..2)?);
        let is_even = !is_fine(&x[0]) && x.windows(2).all(|pair| distance(pair) == stride);
        is_even.then(|| Self { first: at(&x[0]), stride, count: x.len() })
    }

    /// Returns `count` tokens, starting at the token with index `token`.
    fn from(self, token: usize, count: usize) -> Self {
        let first = self.first.wrapping_add(self.stride.wrapping_mul(token));
        Self { first, count, ..self }
    }
}

/// Multiplies all tokens with all tiles, in rounds and in blocks of `T` tokens.
///
/// # Safety
/// The requirements of [`products`] apply, with at least `T` tokens whose addresses are those of
/// activations.
#[inline(always)]
unsafe fn rounds<B: Unpack, const T: usize>(tiles: Tiles<'_>, tokens: Tokens, mut out: MatrixMut<'_>) {
    let pieces = if B::Kind::SPLIT { PIECES / 2 } else { PIECES };
    // SAFETY: the caller ensures the registers. `T` is at most 16, and `pieces` at most 8.
    unsafe { Shape { tokens: T, pieces }.configure() };
    let most = (ROUND / (tiles.columns / GROUP * size_of::<Q8Block>())).clamp(2 * MANY, ROUND_TOKENS) / T * T;
    let mut first = 0;
    while first < tokens.count {
        let rest = tokens.count - first;
        // A remainder of less than a block joins this round.
        let count = if rest < most + T { rest } else { most };
        // SAFETY: the caller ensures the requirements. The registers are configured, and the round has at
        // least `T` tokens.
        unsafe { round::<B, T>(tiles, tokens.from(first, count), out.of(first..first + count)) };
        first += count;
    }
    // SAFETY: the caller ensures the registers.
    unsafe { release() };
}

/// Multiplies a round of tokens with panels of all tiles.
///
/// # Safety
/// The requirements of [`rounds`] apply, and the registers must be configured for blocks of `T`
/// tokens.
#[inline(always)]
unsafe fn round<B: Unpack, const T: usize>(tiles: Tiles<'_>, tokens: Tokens, mut out: MatrixMut<'_>) {
    let (groups, rows) = (tiles.columns / GROUP, out.rows());
    let mut panel = Panel::new(0);
    let mut ring = Ring::default();
    for (row, tile) in (0..rows).step_by(TILE_ROWS).zip(tiles.bytes.chunks_exact(tiles.tile_bytes)) {
        for first in (0..groups).step_by(PANEL) {
            panel.span = Span { first, count: PANEL.min(groups - first), row };
            // SAFETY: the caller ensures the instructions, and tiles that are packed as `B`.
            unsafe { Sixteen::fill::<B, true>(&mut panel, &Packed::new(tile, tiles.columns, first, 0)) };
            let mut done = 0;
            while done < tokens.count {
                // The last block overlaps the block before if fewer than `T` tokens remain.
                let at = done.min(tokens.count - T);
                let out = out.of(at..at + T);
                // SAFETY: the caller ensures the requirements. The panel is filled, and both `tokens` and
                // `out` have `T` tokens.
                unsafe { block::<B::Kind, T>(&panel, tokens.from(at, T), done - at, &mut ring, out) };
                done = at + T;
            }
        }
    }
}

/// Integer sums of the two latest pairs of products: one pair is being computed while the other is
/// read.
#[repr(align(64))]
#[derive(Default)]
struct Ring([[Integers; 2]; 2]);

/// Adds the products of a panel's groups with a block of tokens to `out`, except for the first
/// `skipped` tokens.
///
/// Products are computed in pairs, of two groups or of the two halves of a group. They are one pair
/// ahead of the float arithmetic, because reading what a register has stored takes a while.
///
/// # Safety
/// The requirements of [`round`] apply. The panel must be filled, and `tokens` and `out` must have
/// `T` tokens.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn block<K: Kind, const T: usize>(
    panel: &Panel,
    tokens: Tokens,
    skipped: usize,
    ring: &mut Ring,
    mut out: MatrixMut<'_>,
) {
    let Span { first, count, row } = panel.span;
    let x = with_exposed_provenance::<Q8Block>(tokens.first + first * size_of::<Q8Block>());
    // SAFETY: the caller ensures the instructions, configured registers, a filled panel and `T` tokens
    // at the addresses of activations. The first `count` groups of a panel are filled.
    unsafe {
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
                    // With an odd number of groups, the last product is computed twice.
                    [(2 * index, 0), ((2 * index + 1).min(count - 1), 0)]
                };
                let q =
                    |group: usize, piece: usize| x.wrapping_add(group).cast::<i8>().wrapping_add(4 * piece);
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
}
