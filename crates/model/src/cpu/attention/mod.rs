//! Causal attention of runs of tokens to the positions in their KV caches.
//!
//! Positions are divided into spans of fixed length. For each query and span, a partial result is
//! computed from this span only. It consists of the results of the softmax within the span and the
//! weighted sum of the values. The partial results of a query are then combined in the order of the
//! spans.
//!
//! The attention of a token is therefore bit-identical if the token is computed alone or in a run,
//! on any number of threads.
//!
//! A unit of work consists of a few tokens and the query heads of one key-value head. These query
//! heads read each block of the cache together.
//!
//! A single short run may have too few key-value heads to keep all threads equally busy. A unit is
//! then a span of one key-value head. If there are few spans, a unit is a part of the query heads
//! of one key-value head.

mod block;
mod both_ways;
mod span;

use std::cell::RefCell;
use std::ops::Range;

use formwork_kernels::{KvBlock, MatrixMut, Pair, Prefetch, Query, Team};
use smallvec::SmallVec;

pub(super) use self::both_ways::attend_both_ways;
use self::span::{Head, Heads, Part, Scratch, Span, bring_together};
use super::kv::{BLOCK, LayerCache};
use super::workspace::room;
use crate::spec::{AttentionSpec, ModelSpec};

/// Minimum number of multiply-adds for using several threads. Less work takes about 3 µs on one
/// thread, so sharing it would cost more time than it saves.
const PARALLEL_FROM: usize = 1 << 14;

/// Maximum number of tokens in a unit of work.
const TOKENS: usize = 4;
/// Number of blocks in a span.
const SPAN: usize = 8;
/// Minimum number of spans of key-value heads for each thread, if the units of work are such spans.
const SPANS: usize = 4;

/// Run of tokens that attend to a cache. The keys and values of these tokens are in the cache
/// already.
pub(super) struct Run<'a> {
    pub(super) spec: &'a ModelSpec,
    pub(super) shape: AttentionSpec,
    pub(super) sinks: Option<&'a [f32]>,
    pub(super) cache: LayerCache<'a>,
    /// Queries of the tokens. Shape: `[tokens, heads, head_dim]`.
    pub(super) queries: &'a [f32],
    /// Position of the first token in its sequence.
    pub(super) start: usize,
}

/// Unit of work: a few tokens of a run, and some query heads of one key-value head.
#[derive(Clone)]
struct Piece<'a> {
    run: &'a Run<'a>,
    heads: Range<usize>,
    tokens: Range<usize>,
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

/// Memory of a thread for intermediate results of one unit of work.
#[derive(Default)]
struct Room {
    scratch: Scratch,
    /// Queries, converted to the format of the cache.
    words: Vec<Pair>,
    /// Partial results of the heads: one for each span and head.
    parts: Vec<f32>,
}

