//! Causal attention of runs of tokens over their caches.
//!
//! The work is cut into pieces of a few tokens and a key-value head. All query heads of the tokens that share the key-value head
//! read the cache together, block by block, several at a time; where there is but one such piece for each key-value head, its
//! queries may be those of several threads. What a query gives does not depend on the others: it adds up the blocks in order, whoever
//! reads along, so a run of tokens gives the same as its tokens one by one.

use std::cell::RefCell;
use std::ops::Range;

use formwork_kernels::{KvBlock, Outputs, Pair, Query, Team, add_values, key_products};
use smallvec::SmallVec;

use super::kv::{BLOCK, LayerCache};
use super::workspace::room;
use crate::ops::{softcap, softmax};
use crate::spec::{LayerSpec, ModelSpec};

/// Multiply-adds below which a second thread costs more than it brings: some 3 µs.
const PARALLEL_FROM: usize = 1 << 14;

/// Tokens in a piece of work.
const TOKENS: usize = 4;
/// Heads that read a block together: their sums stay in registers.
const TOGETHER: usize = 4;

/// A run of tokens that attend. Its keys and values are already in the cache.
pub(super) struct Run<'a> {
    pub(super) spec: &'a ModelSpec,
    pub(super) layer: LayerSpec,
    pub(super) sinks: Option<&'a [f32]>,
    pub(super) cache: LayerCache<'a>,
    /// `[tokens, heads, head_dim]`
    pub(super) queries: &'a [f32],
    /// The position of the first token.
    pub(super) start: usize,
}

/// A few tokens of a run, and query heads of one key-value head.
#[derive(Clone)]
struct Piece<'a> {
    run: &'a Run<'a>,
    heads: Range<usize>,
    tokens: Range<usize>,
}

/// A head of a token, and what it comes to.
struct Head<'a> {
    query: Query<'a>,
    /// The positions that it looks at, from the piece's first block on.
    seen: Range<usize>,
    sink: Option<f32>,
    /// Of all positions of the piece's blocks.
    scores: &'a mut [[f32; BLOCK]],
    /// `[head_dim]`
    out: &'a mut [f32],
}

