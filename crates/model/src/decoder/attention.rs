//! Causal attention of a run of tokens over the cache.
//!
//! The work is cut into pairs of a token and a key-value head; the query heads that share the key-value head read the
//! cache together. A pair's result does not depend on the others, so a run of tokens gives the same as its tokens one by
//! one.

use rayon::prelude::*;

use super::kv::{BLOCK, LayerCache};
use crate::ops::{softcap, softmax};
use crate::spec::{LayerSpec, ModelSpec};
use formwork_kernels::fma;

/// Multiply-adds below which a second thread costs more than it brings.
const PARALLEL_FROM: usize = 1 << 16;

/// Attends from each of `queries`, `[tokens, heads, head_dim]`, the first of which is at position `start`; keys and values
/// of the run are already in the cache. Returns `[tokens, heads, head_dim]`.
pub(super) fn attend(
    spec: &ModelSpec,
    (layer, sinks): (LayerSpec, Option<&[f32]>),
    cache: &LayerCache,
    queries: &[f32],
    start: usize,
) -> Vec<f32> {
    // The query heads of one key-value head are neighbours: a group is [heads / kv_heads, head_dim].
    let group_len = spec.heads / spec.kv_heads * spec.head_dim;
    let mut out = vec![0.0; queries.len()];
    let one = |(index, (queries, out)): (usize, (&[f32], &mut [f32]))| {
        let position = start + index / spec.kv_heads;
        let from = layer.window.map_or(0, |window| (position + 1).saturating_sub(window));
        let index = index % spec.kv_heads;
        let head = Head { cache, index, sinks, from, to: position + 1 };
        head.attend(queries, spec, out);
    };
    if queries.len() * (start + queries.len() / (spec.heads * spec.head_dim)) < PARALLEL_FROM {
        queries.chunks_exact(group_len).zip(out.chunks_exact_mut(group_len)).enumerate().for_each(one);
    } else {
        queries
            .par_chunks_exact(group_len)
            .zip(out.par_chunks_exact_mut(group_len))
            .enumerate()
            .for_each(one);
    }
    out
}

/// A key-value head over the positions that a token sees.
struct Head<'a> {
    cache: &'a LayerCache,
    index: usize,
    /// Those of all query heads.
    sinks: Option<&'a [f32]>,
    from: usize,
    to: usize,
}

impl Head<'_> {
    /// Attends for all query heads of the group. `queries` and `out` are `[group, head_dim]`.
    fn attend(&self, queries: &[f32], spec: &ModelSpec, out: &mut [f32]) {
        let dim = spec.head_dim;
        let len = self.to - self.from;
        // [group, len]
        let mut scores = vec![0.0; queries.len() / dim * len];
        let mut done = 0;
        for piece in self.cache.pieces(self.index, self.from..self.to) {
            for (query, scores) in queries.chunks_exact(dim).zip(scores.chunks_exact_mut(len)) {
                let products = products(query, piece.keys);
                for (score, product) in scores[done..].iter_mut().zip(&products[piece.rows.clone()]) {
                    *score = product * spec.attention_scale;
                }
            }
            done += piece.rows.len();
        }
        let first = self.index * (queries.len() / dim);
        for (query, scores) in scores.chunks_exact_mut(len).enumerate() {
            if let Some(cap) = spec.attention_softcap {
                softcap(scores, cap);
            }
            softmax(scores, self.sinks.map(|sinks| sinks[first + query]));
        }
        done = 0;
        for piece in self.cache.pieces(self.index, self.from..self.to) {
            for (out, scores) in out.chunks_exact_mut(dim).zip(scores.chunks_exact(len)) {
                add_weighted(out, piece.values, &scores[done..done + piece.rows.len()]);
            }
            done += piece.rows.len();
        }
    }
}

/// The products of a query with every position of a block. `keys` is `[head_dim, BLOCK]`.
fn products(query: &[f32], keys: &[f32]) -> [f32; BLOCK] {
    let mut sums = [0.0; BLOCK];
    for (q, keys) in query.iter().zip(keys.as_chunks::<BLOCK>().0) {
        for i in 0..BLOCK {
            sums[i] = fma(*q, keys[i], sums[i]);
        }
    }
    sums
}

/// Adds `values`, `[weights, head_dim]`, to `out`, each row times its weight: four rows to a pass over `out`.
fn add_weighted(out: &mut [f32], values: &[f32], weights: &[f32]) {
    let dim = out.len();
    let (fours, rest) = weights.as_chunks::<4>();
    let (four_rows, rest_rows) = values.split_at(fours.len() * 4 * dim);
    for (weights, rows) in fours.iter().zip(four_rows.chunks_exact(4 * dim)) {
        let (first, second) = rows.split_at(2 * dim);
        let ((a, b), (c, d)) = (first.split_at(dim), second.split_at(dim));
        for ((((out, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            let sum = fma(weights[1], *b, fma(weights[0], *a, *out));
            *out = fma(weights[3], *d, fma(weights[2], *c, sum));
        }
    }
    for (weight, row) in rest.iter().zip(rest_rows.chunks_exact(dim)) {
        for (out, v) in out.iter_mut().zip(row) {
            *out = fma(*weight, *v, *out);
        }
    }
}
