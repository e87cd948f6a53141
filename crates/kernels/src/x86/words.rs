//! Rows of 16-bit floats as integers of 16 bits.
//!
//! A few tokens meet what is made of the floats right away. For more, a span of groups is made once, in the first-level cache.

use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
use std::marker::PhantomData;

use super::floats::{AHEAD, LoadColumn};
use super::sweep::{load, store};
use super::vector::Vector;
use crate::activation::Activation;
use crate::format::each;
use crate::layout::{PLANE, TILE_ROWS};
use crate::outputs::Outputs;
use crate::products::Tiles;
use crate::words::{PAIR_BYTES, PAIRS, POWERS_BYTES, Q16Block, powers};

/// Groups in a span, 1 KiB each.
const SPAN: usize = 16;
/// Tokens in a block: two vectors for each, of 32 or of 16. Fewer have more, so that sums need not wait for each other.
const WIDE: usize = 8;
const NARROW: usize = 4;
/// Tokens that go over all tiles together.
const ROUND: usize = 96;

/// The products of tiles.
///
/// # Safety
/// The processor must have the instructions of `V`, activations must be rounded to words and as long as rows, and `out` have as many
/// tokens, and no more rows than the tiles.
#[inline(always)]
pub(super) unsafe fn products<F: LoadColumn, V: Vector>(
    tiles: Tiles<'_>,
    x: &[Activation<'_>],
    mut out: Outputs<'_>,
) {
    for (first, x) in (0..x.len()).step_by(ROUND).zip(x.chunks(ROUND)) {
        round::<F, V>(tiles, x, out.of(first..first + x.len()));
    }
}

/// A round of tokens with all tiles.
#[inline(always)]
unsafe fn round<F: LoadColumn, V: Vector>(tiles: Tiles<'_>, x: &[Activation<'_>], mut out: Outputs<'_>) {
    let (groups, rows) = (Q16Block::count(tiles.columns), out.rows());
    let block = if V::ROWS == TILE_ROWS { WIDE } else { NARROW };
    let mut made = (x.len() > block / 2).then(Made::new);
    for (tile, bytes) in (0..rows).step_by(TILE_ROWS).zip(tiles.bytes.chunks_exact(tiles.tile_bytes)) {
        let powers = powers(bytes);
        for row in (0..TILE_ROWS.min(rows - tile)).step_by(V::ROWS) {
            let Some([powers, inverses]) = &powers else {
                exact::<F, V>(bytes, row, x, out.of(0..x.len()), tile + row);
                continue;
            };
            let mut floats = Floats::<F, V>::new(bytes, powers, row);
            let inverses = V::load_floats(inverses[row..].as_ptr());
            for first in (0..groups).step_by(SPAN) {
                let span = Span { first, count: SPAN.min(groups - first), row: tile + row };
                let last = (first + span.count == groups).then_some(inverses);
                if let Some(made) = &mut made {
                    made.fill::<F, V>(&floats, span.count);
                    span.meet::<_, V>(made, x, out.of(0..x.len()), last);
                } else {
                    span.meet::<_, V>(&floats, x, out.of(0..x.len()), last);
                }
                floats.first = floats.first.wrapping_add(span.count * PAIRS * PAIR_BYTES);
            }
        }
    }
}

