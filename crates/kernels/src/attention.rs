//! The two products of attention, with blocks of positions.
//!
//! A query's products do not depend on the queries beside it: every sum is one chain of fused multiply-adds, of a score over the
//! elements of the head and of an output over the positions, in order.

use crate::products::Tier;
#[cfg(target_arch = "x86_64")]
use crate::x86;

/// Positions in a block of keys.
pub const POSITIONS: usize = 64;

/// The products of queries with the keys of a block, `[head_dim, POSITIONS]`: `out[query][position]`.
///
/// # Panics
/// When a query is not as long as `keys` has rows, or `out` not as long as `queries`.
pub fn key_products(queries: &[&[f32]], keys: &[f32], out: &mut [[f32; POSITIONS]]) {
    key_products_by(Tier::best(), queries, keys, out);
}

/// Adds the values of some positions, `[positions, head_dim]`, to every output: each position times its weight.
///
/// # Panics
/// When lengths do not fit: there is an output for each row of weights, which are as many as the positions.
pub fn add_values(weights: &[&[f32]], values: &[f32], out: &mut [&mut [f32]]) {
    add_values_by(Tier::best(), weights, values, out);
}

fn key_products_by(tier: Tier, queries: &[&[f32]], keys: &[f32], out: &mut [[f32; POSITIONS]]) {
    tier.check();
    assert_eq!(queries.len(), out.len(), "queries and products");
    assert!(queries.iter().all(|query| query.len() * POSITIONS == keys.len()), "queries as long as keys");
    match tier {
        // SAFETY: the processor has the tier, and lengths fit, as asserted above.
        #[cfg(target_arch = "x86_64")]
        #[expect(unsafe_code)]
        Tier::Avx2 | Tier::AvxVnni | Tier::Avx512Vnni | Tier::Amx => unsafe {
            x86::key_products(tier, queries, keys, out);
        },
        _ => {
            for (query, out) in queries.iter().zip(out) {
                out.fill(0.0);
                for (q, keys) in query.iter().zip(keys.as_chunks::<POSITIONS>().0) {
                    for (sum, key) in out.iter_mut().zip(keys) {
                        *sum = q.mul_add(*key, *sum);
                    }
                }
            }
        }
    }
}

fn add_values_by(tier: Tier, weights: &[&[f32]], values: &[f32], out: &mut [&mut [f32]]) {
    tier.check();
    assert_eq!(weights.len(), out.len(), "weights and outputs");
    let fits = |(weights, out): (&&[f32], &&mut [f32])| weights.len() * out.len() == values.len();
    assert!(weights.iter().zip(&*out).all(fits), "values of every weight");
    assert!(out.windows(2).all(|pair| pair[0].len() == pair[1].len()), "outputs of one length");
    if values.is_empty() {
        return;
    }
    match tier {
        // SAFETY: the processor has the tier, and lengths fit, as asserted above.
        #[cfg(target_arch = "x86_64")]
        #[expect(unsafe_code)]
        Tier::Avx2 | Tier::AvxVnni | Tier::Avx512Vnni | Tier::Amx => unsafe {
            x86::add_values(tier, weights, values, out);
        },
        _ => {
            for (weights, out) in weights.iter().zip(out) {
                for (weight, values) in weights.iter().zip(values.chunks_exact(out.len())) {
                    for (sum, value) in out.iter_mut().zip(values) {
                        *sum = weight.mul_add(*value, *sum);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::noise;

    /// Rows of `len` numbers.
    fn rows(count: usize, len: usize, seed: u64) -> Vec<Vec<f32>> {
        (0..count).map(|row| noise(len, seed + row as u64)).collect()
    }

    fn views(rows: &[Vec<f32>]) -> Vec<&[f32]> {
        rows.iter().map(Vec::as_slice).collect()
    }

    #[test]
    fn products_are_those_of_each_query_alone_on_every_tier() {
        for (dim, count) in [(1, 1), (8, 2), (40, 3), (64, 4), (72, 5), (256, 16)] {
            let keys = noise(dim * POSITIONS, 1);
            let queries = rows(count, dim, 2);
            for tier in Tier::available() {
                let mut all = vec![[f32::NAN; POSITIONS]; count];
                key_products_by(tier, &views(&queries), &keys, &mut all);
                for (query, all) in queries.iter().zip(all) {
                    let exact = |position: usize| {
                        let keys = keys.iter().skip(position).step_by(POSITIONS);
                        query.iter().zip(keys).fold(0.0, |sum, (q, key)| q.mul_add(*key, sum))
                    };
                    let exact: [f32; POSITIONS] = std::array::from_fn(exact);
                    assert_eq!(all.map(f32::to_bits), exact.map(f32::to_bits), "{tier:?}, {dim}");
                }
            }
        }
    }

    #[test]
    fn values_are_added_in_order_on_every_tier() {
        for (dim, count, positions) in
            [(1, 1, 1), (8, 2, 64), (40, 3, 5), (64, 4, 64), (100, 5, 9), (256, 16, 33)]
        {
            let values = noise(dim * positions, 1);
            let weights = rows(count, positions, 2);
            let before = rows(count, dim, 3);
            for tier in Tier::available() {
                let mut all = before.clone();
                let mut outs: Vec<&mut [f32]> = all.iter_mut().map(Vec::as_mut_slice).collect();
                add_values_by(tier, &views(&weights), &values, &mut outs);
                for ((weights, before), all) in weights.iter().zip(&before).zip(all) {
                    let exact = |(at, before): (usize, &f32)| {
                        let values = values.iter().skip(at).step_by(dim);
                        weights.iter().zip(values).fold(*before, |sum, (w, value)| w.mul_add(*value, sum))
                    };
                    let exact: Vec<f32> = before.iter().enumerate().map(exact).collect();
                    assert_eq!(all, exact, "{tier:?}, {dim}");
                }
            }
        }
    }
}
