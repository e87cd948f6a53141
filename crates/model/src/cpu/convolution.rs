//! Causal convolutions of channels over the last tokens, and the block that consists of one.

use formwork_kernels::{Team, fma};

use super::layer::{Pass, Segment};
use super::product::products;
use super::state::{LayerState, write_to_convolution};
use super::workspace::{Workspace, room};
use crate::ops::silu_in_place;
use crate::weights::{Convolution, Packed, ShortConvolution};

/// Number of tokens that a parallel task computes.
const TOKENS: usize = 16;

/// Elements of each token, such as the channels of a convolution. The elements of token `t` start at
/// element `t * stride + start` of `rows`.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    pub(super) rows: &'a [f32],
    pub(super) stride: usize,
    pub(super) start: usize,
}

impl<'a> Columns<'a> {
    /// Returns the columns of the tokens after the first `token`.
    pub(super) fn after(self, token: usize) -> Self {
        Self { rows: &self.rows[token * self.stride..], ..self }
    }

    /// Returns the first `len` columns of a token.
    pub(super) fn of(self, token: usize, len: usize) -> &'a [f32] {
        &self.rows[token * self.stride + self.start..][..len]
    }
}

/// Function that is applied to the results of a convolution.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    Nothing,
    Silu,
}

impl Convolution {
    /// Computes the convolution for the tokens of a run. `last` contains the inputs of the tokens
    /// before the run. Shape of `out`: `[tokens, channels]`.
    fn apply(&self, team: &Team, (x, last): (Columns<'_>, &[f32]), after: After, out: &mut [f32]) {
        let (channels, before) = (self.shape.channels, self.shape.kernel - 1);
        team.for_chunks(out, TOKENS * channels, |chunk, out| {
            for (token, out) in (chunk * TOKENS..).zip(out.chunks_exact_mut(channels)) {
                match &self.bias {
                    Some(bias) => out.copy_from_slice(bias),
                    None => out.fill(0.0),
                }
                for (index, factors) in self.factors.chunks_exact(channels).enumerate() {
                    let inputs = match (token + index).checked_sub(before) {
                        Some(token) => x.of(token, channels),
                        None => &last[(token + index) * channels..][..channels],
                    };
                    for ((out, factor), input) in out.iter_mut().zip(factors).zip(inputs) {
                        *out = fma(*factor, *input, *out);
                    }
                }
                if after == After::Silu {
                    silu_in_place(out);
                }
            }
        });
    }
}

/// Replaces `last`, the inputs of a convolution of `channels` channels for the tokens before a run of
/// `tokens` tokens, by those before the token after the run.
pub(super) fn remember(x: Columns<'_>, (channels, tokens): (usize, usize), last: &mut [f32]) {
    let kept = (last.len() / channels).saturating_sub(tokens);
    let dropped = last.len() - kept * channels;
    last.copy_within(dropped.., 0);
    let new = dropped / channels;
    for (row, last) in last[kept * channels..].chunks_exact_mut(channels).enumerate() {
        last.copy_from_slice(x.of(tokens - new + row, channels));
    }
}

impl Pass<'_> {
    /// Computes the convolution of the layer at `index` for all tokens of the pass, and updates the
    /// states of the segments. Shape of `out`: `[tokens, channels]`.
    pub(super) fn convolve(
        &self,
        (index, weights, after): (usize, &Convolution, After),
        segments: &mut [Segment<'_>],
        x: Columns<'_>,
        out: &mut [f32],
    ) {
        let channels = weights.shape.channels;
        let mut first = 0;
        for segment in segments {
            let Some(states) = segment.states.as_deref_mut() else { continue };
            let len = segment.tokens.len();
            for range in states.ranges(len) {
                let undrafted = states.undrafted(&range, len);
                let x = x.after(first + range.start);
                let out = &mut out[(first + range.start) * channels..(first + range.end) * channels];
                let LayerState { convolution: last, drafted, .. } = states.layer(index);
                if range.start == 0 {
                    write_to_convolution(drafted, index, (channels, drafted.count()), last);
                }
                weights.apply(self.team, (x, last), after, out);
                remember(x, (channels, undrafted), last);
                if undrafted < range.len() {
                    states.set_drafted_convolution(index, x, undrafted..range.len());
                }
                states.mark_convolution(index, range.end);
            }
            first += len;
        }
    }

    /// Computes a gated convolution. Reads `workspace.normed` and writes `workspace.result`, both of
    /// shape `[tokens, hidden]`.
    pub(super) fn short_convolution(
        &self,
        index: usize,
        weights: &ShortConvolution<Packed>,
        segments: &mut [Segment<'_>],
        workspace: &mut Workspace,
    ) {
        let (tokens, hidden) = (self.roundings.len(), self.spec.hidden);
        let channels = weights.convolution.shape.channels;
        let Workspace { normed, result, mixed, convolved, rounded, .. } = workspace;
        // For each token: the gate of the input, the gate of the output, and the input.
        let stride = 3 * channels;
        let mixed = room(mixed, tokens * stride);
        let input = self.input(&normed[..tokens * hidden]);
        products(self.team, rounded, input, [(&weights.input, &mut *mixed)]);
        self.team.for_chunks(mixed, TOKENS * stride, |_, rows| {
            for row in rows.chunks_exact_mut(stride) {
                let (gates, inputs) = row.split_at_mut(2 * channels);
                inputs.iter_mut().zip(gates).for_each(|(input, gate)| *input *= *gate);
            }
        });
        let convolved = room(convolved, tokens * channels);
        let inputs = Columns { rows: mixed, stride, start: 2 * channels };
        self.convolve((index, &weights.convolution, After::Nothing), segments, inputs, convolved);
        let mixed = &*mixed;
        self.team.for_chunks(convolved, TOKENS * channels, |chunk, out| {
            let rows = mixed[chunk * TOKENS * stride..].chunks_exact(stride);
            for (out, row) in out.chunks_exact_mut(channels).zip(rows) {
                out.iter_mut().zip(&row[channels..]).for_each(|(out, gate)| *out *= gate);
            }
        });
        let input = self.input(convolved);
        products(self.team, rounded, input, [(&weights.output, room(result, tokens * hidden))]);
    }
}
