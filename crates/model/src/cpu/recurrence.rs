//! Blocks with a linear recurrence: the gated delta rule and Mamba2.

use formwork_kernels::{COLUMNS, Recurrence, Vectors, advance, dot_f32, exp};
use smallvec::SmallVec;

use super::convolution::{After, Columns};
use super::drafted::HeadInput;
use super::layer::{Pass, Segment};
use super::product::products;
use super::state::LayerState;
use super::workspace::{Workspace, room};
use crate::ops::{gate_by_silu, rms_norm_in_place, rms_norm_row, scale, sigmoid, softplus};
use crate::spec::RecurrenceSpec;
use crate::weights::{DeltaRule, Mamba2, Packed};

/// Added to the sum of squares of a query or key of the delta rule.
const DELTA_EPSILON: f32 = 1e-6;

/// Number of tokens that a parallel task computes.
const TOKENS: usize = 4;

/// Number of rows of a state that are copied without asking for memory.
const ROWS: usize = 128;

/// Inputs of the recurrences of all heads of a layer, for all tokens of the pass.
struct Inputs<'a> {
    shape: RecurrenceSpec,
    /// Queries and keys. The second function of each pair returns the first column of a head.
    queries: (Columns<'a>, &'a (dyn Fn(usize) -> usize + Sync)),
    keys: (Columns<'a>, &'a (dyn Fn(usize) -> usize + Sync)),
    /// Values, head by head.
    values: Columns<'a>,
    /// Factors of the states. Shape: `[tokens, heads]`.
    decays: &'a [f32],
    /// Rates of the delta rule. Shape: `[tokens, heads]`.
    rates: Option<&'a [f32]>,
}

impl Inputs<'_> {
    /// Returns the inputs of a head from token `first` on.
    fn of_head(&self, head: usize, first: usize) -> Recurrence<'_> {
        let RecurrenceSpec { heads, rows, columns, .. } = self.shape;
        let vectors = |Columns { rows, stride, start }, offset, len| {
            Vectors::new(&rows[first * stride + start + offset..], stride, len)
        };
        let of_tokens = |rows| vectors(Columns { rows, stride: heads, start: 0 }, head, 1);
        Recurrence {
            keys: vectors(self.keys.0, (self.keys.1)(head), rows),
            queries: vectors(self.queries.0, (self.queries.1)(head), rows),
            values: vectors(self.values, head * columns, columns),
            decays: of_tokens(self.decays),
            rates: self.rates.map(of_tokens),
        }
    }

    /// Returns what a token writes to the state of a head.
    fn of_token(&self, token: usize, head: usize) -> HeadInput<'_> {
        let RecurrenceSpec { heads, rows, columns, .. } = self.shape;
        let (keys, first) = (self.keys.0.after(token), (self.keys.1)(head));
        let values = self.values.after(token);
        HeadInput {
            key: &keys.of(0, first + rows)[first..],
            value: &values.of(0, (head + 1) * columns)[head * columns..],
            decay: self.decays[token * heads + head],
            rate: self.rates.map_or(0.0, |rates| rates[token * heads + head]),
        }
    }
}

