//! Attention within a span of positions, and the combination of the results of several spans.

use std::ops::Range;

use formwork_kernels::{KvBlock, Prefetch, Query, add_values, exp, key_products};
use smallvec::SmallVec;

use super::Piece;
use crate::cpu::kv::BLOCK;
use crate::cpu::workspace::room;
use crate::ops::{Softmax, softcap, softmax};

/// Number of query heads that read a block together. With this number, their sums stay in
/// registers.
const TOGETHER: usize = 4;

/// Query head of one token.
pub(super) struct Head<'a> {
    pub(super) query: Query<'a>,
    /// Positions in the sequence that the head attends to.
    pub(super) seen: Range<usize>,
    pub(super) sink: Option<f32>,
}

pub(super) type Heads<'a> = SmallVec<[Head<'a>; 16]>;

/// Consecutive blocks of the cache that the query heads of a unit of work attend to.
pub(super) struct Span<'a> {
    pub(super) piece: &'a Piece<'a>,
    pub(super) blocks: Range<usize>,
    /// Data to prefetch at the end of the span.
    pub(super) next: Option<Prefetch<'a>>,
}

/// Memory for intermediate results within a span.
#[derive(Default)]
pub(super) struct Scratch {
    scores: Vec<f32>,
    /// Keys or values of a block, copied or expanded.
    copied: Vec<u32>,
}

/// Query head of one token, with its results within a span.
struct Seeing<'a> {
    query: Query<'a>,
    /// Positions that the head attends to, relative to the first position of the span.
    seen: Range<usize>,
    /// Scores of all positions in the blocks of the span. They are later replaced by weights.
    scores: &'a mut [[f32; BLOCK]],
    /// Weighted sum of the values. Shape: `[head_dim]`.
    out: &'a mut [f32],
}

