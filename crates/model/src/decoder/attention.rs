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
use formwork_kernels::{add_values, key_products};

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
                score(queries, &block);
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
                add_seen(queries, &block);
            }
        }
    }
}

/// Appends the scores of a block.
fn score(queries: &mut [Query<'_>], block: &Block<'_>) {
    let mut values: [&[f32]; QUERIES] = [&[]; QUERIES];
    for (values, query) in values.iter_mut().zip(&*queries) {
        *values = query.values;
    }
    let mut products = [[0.0; BLOCK]; QUERIES];
    key_products(&values[..queries.len()], block.keys, &mut products[..queries.len()]);
    for (query, products) in queries.iter_mut().zip(&products) {
        let rows = query.rows(block);
        query.scores.extend_from_slice(&products[rows]);
    }
}

/// Adds the values of a block: the rows that all queries see together, those before and after them one by one.
fn add_seen(queries: &mut [Query<'_>], block: &Block<'_>) {
    let rows = |query: &Query<'_>| query.rows(block);
    let first = queries.iter().map(|query| rows(query).start).max().unwrap_or_default();
    let last = queries.iter().map(|query| rows(query).end).min().unwrap_or_default().max(first);
    for query in &mut *queries {
        let rows = rows(query);
        add_rows(std::slice::from_mut(query), rows.start..rows.end.min(first), block);
    }
    add_rows(queries, first..last, block);
    for query in queries {
        let rows = rows(query);
        add_rows(std::slice::from_mut(query), rows.start.max(last)..rows.end, block);
    }
}

/// Adds the values of rows of a block that all queries see.
fn add_rows(queries: &mut [Query<'_>], rows: Range<usize>, block: &Block<'_>) {
    if rows.is_empty() {
        return;
    }
    let dim = queries[0].values.len();
    let count = queries.len();
    let mut weights: [&[f32]; QUERIES] = [&[]; QUERIES];
    let mut outs: [&mut [f32]; QUERIES] = Default::default();
    for ((query, weights), out) in queries.iter_mut().zip(&mut weights).zip(&mut outs) {
        let first = block.first + rows.start - query.seen.start;
        *weights = &query.scores[first..first + rows.len()];
        *out = query.out;
    }
    add_values(&weights[..count], &block.values[rows.start * dim..rows.end * dim], &mut outs[..count]);
}