thread_local! {
    /// Room for the scores of a piece, and for its queries.
    static ROOM: RefCell<(Vec<f32>, Vec<Pair>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Attends from all runs; `out` is `[tokens, heads, head_dim]`, of one run after the other.
pub(super) fn attend(team: &Team, runs: &[Run<'_>], out: &mut [f32]) {
    let Some(Run { spec, .. }) = runs.first() else { return };
    let token_len = spec.heads * spec.head_dim;
    // A few tokens alone are shared out so that each thread has as many heads, and whole key-value heads where it can.
    let is_alone = runs.len() == 1 && runs[0].tokens() <= TOKENS;
    let shares = if is_alone { team.threads() } else { 1 };
    // Those of one token are on the stack.
    let (mut pieces, mut outs) = (SmallVec::<[Piece<'_>; 32]>::new(), SmallVec::<[_; 32]>::new());
    let mut rest = Outputs::new(out, token_len);
    for run in runs {
        for first in (0..run.tokens()).step_by(TOKENS) {
            let tokens = first..(first + TOKENS).min(run.tokens());
            let (mut own, after) = rest.split_at_token(tokens.len());
            for heads in parts(spec.heads, spec.kv_heads, shares) {
                // `[tokens, heads * head_dim]`, of these heads; taken when it is written.
                outs.push(Some(own.split_off(heads.len() * spec.head_dim)));
                pieces.push(Piece { run, heads, tokens: tokens.clone() });
            }
            rest = after;
        }
    }
    let one = |index: usize, out: &mut [Option<Outputs<'_>>]| {
        for out in out.iter_mut().filter_map(Option::take) {
            pieces[index].attend(out, pieces.get(index + 1));
        }
    };
    let work: usize = runs.iter().map(|run| run.queries.len() * (run.start + run.tokens())).sum();
    if work < PARALLEL_FROM {
        outs.chunks_mut(1).enumerate().for_each(|(index, out)| one(index, out));
    } else {
        team.for_chunks(&mut outs, 1, one);
    }
}

/// The query heads, cut where a key-value head ends, and into so many shares.
fn parts(heads: usize, kv_heads: usize, shares: usize) -> impl Iterator<Item = Range<usize>> {
    // The query heads of one key-value head are neighbours.
    let group = heads / kv_heads;
    let share_of = move |head: usize| head * shares / heads;
    let mut start = 0;
    std::iter::from_fn(move || {
        let end =
            (start + 1..=heads).find(|&end| end.is_multiple_of(group) || share_of(end) != share_of(start))?;
        Some(std::mem::replace(&mut start, end)..end)
    })
}

impl Run<'_> {
    fn tokens(&self) -> usize {
        self.queries.len() / (self.spec.heads * self.spec.head_dim)
    }

    /// The positions that a token of the run looks at.
    fn seen(&self, token: usize) -> Range<usize> {
        let to = self.start + token + 1;
        self.layer.window.map_or(0, |window| to.saturating_sub(window))..to
    }
}

impl Piece<'_> {
    /// The blocks that its tokens look at.
    fn blocks(&self) -> Range<usize> {
        let start = self.run.seen(self.tokens.start).start;
        start / BLOCK..self.end().div_ceil(BLOCK)
    }

    /// The position after the last that its tokens look at.
    fn end(&self) -> usize {
        self.run.start + self.tokens.end
    }

    fn block(&self, index: usize) -> KvBlock<'_> {
        let spec = self.run.spec;
        self.run.cache.block(self.heads.start * spec.kv_heads / spec.heads, index, self.end())
    }

    /// Attends; `next` is what is probably done after it.
    fn attend(&self, out: Outputs<'_>, next: Option<&Piece<'_>>) {
        let &Run { spec, sinks, queries, cache, .. } = self.run;
        let (blocks, heads) = (self.blocks(), self.heads.clone());
        let count = self.tokens.len() * heads.len();
        let pairs = Query::pairs(spec.head_dim);
        ROOM.with_borrow_mut(|(scores, words)| {
            let scores = room(scores, count * blocks.len() * BLOCK);
            let mut scores = scores.as_chunks_mut::<BLOCK>().0;
            let mut words = room(words, count * pairs);
            let mut all: SmallVec<[Head<'_>; 16]> = SmallVec::new();
            for (token, out) in self.tokens.clone().zip(out.into_tokens()) {
                let seen = self.run.seen(token);
                let seen = seen.start - blocks.start * BLOCK..seen.end - blocks.start * BLOCK;
                for (index, out) in heads.clone().zip(out.chunks_exact_mut(spec.head_dim)) {
                    let at = (token * spec.heads + index) * spec.head_dim;
                    let values = &queries[at..at + spec.head_dim];
                    let words = words.split_off_mut(..pairs).unwrap_or_default();
                    out.fill(0.0);
                    all.push(Head {
                        query: Query::new(cache.format(), values, spec.attention_scale, words),
                        sink: sinks.map(|sinks| sinks[index]),
                        scores: scores.split_off_mut(..blocks.len()).unwrap_or_default(),
                        seen: seen.clone(),
                        out,
                    });
                }
            }
            self.attend_from(&mut all, next);
        });
    }

    /// Attends from heads.
    fn attend_from(&self, all: &mut [Head<'_>], next: Option<&Piece<'_>>) {
        let blocks = self.blocks();
        for (index, at) in blocks.clone().enumerate() {
            let is_last = at + 1 == blocks.end;
            let then = if is_last { self.block(blocks.start).values() } else { self.block(at + 1).keys() };
            let mut block = self.block(at).prefetching(then);
            for heads in all.chunks_mut(TOGETHER) {
                score(heads, index, block);
                block = self.block(at);
            }
        }
        for Head { scores, seen, sink, .. } in &mut *all {
            let scores = scores.as_flattened_mut();
            // Nothing of what is not looked at.
            scores[..seen.start].fill(0.0);
            scores[seen.end..].fill(0.0);
            let scores = &mut scores[seen.clone()];
            if let Some(cap) = self.run.spec.attention_softcap {
                softcap(scores, cap);
            }
            softmax(scores, *sink);
        }
        for (index, at) in blocks.clone().enumerate() {
            let mut block = self.block(at);
            if at + 1 < blocks.end {
                block = block.prefetching(self.block(at + 1).values());
            } else if let Some(next) = next {
                block = block.prefetching(next.block(next.blocks().start).keys());
            }
            for heads in all.chunks_mut(TOGETHER) {
                add(heads, index, block);
                block = self.block(at);
            }
        }
    }
}

/// The scores of a block.
fn score(heads: &mut [Head<'_>], index: usize, block: KvBlock<'_>) {
    let queries: SmallVec<[Query<'_>; TOGETHER]> = heads.iter().map(|head| head.query).collect();
    let scores = heads.iter_mut().map(|head| &mut head.scores[index]);
    key_products(&queries, block, &mut scores.collect::<SmallVec<[_; TOGETHER]>>());
}

/// Adds the values of a block.
fn add(heads: &mut [Head<'_>], index: usize, block: KvBlock<'_>) {
    let (mut weights, mut outs) = (SmallVec::<[_; TOGETHER]>::new(), SmallVec::<[_; TOGETHER]>::new());
    for Head { scores, out, .. } in heads {
        weights.push(&scores[index]);
        outs.push(&mut **out);
    }
    add_values(&weights, block, &mut outs);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_shared_out_evenly_and_by_groups() {
        assert_eq!(parts(9, 3, 1).collect::<Vec<_>>(), [0..3, 3..6, 6..9]);
        assert_eq!(parts(9, 3, 2).collect::<Vec<_>>(), [0..3, 3..5, 5..6, 6..9]);
        assert_eq!(parts(4, 1, 2).collect::<Vec<_>>(), [0..2, 2..4]);
        assert_eq!(parts(32, 8, 2).collect::<Vec<_>>(), parts(32, 8, 1).collect::<Vec<_>>());
        for (heads, kv_heads) in [(9, 3), (14, 2), (8, 1), (4, 4), (32, 8)] {
            for shares in 1..=40 {
                let parts: Vec<_> = parts(heads, kv_heads, shares).collect();
                assert!(parts.iter().all(|part| !part.is_empty()));
                assert!(parts.iter().cloned().flatten().eq(0..heads), "{heads} heads, {shares} shares");
                let group = |head: usize| head * kv_heads / heads;
                assert!(parts.iter().all(|part| group(part.start) == group(part.end - 1)));
                let most = parts.iter().map(ExactSizeIterator::len).max().unwrap();
                assert!(most <= heads.div_ceil(shares).max(1), "{heads} heads, {shares} shares");
            }
        }
    }
}
