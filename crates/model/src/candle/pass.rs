//! The computation of a layer with tensors.

use candle_core::{Result, Tensor};
use candle_nn::ops::{rms_norm, sigmoid, softmax_last_dim};
use candle_nn::rotary_emb::{rope, rope_i};

use super::layout::{Layout, Padding};
use super::pool::Pool;
use super::weights::{FeedForward, GatedLinear, Layer, Mixture};
use crate::ops::SWIGLU_ALPHA;
use crate::routing::route;
use crate::spec::{Activation, AttentionSpec, ModelSpec, QkNorm, RopePairing};

/// State shared by all layers of a forward pass.
pub(super) struct Pass<'a> {
    pub(super) spec: &'a ModelSpec,
    pub(super) layout: Layout,
    pub(super) pool: &'a mut Pool,
}

impl Pass<'_> {
    /// Computes layer `index` and returns the new residual stream. Shape: `[tokens, hidden]`.
    pub(super) fn layer(&mut self, index: usize, weights: &Layer, x: &Tensor) -> Result<Tensor> {
        let attended = self.attention(index, weights, &self.normed(x, weights.mixer_norm.as_ref())?)?;
        let x = self.added(x, &attended, weights.post_mixer_norm.as_ref())?;
        let normed = self.normed(&x, weights.feed_forward_norm.as_ref())?;
        let fed = self.feed_forward(&weights.feed_forward, &normed)?;
        self.added(&x, &fed, weights.post_feed_forward_norm.as_ref())
    }

    /// Applies a norm to the input or output of a block. Returns `x` unchanged if `norm` is `None`.
    fn normed(&self, x: &Tensor, norm: Option<&Tensor>) -> Result<Tensor> {
        norm.map_or_else(|| Ok(x.clone()), |norm| rms_norm(x, norm, self.spec.norm_epsilon))
    }

    /// Adds `result`, the output of a block, to the residual stream `x`. If there is a `norm`,
    /// applies it to `result` first.
    fn added(&self, x: &Tensor, result: &Tensor, norm: Option<&Tensor>) -> Result<Tensor> {
        x + scaled(self.normed(result, norm)?, self.spec.residual_scale)?
    }

    /// Computes the attention block. Shape of the result: `[tokens, hidden]`.
    fn attention(&mut self, index: usize, weights: &Layer, x: &Tensor) -> Result<Tensor> {
        let shape = weights.shape;
        let AttentionSpec { heads, kv_heads, head_dim, .. } = shape;
        let (queries, keys, values) =
            (weights.query.forward(x)?, weights.key.forward(x)?, weights.value.forward(x)?);
        let (query_norm, key_norm) = weights.qk_norm.as_ref().map(|(query, key)| (query, key)).unzip();
        let queries = self.rotated(shape, &self.heads(&queries, (heads, head_dim), query_norm)?)?;
        let queries = match &self.layout.temperatures {
            Some(temperatures) => queries.broadcast_mul(temperatures)?,
            None => queries,
        };
        let keys = self.rotated(shape, &self.heads(&keys, (kv_heads, head_dim), key_norm)?)?;
        let values = self.heads(&values, (kv_heads, head_dim), None)?;
        self.pool.write(index, self.layout.written(shape), &keys, &values)?;
        let attended = match &self.layout.padding {
            None => self.attend(index, weights, queries)?,
            Some(Padding { padded, unpadded }) => {
                let attended = self.attend(index, weights, queries.index_select(padded, 1)?)?;
                attended.index_select(unpadded, 0)?
            }
        };
        weights.output.forward(&attended)
    }

    /// Computes attention over the pool, for padded queries of shape
    /// `[heads, segments * longest, head_dim]`.
    ///
    /// Shape of the result: `[segments * longest, heads * head_dim]`.
    fn attend(&self, index: usize, weights: &Layer, queries: Tensor) -> Result<Tensor> {
        let (spec, layout) = (self.spec, &self.layout);
        let AttentionSpec { heads, kv_heads, head_dim: dim, window, .. } = weights.shape;
        let group = heads / kv_heads;
        let (segments, longest) = (layout.segments, layout.longest);
        let view = layout.view(window);
        // Shape: `[kv_heads * segments, len, head_dim]`.
        let (keys, values) = self.pool.read(index, &view.slots)?;
        let keys = keys.reshape((kv_heads * segments, view.len, dim))?;
        let values = values.reshape((kv_heads * segments, view.len, dim))?;
        // Shape: `[kv_heads * segments, group * longest, head_dim]`. Query heads with the same keys
        // become adjacent.
        let queries = scaled(queries, spec.attention_scale)?;
        let queries = queries.reshape((kv_heads, group, segments, longest, dim))?.transpose(1, 2)?;
        let queries = queries.contiguous()?.reshape((kv_heads * segments, group * longest, dim))?;
        let scores = softcapped(queries.matmul(&keys.t()?)?, spec.attention_softcap)?
            .reshape((kv_heads, segments, group, longest, view.len))?;
        let scores = match &view.mask {
            Some(mask) => scores.broadcast_add(mask)?,
            None => scores,
        };
        let attention = softmax(&scores, weights.sinks.as_ref())?;
        let attention = attention.reshape((kv_heads * segments, group * longest, view.len))?;
        let attended = attention.matmul(&values)?.reshape((kv_heads, segments, group, longest, dim))?;
        let attended = attended.permute((1, 3, 0, 2, 4))?.contiguous()?;
        attended.reshape((segments * longest, heads * dim))
    }

    /// Splits `x`, of shape `[tokens, heads * head_dim]`, into heads, and normalises them if there
    /// is a norm.
    ///
    /// Shape of the result: `[heads, tokens, head_dim]`.
    fn heads(&self, x: &Tensor, (heads, head_dim): (usize, usize), norm: Option<&Tensor>) -> Result<Tensor> {
        let (spec, tokens) = (self.spec, x.dim(0)?);
        let shape = (tokens, heads, head_dim);
        let x = match (norm, spec.qk_norm) {
            (Some(norm), Some(QkNorm::Whole)) => rms_norm(x, norm, spec.norm_epsilon)?.reshape(shape)?,
            (Some(norm), _) => rms_norm(&x.reshape(shape)?, norm, spec.norm_epsilon)?,
            (None, _) => x.reshape(shape)?,
        };
        x.transpose(0, 1)?.contiguous()
    }

    /// Rotates heads by their positions. Elements beyond the rotary part are unchanged.
    fn rotated(&self, shape: AttentionSpec, x: &Tensor) -> Result<Tensor> {
        let spec = self.spec;
        let AttentionSpec { head_dim, rope: set, .. } = shape;
        let Some(set) = set else { return Ok(x.clone()) };
        let (cos, sin) = &self.layout.rotations[set];
        let turn = |x: &Tensor| {
            let x = x.unsqueeze(0)?;
            let turned = match spec.rope_pairing {
                RopePairing::Interleaved => rope_i(&x, cos, sin)?,
                RopePairing::Halves => rope(&x, cos, sin)?,
            };
            turned.squeeze(0)
        };
        let dims = spec.ropes[set].dims;
        if dims == head_dim {
            return turn(x);
        }
        let rotary = turn(&x.narrow(2, 0, dims)?.contiguous()?)?;
        let rest = x.narrow(2, dims, head_dim - dims)?;
        Tensor::cat(&[&rotary, &rest], 2)?.contiguous()
    }

    /// Computes the feed-forward block. Shape of the result: `[tokens, hidden]`.
    fn feed_forward(&self, weights: &FeedForward, x: &Tensor) -> Result<Tensor> {
        match weights {
            FeedForward::Dense(dense) => self.dense(dense, x),
            FeedForward::Experts(mixture) => self.experts(mixture, x),
        }
    }

    fn dense(&self, weights: &GatedLinear, x: &Tensor) -> Result<Tensor> {
        let (gate, up) = (weights.gate.forward(x)?, weights.up.forward(x)?);
        let gated = match self.spec.activation {
            Activation::Silu => (gate.silu()? * up)?,
            Activation::Gelu | Activation::PlainGelu => (gate.gelu_erf()? * up)?,
            Activation::ReluSquared => (gate.relu()?.sqr()? * up)?,
            Activation::GeluTanh => (gate.gelu()? * up)?,
            Activation::ClampedSwiglu { limit } => {
                let (gate, up) = (gate.minimum(limit)?, up.clamp(-limit, limit)?);
                let swish = (&gate * sigmoid(&(&gate * f64::from(SWIGLU_ALPHA))?)?)?;
                (swish * (up + 1.0)?)?
            }
        };
        weights.down.forward(&gated)
    }

    /// Computes a mixture of experts. The router's scores are copied to the host, which assigns
    /// tokens to experts.
    fn experts(&self, mixture: &Mixture, x: &Tensor) -> Result<Tensor> {
        let logits: Vec<f32> = mixture.router.forward(x)?.flatten_all()?.to_vec1()?;
        let routes = route(mixture.spec, &logits, mixture.choice_bias.as_deref(), None);
        let (tokens, weights): (Vec<u32>, Vec<f32>) =
            routes.iter().flatten().map(|&(token, weight)| (token as u32, weight)).unzip();
        let count = tokens.len();
        // Ordered by expert.
        let tokens = Tensor::from_vec(tokens, count, x.device())?;
        let weights = Tensor::from_vec(weights, (count, 1), x.device())?;
        let rows = x.index_select(&tokens, 0)?;
        let (mut fed, mut first) = (Vec::new(), 0);
        for (expert, tokens) in mixture.experts.iter().zip(routes).filter(|(_, tokens)| !tokens.is_empty()) {
            fed.push(self.dense(expert, &rows.narrow(0, first, tokens.len())?)?);
            first += tokens.len();
        }
        let out = match &mixture.shared {
            None => x.zeros_like()?,
            Some((block, None)) => self.dense(block, x)?,
            Some((block, Some(gate))) => self.dense(block, x)?.broadcast_mul(&sigmoid(&gate.forward(x)?)?)?,
        };
        out.index_add(&tokens, &Tensor::cat(&fed, 0)?.broadcast_mul(&weights)?, 0)
    }
}