/// Rows of a tile that meet activations as they are, in the order of the portable code.
#[inline(always)]
unsafe fn exact<F: LoadColumn, V: Vector>(
    tile: &[u8],
    row: usize,
    x: &[Activation<'_>],
    mut out: Outputs<'_>,
    first_out: usize,
) {
    let first = tile.as_ptr().add(POWERS_BYTES + row * F::BYTES);
    for (token, x) in x.iter().enumerate() {
        // Of each two rows out of four, the sums of even and of odd columns, in turns.
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

/// Some groups of a vector's rows.
#[derive(Clone, Copy)]
struct Span {
    first: usize,
    count: usize,
    row: usize,
}

impl Span {
    /// All tokens. With the last groups sums are multiplied by what they are given.
    #[inline(always)]
    unsafe fn meet<S: Source<V>, V: Vector>(
        self,
        source: &S,
        x: &[Activation<'_>],
        mut out: Outputs<'_>,
        last: Option<V::Floats>,
    ) {
        let mut token = 0;
        while token < x.len() {
            let (x, out) = (&x[token..], out.of(token..x.len()));
            token += match x.len() {
                1 => self.block::<S, V, 1>(source, x, out, last),
                2 | 3 => self.block::<S, V, 2>(source, x, out, last),
                WIDE.. if V::ROWS == TILE_ROWS => self.block::<S, V, WIDE>(source, x, out, last),
                _ => self.block::<S, V, NARROW>(source, x, out, last),
            };
        }
    }

    /// The first `T` tokens.
    #[inline(always)]
    unsafe fn block<S: Source<V>, V: Vector, const T: usize>(
        self,
        source: &S,
        x: &[Activation<'_>],
        mut out: Outputs<'_>,
        last: Option<V::Floats>,
    ) -> usize {
        let mut words = [std::ptr::null::<Q16Block>(); T];
        let mut sums = [V::each_float(0.0); T];
        for t in 0..T {
            words[t] = x[t].words().as_ptr().add(self.first);
            if self.first > 0 {
                sums[t] = load::<V>(&out.token(t)[self.row..]);
            }
        }
        // Chains of sums. They are exact: their number is free.
        let count = if T == 1 {
            4
        } else if T <= NARROW {
            2
        } else {
            1
        };
        for group in 0..self.count {
            source.prefetch(group);
            let mut chains = [[V::zero(); T]; 4];
            for pair in 0..PAIRS {
                let weights = source.pair(group, pair);
                let chain = &mut chains[pair % count];
                for t in 0..T {
                    let two: &[i32; PAIRS] = &*(&raw const (*words[t].add(group)).q).cast();
                    chain[t] = V::dot_words(chain[t], weights, V::each_int(two[pair]));
                }
            }
            let mut integers = chains[0];
            for t in 0..T {
                if T <= NARROW {
                    integers[t] = V::add(integers[t], chains[1][t]);
                }
                if T == 1 {
                    integers[t] = V::add(integers[t], V::add(chains[2][t], chains[3][t]));
                }
                let scale = V::each_float((*words[t].add(group)).scale);
                sums[t] = V::add_product(scale, V::to_floats(integers[t]), sums[t]);
            }
        }
        for (t, sums) in sums.into_iter().enumerate() {
            let sums = last.map_or(sums, |inverses| V::times(sums, inverses));
            store::<V>(&mut out.token(t)[self.row..], sums);
        }
        T
    }
}

/// Weights of rows as integers.
trait Source<V: Vector> {
    /// What comes after a group will be wanted soon.
    unsafe fn prefetch(&self, group: usize);
    /// Two columns of a group.
    unsafe fn pair(&self, group: usize, pair: usize) -> V::Ints;
}

/// As they are in the file.
struct Floats<F, V: Vector> {
    first: *const u8,
    /// Of the two rows that each vector of floats has of every four.
    powers: [V::Floats; 2],
    format: PhantomData<F>,
}

impl<F: LoadColumn, V: Vector> Floats<F, V> {
    /// Those of a tile from a row on.
    #[inline(always)]
    unsafe fn new(tile: &[u8], powers: &[f32; TILE_ROWS], row: usize) -> Self {
        let first = tile.as_ptr().add(POWERS_BYTES + row * F::BYTES);
        let of = |half: usize| -> [f32; TILE_ROWS] {
            each(|lane| powers[(row + lane / 4 * 4 + 2 * half + lane / 2 % 2) % TILE_ROWS])
        };
        let powers = [V::load_floats(of(0).as_ptr()), V::load_floats(of(1).as_ptr())];
        Self { first, powers, format: PhantomData }
    }
}

impl<F: LoadColumn, V: Vector> Source<V> for Floats<F, V> {
    #[inline(always)]
    unsafe fn prefetch(&self, group: usize) {
        for pair in (0..PAIRS).step_by(PLANE / PAIR_BYTES) {
            let ahead = self.first.wrapping_add((group * PAIRS + pair) * PAIR_BYTES + AHEAD);
            _mm_prefetch::<_MM_HINT_T1>(ahead.cast());
        }
    }

    #[inline(always)]
    unsafe fn pair(&self, group: usize, pair: usize) -> V::Ints {
        let from = self.first.add((group * PAIRS + pair) * PAIR_BYTES);
        let half = |half: usize| {
            let floats = F::load_column::<V>(from.add(half * PAIR_BYTES / 2));
            V::round(V::times(floats, self.powers[half]))
        };
        V::pack(half(0), half(1))
    }
}

/// A span of them, made before.
#[repr(align(64))]
struct Made([[[u8; PAIR_BYTES]; PAIRS]; SPAN]);

impl Made {
    const fn new() -> Self {
        Self([[[0; PAIR_BYTES]; PAIRS]; SPAN])
    }

    #[inline(always)]
    unsafe fn fill<F: LoadColumn, V: Vector>(&mut self, floats: &Floats<F, V>, count: usize) {
        for (group, pairs) in self.0[..count].iter_mut().enumerate() {
            floats.prefetch(group);
            for (pair, to) in pairs.iter_mut().enumerate() {
                V::store(to.as_mut_ptr(), floats.pair(group, pair));
            }
        }
    }
}

impl<V: Vector> Source<V> for Made {
    #[inline(always)]
    unsafe fn prefetch(&self, _: usize) {}

    #[inline(always)]
    unsafe fn pair(&self, group: usize, pair: usize) -> V::Ints {
        V::load(self.0.get_unchecked(group)[pair].as_ptr())
    }
}
