//! Causal attention of a run of tokens over the cache.
//!
//! The work is cut into pieces of a few tokens and a key-value head. All query heads of the tokens that share the key-value head
//! read the cache together, block by block, several at a time where they see all of a block. What a query gives does not depend on
//! the others: its sums are in the same order whoever reads along, so a run of tokens gives the same as its tokens one by one.

use std::ops::Range;

use rayon::prelude::*;

use super::kv::{BLOCK, Block, LayerCache};
use crate::ops::{scale, softcap, softmax};
use crate::spec::{LayerSpec, ModelSpec};
use formwork_kernels::fma;

/// Multiply-adds below which a second thread costs more than it brings.
const PARALLEL_FROM: usize = 1 << 16;

/// Tokens in a piece of work.
const TOKENS: usize = 4;
/// Queries that read a block together: their sums stay in registers.
const QUERIES: usize = 4;

/// Attends from each of `queries`, `[tokens, heads, head_dim]`, the first of which is at position `start`; keys and values
/// of the run are already in the cache. Returns `[tokens, heads, head_dim]`.
pub(super) fn attend(
    spec: &ModelSpec,
    (layer, sinks): (LayerSpec, Option<&[f32]>),
    cache: &LayerCache,
    queries: &[f32],
    start: usize,
) -> Vec<f32> {
    let token_len = spec.heads * spec.head_dim;
    // The query heads of one key-value head are neighbours: a group is [heads / kv_heads, head_dim].
    let group_len = spec.heads / spec.kv_heads * spec.head_dim;
    let mut out = vec![0.0; queries.len()];
    let mut work: Vec<Piece<'_>> = Vec::new();
    let tokens = queries.chunks_exact(token_len).zip(out.chunks_exact_mut(token_len));
    for (token, (queries, out)) in tokens.enumerate() {
        let to = start + token + 1;
        let seen = layer.window.map_or(0, |window| to.saturating_sub(window))..to;
        if token % TOKENS == 0 {
            work.extend((0..spec.kv_heads).map(|head| Piece { head, queries: Vec::new() }));
        }
        let first = work.len() - spec.kv_heads;
        let groups = queries.chunks_exact(group_len).zip(out.chunks_exact_mut(group_len));
        for (piece, (queries, out)) in work[first..].iter_mut().zip(groups) {
            let heads = queries.chunks_exact(spec.head_dim).zip(out.chunks_exact_mut(spec.head_dim));
            piece.queries.extend(heads.enumerate().map(|(index, (values, out))| Query {
                values,
                seen: seen.clone(),
                sink: sinks.map(|sinks| sinks[piece.head * (group_len / spec.head_dim) + index]),
                scores: Vec::new(),
                out,
            }));
        }
    }
    let one = |piece: Piece<'_>| piece.attend(spec, cache);
    if queries.len() * (start + queries.len() / token_len) < PARALLEL_FROM {
        work.into_iter().for_each(one);
    } else {
        work.into_par_iter().with_max_len(1).for_each(one);
    }
    out
}

/// A head of a token, and what it comes to.
struct Query<'a> {
    /// `[head_dim]`
    values: &'a [f32],
    /// The positions that it looks at.
    seen: Range<usize>,
    sink: Option<f32>,
    /// One for each position seen.
    scores: Vec<f32>,
    /// `[head_dim]`
    out: &'a mut [f32],
}

impl Query<'_> {
    /// The rows of a block that it sees.
    fn rows(&self, block: &Block<'_>) -> Range<usize> {
        let row = |position: usize| position.saturating_sub(block.first).min(BLOCK);
        row(self.seen.start)..row(self.seen.end)
    }
}

/// The queries of a few tokens to one key-value head.
struct Piece<'a> {
    head: usize,
    queries: Vec<Query<'a>>,
}

