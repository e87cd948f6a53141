//! Causal attention of a run of tokens over the cache.
//!
//! The work is cut into pieces of a few tokens and a key-value head. All query heads of the tokens that share the key-value head
//! read the cache together, block by block, several at a time where they see all of a block. What a query gives does not depend on
//! the others: its sums are in the same order whoever reads along, so a run of tokens gives the same as its tokens one by one.

use std::cell::RefCell;
use std::ops::Range;

use rayon::prelude::*;
use smallvec::SmallVec;

use super::kv::{BLOCK, Block, LayerCache};
use super::workspace::room;
use crate::ops::{scale, softcap, softmax};
use crate::spec::{LayerSpec, ModelSpec};
use formwork_kernels::{Outputs, add_values, key_products};

/// Multiply-adds below which a second thread costs more than it brings.
const PARALLEL_FROM: usize = 1 << 16;

/// Tokens in a piece of work.
const TOKENS: usize = 4;
/// Queries that read a block together: their sums stay in registers.
const QUERIES: usize = 4;

/// A run of tokens that attend. Its keys and values are already in the cache.
pub(super) struct Run<'a> {
    pub(super) spec: &'a ModelSpec,
    pub(super) layer: LayerSpec,
    pub(super) sinks: Option<&'a [f32]>,
    pub(super) cache: &'a LayerCache,
    /// `[tokens, heads, head_dim]`
    pub(super) queries: &'a [f32],
    /// The position of the first token.
    pub(super) start: usize,
}

/// A few tokens from the run's `first` on, and one key-value head.
struct Piece<'a> {
    head: usize,
    first: usize,
    /// `[tokens, heads / kv_heads * head_dim]`; taken when it is worked on.
    out: Option<Outputs<'a>>,
}

/// A head of a token, and what it comes to.
struct Query<'a> {
    /// `[head_dim]`
    values: &'a [f32],
    /// The positions that it looks at.
    seen: Range<usize>,
    sink: Option<f32>,
    /// One for each position seen, of which the first so many are known.
    scores: &'a mut [f32],
    known: usize,
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

thread_local! {
    /// Room for the scores of a piece.
    static SCORES: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

impl Run<'_> {
    /// Attends; `out` is `[tokens, heads, head_dim]`.
    pub(super) fn attend(&self, out: &mut [f32]) {
        let spec = self.spec;
        let token_len = spec.heads * spec.head_dim;
        // The query heads of one key-value head are neighbours.
        let group_len = token_len / spec.kv_heads;
        // Those of one token are on the stack.
        let mut pieces: SmallVec<[Piece<'_>; 64]> = SmallVec::new();
        let mut rest = Outputs::new(out, token_len);
        let mut first = 0;
        while rest.tokens() > 0 {
            let tokens = TOKENS.min(rest.tokens());
            let (mut own, after) = rest.split_at_token(tokens);
            for head in 0..spec.kv_heads {
                let (out, others) = own.split_at(group_len);
                pieces.push(Piece { head, first, out: Some(out) });
                own = others;
            }
            (rest, first) = (after, first + tokens);
        }
        let one = |piece: &mut Piece<'_>| {
            if let Some(out) = piece.out.take() {
                self.piece(piece.head, piece.first, out);
            }
        };
        if self.queries.len() * (self.start + first) < PARALLEL_FROM {
            pieces.iter_mut().for_each(one);
        } else {
            pieces.par_iter_mut().with_max_len(1).for_each(one);
        }
    }

    /// The positions that a token of the run looks at.
    fn seen(&self, token: usize) -> Range<usize> {
        let to = self.start + token + 1;
        self.layer.window.map_or(0, |window| to.saturating_sub(window))..to
    }

    /// Attends from the heads of a few tokens that share a key-value head.
    fn piece(&self, head: usize, first: usize, out: Outputs<'_>) {
        let Self { spec, sinks, .. } = *self;
        let heads = spec.heads / spec.kv_heads;
        let tokens = first..first + out.tokens();
        SCORES.with_borrow_mut(|scores| {
            let count: usize = tokens.clone().map(|token| heads * self.seen(token).len()).sum();
            let mut scores = room(scores, count);
            let mut queries: SmallVec<[Query<'_>; 16]> = SmallVec::new();
            for (token, out) in tokens.clone().zip(out.into_tokens()) {
                for (index, out) in out.chunks_exact_mut(spec.head_dim).enumerate() {
                    let (seen, index) = (self.seen(token), head * heads + index);
                    let at = (token * spec.heads + index) * spec.head_dim;
                    out.fill(0.0);
                    queries.push(Query {
                        values: &self.queries[at..at + spec.head_dim],
                        sink: sinks.map(|sinks| sinks[index]),
                        scores: scores.split_off_mut(..seen.len()).unwrap_or_default(),
                        seen,
                        known: 0,
                        out,
                    });
                }
            }
            self.attend_from(head, &mut queries);
        });
    }

    fn attend_from(&self, head: usize, queries: &mut [Query<'_>]) {
        let starts = queries.iter().map(|query| query.seen.start);
        let ends = queries.iter().map(|query| query.seen.end);
        let seen = starts.min().unwrap_or_default()..ends.max().unwrap_or_default();
        for block in self.cache.blocks(head, seen.clone()) {
            for queries in queries.chunks_mut(QUERIES) {
                score(queries, &block);
            }
        }
        for Query { scores, sink, .. } in &mut *queries {
            scale(scores, self.spec.attention_scale);
            if let Some(cap) = self.spec.attention_softcap {
                softcap(scores, cap);
            }
            softmax(scores, *sink);
        }
        for block in self.cache.blocks(head, seen) {
            for queries in queries.chunks_mut(QUERIES) {
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
        let products = &products[query.rows(block)];
        query.scores[query.known..query.known + products.len()].copy_from_slice(products);
        query.known += products.len();
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
