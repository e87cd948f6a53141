//! Elementwise operations of a layer, over rows of `f32` in host memory.
//!
//! Functions named `…_loops` are compiled twice, by [`vectorised`].

#![expect(clippy::inline_always, reason = "`vectorised` needs it")]

use std::f32::consts::FRAC_1_SQRT_2;

use formwork_kernels::{AsBuilt, MultiplyAdd, Team, dot_f32, exp, exp_with, vectorised};

use crate::spec::{Activation, ModelSpec, NormKind};
use crate::weights::Norm;

/// Minimum number of elements for a parallel task.
const ELEMENTS: usize = 1 << 13;

/// Normalises each row of `norm.weight.len()` elements as the layers of a model do.
pub(crate) fn normalise(team: &Team, spec: &ModelSpec, rows: &[f32], norm: &Norm, out: &mut [f32]) {
    match spec.norm_kind {
        NormKind::Rms => rms_norm(team, rows, &norm.weight, spec.norm_epsilon, out),
        NormKind::LayerNorm => {
            out.copy_from_slice(rows);
            normalise_in_place(team, spec, out, norm);
        }
    }
}

/// In-place version of [`normalise`].
pub(crate) fn normalise_in_place(team: &Team, spec: &ModelSpec, rows: &mut [f32], norm: &Norm) {
    match spec.norm_kind {
        NormKind::Rms => rms_norm_in_place(team, rows, &norm.weight, spec.norm_epsilon),
        NormKind::LayerNorm => {
            let len = norm.weight.len();
            team.for_chunks(rows, some_rows(len), |_, rows| {
                rows.chunks_exact_mut(len).for_each(|row| layer_norm_row(row, norm, spec.norm_epsilon));
            });
        }
    }
}

/// Subtracts the mean of a row, divides the row by its root mean square, and applies the weights.
pub(crate) fn layer_norm_row(row: &mut [f32], norm: &Norm, epsilon: f32) {
    vectorised!(layer_norm_row_loops(row: &mut [f32], norm: &Norm, epsilon: f32));
}

#[inline(always)]
fn layer_norm_row_loops(row: &mut [f32], norm: &Norm, epsilon: f32) {
    let mean = by_lanes(row, 0.0, |sum, x| sum + x) / row.len() as f32;
    for x in row.iter_mut() {
        *x -= mean;
    }
    let scale = norm_scale(row, epsilon);
    for (x, w) in row.iter_mut().zip(&norm.weight) {
        *x *= scale * w;
    }
    for (x, b) in row.iter_mut().zip(norm.bias.iter().flatten()) {
        *x += b;
    }
}

/// Divides each row of `weight.len()` elements by its root mean square and multiplies the result by
/// `weight`.
pub(crate) fn rms_norm(team: &Team, rows: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let len = some_rows(weight.len());
    team.for_chunks(out, len, |chunk, out| {
        let rows = &rows[chunk * len..];
        vectorised!(rms_norm_loops(rows: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]));
    });
}

#[inline(always)]
fn rms_norm_loops(rows: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let rows = rows.chunks_exact(weight.len());
    for (row, out) in rows.zip(out.chunks_exact_mut(weight.len())) {
        let scale = norm_scale(row, epsilon);
        for ((out, x), w) in out.iter_mut().zip(row).zip(weight) {
            *out = *x * scale * w;
        }
    }
}

/// In-place version of [`rms_norm`].
pub(crate) fn rms_norm_in_place(team: &Team, rows: &mut [f32], weight: &[f32], epsilon: f32) {
    team.for_chunks(rows, some_rows(weight.len()), |_, rows| {
        for row in rows.chunks_exact_mut(weight.len()) {
            rms_norm_row(row, weight, epsilon);
        }
    });
}

/// Divides a row by its root mean square, and multiplies it by `weight`.
pub(crate) fn rms_norm_row(row: &mut [f32], weight: &[f32], epsilon: f32) {
    vectorised!(rms_norm_row_loops(row: &mut [f32], weight: &[f32], epsilon: f32));
}

#[inline(always)]
fn rms_norm_row_loops(row: &mut [f32], weight: &[f32], epsilon: f32) {
    let scale = norm_scale(row, epsilon);
    for (x, w) in row.iter_mut().zip(weight) {
        *x = *x * scale * w;
    }
}

/// Returns the number of elements in a parallel task over rows of `len` elements each. A task has
/// whole rows.
pub(crate) fn some_rows(len: usize) -> usize {
    (ELEMENTS / len).max(1) * len
}

/// Returns the reciprocal of the root mean square of `row`.
#[inline(always)]
fn norm_scale(row: &[f32], epsilon: f32) -> f32 {
    1.0 / (dot_f32(row, row) / row.len() as f32 + epsilon).sqrt()
}