impl Pass<'_> {
    /// Computes the recurrences of the layer at `index`, and updates the states of the segments. Shape
    /// of `out`: `[tokens, heads, columns]`. `blocks` is memory for the results by blocks of columns.
    fn recur(
        &self,
        (index, inputs): (usize, &Inputs<'_>),
        segments: &mut [Segment<'_>],
        blocks: &mut Vec<[f32; COLUMNS]>,
        out: &mut [f32],
    ) {
        let RecurrenceSpec { heads, rows, columns, .. } = inputs.shape;
        let blocks_of_head = columns.div_ceil(COLUMNS);
        let mut first = 0;
        for segment in segments {
            let Some(states) = segment.states.as_deref_mut() else { continue };
            let len = segment.tokens.len();
            for range in states.ranges(len) {
                let (token, tokens) = (first + range.start, range.len());
                let undrafted = states.undrafted(&range, len);
                // Shape: `[heads, blocks, tokens]`.
                let results = room(blocks, heads * blocks_of_head * tokens);
                let LayerState { recurrence: state, drafted, .. } = states.layer(index);
                let earlier = if range.start == 0 { drafted.count() } else { 0 };
                self.team.for_pairs((state, rows), (&mut *results, tokens), |block, state, results| {
                    let (head, column) = (block / blocks_of_head, block % blocks_of_head * COLUMNS);
                    drafted.write((index, &inputs.shape), (head, column), earlier, state);
                    let (results, of_drafts) = results.split_at_mut(undrafted);
                    advance(&inputs.of_head(head, token), column, state, results);
                    if !of_drafts.is_empty() {
                        let mut copy: SmallVec<[[f32; COLUMNS]; ROWS]> = SmallVec::from_slice(state);
                        advance(&inputs.of_head(head, token + undrafted), column, &mut copy, of_drafts);
                    }
                });
                if undrafted < tokens {
                    let drafts = token + undrafted..token + tokens;
                    let each = drafts.flat_map(|token| (0..heads).map(move |head| (token, head)));
                    let each = each.map(|(token, head)| inputs.of_token(token, head));
                    states.set_drafted_recurrence(index, each);
                }
                states.mark_recurrence(index, range.end);
                let width = heads * columns;
                let (out, results) = (&mut out[token * width..(token + tokens) * width], &*results);
                self.team.for_chunks(out, TOKENS * width, |chunk, out| {
                    for (token, out) in (chunk * TOKENS..).zip(out.chunks_exact_mut(width)) {
                        for (head, out) in out.chunks_exact_mut(columns).enumerate() {
                            for (block, out) in out.chunks_mut(COLUMNS).enumerate() {
                                let result = &results[(head * blocks_of_head + block) * tokens + token];
                                out.iter_mut().zip(result).for_each(|(out, result)| *out = *result);
                            }
                        }
                    }
                });
            }
            first += len;
        }
    }

    /// Computes a gated delta rule. Reads `workspace.normed` and writes `workspace.result`, both of
    /// shape `[tokens, hidden]`.
    pub(super) fn delta_rule(
        &self,
        index: usize,
        weights: &DeltaRule<Packed>,
        segments: &mut [Segment<'_>],
        workspace: &mut Workspace,
    ) {
        let (tokens, hidden, shape) = (self.roundings.len(), self.spec.hidden, weights.shape);
        let (heads, key_dim, value_dim) = (shape.value_heads, shape.key_dim, shape.value_dim);
        let (keys, values) = (shape.key_len(), shape.value_len());
        let channels = 2 * keys + values;
        let Workspace {
            normed,
            result,
            attended,
            gate,
            mixed,
            convolved,
            decays,
            rates,
            blocks,
            rounded,
            ..
        } = workspace;
        let (mixed, gate) = (room(mixed, tokens * channels), room(gate, tokens * values));
        let (rates, decays) = (room(rates, tokens * heads), room(decays, tokens * heads));
        let input = self.input(&normed[..tokens * hidden]);
        let parts = [
            (&weights.mixed, &mut *mixed),
            (&weights.gate, &mut *gate),
            (&weights.rate, &mut *rates),
            (&weights.time, &mut *decays),
        ];
        products(self.team, rounded, input, parts);
        self.team.for_pairs((&mut *rates, heads), (&mut *decays, heads), |_, rates, decays| {
            for rate in rates {
                *rate = sigmoid(*rate);
            }
            for ((decay, bias), growth) in decays.iter_mut().zip(&weights.time_bias).zip(&weights.growth) {
                *decay = exp(growth * softplus(*decay + bias));
            }
        });
        let convolved = room(convolved, tokens * channels);
        let inputs = Columns { rows: mixed, stride: channels, start: 0 };
        self.convolve((index, &weights.convolution, After::Silu), segments, inputs, convolved);
        let query_scale = 1.0 / (key_dim as f32).sqrt();
        self.team.for_chunks(convolved, TOKENS * channels, |_, rows| {
            for row in rows.chunks_exact_mut(channels) {
                let (queries, rest) = row.split_at_mut(keys);
                queries.chunks_exact_mut(key_dim).for_each(|query| normalise(query, query_scale));
                rest[..keys].chunks_exact_mut(key_dim).for_each(|key| normalise(key, 1.0));
            }
        });
        let columns = |start| Columns { rows: convolved, stride: channels, start };
        let key_head = |head| shape.key_head(head) * key_dim;
        let inputs = Inputs {
            shape: RecurrenceSpec { heads, rows: key_dim, columns: value_dim, is_delta_rule: true },
            queries: (columns(0), &key_head),
            keys: (columns(keys), &key_head),
            values: columns(2 * keys),
            decays,
            rates: Some(rates),
        };
        let attended = room(attended, tokens * values);
        self.recur((index, &inputs), segments, blocks, attended);
        rms_norm_in_place(self.team, attended, &weights.norm, self.spec.norm_epsilon);
        let gate = &*gate;
        self.team.for_chunks(attended, TOKENS * values, |chunk, out| {
            let gates = &gate[chunk * TOKENS * values..];
            gate_by_silu(out, gates);
        });
        let input = self.input(attended);
        products(self.team, rounded, input, [(&weights.output, room(result, tokens * hidden))]);
    }

    /// Computes a Mamba2 block. Reads `workspace.normed` and writes `workspace.result`, both of shape
    /// `[tokens, hidden]`.
    pub(super) fn mamba2(
        &self,
        index: usize,
        weights: &Mamba2<Packed>,
        segments: &mut [Segment<'_>],
        workspace: &mut Workspace,
    ) {
        let (tokens, hidden, shape) = (self.roundings.len(), self.spec.hidden, weights.shape);
        let (heads, inner, channels) = (shape.heads, shape.inner_len(), shape.convolution().channels);
        let [least, largest] = shape.time_step_limits;
        let Workspace { normed, result, attended, gate, mixed, convolved, decays, blocks, rounded, .. } =
            workspace;
        // For each token: the gate of the output, the channels of the convolution, and the time steps.
        let stride = inner + channels + heads;
        let mixed = room(mixed, tokens * stride);
        let input = self.input(&normed[..tokens * hidden]);
        products(self.team, rounded, input, [(&weights.input, &mut *mixed)]);
        let convolved = room(convolved, tokens * channels);
        let inputs = Columns { rows: mixed, stride, start: inner };
        self.convolve((index, &weights.convolution, After::Silu), segments, inputs, convolved);
        // The values that enter the state, in proportion to the time steps. Shape: `[tokens, inner]`.
        let (values, decays) = (room(gate, tokens * inner), room(decays, tokens * heads));
        let (mixed, convolved) = (&*mixed, &*convolved);
        self.team.for_pairs((&mut *values, inner), (&mut *decays, heads), |token, values, decays| {
            let times = &mixed[token * stride + inner + channels..][..heads];
            let x = convolved[token * channels..][..inner].chunks_exact(shape.head_dim);
            let values = values.chunks_exact_mut(shape.head_dim);
            for ((head, decay), (values, x)) in decays.iter_mut().enumerate().zip(values.zip(x)) {
                let time = softplus(times[head] + weights.time_bias[head]).clamp(least, largest);
                *decay = exp(weights.growth[head] * time);
                values.iter_mut().zip(x).for_each(|(value, x)| *value = x * time);
            }
        });
        let columns = |start| Columns { rows: convolved, stride: channels, start };
        let of_group = |head: usize| head * shape.groups / heads * shape.state;
        let inputs = Inputs {
            shape: RecurrenceSpec { heads, rows: shape.state, columns: shape.head_dim, is_delta_rule: false },
            queries: (columns(inner + shape.groups * shape.state), &of_group),
            keys: (columns(inner), &of_group),
            values: Columns { rows: values, stride: inner, start: 0 },
            decays,
            rates: None,
        };
        let attended = room(attended, tokens * inner);
        self.recur((index, &inputs), segments, blocks, attended);
        let len = inner / shape.groups;
        self.team.for_chunks(attended, inner, |token, out| {
            let x = convolved[token * channels..][..inner].chunks_exact(shape.head_dim);
            for ((out, x), skip) in out.chunks_exact_mut(shape.head_dim).zip(x).zip(&weights.skip) {
                out.iter_mut().zip(x).for_each(|(out, x)| *out += skip * x);
            }
            let gates = &mixed[token * stride..][..inner];
            gate_by_silu(out, gates);
            for (out, norm) in out.chunks_exact_mut(len).zip(weights.norm.chunks_exact(len)) {
                rms_norm_row(out, norm, self.spec.norm_epsilon);
            }
        });
        let input = self.input(attended);
        products(self.team, rounded, input, [(&weights.output, room(result, tokens * hidden))]);
    }
}

/// Divides a vector by its length, and multiplies it by `factor`.
fn normalise(vector: &mut [f32], factor: f32) {
    let length = (dot_f32(vector, vector) + DELTA_EPSILON).sqrt();
    scale(vector, factor / length);
}
