//! Products of rows of 16-bit floats as 16-bit integers.
//!
//! A *span* is a range of groups in one or two vectors of rows, and a *block* is a few tokens whose
//! sums stay in registers. For a few tokens, the weights of a span are converted to integers on the
//! fly. For more tokens, the integers are stored once in the first-level cache and then used by all
//! blocks.

#![allow(unsafe_op_in_unsafe_fn, reason = "nearly every line is an operation of `Vector`")]

use std::marker::PhantomData;

use super::floats::{AHEAD, LoadColumn};
use super::gemm::{load, store};
use super::{Vector, prefetch};
use crate::activation::Activation;
use crate::f16_as_i16::{PAIR_BYTES, PAIRS, POWERS_BYTES, Q16Block, powers};
use crate::format::each;
use crate::layout::{PLANE, TILE_ROWS, Tiles};
use crate::matrix_mut::MatrixMut;

/// Number of groups in a span of one vector of rows. A group takes 1 KiB. A span of two vectors of
/// rows has half as many groups.
const SPAN: usize = 16;
/// Number of tokens in a block for one vector that holds all rows of a tile.
///
/// A token takes two of the 32 registers. Smaller blocks have several partial sums per token, so
/// that an addition need not wait for the one before.
const WIDE: usize = 8;
/// Number of tokens in a block for one vector that holds half the rows of a tile. A token takes two
/// of 16 registers.
const NARROW: usize = 4;
/// Number of tokens in a block for two vectors that hold two tiles, for 32 registers. Each
/// broadcast of an activation is used for both vectors, because a processor with two multiply units
/// cannot load an activation for every multiplication.
const DOUBLE: usize = 6;
/// Number of tokens in a round, a pass over all tiles. It is a multiple of all block sizes and at
/// least the number of prompt tokens in a forward pass.
const ROUND: usize = 288;

/// Computes the products of tiles.
///
/// # Safety
/// The processor must support the instructions of `V`. `tiles` must be packed as `F`. Activations
/// must be rounded to [`Q16Block`]s and as long as rows. `out` must have the number of tokens of
/// `x`, and at most the rows of the tiles.
#[inline(always)]
pub(crate) unsafe fn products<F: LoadColumn, V: Vector>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    mut out: MatrixMut<'_>,
) {
    for (first, x) in (0..x.len()).step_by(ROUND).zip(x.chunks(ROUND)) {
        round::<F, V>(tiles, x, out.of(first..first + x.len()));
    }
}

/// Multiplies a round of tokens with all tiles.
///
/// # Safety
/// The requirements of [`products`] apply.
#[inline(always)]
unsafe fn round<F: LoadColumn, V: Vector>(tiles: Tiles<'_>, x: &[Activation<'_>], mut out: MatrixMut<'_>) {
    let (groups, rows) = (Q16Block::count(tiles.columns), out.rows());
    let is_wide = V::ROWS == TILE_ROWS;
    let block = if is_wide { WIDE } else { NARROW };
    let mut made = (x.len() > block / 2).then(Made::new);
    let mut rest = tiles.bytes.chunks_exact(tiles.tile_bytes);
    let mut tile = 0;
    while let Some(bytes) = rest.next().filter(|_| tile < rows) {
        let own = powers(bytes);
        let all = Span { first: 0, count: groups, row: tile };
        let next = rest.clone().next().filter(|_| is_wide && x.len() >= DOUBLE && tile + TILE_ROWS < rows);
        let next = next.and_then(|next| Some((next, powers(next)?)));
        if let (Some(own), Some((next, others))) = (&own, next) {
            let both = [Rows::<F, V>::new(bytes, own, 0), Rows::new(next, &others, 0)];
            meet(both, all, made.as_mut(), x, out.of(0..x.len()));
            rest.next();
            tile += 2 * TILE_ROWS;
            continue;
        }
        for row in (0..TILE_ROWS.min(rows - tile)).step_by(V::ROWS) {
            let Some(own) = &own else {
                exact::<F, V>(bytes, row, x, out.of(0..x.len()), tile + row);
                continue;
            };
            let one = [Rows::<F, V>::new(bytes, own, row)];
            meet(one, Span { row: tile + row, ..all }, made.as_mut(), x, out.of(0..x.len()));
        }
        tile += TILE_ROWS;
    }
}

