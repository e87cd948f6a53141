//! The products of attention. A few queries are processed at a time, and their sums stay in
//! registers.

#![allow(unsafe_op_in_unsafe_fn, reason = "nearly every line is an operation of `Vector`")]

use super::{Vector, prefetch};
use crate::attention::{LANES, Levels, POSITIONS, Pair, Query, Weights, Words, sum_of_lanes};
use crate::layout::{PLANE, TILE_ROWS};

/// Maximum number of queries that are processed together.
const QUERIES: usize = 4;

/// Calls `$function` with the numbers of queries and of vectors per query that fit the registers.
/// Evaluates to the number of processed queries, which is at most `$count`.
///
/// With four vectors of sums per query, the sums take half the registers of AVX-512. With two, they
/// take half the registers of the other instruction sets.
macro_rules! by_count {
    ($V:ident, $count:expr, $elements:expr, $function:ident($($argument:expr),*)) => {
        match ($count, vectors::<$V>($count, $elements)) {
            (1, 4) => $function::<$V, 1, 4>($($argument),*),
            (2, 4) => $function::<$V, 2, 4>($($argument),*),
            (3, 4) => $function::<$V, 3, 4>($($argument),*),
            (_, 4) => $function::<$V, QUERIES, 4>($($argument),*),
            (1, _) => $function::<$V, 1, 2>($($argument),*),
            (2, _) => $function::<$V, 2, 2>($($argument),*),
            (3, _) => $function::<$V, 3, 2>($($argument),*),
            _ => $function::<$V, QUERIES, 2>($($argument),*),
        }
    };
}

/// Returns the number of vectors per query that are processed together. This is 4, or 2 if four
/// vectors would not fit the registers or would be partly empty.
#[inline(always)]
const fn vectors<V: Vector>(queries: usize, elements: usize) -> usize {
    let is_roomy = queries == 1 || V::ROWS == TILE_ROWS;
    if is_roomy && elements > 2 * V::ROWS { 4 } else { 2 }
}

