//! Weights in the memory of a device.

use std::borrow::Cow;
use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{DType, Device, Module, Result, Tensor};
use formwork_kernels::Encoding;
use rayon::prelude::*;

use super::Precision;
use super::pass::scaled;
use crate::spec::{AttentionSpec, ExpertSpec};
use crate::weights::{self, Matrix};

/// A linear layer: a weight matrix, and the bias to add to its products if the layer has one.
pub(super) struct Linear {
    weight: Weight,
    /// Factor of the products, before the bias is added.
    factor: f32,
    /// Bias of each row. Shape: `[rows]`.
    bias: Option<Tensor>,
}

enum Weight {
    /// A matrix of any float type. Shape: `[rows, columns]`.
    Float(Tensor),
    Quantized(QMatMul),
}

pub(super) struct Layer {
    pub(super) shape: AttentionSpec,
    pub(super) mixer_norm: Option<Tensor>,
    pub(super) query: Linear,
    pub(super) key: Linear,
    pub(super) value: Linear,
    /// Norm weights of queries and of keys. `None` if the model does not normalise them.
    pub(super) qk_norm: Option<(Tensor, Tensor)>,
    /// Attention sinks: one score per query head. Shape: `[heads]`.
    pub(super) sinks: Option<Tensor>,
    pub(super) output: Linear,
    pub(super) post_mixer_norm: Option<Tensor>,
    pub(super) feed_forward_norm: Option<Tensor>,
    pub(super) feed_forward: FeedForward,
    pub(super) post_feed_forward_norm: Option<Tensor>,
}

pub(super) enum FeedForward {
    Dense(GatedLinear),
    Experts(Box<Mixture>),
}

/// Weights of a mixture of experts.
pub(super) struct Mixture {
    pub(super) spec: ExpertSpec,
    pub(super) router: Linear,
    /// Bias of the experts' scores for the choice, which the host makes. Shape: `[experts]`.
    pub(super) choice_bias: Option<Vec<f32>>,
    pub(super) experts: Vec<GatedLinear>,
    /// The expert that computes every token, and the projection that weights its output.
    pub(super) shared: Option<(GatedLinear, Option<Linear>)>,
}

pub(super) struct GatedLinear {
    pub(super) gate: Linear,
    pub(super) up: Linear,
    pub(super) down: Linear,
}

/// All weights except the embedding, which stays in host memory.
pub(super) struct Weights {
    pub(super) layers: Vec<Layer>,
    pub(super) output_norm: Tensor,
    pub(super) head: Linear,
}

impl Weights {
    pub(super) fn upload(weights: &weights::Weights, device: &Device, precision: Precision) -> Result<Self> {
        let upload = Upload { device, precision };
        Ok(Self {
            layers: weights.layers.iter().map(|layer| upload.layer(layer)).collect::<Result<_>>()?,
            output_norm: upload.vector(weights.output_norm.as_ref().map_or(&[], |norm| &norm.weight))?,
            head: upload.exact(&weights.head, None)?,
        })
    }
}

impl Linear {
    /// Multiplies `x`, of shape `[tokens, columns]`, by the rows of the weight and adds the bias.
    /// The result has the shape `[tokens, rows]`. Input and result are `f32`.
    pub(super) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let product = match &self.weight {
            Weight::Float(weight) if weight.dtype() == DType::F16 => {
                // Activations may exceed the range of `f16`. Each row is scaled so that its largest
                // element is 1.
                let largest = x.abs()?.max_keepdim(1)?.clamp(f32::MIN_POSITIVE, f32::MAX)?;
                let x = x.broadcast_div(&largest)?.to_dtype(DType::F16)?;
                x.matmul(&weight.t()?)?.to_dtype(DType::F32)?.broadcast_mul(&largest)?
            }
            Weight::Float(weight) => {
                x.to_dtype(weight.dtype())?.matmul(&weight.t()?)?.to_dtype(DType::F32)?
            }
            Weight::Quantized(weight) => weight.forward(x)?,
        };
        let product = scaled(product, self.factor)?;
        match &self.bias {
            Some(bias) => product.broadcast_add(bias),
            None => Ok(product),
        }
    }
}

struct Upload<'a> {
    device: &'a Device,
    precision: Precision,
}