impl Span<'_> {
    /// Computes attention for heads that have a single span and no sink. The results are final.
    pub(super) fn attend_whole<'o>(
        &self,
        heads: &[Head<'_>],
        outs: impl Iterator<Item = &'o mut [f32]>,
        scratch: &mut Scratch,
    ) {
        self.attend(heads, outs, scratch, |scores| {
            softmax(scores);
        });
    }

    /// Computes partial results for heads that have several spans or a sink. `parts` is the memory
    /// for the [`Part`]s of all heads.
    pub(super) fn attend_in_part(&self, heads: &[Head<'_>], parts: &mut [f32], scratch: &mut Scratch) {
        let parts = parts.chunks_exact_mut(parts.len() / heads.len());
        let (shares, outs): (SmallVec<[_; 16]>, SmallVec<[_; 16]>) =
            parts.map(|part| part.split_at_mut(Part::SHARE)).unzip();
        let mut shares = shares.into_iter();
        self.attend(heads, outs.into_iter(), scratch, |scores| {
            let Softmax { most, sum } = softmax(scores);
            if let Some(share) = shares.next() {
                share.copy_from_slice(&[most, sum]);
            }
        });
    }

    /// Computes attention within the span. `weigh` replaces the scores of a head by weights, and is
    /// called once for each head, in order.
    fn attend<'o>(
        &self,
        heads: &[Head<'_>],
        outs: impl Iterator<Item = &'o mut [f32]>,
        scratch: &mut Scratch,
        mut weigh: impl FnMut(&mut [f32]),
    ) {
        let blocks = self.blocks.clone();
        let positions = blocks.start * BLOCK..blocks.end * BLOCK;
        let Scratch { scores, copied } = scratch;
        let mut scores = room(scores, heads.len() * positions.len()).as_chunks_mut::<BLOCK>().0;
        let mut all: SmallVec<[Seeing<'_>; 16]> = SmallVec::new();
        for (head, out) in heads.iter().zip(outs) {
            let within = |position: usize| position.clamp(positions.start, positions.end) - positions.start;
            out.fill(0.0);
            all.push(Seeing {
                query: head.query,
                seen: within(head.seen.start)..within(head.seen.end),
                scores: scores.split_off_mut(..blocks.len()).unwrap_or_default(),
                out,
            });
        }
        let block = |index| self.piece.block(index);
        for (index, at) in blocks.clone().enumerate() {
            let is_last = at + 1 == blocks.end;
            let then = if is_last { block(blocks.start).values() } else { block(at + 1).keys() };
            let copied = room(copied, self.piece.run.cache.room_len());
            let mut read = block(at).with_keys(copied).prefetching(then);
            for heads in all.chunks_mut(TOGETHER) {
                score(heads, index, read);
                read = read.prefetching(Prefetch::default());
            }
        }
        for Seeing { scores, seen, .. } in &mut all {
            let scores = scores.as_flattened_mut();
            // Positions outside the head's range get weight 0.
            scores[..seen.start].fill(0.0);
            scores[seen.end..].fill(0.0);
            let scores = &mut scores[seen.clone()];
            if let Some(cap) = self.piece.run.spec.attention_softcap {
                softcap(scores, cap);
            }
            weigh(scores);
        }
        for (index, at) in blocks.clone().enumerate() {
            let then = if at + 1 < blocks.end { Some(block(at + 1).values()) } else { self.next };
            let copied = room(copied, self.piece.run.cache.room_len());
            let mut read = block(at).with_values(copied).prefetching(then.unwrap_or_default());
            for heads in all.chunks_mut(TOGETHER) {
                add(heads, index, read);
                read = read.prefetching(Prefetch::default());
            }
        }
    }
}

/// Computes the scores of all heads in the block at `index` of the span.
fn score(heads: &mut [Seeing<'_>], index: usize, block: KvBlock<'_>) {
    let queries: SmallVec<[Query<'_>; TOGETHER]> = heads.iter().map(|head| head.query).collect();
    let scores = heads.iter_mut().map(|head| &mut head.scores[index]);
    key_products(&queries, block, &mut scores.collect::<SmallVec<[_; TOGETHER]>>());
}

/// Adds the weighted values in the block at `index` of the span to the outputs of all heads.
fn add(heads: &mut [Seeing<'_>], index: usize, block: KvBlock<'_>) {
    let (mut weights, mut outs) = (SmallVec::<[_; TOGETHER]>::new(), SmallVec::<[_; TOGETHER]>::new());
    for Seeing { scores, out, .. } in heads {
        weights.push(&scores[index]);
        outs.push(&mut **out);
    }
    add_values(&weights, block, &mut outs);
}

/// Partial result of one head in one span. In memory, the two numbers of `share` precede the
/// values.
pub(super) struct Part<'a> {
    /// Maximum and sum of the softmax within the span. They determine the span's share of the total
    /// weight.
    share: Softmax,
    /// Weighted sum of the values in the span. The weights have the sum 1. Shape: `[head_dim]`.
    values: &'a [f32],
}

impl<'a> Part<'a> {
    /// Number of elements that `share` takes in memory.
    const SHARE: usize = 2;

    /// Returns the number of elements that a part takes in memory.
    pub(super) const fn len(head_dim: usize) -> usize {
        Self::SHARE + head_dim
    }

    /// Returns the part of the head at index `head`. `parts` is the memory of the parts of all
    /// heads.
    pub(super) fn of(parts: &'a [f32], head: usize, head_dim: usize) -> Self {
        let len = Self::len(head_dim);
        let (share, values) = parts[head * len..(head + 1) * len].split_at(Self::SHARE);
        Self { share: Softmax { most: share[0], sum: share[1] }, values }
    }
}

/// Combines the partial results of one head and writes the result to `out`. A span in which the
/// head attends to no position has weight 0, so further such spans do not change any bit of the
/// result.
pub(super) fn bring_together<'a>(
    parts: impl Iterator<Item = Part<'a>> + Clone,
    sink: Option<f32>,
    out: &mut [f32],
) {
    let least = sink.unwrap_or(f32::NEG_INFINITY);
    let most =
        parts.clone().fold(least, |most, part| if part.share.most > most { part.share.most } else { most });
    let weight = |share: Softmax| if share.sum == 0.0 { 0.0 } else { share.sum * exp(share.most - most) };
    let all =
        parts.clone().map(|part| weight(part.share)).sum::<f32>() + sink.map_or(0.0, |sink| exp(sink - most));
    out.fill(0.0);
    for Part { share, values } in parts {
        let factor = weight(share) / all;
        for (out, value) in out.iter_mut().zip(values) {
            *out += factor * value;
        }
    }
}
