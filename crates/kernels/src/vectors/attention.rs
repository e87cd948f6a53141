//! The products of attention: a few queries at a time, whose sums stay in registers.

use super::{Vector, prefetch};
use crate::attention::{LANES, Levels, POSITIONS, Pair, Query, Weights, Words, sum_of_lanes};
use crate::layout::{PLANE, TILE_ROWS};

/// Queries that go together.
const QUERIES: usize = 4;

/// Calls a function for the first queries and so many vectors at a time, and gives how many queries these were. With four vectors of sums for
/// each query, half of the registers of AVX-512 are sums, and with two half of the others'.
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

/// How many vectors of elements go together: 4, or 2 where more would not fit the registers or be empty.
#[inline(always)]
const fn vectors<V: Vector>(queries: usize, elements: usize) -> usize {
    let is_roomy = queries == 1 || V::ROWS == TILE_ROWS;
    if is_roomy && elements > 2 * V::ROWS { 4 } else { 2 }
}

/// The products of queries with a block of keys.
///
/// # Safety
/// The processor must have the instructions of `V`, queries must be as long as the keys, and no more positions count than there are.
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

/// The first `N` queries, with `W` vectors of positions at a time.
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

/// Adds the values of positions, times their weights.
///
/// # Safety
/// The processor must have the instructions of `V`, outputs must be as long as values, and no more positions count than there are.
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

/// To the first `N` outputs, with `W` vectors of elements at a time.
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

/// [`Weights::new`], in the order of the portable code.
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
            sum = V::plus(sum, V::abs(scaled[at]));
        }
        V::store_floats(lanes[chain * V::ROWS..].as_mut_ptr(), sum);
    }
    let levels = Levels::of_weights(sum_of_lanes(lanes));
    let Some(inverse) = levels.inverse else {
        // Something is no number; perhaps it is not looked at.
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

/// Some elements, from `first` on.
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
        // What a block that is not full leaves.
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

/// What is prefetched: where there is nothing, what is read now, which costs less than a branch.
fn next(block: &Words<'_>, now: &[Pair]) -> *const Pair {
    if block.next.is_empty() { now.as_ptr() } else { block.next.as_ptr() }
}

/// Prefetches the lines of so many pairs.
#[inline(always)]
unsafe fn prefetch_pairs(from: *const Pair, count: usize) {
    for at in (0..count).step_by(PLANE / size_of::<Pair>()) {
        prefetch(from.wrapping_add(at).cast());
    }
}

/// `W` vectors in a row.
#[inline(always)]
unsafe fn load<V: Vector, const W: usize>(from: *const Pair) -> [V::Ints; W] {
    let mut ints = [V::zero(); W];
    for (w, ints) in ints.iter_mut().enumerate() {
        *ints = V::load(from.add(w * V::ROWS).cast());
    }
    ints
}

/// A pair as one lane.
#[inline(always)]
unsafe fn word(pair: *const Pair) -> i32 {
    pair.cast::<i32>().read_unaligned()
}