/// Computes the products of queries with a block of keys.
///
/// # Safety
/// The processor must support the instructions of `V`. Every query must have as many pairs as the
/// keys, `out` must be as long as `queries`, and `block.positions` must be at most [`POSITIONS`].
#[inline(always)]
pub(crate) unsafe fn key_products<V: Vector>(
    queries: &[Query<'_>],
    block: &Words<'_>,
    out: &mut [&mut [f32; POSITIONS]],
) {
    let mut first = 0;
    while first < queries.len() {
        let (queries, out) = (&queries[first..], &mut out[first..]);
        first += by_count!(V, queries.len(), block.positions, products_of(queries, block, out));
    }
}

/// Computes the products of the first `N` queries, with `W` vectors of positions at a time. Returns
/// `N`.
///
/// # Safety
/// The requirements of [`key_products`] apply, and there must be at least `N` queries.
#[inline(always)]
unsafe fn products_of<V: Vector, const N: usize, const W: usize>(
    queries: &[Query<'_>],
    block: &Words<'_>,
    out: &mut [&mut [f32; POSITIONS]],
) -> usize {
    let Words { keys, key_steps, positions, .. } = *block;
    let next = next(block, keys);
    let pairs = keys.len() / POSITIONS;
    let mut from = [std::ptr::null::<Pair>(); N];
    for (from, query) in from.iter_mut().zip(queries) {
        *from = query.rounded().pairs.as_ptr();
    }
    for first in (0..positions).step_by(W * V::ROWS) {
        let mut sums = [[V::zero(); W]; N];
        for pair in 0..pairs {
            if first == 0 {
                prefetch_pairs(next.wrapping_add(pair * POSITIONS), POSITIONS);
            }
            let keys = load::<V, W>(keys.as_ptr().add(pair * POSITIONS + first));
            for n in 0..N {
                let q = V::each_int(word(from[n].add(pair)));
                for w in 0..W {
                    sums[n][w] = V::dot_words(sums[n][w], keys[w], q);
                }
            }
        }
        for n in 0..N {
            let scale = V::each_float(queries[n].rounded().scale);
            for (at, sums) in (first..).step_by(V::ROWS).zip(sums[n]) {
                let product = V::times(V::to_floats(sums), V::load_floats(key_steps[at..].as_ptr()));
                V::store_floats(out[n][at..].as_mut_ptr(), V::times(product, scale));
            }
        }
    }
    N
}

/// Adds the weighted values of positions to the outputs.
///
/// # Safety
/// The processor must support the instructions of `V`. Every output must be as long as a value,
/// `out` must be as long as `weights`, and `block.positions` must be at most [`POSITIONS`].
#[inline(always)]
pub(crate) unsafe fn add_values<V: Vector>(
    weights: &[&[f32; POSITIONS]],
    block: &Words<'_>,
    out: &mut [&mut [f32]],
) {
    let mut first = 0;
    while first < weights.len() {
        let (weights, out) = (&weights[first..], &mut out[first..]);
        first += by_count!(V, weights.len(), out[0].len(), add_to(weights, block, out));
    }
}

/// Adds values to the first `N` outputs, with `W` vectors of elements at a time. Returns `N`.
///
/// # Safety
/// The requirements of [`add_values`] apply, and there must be at least `N` outputs.
#[inline(always)]
unsafe fn add_to<V: Vector, const N: usize, const W: usize>(
    weights: &[&[f32; POSITIONS]],
    block: &Words<'_>,
    out: &mut [&mut [f32]],
) -> usize {
    let mut rounded = [Weights::default(); N];
    for (rounded, weights) in rounded.iter_mut().zip(weights) {
        round_into::<V>(weights, block, rounded);
    }
    let dim = out[0].len();
    let mut first = 0;
    while first + W * V::ROWS <= dim {
        add_lanes::<V, N, W>(&rounded, block, out, first);
        first += W * V::ROWS;
    }
    while first + V::ROWS <= dim {
        add_lanes::<V, N, 1>(&rounded, block, out, first);
        first += V::ROWS;
    }
    for (weights, out) in rounded.iter().zip(out) {
        block.add_values(weights, first, out);
    }
    N
}

/// Computes [`Weights::new`] into `to`, with the sums in the order of the portable code.
///
/// # Safety
/// The processor must support the instructions of `V`.
#[inline(always)]
unsafe fn round_into<V: Vector>(weights: &[f32; POSITIONS], block: &Words<'_>, to: &mut Weights) {
    let (count, chains) = (POSITIONS / V::ROWS, LANES / V::ROWS);
    let mut scaled = [V::each_float(0.0); POSITIONS / 8];
    let mut lanes = [0f32; LANES];
    for chain in 0..chains {
        let mut sum = V::each_float(0.0);
        for at in (chain..count).step_by(chains) {
            let [weights, steps] =
                [weights, block.value_steps].map(|floats| V::load_floats(floats[at * V::ROWS..].as_ptr()));
            scaled[at] = V::times(weights, steps);
            sum = V::add_floats(sum, V::abs(scaled[at]));
        }
        V::store_floats(lanes[chain * V::ROWS..].as_mut_ptr(), sum);
    }
    let levels = Levels::of_weights(sum_of_lanes(lanes));
    let Some(inverse) = levels.inverse else {
        // A step is infinite or NaN. The portable code ignores such values if their weight is 0.
        *to = Weights::new(weights, block.value_steps);
        return;
    };
    to.step = levels.step;
    let words = to.pairs.as_flattened_mut();
    for (scaled, words) in scaled.into_iter().zip(words.chunks_exact_mut(V::ROWS)) {
        let integers = V::round(V::times(scaled, V::each_float(inverse)));
        V::store_words(words.as_mut_ptr(), integers);
    }
}

/// Adds the weighted values to `W` vectors of elements of each output, from element `first` on.
///
/// # Safety
/// The requirements of [`add_values`] apply. The outputs must have at least `first + W * V::ROWS`
/// elements, and there must be at least `N` outputs.
#[inline(always)]
unsafe fn add_lanes<V: Vector, const N: usize, const W: usize>(
    weights: &[Weights; N],
    block: &Words<'_>,
    out: &mut [&mut [f32]],
    first: usize,
) {
    let dim = out[0].len();
    let (pairs, next) = (block.positions.div_ceil(2), next(block, block.values));
    let mut sums = [[V::zero(); W]; N];
    for pair in 0..pairs {
        prefetch_pairs(next.wrapping_add(pair * dim + first), W * V::ROWS);
        let values = load::<V, W>(block.values.as_ptr().add(pair * dim + first));
        for n in 0..N {
            let weight = V::each_int(word(weights[n].pairs.as_ptr().add(pair)));
            for w in 0..W {
                sums[n][w] = V::dot_words(sums[n][w], values[w], weight);
            }
        }
    }
    if !block.next.is_empty() {
        // The loop above skips the unused positions of this block, which the next block may use.
        for pair in pairs..POSITIONS / 2 {
            prefetch_pairs(next.wrapping_add(pair * dim + first), W * V::ROWS);
        }
    }
    for n in 0..N {
        let scale = V::each_float(weights[n].step);
        for (at, sums) in (first..).step_by(V::ROWS).zip(sums[n]) {
            let to = out[n][at..].as_mut_ptr();
            V::store_floats(to, V::add_product(V::to_floats(sums), scale, V::load_floats(to)));
        }
    }
}

/// Returns the address to prefetch: the start of `block.next`, or of `now` if there is no next
/// block. Prefetching the current data costs less than a branch.
fn next(block: &Words<'_>, now: &[Pair]) -> *const Pair {
    if block.next.is_empty() { now.as_ptr() } else { block.next.as_ptr() }
}

/// Prefetches the cache lines of `count` pairs.
///
/// # Safety
/// No requirements, as for [`prefetch`].
#[inline(always)]
unsafe fn prefetch_pairs(from: *const Pair, count: usize) {
    for at in (0..count).step_by(PLANE / size_of::<Pair>()) {
        prefetch(from.wrapping_add(at).cast());
    }
}

/// Loads `W` consecutive vectors.
///
/// # Safety
/// The processor must support the instructions of `V`, and `from` must be valid for reading `W`
/// vectors.
#[inline(always)]
unsafe fn load<V: Vector, const W: usize>(from: *const Pair) -> [V::Ints; W] {
    let mut ints = [V::zero(); W];
    for (w, ints) in ints.iter_mut().enumerate() {
        *ints = V::load(from.add(w * V::ROWS).cast());
    }
    ints
}

/// Returns the two integers of a pair as the bits of one 32-bit lane.
///
/// # Safety
/// `pair` must be valid for reading four bytes, with any alignment.
#[inline(always)]
unsafe fn word(pair: *const Pair) -> i32 {
    pair.cast::<i32>().read_unaligned()
}
