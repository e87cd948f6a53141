//! Binding of the blocks that mix information of different positions.

use super::Binder;
use crate::error::Kind;
use crate::spec::{AttentionSpec, ConvolutionSpec, DeltaRuleSpec, KeyValues, Mamba2Spec, MixerSpec, QkNorm};
use crate::weights::{
    AttentionWeights, Convolution, DeltaRule, Linear, Mamba2, Mixer, Purpose, QkNormWeights,
    ShortConvolution, stored,
};

impl Binder<'_> {
    pub(super) fn mixer(&self, index: usize, spec: MixerSpec) -> Result<Mixer, Kind> {
        Ok(match spec {
            MixerSpec::Nothing => Mixer::Nothing,
            MixerSpec::Attention(shape) => Mixer::Attention(Box::new(self.attention(index, shape)?)),
            MixerSpec::Latent(shape) => Mixer::Latent(Box::new(self.latent(index, shape)?)),
            MixerSpec::ShortConvolution(shape) => {
                Mixer::ShortConvolution(Box::new(self.short_convolution(index, shape)?))
            }
            MixerSpec::DeltaRule(shape) => Mixer::DeltaRule(Box::new(self.delta_rule(index, shape)?)),
            MixerSpec::Mamba2(shape) => Mixer::Mamba2(Box::new(self.mamba2(index, shape)?)),
        })
    }

    fn attention(&self, index: usize, shape: AttentionSpec) -> Result<AttentionWeights, Kind> {
        let spec = self.spec;
        let (query, key, value) = self.projections(index, shape)?;
        let (query, gate) = if shape.is_gated {
            // The rows of each head are those of the query and then those of the gate.
            let part = |part: usize| {
                let rows = (0..shape.query_len()).map(|row| {
                    let (head, row) = (row / shape.head_dim, row % shape.head_dim);
                    (2 * head + part) * shape.head_dim + row
                });
                query.gather(self.purpose, rows)
            };
            (part(0), Some(part(1)))
        } else {
            (query, None)
        };
        let sinks = || self.vector(&self.names.layer(index, "attn_sinks.weight"), shape.heads);
        Ok(AttentionWeights {
            shape,
            query,
            key,
            value,
            gate,
            value_norm: spec.value_norm.then(|| vec![1.0; shape.head_dim]),
            qk_norm: self.qk_norm(index, shape)?,
            sinks: spec.attention_sinks.then(sinks).transpose()?,
            output: self.linear(&self.names.layer(index, "attn_output"), shape.query_len(), spec.hidden)?,
        })
    }

    /// Reads the query, key and value projections of a layer, from three tensors or from one that
    /// contains all three. The query projection of a gated block contains the gate.
    fn projections(
        &self,
        index: usize,
        shape: AttentionSpec,
    ) -> Result<(Linear, Option<Linear>, Option<Linear>), Kind> {
        let spec = self.spec;
        let (queries, keys) = (shape.query_len() * if shape.is_gated { 2 } else { 1 }, shape.key_len());
        let fused = self.names.layer(index, "attn_qkv");
        if stored::rows(self.checkpoint, &fused).is_some() {
            let all = self.linear(&fused, spec.hidden, queries + 2 * keys)?;
            let (key, value) = (queries..queries + keys, queries + keys..queries + 2 * keys);
            return Ok((all.slice(0..queries), Some(all.slice(key)), Some(all.slice(value))));
        }
        let projection = |part: &str, rows: usize| {
            let name = self.names.layer(index, part);
            let bound = self.linear(&name, spec.hidden, rows)?;
            if spec.qkv_bias && bound.bias.is_none() {
                return Err(Kind::MissingTensor { tensor: name + ".bias" });
            }
            Ok(bound)
        };
        let has = shape.key_values;
        let key = (!matches!(has, KeyValues::OfLayer(_))).then(|| projection("attn_k", keys));
        let value = (has == KeyValues::Own).then(|| projection("attn_v", keys));
        Ok((projection("attn_q", queries)?, key.transpose()?, value.transpose()?))
    }

    fn qk_norm(&self, index: usize, shape: AttentionSpec) -> Result<Option<QkNormWeights>, Kind> {
        let (query, key) = match self.spec.qk_norm {
            None => return Ok(None),
            Some(QkNorm::PerHead | QkNorm::PerRotatedHead) => (shape.head_dim, shape.head_dim),
            Some(QkNorm::Whole) => (shape.query_len(), shape.key_len()),
        };
        let norm = |part: &str, len| self.norm(&(self.names.layer(index, part) + ".weight"), len);
        let has_keys = !matches!(shape.key_values, KeyValues::OfLayer(_));
        let key = if has_keys { norm("attn_k_norm", key)? } else { Vec::new() };
        Ok(Some(QkNormWeights { query: norm("attn_q_norm", query)?, key }))
    }

    /// Reads a causal convolution. Safetensors have a dimension of 1 between channels and positions.
    fn convolution(&self, name: &str, shape: ConvolutionSpec) -> Result<Convolution, Kind> {
        let ConvolutionSpec { channels, kernel } = shape;
        let weight = format!("{name}.weight");
        let is_flat = self.checkpoint.tensor(&weight).is_some_and(|info| info.shape.len() == 2);
        let (kernel_len, channels_len) = (kernel as u64, channels as u64);
        let dims = if is_flat { vec![kernel_len, channels_len] } else { vec![kernel_len, 1, channels_len] };
        let by_channel = self.checkpoint.values(&weight, &dims)?;
        let factors = (0..kernel * channels).map(|at| by_channel[at % channels * kernel + at / channels]);
        let bias = format!("{name}.bias");
        let has_bias = self.checkpoint.tensor(&bias).is_some();
        Ok(Convolution {
            shape,
            factors: factors.collect(),
            bias: has_bias.then(|| self.vector(&bias, channels)).transpose()?,
        })
    }

    fn short_convolution(&self, index: usize, shape: ConvolutionSpec) -> Result<ShortConvolution, Kind> {
        let hidden = self.spec.hidden;
        let name = |part: &str| self.names.layer(index, part);
        Ok(ShortConvolution {
            input: self.linear(&name("shortconv.in_proj"), hidden, 3 * shape.channels)?,
            convolution: self.convolution(&name("shortconv.conv"), shape)?,
            output: self.linear(&name("shortconv.out_proj"), shape.channels, hidden)?,
        })
    }

    fn delta_rule(&self, index: usize, shape: DeltaRuleSpec) -> Result<DeltaRule, Kind> {
        let hidden = self.spec.hidden;
        let name = |part: &str| self.names.layer(index, part);
        let has = |part: &str| stored::rows(self.checkpoint, &name(part)).is_some();
        let heads = shape.value_heads;
        // Like routers, these small projections are never converted: their errors add up in the state.
        let exact = Self { quantize: None, ..*self };
        let (mixed, gate) = if has("ssm_in") {
            self.mixed_by_key_head(index, shape)?
        } else {
            let mixed = self.linear(&name("attn_qkv"), hidden, 2 * shape.key_len() + shape.value_len())?;
            (mixed, self.linear(&name("attn_gate"), hidden, shape.value_len())?)
        };
        let (rate, time) = if has("ssm_ba") {
            // The rows of each key head are the rates of its value heads, and then their time steps.
            let both = exact.linear(&name("ssm_ba"), hidden, 2 * heads)?;
            let shared = heads / shape.key_heads;
            let part = |part: usize| {
                let rows = (0..heads).map(|head| (2 * (head / shared) + part) * shared + head % shared);
                both.gather(self.purpose, rows)
            };
            (part(0), part(1))
        } else {
            (
                exact.linear(&name("ssm_beta"), hidden, heads)?,
                exact.linear(&name("ssm_alpha"), hidden, heads)?,
            )
        };
        Ok(DeltaRule {
            shape,
            mixed,
            gate,
            rate,
            time,
            time_bias: self.vector(&name("ssm_dt.bias"), heads)?,
            growth: self.growth(index, heads)?,
            convolution: self.convolution(&name("ssm_conv1d"), shape.convolution())?,
            norm: self.vector(&(name("ssm_norm") + ".weight"), shape.value_dim)?,
            output: self.linear(&name("ssm_out"), shape.value_len(), hidden)?,
        })
    }

    /// Reads the projections to queries, keys and values, and to the gate, from one tensor. Its rows
    /// are, for each key head: the query, the key, and the values and the gates of its value heads.
    fn mixed_by_key_head(&self, index: usize, shape: DeltaRuleSpec) -> Result<(Linear, Linear), Kind> {
        let DeltaRuleSpec { key_heads, key_dim, .. } = shape;
        let (keys, values) = (shape.key_len(), shape.value_len());
        let all = self.linear(&self.names.layer(index, "ssm_in"), self.spec.hidden, 2 * (keys + values))?;
        let values_of_head = values / key_heads;
        let of_head = 2 * (key_dim + values_of_head);
        // Returns the rows of a part of each head. The part starts at `first` and has `len` rows.
        let rows = |first: usize, len: usize| {
            (0..key_heads * len).map(move |row| row / len * of_head + first + row % len)
        };
        let queries = rows(0, key_dim);
        let mixed = queries.chain(rows(key_dim, key_dim)).chain(rows(2 * key_dim, values_of_head));
        let gates = rows(2 * key_dim + values_of_head, values_of_head);
        Ok((all.gather(self.purpose, mixed), all.gather(self.purpose, gates)))
    }

    fn mamba2(&self, index: usize, shape: Mamba2Spec) -> Result<Mamba2, Kind> {
        let hidden = self.spec.hidden;
        let name = |part: &str| self.names.layer(index, part);
        let inner = shape.inner_len();
        let rows = inner + shape.convolution().channels + shape.heads;
        Ok(Mamba2 {
            shape,
            input: self.linear(&name("ssm_in"), hidden, rows)?,
            convolution: self.convolution(&name("ssm_conv1d"), shape.convolution())?,
            time_bias: self.vector(&name("ssm_dt.bias"), shape.heads)?,
            growth: self.growth(index, shape.heads)?,
            skip: self.row_or_column(&name("ssm_d"), shape.heads)?,
            norm: self.flat(&(name("ssm_norm") + ".weight"), inner)?,
            output: self.linear(&name("ssm_out"), inner, hidden)?,
        })
    }

    /// Reads the growth of the state of each head.
    fn growth(&self, index: usize, heads: usize) -> Result<Vec<f32>, Kind> {
        let mut growth = self.row_or_column(&self.names.layer(index, "ssm_a"), heads)?;
        if !self.names.has_growth() {
            for growth in &mut growth {
                *growth = -growth.exp();
            }
        }
        Ok(growth)
    }

    /// Reads a vector that may have a further dimension of 1.
    fn row_or_column(&self, name: &str, len: usize) -> Result<Vec<f32>, Kind> {
        let column = [1, len as u64];
        if self.checkpoint.tensor(name).is_some_and(|info| info.shape == column) {
            return self.checkpoint.values(name, &column);
        }
        self.vector(name, len)
    }

    /// Reads a tensor of `len` elements that may have two dimensions.
    pub(super) fn flat(&self, name: &str, len: usize) -> Result<Vec<f32>, Kind> {
        match self.checkpoint.tensor(name) {
            Some(info) if info.shape.len() == 2 && info.elements() == len as u64 => {
                self.checkpoint.values(name, &info.shape.clone())
            }
            _ => self.vector(name, len),
        }
    }
}

impl Linear {
    /// Returns the given rows, with their biases.
    fn gather(&self, purpose: Purpose, rows: impl Iterator<Item = usize>) -> Self {
        let rows: Vec<usize> = rows.collect();
        let bias = self.bias.as_ref().map(|bias| rows.iter().map(|&row| bias[row]).collect());
        Self { weight: self.weight.gather(purpose, &rows), bias }
    }
}
