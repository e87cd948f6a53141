//! The products of attention: a few queries at a time, whose sums stay in registers.

use super::vector::Vector;
use crate::attention::POSITIONS;
use crate::layout::TILE_ROWS;

/// The products of queries with a block of keys.
///
/// # Safety
/// The processor must have the instructions of `V`, and `keys` a row for each element of every query.
#[inline(always)]
pub(super) unsafe fn key_products<V: Vector>(queries: &[&[f32]], keys: &[f32], out: &mut [[f32; POSITIONS]]) {
    let mut first = 0;
    while first < queries.len() {
        let (queries, out) = (&queries[first..], &mut out[first..]);
        // With four vectors of products for each query, half of the registers of AVX-512 are sums, and with two half of the others'.
        first += match (queries.len(), V::ROWS == TILE_ROWS) {
            (1, _) => products_of::<V, 1, 4>(queries, keys, out),
            (2, true) => products_of::<V, 2, 4>(queries, keys, out),
            (3, true) => products_of::<V, 3, 4>(queries, keys, out),
            (_, true) => products_of::<V, 4, 4>(queries, keys, out),
            (2, false) => products_of::<V, 2, 2>(queries, keys, out),
            (3, false) => products_of::<V, 3, 2>(queries, keys, out),
            (_, false) => products_of::<V, 4, 2>(queries, keys, out),
        };
    }
}

/// The first `N` queries, with `W` vectors of positions at a time.
#[inline(always)]
unsafe fn products_of<V: Vector, const N: usize, const W: usize>(
    queries: &[&[f32]],
    keys: &[f32],
    out: &mut [[f32; POSITIONS]],
) -> usize {
    let mut from = [std::ptr::null::<f32>(); N];
    for (from, query) in from.iter_mut().zip(queries) {
        *from = query.as_ptr();
    }
    for first in (0..POSITIONS).step_by(W * V::ROWS) {
        let mut sums = [[V::each_float(0.0); W]; N];
        for element in 0..queries[0].len() {
            let row = keys.as_ptr().add(element * POSITIONS + first);
            let keys = load::<V, W>(row);
            for n in 0..N {
                let q = V::each_float(*from[n].add(element));
                for w in 0..W {
                    sums[n][w] = V::add_product(q, keys[w], sums[n][w]);
                }
            }
        }
        for (out, sums) in out.iter_mut().zip(sums) {
            store::<V, W>(out[first..].as_mut_ptr(), sums);
        }
    }
    N
}

/// Adds the values of positions, times their weights.
///
/// # Safety
/// The processor must have the instructions of `V`, all outputs must be of one length, all weights of one, and `values` have a row
/// as long as an output for each weight.
#[inline(always)]
pub(super) unsafe fn add_values<V: Vector>(weights: &[&[f32]], values: &[f32], out: &mut [&mut [f32]]) {
    let mut first = 0;
    while first < weights.len() {
        let (weights, out) = (&weights[first..], &mut out[first..]);
        first += match (weights.len(), V::ROWS == TILE_ROWS) {
            (1, _) => add_to::<V, 1, 4>(weights, values, out),
            (2, true) => add_to::<V, 2, 4>(weights, values, out),
            (3, true) => add_to::<V, 3, 4>(weights, values, out),
            (_, true) => add_to::<V, 4, 4>(weights, values, out),
            (2, false) => add_to::<V, 2, 2>(weights, values, out),
            (3, false) => add_to::<V, 3, 2>(weights, values, out),
            (_, false) => add_to::<V, 4, 2>(weights, values, out),
        };
    }
}

/// To the first `N` outputs, with `W` vectors of elements at a time.
#[inline(always)]
unsafe fn add_to<V: Vector, const N: usize, const W: usize>(
    weights: &[&[f32]],
    values: &[f32],
    out: &mut [&mut [f32]],
) -> usize {
    let mut from = [std::ptr::null::<f32>(); N];
    let mut to = [std::ptr::null_mut::<f32>(); N];
    for n in 0..N {
        (from[n], to[n]) = (weights[n].as_ptr(), out[n].as_mut_ptr());
    }
    let (positions, dim) = (weights[0].len(), out[0].len());
    let mut first = 0;
    while first + W * V::ROWS <= dim {
        add_lanes::<V, N, W>(from, (positions, dim), values.as_ptr(), to, first);
        first += W * V::ROWS;
    }
    while first + V::ROWS <= dim {
        add_lanes::<V, N, 1>(from, (positions, dim), values.as_ptr(), to, first);
        first += V::ROWS;
    }
    for (weights, out) in weights[..N].iter().zip(out) {
        for (weight, values) in weights.iter().zip(values.chunks_exact(dim)) {
            for (sum, value) in out[first..].iter_mut().zip(&values[first..]) {
                *sum = weight.mul_add(*value, *sum);
            }
        }
    }
    N
}

/// Some elements, from `first` on.
#[inline(always)]
unsafe fn add_lanes<V: Vector, const N: usize, const W: usize>(
    weights: [*const f32; N],
    (positions, dim): (usize, usize),
    values: *const f32,
    out: [*mut f32; N],
    first: usize,
) {
    let mut sums = [[V::each_float(0.0); W]; N];
    for (sums, out) in sums.iter_mut().zip(out) {
        *sums = load::<V, W>(out.add(first));
    }
    for position in 0..positions {
        let row = values.add(position * dim + first);
        let values = load::<V, W>(row);
        for n in 0..N {
            let weight = V::each_float(*weights[n].add(position));
            for w in 0..W {
                sums[n][w] = V::add_product(weight, values[w], sums[n][w]);
            }
        }
    }
    for (sums, out) in sums.into_iter().zip(out) {
        store::<V, W>(out.add(first), sums);
    }
}

/// `W` vectors in a row.
#[inline(always)]
unsafe fn load<V: Vector, const W: usize>(from: *const f32) -> [V::Floats; W] {
    let mut floats = [V::each_float(0.0); W];
    for (w, floats) in floats.iter_mut().enumerate() {
        *floats = V::load_floats(from.add(w * V::ROWS));
    }
    floats
}

#[inline(always)]
unsafe fn store<V: Vector, const W: usize>(to: *mut f32, floats: [V::Floats; W]) {
    for (w, floats) in floats.into_iter().enumerate() {
        V::store_floats(to.add(w * V::ROWS), floats);
    }
}