/// Computes `rows += other * scale`.
pub(crate) fn add_scaled(team: &Team, rows: &mut [f32], other: &[f32], scale: f32) {
    team.for_chunks(rows, ELEMENTS, |chunk, rows| {
        for (x, y) in rows.iter_mut().zip(&other[chunk * ELEMENTS..]) {
            *x += y * scale;
        }
    });
}

/// Computes `gate = f(gate) * up`, where `f` is the activation. [`Activation::ClampedSwiglu`] also
/// clamps `up` and adds 1 to it.
pub(crate) fn gated(activation: Activation, gate: &mut [f32], up: &[f32]) {
    vectorised!(gated_loops::<_>(activation: Activation, gate: &mut [f32], up: &[f32]));
}

#[inline(always)]
fn gated_loops<M: MultiplyAdd>(activation: Activation, gate: &mut [f32], up: &[f32]) {
    match activation {
        Activation::Silu => {
            for (g, u) in gate.iter_mut().zip(up) {
                *g = silu_with::<M>(*g) * u;
            }
        }
        Activation::ClampedSwiglu { limit } => {
            for (g, u) in gate.iter_mut().zip(up) {
                let (clamped, u) = (g.min(limit), u.clamp(-limit, limit));
                *g = clamped / (1.0 + exp_with::<M>(-SWIGLU_ALPHA * clamped)) * (u + 1.0);
            }
        }
        Activation::ReluSquared => {
            for (g, u) in gate.iter_mut().zip(up) {
                *g = relu_squared(*g) * u;
            }
        }
        Activation::Gelu | Activation::PlainGelu => {
            for (g, u) in gate.iter_mut().zip(up) {
                *g = gelu_with::<M>(*g) * u;
            }
        }
        Activation::GeluTanh => {
            for (g, u) in gate.iter_mut().zip(up) {
                // 0.5 (1 + tanh z) is the logistic function of 2z.
                let z = SQRT_2_OVER_PI * *g * M::multiply_add(0.044_715 * *g, *g, 1.0);
                *g = *g / (1.0 + exp_with::<M>(-2.0 * z)) * u;
            }
        }
    }
}

/// Computes `gate = f(gate)`, where `f` is an activation without an up projection.
pub(crate) fn ungated(activation: Activation, gate: &mut [f32]) {
    vectorised!(ungated_loops::<_>(activation: Activation, gate: &mut [f32]));
}

#[inline(always)]
fn ungated_loops<M: MultiplyAdd>(activation: Activation, gate: &mut [f32]) {
    if activation == Activation::PlainGelu {
        for x in gate {
            *x = gelu_with::<M>(*x);
        }
    } else {
        for x in gate {
            *x = relu_squared(*x);
        }
    }
}

/// Returns `x · Φ(x)`, where Φ is the distribution function of the normal distribution.
pub(crate) fn gelu(x: f32) -> f32 {
    gelu_with::<AsBuilt>(x)
}

#[inline(always)]
fn gelu_with<M: MultiplyAdd>(x: f32) -> f32 {
    0.5 * x * (1.0 + erf::<M>(x * FRAC_1_SQRT_2))
}

/// Returns the error function of `x`, with an error of at most 2e-7. This is formula 7.1.26 in
/// Abramowitz and Stegun, Handbook of Mathematical Functions.
#[inline(always)]
fn erf<M: MultiplyAdd>(x: f32) -> f32 {
    let magnitude = x.abs();
    let t = 1.0 / M::multiply_add(0.327_591_1, magnitude, 1.0);
    let mut polynomial = 1.061_405_4;
    for coefficient in [-1.453_152_1, 1.421_413_8, -0.284_496_72, 0.254_829_6] {
        polynomial = M::multiply_add(polynomial, t, coefficient);
    }
    let value = 1.0 - polynomial * t * exp_with::<M>(-magnitude * magnitude);
    value.copysign(x)
}

const SQRT_2_OVER_PI: f32 = 0.797_884_6;
pub(crate) const SWIGLU_ALPHA: f32 = 1.702;

/// Computes `rows *= scale`.
#[inline(always)]
pub(crate) fn scale(rows: &mut [f32], scale: f32) {
    for x in rows {
        *x *= scale;
    }
}

/// Computes `x = cap · tanh(x / cap)` for each value.
pub(crate) fn softcap(values: &mut [f32], cap: f32) {
    for x in values {
        *x = cap * (*x / cap).tanh();
    }
}

/// Maximum and sum of a softmax. With these values, the softmaxes of several parts of a row can be
/// combined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Softmax {
    /// The largest score.
    pub(crate) most: f32,
    /// Sum of `exp(score - most)` over all scores.
    pub(crate) sum: f32,
}

/// Returns the logistic function of `x`: 1 / (1 + e^-x).
pub(crate) fn sigmoid(x: f32) -> f32 {
    sigmoid_with::<AsBuilt>(x)
}