/// Multiplies the rows of `tile` from `row` on with unrounded activations, in the order of the
/// portable code. The products are written to `out` from row `first_out` on.
///
/// # Safety
/// The requirements of [`products`] apply. `tile` must be a whole tile, and `row` must be a
/// multiple of `V::ROWS` less than [`TILE_ROWS`].
#[inline(always)]
unsafe fn exact<F: LoadColumn, V: Vector>(
    tile: &[u8],
    row: usize,
    x: &[Activation<'_>],
    mut out: MatrixMut<'_>,
    first_out: usize,
) {
    let first = tile.as_ptr().add(POWERS_BYTES + row * F::BYTES);
    for (token, x) in x.iter().enumerate() {
        // Each vector has two of every four rows. Its lanes alternate between sums of even and of
        // odd columns.
        let mut sums = [V::each_float(0.0); 2];
        for (pair, values) in x.values().chunks(2).enumerate() {
            let values = [values[0], values.get(1).copied().unwrap_or_default()];
            let values = V::each_two(values);
            for (half, sums) in sums.iter_mut().enumerate() {
                let floats = F::load_column::<V>(first.add(pair * PAIR_BYTES + half * PAIR_BYTES / 2));
                *sums = V::add_product(floats, values, *sums);
            }
        }
        let mut halves = [[0f32; TILE_ROWS]; 2];
        for (half, sums) in halves.iter_mut().zip(sums) {
            V::store_floats(half.as_mut_ptr(), sums);
        }
        let out = &mut out.token(token)[first_out..];
        for (row, out) in out.iter_mut().enumerate().take(V::ROWS) {
            let at = 2 * (row / 4 * 2 + row % 2);
            *out = halves[row / 2 % 2][at] + halves[row / 2 % 2][at + 1];
        }
    }
}

/// Multiplies vectors of rows with all tokens. If `made` is a buffer, the weights are converted to
/// integers once per span and stored there.
///
/// # Safety
/// The requirements of [`products`] apply, and `rows` must have all groups of `all`.
#[inline(always)]
unsafe fn meet<F: LoadColumn, V: Vector, const R: usize>(
    mut rows: [Rows<F, V>; R],
    all: Span,
    mut made: Option<&mut Made>,
    x: &[Activation<'_>],
    mut out: MatrixMut<'_>,
) {
    let len = SPAN / R;
    for first in (0..all.count).step_by(len) {
        let span = Span { first, count: len.min(all.count - first), ..all };
        let mut inverses = [V::each_float(0.0); R];
        for (inverses, rows) in inverses.iter_mut().zip(&rows) {
            *inverses = rows.inverses;
        }
        let last = (first + span.count == all.count).then_some(inverses);
        if let Some(made) = &mut made {
            made.fill(&rows, span.count);
            span.meet::<_, V, R>(&**made, x, out.of(0..x.len()), last);
        } else {
            span.meet::<_, V, R>(&rows, x, out.of(0..x.len()), last);
        }
        for rows in &mut rows {
            rows.first = rows.first.wrapping_add(span.count * PAIRS * PAIR_BYTES);
        }
    }
}

/// A range of groups in one or more vectors of rows.
#[derive(Clone, Copy)]
struct Span {
    /// Index of the first group.
    first: usize,
    /// Number of groups.
    count: usize,
    /// Index of the first row among the rows of the outputs.
    row: usize,
}

impl Span {
    /// Multiplies the span with all tokens. The first span of the rows stores its products in
    /// `out`, and later spans add theirs. For the last span, `last` contains factors for the final
    /// sums.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`. `source` must have the groups of the
    /// span. Activations must be rounded to [`Q16Block`]s and as long as rows, and `out` must have
    /// the number of tokens of `x`.
    #[inline(always)]
    unsafe fn meet<S: Source<V, R>, V: Vector, const R: usize>(
        self,
        source: &S,
        x: &[Activation<'_>],
        mut out: MatrixMut<'_>,
        last: Option<[V::Floats; R]>,
    ) {
        let mut token = 0;
        while token < x.len() {
            let (x, out) = (&x[token..], out.of(token..x.len()));
            token += match x.len() {
                1 => self.block::<S, V, R, 1>(source, x, out, last),
                2 | 3 => self.block::<S, V, R, 2>(source, x, out, last),
                DOUBLE.. if R > 1 => self.block::<S, V, R, DOUBLE>(source, x, out, last),
                WIDE.. if R == 1 && V::ROWS == TILE_ROWS => self.block::<S, V, R, WIDE>(source, x, out, last),
                _ => self.block::<S, V, R, NARROW>(source, x, out, last),
            };
        }
    }

    /// Multiplies the span with the first `T` tokens, as [`Span::meet`] does. Returns `T`.
    ///
    /// # Safety
    /// The requirements of [`Span::meet`] apply, and `x` must have at least `T` tokens.
    #[inline(always)]
    unsafe fn block<S: Source<V, R>, V: Vector, const R: usize, const T: usize>(
        self,
        source: &S,
        x: &[Activation<'_>],
        mut out: MatrixMut<'_>,
        last: Option<[V::Floats; R]>,
    ) -> usize {
        let mut words = [std::ptr::null::<Q16Block>(); T];
        let mut sums = [[V::each_float(0.0); R]; T];
        for t in 0..T {
            words[t] = x[t].words().as_ptr().add(self.first);
            if self.first > 0 {
                for (r, sums) in sums[t].iter_mut().enumerate() {
                    *sums = load::<V>(&out.token(t)[self.row + r * V::ROWS..]);
                }
            }
        }
        // Number of partial sums. Integer sums are exact, so the number does not change the result.
        let count = if T == 1 {
            4
        } else if T <= NARROW {
            2
        } else {
            1
        };
        for group in 0..self.count {
            source.prefetch(group);
            let mut chains = [[[V::zero(); R]; T]; 4];
            for pair in 0..PAIRS {
                let weights = source.pair(group, pair);
                let chain = &mut chains[pair % count];
                for t in 0..T {
                    let two: &[i32; PAIRS] = &*(&raw const (*words[t].add(group)).q).cast();
                    let two = V::each_int(two[pair]);
                    for r in 0..R {
                        chain[t][r] = V::dot_words(chain[t][r], weights[r], two);
                    }
                }
            }
            for t in 0..T {
                let scale = V::each_float((*words[t].add(group)).scale);
                for r in 0..R {
                    let mut integers = chains[0][t][r];
                    if T <= NARROW {
                        integers = V::add(integers, chains[1][t][r]);
                    }
                    if T == 1 {
                        integers = V::add(integers, V::add(chains[2][t][r], chains[3][t][r]));
                    }
                    sums[t][r] = V::add_product(scale, V::to_floats(integers), sums[t][r]);
                }
            }
        }
        for (t, sums) in sums.into_iter().enumerate() {
            for (r, sums) in sums.into_iter().enumerate() {
                let sums = last.map_or(sums, |inverses| V::times(sums, inverses[r]));
                store::<V>(&mut out.token(t)[self.row + r * V::ROWS..], sums);
            }
        }
        T
    }
}

/// A source of weights as 16-bit integers, for `R` vectors of rows.
trait Source<V: Vector, const R: usize> {
    /// Prefetches the data that is read some time after group `group`.
    ///
    /// # Safety
    /// No requirements: prefetching is allowed for any address.
    unsafe fn prefetch(&self, group: usize);

    /// Returns the integers of pair `pair` of the columns in group `group`: both columns of a row
    /// in each lane.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`. The source must have the group, and
    /// `pair` must be less than [`PAIRS`].
    unsafe fn pair(&self, group: usize, pair: usize) -> [V::Ints; R];
}

/// The rows of a vector, as floats in the order of the tile. They are converted to integers on
/// demand.
struct Rows<F, V: Vector> {
    /// Points to the first row in the first pair of columns.
    first: *const u8,
    /// Powers of two of the first two and the last two of every four rows.
    powers: [V::Floats; 2],
    inverses: V::Floats,
    format: PhantomData<F>,
}

impl<F: LoadColumn, V: Vector> Rows<F, V> {
    /// Creates a view of the rows of a tile from `row` on, with the powers of two of all rows and
    /// their inverses.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`. `tile` must be packed as `F` and must
    /// outlive the result. `row` must be a multiple of `V::ROWS` less than [`TILE_ROWS`].
    #[inline(always)]
    unsafe fn new(tile: &[u8], [powers, inverses]: &[[f32; TILE_ROWS]; 2], row: usize) -> Self {
        let first = tile.as_ptr().add(POWERS_BYTES + row * F::BYTES);
        let of = |half: usize| -> [f32; TILE_ROWS] {
            each(|lane| powers[(row + lane / 4 * 4 + 2 * half + lane / 2 % 2) % TILE_ROWS])
        };
        Self {
            first,
            powers: [V::load_floats(of(0).as_ptr()), V::load_floats(of(1).as_ptr())],
            inverses: V::load_floats(inverses[row..].as_ptr()),
            format: PhantomData,
        }
    }

    /// Prefetches the data that is read some time after group `group`.
    ///
    /// # Safety
    /// No requirements: prefetching is allowed for any address.
    #[inline(always)]
    unsafe fn prefetch_group(&self, group: usize) {
        for pair in (0..PAIRS).step_by(PLANE / PAIR_BYTES) {
            let ahead = self.first.wrapping_add((group * PAIRS + pair) * PAIR_BYTES + AHEAD);
            prefetch(ahead);
        }
    }

    /// Converts pair `pair` of the columns in group `group` to integers.
    ///
    /// # Safety
    /// The requirements of [`Source::pair`] apply.
    #[inline(always)]
    unsafe fn integers(&self, group: usize, pair: usize) -> V::Ints {
        let from = self.first.add((group * PAIRS + pair) * PAIR_BYTES);
        let half = |half: usize| {
            let floats = F::load_column::<V>(from.add(half * PAIR_BYTES / 2));
            V::round(V::times(floats, self.powers[half]))
        };
        V::pack(half(0), half(1))
    }
}

impl<F: LoadColumn, V: Vector, const R: usize> Source<V, R> for [Rows<F, V>; R] {
    #[inline(always)]
    unsafe fn prefetch(&self, group: usize) {
        for rows in self {
            rows.prefetch_group(group);
        }
    }

    #[inline(always)]
    unsafe fn pair(&self, group: usize, pair: usize) -> [V::Ints; R] {
        let mut integers = [V::zero(); R];
        for (integers, rows) in integers.iter_mut().zip(self) {
            *integers = rows.integers(group, pair);
        }
        integers
    }
}

/// Buffer for the integers of a span: for each pair of columns, the integers of all rows.
#[repr(align(64))]
struct Made([[u8; PAIR_BYTES]; SPAN * PAIRS]);

impl Made {
    const fn new() -> Self {
        Self([[0; PAIR_BYTES]; SPAN * PAIRS])
    }

    /// Converts the first `count` groups of `rows`.
    ///
    /// # Safety
    /// The processor must support the instructions of `V`, and `rows` must have `count` groups.
    #[inline(always)]
    unsafe fn fill<F: LoadColumn, V: Vector, const R: usize>(
        &mut self,
        rows: &[Rows<F, V>; R],
        count: usize,
    ) {
        for (group, pairs) in self.0.chunks_exact_mut(PAIRS * R).take(count).enumerate() {
            rows.prefetch(group);
            for (pair, to) in pairs.chunks_exact_mut(R).enumerate() {
                for (to, rows) in to.iter_mut().zip(rows) {
                    V::store(to.as_mut_ptr(), rows.integers(group, pair));
                }
            }
        }
    }
}

impl<V: Vector, const R: usize> Source<V, R> for Made {
    #[inline(always)]
    unsafe fn prefetch(&self, _: usize) {}

    #[inline(always)]
    unsafe fn pair(&self, group: usize, pair: usize) -> [V::Ints; R] {
        let mut integers = [V::zero(); R];
        for (r, integers) in integers.iter_mut().enumerate() {
            *integers = V::load(self.0.get_unchecked((group * PAIRS + pair) * R + r).as_ptr());
        }
        integers
    }
}