impl Piece<'_> {
    fn attend(mut self, spec: &ModelSpec, cache: &LayerCache) {
        let starts = self.queries.iter().map(|query| query.seen.start);
        let ends = self.queries.iter().map(|query| query.seen.end);
        let seen = starts.min().unwrap_or_default()..ends.max().unwrap_or_default();
        for query in &mut self.queries {
            query.scores.reserve_exact(query.seen.len());
        }
        for block in cache.blocks(self.head, seen.clone()) {
            for queries in self.queries.chunks_mut(QUERIES) {
                match queries {
                    [a, b, c, d] => score::<4, 32>([a, b, c, d], &block),
                    [a, b, c] => score::<3, 32>([a, b, c], &block),
                    [a, b] => score::<2, 32>([a, b], &block),
                    few => few.iter_mut().for_each(|query| score::<1, 64>([query], &block)),
                }
            }
        }
        for Query { scores, sink, .. } in &mut self.queries {
            scale(scores, spec.attention_scale);
            if let Some(cap) = spec.attention_softcap {
                softcap(scores, cap);
            }
            softmax(scores, *sink);
        }
        for block in cache.blocks(self.head, seen) {
            for queries in self.queries.chunks_mut(QUERIES) {
                let is_seen = queries.iter().all(|query| query.rows(&block).len() == BLOCK);
                match queries {
                    [a, b, c, d] if is_seen => add_values::<4, 32>([a, b, c, d], &block),
                    [a, b, c] if is_seen => add_values::<3, 32>([a, b, c], &block),
                    [a, b] if is_seen => add_values::<2, 32>([a, b], &block),
                    few => few.iter_mut().for_each(|query| add_values::<1, 64>([query], &block)),
                }
            }
        }
    }
}

/// Appends the scores of a block.
fn score<const N: usize, const LANES: usize>(queries: [&mut Query<'_>; N], block: &Block<'_>) {
    let products = products::<N, LANES>(queries.each_ref().map(|query| query.values), block.keys);
    for (query, products) in queries.into_iter().zip(products) {
        let rows = query.rows(block);
        query.scores.extend_from_slice(&products[rows]);
    }
}

/// Adds the values of a block, of which all see the same rows.
fn add_values<const N: usize, const LANES: usize>(queries: [&mut Query<'_>; N], block: &Block<'_>) {
    let rows = queries[0].rows(block);
    if rows.is_empty() {
        return;
    }
    let dim = queries[0].values.len();
    let values = &block.values[rows.start * dim..rows.end * dim];
    let both = queries.map(|query| {
        let first = (block.first + rows.start).saturating_sub(query.seen.start);
        (&query.scores[first..first + rows.len()], &mut *query.out)
    });
    let weights = both.each_ref().map(|(weights, _)| *weights);
    add_weighted::<N, LANES>(both.map(|(_, out)| out), values, weights);
}

/// The products of queries with every position of a block. `keys` is `[head_dim, BLOCK]`.
fn products<const N: usize, const LANES: usize>(queries: [&[f32]; N], keys: &[f32]) -> [[f32; BLOCK]; N] {
    let mut sums = [[0.0; BLOCK]; N];
    // As many lanes at a time as leave all sums in registers.
    for lanes in (0..BLOCK).step_by(LANES) {
        let mut some = [[0.0; LANES]; N];
        for (element, keys) in keys.as_chunks::<BLOCK>().0.iter().enumerate() {
            let keys: &[f32; LANES] = keys[lanes..].first_chunk().expect("a block is whole lanes");
            for (sums, query) in some.iter_mut().zip(queries) {
                let q = query[element];
                for (sum, key) in sums.iter_mut().zip(keys) {
                    *sum = fma(q, *key, *sum);
                }
            }
        }
        for (sums, some) in sums.iter_mut().zip(some) {
            sums[lanes..lanes + LANES].copy_from_slice(&some);
        }
    }
    sums
}

/// Adds `values`, `[rows, head_dim]`, to each of `outs`, every row times its weight.
fn add_weighted<const N: usize, const LANES: usize>(
    mut outs: [&mut [f32]; N],
    values: &[f32],
    weights: [&[f32]; N],
) {
    let dim = outs[0].len();
    let whole = dim / LANES * LANES;
    for first in (0..whole).step_by(LANES) {
        let mut sums = [[0.0; LANES]; N];
        for (sums, out) in sums.iter_mut().zip(&outs) {
            sums.copy_from_slice(&out[first..first + LANES]);
        }
        for (row, values) in values.chunks_exact(dim).enumerate() {
            let values: &[f32; LANES] = values[first..].first_chunk().expect("lanes within the row");
            for (sums, weights) in sums.iter_mut().zip(weights) {
                let weight = weights[row];
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum = fma(weight, *value, *sum);
                }
            }
        }
        for (sums, out) in sums.iter().zip(&mut outs) {
            out[first..first + LANES].copy_from_slice(sums);
        }
    }
    for (out, weights) in outs.iter_mut().zip(weights) {
        for (weight, values) in weights.iter().zip(values.chunks_exact(dim)) {
            for (out, value) in out[whole..].iter_mut().zip(&values[whole..]) {
                *out = fma(*weight, *value, *out);
            }
        }
    }
}