#[inline(always)]
fn sigmoid_with<M: MultiplyAdd>(x: f32) -> f32 {
    1.0 / (1.0 + exp_with::<M>(-x))
}

/// Returns `max(x, 0)²`.
#[inline(always)]
pub(crate) fn relu_squared(x: f32) -> f32 {
    let positive = x.max(0.0);
    positive * positive
}

/// Returns `x · σ(x)`.
#[inline(always)]
fn silu_with<M: MultiplyAdd>(x: f32) -> f32 {
    x / (1.0 + exp_with::<M>(-x))
}

/// Returns `ln(1 + e^x)`.
pub(crate) fn softplus(x: f32) -> f32 {
    /// Above this number, the result is `x` in all bits.
    const LINEAR_FROM: f32 = 20.0;
    if x > LINEAR_FROM { x } else { exp(x).ln_1p() }
}

/// Replaces each value `x` by `silu(x)`.
pub(crate) fn silu_in_place(values: &mut [f32]) {
    vectorised!(silu_in_place_loops::<_>(values: &mut [f32]));
}

#[inline(always)]
fn silu_in_place_loops<M: MultiplyAdd>(values: &mut [f32]) {
    for x in values {
        *x = silu_with::<M>(*x);
    }
}

/// Multiplies each value by the logistic function of its gate.
pub(crate) fn gate_by_sigmoid(values: &mut [f32], gates: &[f32]) {
    vectorised!(gate_by_sigmoid_loops::<_>(values: &mut [f32], gates: &[f32]));
}

#[inline(always)]
fn gate_by_sigmoid_loops<M: MultiplyAdd>(values: &mut [f32], gates: &[f32]) {
    for (value, gate) in values.iter_mut().zip(gates) {
        *value *= sigmoid_with::<M>(*gate);
    }
}

/// Multiplies each value by `silu` of its gate.
pub(crate) fn gate_by_silu(values: &mut [f32], gates: &[f32]) {
    vectorised!(gate_by_silu_loops::<_>(values: &mut [f32], gates: &[f32]));
}

#[inline(always)]
fn gate_by_silu_loops<M: MultiplyAdd>(values: &mut [f32], gates: &[f32]) {
    for (value, gate) in values.iter_mut().zip(gates) {
        *value *= silu_with::<M>(*gate);
    }
}

/// Replaces `scores` by their softmax: weights that sum to 1.
pub(crate) fn softmax(scores: &mut [f32]) -> Softmax {
    vectorised!(softmax_loops::<_>(scores: &mut [f32]) -> Softmax)
}

#[inline(always)]
fn softmax_loops<M: MultiplyAdd>(scores: &mut [f32]) -> Softmax {
    let most = by_lanes(scores, f32::NEG_INFINITY, |most, score| if score > most { score } else { most });
    for score in scores.iter_mut() {
        *score = exp_with::<M>(*score - most);
    }
    let sum = by_lanes(scores, 0.0, |sum, weight| sum + weight);
    scale(scores, 1.0 / sum);
    Softmax { most, sum }
}

/// Reduces `values` with the operation `bring` and its neutral element `first`, in 32 independent
/// chains. A single chain would be limited by the latency of one operation.
#[inline(always)]
fn by_lanes(values: &[f32], first: f32, bring: impl Fn(f32, f32) -> f32) -> f32 {
    const LANES: usize = 32;
    let (whole, rest) = values.as_chunks::<LANES>();
    let mut lanes = [first; LANES];
    for values in whole {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane = bring(*lane, *value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane = bring(*lane, *value);
    }
    // A pairwise reduction: reducing the lanes sequentially would take longer than the loop above.
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        for (low, high) in low.iter_mut().zip(high) {
            *low = bring(*low, *high);
        }
        half /= 2;
    }
    bring(first, lanes[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_gelu_matches_its_definition() {
        // Values of x and of the distribution function at x.
        let known = [
            (-3.0, 0.001_349_898),
            (-1.0, 0.158_655_25),
            (-0.125, 0.450_261_8),
            (0.0, 0.5),
            (0.5, 0.691_462_46),
            (2.0, 0.977_249_9),
            (6.0, 1.0),
        ];
        for (x, share) in known {
            assert!((gelu(x) - x * share).abs() < 5e-7, "{x}: {}", gelu(x));
        }
    }

    #[test]
    fn gelu_matches_its_definition() {
        let mut gate = [-6.0, -1.0, -0.25, 0.0, 0.5, 2.0, 9.0];
        let expected =
            gate.map(|x: f32| 0.5 * x * (1.0 + (SQRT_2_OVER_PI * (x + 0.044_715 * x * x * x)).tanh()));
        gated(Activation::GeluTanh, &mut gate, &[1.0; 7]);
        for (given, expected) in gate.iter().zip(expected) {
            assert!((given - expected).abs() < 1e-6, "{given} {expected}");
        }
    }
}