/// Computes attention for all runs. Writes the results to `out`, run by run. Shape: `[tokens,
/// heads, value_dim]`.
pub(super) fn attend(team: &Team, runs: &[Run<'_>], parts: &mut Vec<f32>, out: &mut [f32]) {
    let Some(&Run { shape, .. }) = runs.first() else { return };
    let token_len = shape.result_len();
    // A single short run is divided so that each thread gets about the same number of heads.
    // Key-value heads are kept whole if possible.
    let is_alone = runs.len() == 1 && runs[0].tokens() <= TOKENS;
    let shares = if is_alone { team.threads() } else { 1 };
    if is_alone && !shape.kv_heads.is_multiple_of(shares) {
        let whole = Piece { run: &runs[0], heads: 0..shape.heads, tokens: 0..runs[0].tokens() };
        let spans = whole.spans().len();
        if spans > 1 && shape.kv_heads * spans >= SPANS * shares {
            return whole.attend_by_spans(team, parts, out);
        }
    }
    // The capacity suffices for a single token, so that decoding does not allocate.
    let (mut pieces, mut outs) = (SmallVec::<[Piece<'_>; 32]>::new(), SmallVec::<[_; 32]>::new());
    let mut rest = MatrixMut::new(out, token_len);
    for run in runs {
        for first in (0..run.tokens()).step_by(TOKENS) {
            let tokens = first..(first + TOKENS).min(run.tokens());
            let (mut own, after) = rest.split_at_token(tokens.len());
            for heads in head_shares(shape.heads, shape.kv_heads, shares) {
                // The output of these heads, of shape `[tokens, heads * head_dim]`. The task takes
                // it out of the option.
                outs.push(Some(own.split_off(heads.len() * shape.value_dim())));
                pieces.push(Piece { run, heads, tokens: tokens.clone() });
            }
            rest = after;
        }
    }
    let one = |index: usize, out: &mut [Option<MatrixMut<'_>>]| {
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

/// Divides the query heads into `shares` ranges of about equal length. A range that contains heads
/// of several key-value heads is divided further, so that each range belongs to one key-value head.
fn head_shares(heads: usize, kv_heads: usize, shares: usize) -> impl Iterator<Item = Range<usize>> {
    // Query heads of the same key-value head are adjacent.
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
        self.queries.len() / self.shape.query_len()
    }

    /// Returns the positions that a token attends to. `token` is the index of the token in the run.
    fn seen(&self, token: usize) -> Range<usize> {
        let to = self.start + token + 1;
        self.shape.window.map_or(0, |window| to.saturating_sub(window))..to
    }
}

impl Piece<'_> {
    /// Returns the indices of the cache blocks that the tokens attend to.
    fn blocks(&self) -> Range<usize> {
        let start = self.run.seen(self.tokens.start).start;
        start / BLOCK..self.end().div_ceil(BLOCK)
    }

    /// Returns the end, exclusive, of the positions that the tokens attend to.
    fn end(&self) -> usize {
        self.run.start + self.tokens.end
    }

    /// Returns the indices of the spans that contain these blocks.
    fn spans(&self) -> Range<usize> {
        let blocks = self.blocks();
        blocks.start / SPAN..blocks.end.div_ceil(SPAN)
    }

    fn block(&self, index: usize) -> KvBlock<'_> {
        let shape = self.run.shape;
        self.run.cache.block(self.heads.start * shape.kv_heads / shape.heads, index, self.end())
    }

    /// Returns the keys of the first block that is read in a span, for prefetching.
    fn first_keys(&self, span: usize) -> Prefetch<'_> {
        self.block(self.blocks().start.max(span * SPAN)).keys()
    }

    /// Returns the query heads of all tokens, token by token. `words` is memory for the converted
    /// queries.
    fn heads<'w>(&'w self, words: &'w mut Vec<Pair>) -> Heads<'w> {
        let &Run { spec, shape, sinks, queries, cache, .. } = self.run;
        let pairs = Query::pairs(shape.head_dim);
        let mut words = room(words, self.tokens.len() * self.heads.len() * pairs);
        let mut heads = Heads::new();
        for token in self.tokens.clone() {
            for index in self.heads.clone() {
                let at = (token * shape.heads + index) * shape.head_dim;
                let values = &queries[at..at + shape.head_dim];
                let words = words.split_off_mut(..pairs).unwrap_or_default();
                heads.push(Head {
                    query: Query::new(cache.format(), values, spec.attention_scale, words),
                    seen: self.run.seen(token),
                    sink: sinks.map(|sinks| sinks[index]),
                });
            }
        }
        heads
    }

    /// Returns the part of the span at `index` that the tokens attend to. `next` is the data to
    /// prefetch at the end of the span.
    fn span<'s>(&'s self, index: usize, next: Option<Prefetch<'s>>) -> Span<'s> {
        let blocks = self.blocks();
        let blocks = blocks.start.max(index * SPAN)..blocks.end.min((index + 1) * SPAN);
        Span { piece: self, blocks, next }
    }

    /// Computes attention for this unit of work and writes the results to `out`. `next` is the unit
    /// that probably follows on this thread, and whose keys are prefetched.
    fn attend(&self, out: MatrixMut<'_>, next: Option<&Piece<'_>>) {
        let value_dim = self.run.shape.value_dim();
        let outs = out.into_tokens().flat_map(|out| out.chunks_exact_mut(value_dim));
        let (spans, next) = (self.spans(), next.map(|next| next.first_keys(0)));
        ROOM.with_borrow_mut(|Room { scratch, words, parts }| {
            let heads = self.heads(words);
            // A single span has all of the weight unless there is a sink, so nothing is to be
            // combined.
            if spans.len() == 1 && self.run.sinks.is_none() {
                self.span(spans.start, next).attend_whole(&heads, outs, scratch);
                return;
            }
            let len = self.parts_len();
            let parts = room(parts, spans.len() * len);
            for (index, parts) in spans.clone().zip(parts.chunks_exact_mut(len)) {
                let next = if index + 1 < spans.end { Some(self.first_keys(index + 1)) } else { next };
                self.span(index, next).attend_in_part(&heads, parts, scratch);
            }
            for ((index, head), out) in heads.iter().enumerate().zip(outs) {
                let parts = parts.chunks_exact(len).map(|parts| Part::of(parts, index, value_dim));
                bring_together(parts, head.sink, out);
            }
        });
    }

    /// Computes attention with all threads. Each task computes one span of one key-value head.
    fn attend_by_spans(&self, team: &Team, parts: &mut Vec<f32>, out: &mut [f32]) {
        let &Run { shape, sinks, .. } = self.run;
        let (spans, group) = (self.spans(), shape.heads / shape.kv_heads);
        let piece = |kv_head: usize| Piece {
            run: self.run,
            heads: kv_head * group..(kv_head + 1) * group,
            tokens: self.tokens.clone(),
        };
        let len = piece(0).parts_len();
        // Shape: `[kv_heads, spans, len]`.
        let parts = room(parts, shape.kv_heads * spans.len() * len);
        team.for_chunks(parts, len, |index, parts| {
            let at = |index: usize| {
                let kv_head = index / spans.len();
                (kv_head < shape.kv_heads).then(|| (piece(kv_head), spans.start + index % spans.len()))
            };
            let (Some((piece, span)), next) = (at(index), at(index + 1)) else { return };
            let next = next.as_ref().map(|(piece, span)| piece.first_keys(*span));
            ROOM.with_borrow_mut(|Room { scratch, words, .. }| {
                piece.span(span, next).attend_in_part(&piece.heads(words), parts, scratch);
            });
        });
        for (index, out) in out.chunks_exact_mut(shape.value_dim()).enumerate() {
            let (token, head) = (index / shape.heads, index % shape.heads);
            let parts = parts[head / group * spans.len() * len..][..spans.len() * len].chunks_exact(len);
            let parts = parts.map(|parts| Part::of(parts, token * group + head % group, shape.value_dim()));
            bring_together(parts, sinks.map(|sinks| sinks[head]), out);
        }
    }

    /// Returns the number of elements that the [`Part`]s of all heads in one span take.
    fn parts_len(&self) -> usize {
        self.tokens.len() * self.heads.len() * Part::len(self.run.shape.value_dim())
    }
}

#[cfg(test)]
mod tests {
    use formwork_kernels::KvFormat;

    use super::*;
    use crate::cpu::kv::{KvCache, KvMemory};
    use crate::spec::{
        Activation, FeedForwardSpec, KeyValues, LayerSpec, MixerSpec, NormKind, NormPlacement, RopePairing,
    };

    const SHAPE: AttentionSpec = AttentionSpec {
        heads: 6,
        kv_heads: 3,
        head_dim: 32,
        key_values: KeyValues::Own,
        window: None,
        rope: None,
        is_gated: false,
    };

    #[test]
    fn distributes_heads_evenly_and_by_groups() {
        assert_eq!(head_shares(9, 3, 1).collect::<Vec<_>>(), [0..3, 3..6, 6..9]);
        assert_eq!(head_shares(9, 3, 2).collect::<Vec<_>>(), [0..3, 3..5, 5..6, 6..9]);
        assert_eq!(head_shares(4, 1, 2).collect::<Vec<_>>(), [0..2, 2..4]);
        assert_eq!(head_shares(32, 8, 2).collect::<Vec<_>>(), head_shares(32, 8, 1).collect::<Vec<_>>());
        for (heads, kv_heads) in [(9, 3), (14, 2), (8, 1), (4, 4), (32, 8)] {
            for shares in 1..=40 {
                let parts: Vec<_> = head_shares(heads, kv_heads, shares).collect();
                assert!(parts.iter().all(|part| !part.is_empty()));
                assert!(parts.iter().cloned().flatten().eq(0..heads), "{heads} heads, {shares} shares");
                let group = |head: usize| head * kv_heads / heads;
                assert!(parts.iter().all(|part| group(part.start) == group(part.end - 1)));
                let most = parts.iter().map(ExactSizeIterator::len).max().unwrap();
                assert!(most <= heads.div_ceil(shares).max(1), "{heads} heads, {shares} shares");
            }
        }
    }

    /// Computes attention of one token directly from the definition. Shape of the result: `[heads,
    /// head_dim]`.
    fn by_definition(
        (spec, shape): (&ModelSpec, AttentionSpec),
        seen: Range<usize>,
        query: &[f32],
        rows: [&[f32]; 2],
        sinks: Option<&[f32]>,
    ) -> Vec<f64> {
        let [keys, values] = rows.map(|rows| {
            move |position: usize, head: usize| {
                let at = (position * shape.kv_heads + head) * shape.head_dim;
                rows[at..at + shape.head_dim].iter().map(|x| f64::from(*x))
            }
        });
        let attend = |(head, query): (usize, &[f32])| {
            let kv_head = head * shape.kv_heads / shape.heads;
            let score = |position| {
                let product: f64 = keys(position, kv_head).zip(query).map(|(k, q)| k * f64::from(*q)).sum();
                let score = product * f64::from(spec.attention_scale);
                spec.attention_softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh())
            };
            let weights: Vec<f64> = seen.clone().map(|position| score(position).exp()).collect();
            let sink = sinks.map_or(0.0, |sinks| f64::from(sinks[head]).exp());
            let all = weights.iter().sum::<f64>() + sink;
            let mut out = vec![0.0; shape.head_dim];
            for (position, weight) in seen.clone().zip(&weights) {
                for (out, value) in out.iter_mut().zip(values(position, kv_head)) {
                    *out += weight / all * value;
                }
            }
            out
        };
        query.chunks(shape.head_dim).enumerate().flat_map(attend).collect()
    }

    /// Test cases: position of the first token, attention window, and number of key-value heads.
    const CASES: [(usize, Option<usize>, usize); 9] = [
        (0, None, 3),
        // The first tokens have one span, the others two.
        (SPAN * BLOCK - 2, None, 3),
        (SPAN * BLOCK - 2, None, 9),
        // The windows of the first tokens start in the previous span.
        (SPAN * BLOCK + 124, Some(128), 3),
        (SPAN * BLOCK + 124, Some(128), 9),
        (300, None, 9),
        (4 * SPAN * BLOCK + 100, None, 3),
        (4 * SPAN * BLOCK + 100, Some(1300), 3),
        (4 * SPAN * BLOCK + 100, Some(70), 3),
    ];

    #[test]
    fn spans_add_up_to_attention_on_any_thread() {
        const COUNT: usize = TOKENS + 2;
        let mut state = 1_u64;
        let mut floats = |len: usize| -> Vec<f32> {
            let next = |_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 40) as f32 / (1 << 23) as f32 - 1.0
            };
            (0..len).map(next).collect()
        };
        let teams =
            [1, 2, 3].map(|threads| Team::new(std::num::NonZeroUsize::new(threads).unwrap()).unwrap());
        let kinds = [(false, None), (true, None), (true, Some(3.0))];
        let kinds =
            [KvFormat::I16, KvFormat::I8, KvFormat::F32].map(|format| kinds.map(|kind| (format, kind)));
        for (start, window, kv_heads) in CASES {
            for (format, (has_sinks, softcap)) in kinds.into_iter().flatten() {
                let mut spec = ModelSpec { attention_softcap: softcap, ..spec() };
                let shape = AttentionSpec { heads: 2 * kv_heads, kv_heads, window, ..SHAPE };
                spec.layers[0].mixer = MixerSpec::Attention(shape);
                let case = format!(
                    "{format:?}, {kv_heads} heads, from {start}, {window:?}, {has_sinks} {softcap:?}"
                );
                let most = match format {
                    KvFormat::F32 => 1e-5,
                    KvFormat::I16 => 5e-4,
                    KvFormat::I8 => 2e-2,
                };
                let (query_len, key_len) = (shape.query_len(), shape.key_len());
                let queries = floats(COUNT * query_len);
                let [keys, values] = [(start + COUNT) * key_len; 2].map(&mut floats);
                let sinks = has_sinks.then(|| floats(shape.heads));
                let mut cache = KvCache::new(KvMemory::new(&spec, format));
                cache.reserve(start + COUNT).unwrap();
                cache.write(&teams[0], 0, &keys, &values);
                let run = |tokens: Range<usize>| Run {
                    spec: &spec,
                    shape,
                    sinks: sinks.as_deref(),
                    cache: cache.layer(0),
                    queries: &queries[tokens.start * query_len..tokens.end * query_len],
                    start: start + tokens.start,
                };
                let by = |team: &Team, runs: &[Run<'_>]| {
                    let mut out = vec![f32::NAN; runs.iter().map(|run| run.queries.len()).sum()];
                    attend(team, runs, &mut vec![f32::NAN; 7], &mut out);
                    out
                };
                let whole = by(&teams[0], &[run(0..COUNT)]);
                for team in &teams {
                    let case = format!("{case}, {} threads", team.threads());
                    assert!(whole == by(team, &[run(0..COUNT)]), "{case}, as one run");
                    for cut in 1..COUNT {
                        assert!(whole == by(team, &[run(0..cut), run(cut..COUNT)]), "{case}, cut at {cut}");
                        let parts = [run(0..cut), run(cut..COUNT)].map(|run| by(team, &[run]));
                        assert!(whole == parts.concat(), "{case}, one after the other from {cut}");
                    }
                    let each = (0..COUNT).map(|token| by(team, &[run(token..token + 1)]));
                    assert!(whole == each.collect::<Vec<_>>().concat(), "{case}, one by one");
                }
                for (token, given) in whole.chunks(query_len).enumerate() {
                    let run = run(token..token + 1);
                    let expected =
                        by_definition((&spec, shape), run.seen(0), run.queries, [&keys, &values], run.sinks);
                    for (given, expected) in given.iter().zip(expected) {
                        let error = (f64::from(*given) - expected).abs();
                        assert!(error < most, "{case}, token {token}: {given} {expected}");
                    }
                }
            }
        }
    }

    /// Returns a specification with 3 key-value heads, which 2 threads cannot share evenly.
    fn spec() -> ModelSpec {
        ModelSpec {
            architecture: "llama".to_owned(),
            hidden: 192,
            vocabulary: 100,
            context: 10_000,
            norm_epsilon: 1e-5,
            rope_pairing: RopePairing::Halves,
            ropes: Vec::new(),
            layers: vec![LayerSpec {
                mixer: MixerSpec::Attention(SHAPE),
                feed_forward: FeedForwardSpec::Dense { width: 64 },
            }],
            draft_head: None,
            qk_norm: None,
            value_norm: false,
            layer_scales: false,
            per_layer_input: None,
            qkv_bias: false,
            norms: NormPlacement::Before,
            norm_kind: NormKind::Rms,
            embedding_scale: 1.0,
            attention_scale: 1.0,
            temperature: None,
            residual_scale: 1.0,
            logit_scale: 1.0,
            attention_softcap: None,
            logit_softcap: None,
            attention_sinks: false,
            activation: Activation::Silu,
            encoder: None,
            output_norm: true,
            abilities: formwork_lm::Abilities::default(),
        }
    }
}