impl Upload<'_> {
    /// Uploads a layer. Models with another mixer than attention were refused before.
    fn layer(&self, layer: &weights::LayerWeights) -> Result<Layer> {
        let weights::Mixer::Attention(attention) = &layer.mixer else {
            return Err(candle_core::Error::msg("the layer has no attention"));
        };
        // Models whose norms have biases were refused before.
        let norm =
            |norm: &Option<weights::Norm>| norm.as_ref().map(|norm| self.vector(&norm.weight)).transpose();
        let pair = |norm: &weights::QkNormWeights| Ok((self.vector(&norm.query)?, self.vector(&norm.key)?));
        let qk_norm: Option<Result<_>> = attention.qk_norm.as_ref().map(pair);
        Ok(Layer {
            shape: attention.shape,
            mixer_norm: norm(&layer.mixer_norm)?,
            query: self.linear(&attention.query)?,
            key: self.key_or_value(attention.key.as_ref())?,
            value: self.key_or_value(attention.value.as_ref())?,
            qk_norm: qk_norm.transpose()?,
            sinks: attention.sinks.as_deref().map(|sinks| self.vector(sinks)).transpose()?,
            output: self.linear(&attention.output)?,
            post_mixer_norm: norm(&layer.post_mixer_norm)?,
            feed_forward_norm: norm(&layer.feed_forward_norm)?,
            feed_forward: self.feed_forward(&layer.feed_forward)?,
            post_feed_forward_norm: norm(&layer.post_feed_forward_norm)?,
        })
    }

    /// Uploads the projection of keys or values. Models whose layers lack it were refused before.
    fn key_or_value(&self, linear: Option<&weights::Linear>) -> Result<Linear> {
        self.linear(linear.ok_or_else(|| candle_core::Error::msg("the layer has no keys of its own"))?)
    }

    fn feed_forward(&self, block: &weights::FeedForward) -> Result<FeedForward> {
        Ok(match block {
            weights::FeedForward::Dense(dense) => FeedForward::Dense(self.gated(dense)?),
            weights::FeedForward::Experts(mixture) => FeedForward::Experts(Box::new(self.mixture(mixture)?)),
            weights::FeedForward::Nothing | weights::FeedForward::DenseAndExperts(_) => {
                return Err(candle_core::Error::msg("the feed-forward block is not supported"));
            }
        })
    }

    fn mixture(&self, mixture: &weights::Mixture) -> Result<Mixture> {
        // Rounded scores could select other experts.
        let exact =
            |linear: &weights::Linear| -> Result<Linear> { self.exact(&linear.weight, self.bias(linear)?) };
        let shared = |shared: &weights::SharedExpert| -> Result<_> {
            Ok((self.gated(&shared.block)?, shared.gate.as_ref().map(exact).transpose()?))
        };
        Ok(Mixture {
            spec: mixture.spec,
            router: exact(&mixture.router)?,
            choice_bias: mixture.choice_bias.clone(),
            experts: mixture.experts.iter().map(|expert| self.gated(expert)).collect::<Result<_>>()?,
            shared: mixture.shared.as_ref().map(shared).transpose()?,
        })
    }

    fn gated(&self, block: &weights::GatedLinear) -> Result<GatedLinear> {
        Ok(GatedLinear {
            gate: self.linear(&block.gate)?,
            up: self.linear(
                block.up.as_ref().ok_or_else(|| candle_core::Error::msg("the block is not gated"))?,
            )?,
            down: self.linear(&block.down)?,
        })
    }

    fn linear(&self, linear: &weights::Linear) -> Result<Linear> {
        let (weight, bias) = (self.matrix(&linear.weight.unscaled())?, self.bias(linear)?);
        Ok(Linear { weight, factor: linear.weight.factor(), bias })
    }

    fn bias(&self, linear: &weights::Linear) -> Result<Option<Tensor>> {
        linear.bias.as_deref().map(|bias| self.vector(bias)).transpose()
    }

    fn vector(&self, values: &[f32]) -> Result<Tensor> {
        Tensor::from_slice(values, values.len(), self.device)
    }

    /// Uploads a matrix whose products select tokens or experts. Matrices of 16-bit floats are
    /// expanded to `f32`, because rounding could change the selection.
    fn exact(&self, matrix: &Matrix, bias: Option<Tensor>) -> Result<Linear> {
        let (matrix, factor) = (&matrix.unscaled(), matrix.factor());
        let weight = match matrix.encoding() {
            Encoding::F16 | Encoding::Bf16 => Weight::Float(self.expanded(matrix)?),
            _ => self.matrix(matrix)?,
        };
        Ok(Linear { weight, factor, bias })
    }

    /// Uploads a matrix in its own type if candle computes with the type. Otherwise the elements
    /// are expanded to floats.
    fn matrix(&self, matrix: &Matrix) -> Result<Weight> {
        let shape = (matrix.rows, matrix.columns);
        if self.precision == Precision::Full {
            return Ok(Weight::Float(self.expanded(matrix)?));
        }
        let floats = |dtype| {
            let tensor =
                Tensor::from_raw_buffer(matrix.all_bytes(), dtype, &[shape.0, shape.1], self.device)?;
            Ok(Weight::Float(tensor))
        };
        let dtype = match matrix.encoding() {
            Encoding::F32 => return floats(DType::F32),
            Encoding::F16 => return floats(DType::F16),
            Encoding::Bf16 => return floats(DType::BF16),
            // The conversion is exact: an element has at most six significant bits. Scales have at
            // most four of them, and levels two.
            Encoding::Mxfp4 | Encoding::Nvfp4 => {
                return Ok(Weight::Float(self.expanded(matrix)?.to_dtype(DType::BF16)?));
            }
            // The conversion rounds to 11 significant bits. Products of scales and levels have up
            // to 22.
            Encoding::Iq4Nl
            | Encoding::Iq4Xs
            | Encoding::Iq1S
            | Encoding::Iq1M
            | Encoding::Iq2Xxs
            | Encoding::Iq2Xs
            | Encoding::Iq2S
            | Encoding::Iq3Xxs
            | Encoding::Iq3S
            | Encoding::Tq1_0
            | Encoding::Tq2_0
            | Encoding::Q1_0
            | Encoding::Q2_0 => {
                return Ok(Weight::Float(self.expanded(matrix)?.to_dtype(DType::F16)?));
            }
            Encoding::Q4_0 => GgmlDType::Q4_0,
            Encoding::Q4_1 => GgmlDType::Q4_1,
            Encoding::Q5_0 => GgmlDType::Q5_0,
            Encoding::Q5_1 => GgmlDType::Q5_1,
            Encoding::Q8_0 => GgmlDType::Q8_0,
            Encoding::Q2K => GgmlDType::Q2K,
            Encoding::Q3K => GgmlDType::Q3K,
            Encoding::Q4K => GgmlDType::Q4K,
            Encoding::Q5K => GgmlDType::Q5K,
            Encoding::Q6K => GgmlDType::Q6K,
        };
        let storage = QStorage::from_data(Cow::Borrowed(matrix.all_bytes()), self.device, dtype)?;
        Ok(Weight::Quantized(QMatMul::from_arc(Arc::new(QTensor::new(storage, shape)?))?))
    }

    fn expanded(&self, matrix: &Matrix) -> Result<Tensor> {
        const ROWS_AT_ONCE: usize = 64;
        let mut values = vec![0.0; matrix.rows * matrix.columns];
        values.par_chunks_mut(ROWS_AT_ONCE * matrix.columns).enumerate().for_each(|(index, out)| {
            let first = index * ROWS_AT_ONCE;
            matrix.dequantize(first..first + out.len() / matrix.columns, out);
        });
        Tensor::from_vec(values, (matrix.rows, matrix.columns), self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candle::device::tested;
    use crate::checkpoint::Checkpoint;
    use crate::spec::ModelSpec;
    use crate::synthetic::Synthetic;

    /// Compares products on the tested device with products in `f32`. Different numbers of tokens
    /// select different kernels.
    #[test]
    fn products_of_all_types_are_close_to_exact_ones() {
        let folder = tempfile::tempdir().unwrap();
        let mut failed = Vec::new();
        for small in Synthetic::small() {
            let checkpoint = Checkpoint::open(small.write(folder.path()).unwrap()).unwrap();
            let spec = ModelSpec::of(&checkpoint).unwrap();
            let weights =
                weights::Weights::bind(&checkpoint, &spec, None, weights::Purpose::Compute).unwrap();
            let weights::FeedForward::Dense(dense) = &weights.layers[0].feed_forward else { unreachable!() };
            let linear =
                |device: &Device, precision| Upload { device, precision }.linear(&dense.down).unwrap();
            let device = tested();
            let (given, exact) = (linear(&device, Precision::Stored), linear(&Device::Cpu, Precision::Full));
            let mut errors = Vec::new();
            for tokens in [1, 2, 8, 9, 40, 200] {
                let mut state = 0x5eed_u64;
                let mut next = || {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 40) as f32 / (1 << 23) as f32 - 1.0
                };
                let columns = dense.down.weight.columns;
                let x: Vec<f32> = (0..tokens * columns).map(|_| next()).collect();
                let rows = |linear: &Linear, device: &Device| -> Vec<f32> {
                    let x = Tensor::from_slice(&x, (tokens, columns), device).unwrap();
                    linear.forward(&x).unwrap().flatten_all().unwrap().to_vec1().unwrap()
                };
                let (given, exact) = (rows(&given, &device), rows(&exact, &Device::Cpu));
                let norm = |values: &mut dyn Iterator<Item = f32>| values.map(|x| x * x).sum::<f32>().sqrt();
                let error = norm(&mut given.iter().zip(&exact).map(|(given, exact)| given - exact));
                errors.push(error / norm(&mut exact.iter().copied()));
            }
            eprintln!("{small}: {errors:.4?}");
            if errors.iter().any(|error| error.is_nan() || *error > 0.01) {
                failed.push(format!("{small}: {errors:?}"));
            }
        }
        assert!(failed.is_empty(), "{failed:?}");
    }
}