/// Computes `x · scale`.
pub(super) fn scaled(x: Tensor, scale: f32) -> Result<Tensor> {
    // Most models have the factor 1, for which this saves an operation on the device.
    #[expect(clippy::float_cmp, reason = "only what changes nothing is left out")]
    if scale == 1.0 { Ok(x) } else { x * f64::from(scale) }
}

/// Computes `cap · tanh(x / cap)`, or returns `x` if there is no cap.
pub(super) fn softcapped(x: Tensor, cap: Option<f32>) -> Result<Tensor> {
    match cap {
        Some(cap) => (x / f64::from(cap))?.tanh()? * f64::from(cap),
        None => Ok(x),
    }
}

/// Converts scores of shape `[kv_heads, segments, group, longest, len]` to weights. The weights sum
/// to 1, or to less if there are sinks.
fn softmax(scores: &Tensor, sinks: Option<&Tensor>) -> Result<Tensor> {
    let Some(sinks) = sinks else { return softmax_last_dim(scores) };
    let (kv_heads, segments, group, longest, len) = scores.dims5()?;
    let sinks = sinks.reshape((kv_heads, 1, group, 1, 1))?;
    let sinks = sinks.broadcast_as((kv_heads, segments, group, longest, 1))?;
    softmax_last_dim(&Tensor::cat(&[scores, &sinks.contiguous()?], 4)?.contiguous()?)?
        .narrow(4, 0, len)?
        .contiguous()
}
