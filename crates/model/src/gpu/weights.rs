//! Weights in the memory of a GPU.

use formwork_gpu::weights::{Matrix, Rows as FileRows};
use formwork_gpu::{Buffer, Gpu, GpuError};

use crate::spec::{AttentionSpec, ConvolutionSpec, DeltaRuleSpec, ExpertSpec, LatentSpec, Mamba2Spec};
use crate::weights::{self, GatedLinear, LayerWeights};

/// A matrix with one output per row, and where its outputs are in the output of a step.
pub(super) struct Linear {
    pub(super) matrix: Matrix,
    /// Added to the outputs. Shape: `[rows]`.
    pub(super) bias: Option<Buffer>,
    /// Factor of the products, before the bias is added.
    pub(super) factor: f32,
    /// Column of the first output.
    pub(super) first: usize,
}

/// Weights of a norm.
pub(super) struct Norm {
    pub(super) weight: Buffer,
    pub(super) bias: Option<Buffer>,
}

pub(super) struct Layer {
    pub(super) mixer_norm: Option<Norm>,
    pub(super) mixer: Mixer,
    pub(super) post_mixer_norm: Option<Norm>,
    pub(super) feed_forward_norm: Option<Norm>,
    pub(super) feed_forward: FeedForward,
    pub(super) post_feed_forward_norm: Option<Norm>,
    pub(super) per_layer_input: Option<LayerInput>,
    /// Factor for the output of the layer.
    pub(super) scale: f32,
}

/// Weights for the additional input of a layer.
pub(super) struct LayerInput {
    pub(super) gate: Linear,
    pub(super) projection: Linear,
    pub(super) norm: Norm,
}

/// Weights that compute the additional inputs of all layers. The embedding stays in host memory.
pub(super) struct LayerInputs {
    pub(super) projection: Linear,
    /// Norm of the projection of each layer, and its width.
    pub(super) norm: (Buffer, usize),
}

pub(super) enum Mixer {
    Nothing,
    Attention(Box<Attention>),
    Latent(Box<Latent>),
    ShortConvolution(Box<ShortConvolution>),
    Recurrent(Box<Recurrent>),
}

pub(super) struct Attention {
    pub(super) shape: AttentionSpec,
    /// Projections to queries, keys, values and the gate of the output, in one row. Keys and values may be
    /// missing ([`AttentionSpec::key_values`]).
    pub(super) qkv: Vec<Linear>,
    /// Column of the first head's gate.
    pub(super) gates: usize,
    /// Norm weights of queries and of keys.
    pub(super) qk_norm: Option<(Buffer, Buffer)>,
    /// Attention sinks: one score per query head.
    pub(super) sinks: Option<Buffer>,
    pub(super) output: Linear,
}

pub(super) struct Latent {
    pub(super) shape: LatentSpec,
    /// Projection to a short vector, its norm, and the projection to the queries; or only the last.
    pub(super) down: Option<(Linear, Buffer)>,
    pub(super) query: Linear,
    /// Projection to the latent vector and to the rotated part of the keys.
    pub(super) short: Linear,
    pub(super) norm: Buffer,
    /// The heads' projections of queries to the latent space, and of latent vectors to values.
    pub(super) key: Linear,
    pub(super) value: Linear,
    pub(super) output: Linear,
}

/// Weights of a causal convolution of each channel.
pub(super) struct Convolution {
    pub(super) shape: ConvolutionSpec,
    pub(super) factors: Buffer,
    pub(super) bias: Option<Buffer>,
    /// True if input and result have gates.
    pub(super) is_gated: bool,
}

pub(super) struct ShortConvolution {
    pub(super) input: Linear,
    pub(super) convolution: Convolution,
    pub(super) output: Linear,
}

/// Kind and shape of a block with a recurrence.
#[derive(Clone, Copy)]
pub(super) enum RecurrentKind {
    DeltaRule(DeltaRuleSpec),
    Mamba2(Mamba2Spec),
}

pub(super) struct Recurrent {
    pub(super) kind: RecurrentKind,
    /// Projections to the channels of the convolution, the gate, rates and time steps, in one row.
    pub(super) input: Vec<Linear>,
    pub(super) convolution: Convolution,
    /// Bias of the time step and growth of each head.
    pub(super) constants: Buffer,
    /// Factors of each head's values that are added to its output.
    pub(super) skip: Option<Buffer>,
    /// Weights of the norm of the output, and their number.
    pub(super) norm: (Buffer, usize),
    pub(super) output: Linear,
}

pub(super) enum FeedForward {
    Nothing,
    Dense(Dense),
    Experts(Box<Mixture>),
    DenseAndExperts(Box<DenseAndExperts>),
    /// The CPU computes the block.
    OnHost,
}

/// A dense block and a mixture side by side.
pub(super) struct DenseAndExperts {
    pub(super) dense: Dense,
    /// Norms of the outputs of both.
    pub(super) dense_norm: Buffer,
    pub(super) mixture_norm: Buffer,
    pub(super) mixture: Mixture,
    /// Norms of the inputs of the router and of the experts.
    pub(super) router_norm: Buffer,
    pub(super) experts_norm: Buffer,
}

/// A dense block, or the experts of a mixture, whose matrices have the rows of all experts.
pub(super) struct Dense {
    /// Projections to the gate, and to the factor of the activated gate, in one row.
    pub(super) gate_up: Vec<Linear>,
    /// Width of the hidden layer.
    pub(super) width: usize,
    pub(super) down: Linear,
}

pub(super) struct Mixture {
    pub(super) spec: ExpertSpec,
    pub(super) router: Linear,
    /// Bias of the experts' scores for the choice.
    pub(super) choice_bias: Option<Buffer>,
    /// Factors of the experts' outputs.
    pub(super) output_scales: Option<Buffer>,
    pub(super) experts: Dense,
    /// The expert that computes every token, and the projection to its factor.
    pub(super) shared: Option<(Dense, Option<Linear>)>,
    /// Projections before and after the experts.
    pub(super) latent: Option<[Linear; 2]>,
}

impl Dense {
    fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.gate_up.iter().chain([&self.down])
    }
}

impl Recurrent {
    /// Returns the number of outputs of a token before the last projection.
    pub(super) const fn inner_len(&self) -> usize {
        match self.kind {
            RecurrentKind::DeltaRule(shape) => shape.value_len(),
            RecurrentKind::Mamba2(shape) => shape.inner_len(),
        }
    }
}

impl Layer {
    /// Returns the mixture of experts. `None` for a layer without one on the GPU.
    pub(super) fn mixture(&self) -> Option<&Mixture> {
        match &self.feed_forward {
            FeedForward::Experts(mixture) => Some(mixture),
            FeedForward::DenseAndExperts(both) => Some(&both.mixture),
            FeedForward::Nothing | FeedForward::Dense(_) | FeedForward::OnHost => None,
        }
    }

    /// Returns the dense block. `None` for a layer without one on the GPU.
    pub(super) fn dense(&self) -> Option<&Dense> {
        match &self.feed_forward {
            FeedForward::Dense(dense) => Some(dense),
            FeedForward::DenseAndExperts(both) => Some(&both.dense),
            FeedForward::Nothing | FeedForward::Experts(_) | FeedForward::OnHost => None,
        }
    }

    /// Returns the matrices, and which tokens multiply their rows.
    pub(super) fn matrices(&self) -> Vec<(&Matrix, Rows)> {
        let mut chosen: Vec<&Linear> = Vec::new();
        let mut all: Vec<&Linear> = match &self.mixer {
            Mixer::Nothing => Vec::new(),
            Mixer::Attention(attention) => attention.qkv.iter().chain([&attention.output]).collect(),
            Mixer::Latent(block) => {
                chosen.extend([&block.key, &block.value]);
                let down = block.down.iter().map(|(down, _)| down);
                down.chain([&block.query, &block.short, &block.output]).collect()
            }
            Mixer::ShortConvolution(block) => vec![&block.input, &block.output],
            Mixer::Recurrent(block) => block.input.iter().chain([&block.output]).collect(),
        };
        all.extend(self.dense().into_iter().flat_map(Dense::linears));
        if let Some(mixture) = self.mixture() {
            chosen.extend(mixture.experts.linears());
            all.push(&mixture.router);
            all.extend(mixture.shared.iter().flat_map(|(shared, _)| shared.linears()));
            all.extend(mixture.latent.iter().flatten());
        }
        let all = all.into_iter().map(|linear| (&linear.matrix, Rows::OfAllTokens));
        all.chain(chosen.into_iter().map(|linear| (&linear.matrix, Rows::OfChosenTokens))).collect()
    }
}

/// Tokens that multiply the rows of a matrix.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    OfAllTokens,
    /// The rows belong to experts, or to heads.
    OfChosenTokens,
}

/// All weights except the embedding, which stays in host memory.
pub(super) struct Weights {
    pub(super) layer_inputs: Option<LayerInputs>,
    pub(super) layers: Vec<Layer>,
    pub(super) output_norm: Norm,
    /// `None` if another device has the head.
    pub(super) head: Option<Linear>,
}

/// Reason why a model cannot be on a GPU.
pub(super) enum Refusal {
    /// The back end has no code for a part of the model.
    Unsupported(&'static str),
    Device(GpuError),
}

impl From<GpuError> for Refusal {
    fn from(error: GpuError) -> Self {
        Self::Device(error)
    }
}

impl Weights {
    /// Copies weights to a device. `is_on_host` reports whether the CPU computes the feed-forward block of
    /// a layer.
    pub(super) fn upload(
        gpu: &Gpu,
        weights: &weights::Weights,
        has_head: bool,
        is_on_host: impl Fn(usize) -> bool,
    ) -> Result<Self, Refusal> {
        let upload = Upload { gpu };
        let norm = weights.output_norm.as_ref().ok_or(Refusal::Unsupported("a head without a norm"))?;
        let layer_inputs = weights.per_layer_inputs.as_ref().map(|inputs| {
            let projection = upload.linear(&inputs.projection)?;
            // The projection is divided by the square root of its width.
            let factor = projection.factor / (inputs.projection.weight.columns as f32).sqrt();
            let projection = Linear { factor, ..projection };
            Ok::<_, Refusal>(LayerInputs { projection, norm: upload.counted(&inputs.norm)? })
        });
        let layers = weights.layers.iter().enumerate().map(|(index, layer)| {
            let layer = upload.layer(layer)?;
            Ok(if is_on_host(index) { Layer { feed_forward: FeedForward::OnHost, ..layer } } else { layer })
        });
        Ok(Self {
            layer_inputs: layer_inputs.transpose()?,
            layers: layers.collect::<Result<_, Refusal>>()?,
            output_norm: upload.norm(norm)?,
            head: has_head.then(|| upload.matrices(&[(&weights.head, None)], 0)).transpose()?,
        })
    }
}

/// Reports whether two matrices can be parts of one.
fn is_alike_matrix(one: &weights::Matrix, other: &weights::Matrix) -> bool {
    one.encoding() == other.encoding() && one.factor().to_bits() == other.factor().to_bits()
}

/// Does the same as [`is_alike_matrix`] for linear layers.
fn is_alike(one: &weights::Linear, other: &weights::Linear) -> bool {
    is_alike_matrix(&one.weight, &other.weight)
}

type Part<'a> = (&'a weights::Matrix, Option<&'a [f32]>);

struct Upload<'a> {
    gpu: &'a Gpu,
}

impl Upload<'_> {
    fn layer(&self, layer: &LayerWeights) -> Result<Layer, Refusal> {
        let norm = |norm: &Option<weights::Norm>| norm.as_ref().map(|norm| self.norm(norm)).transpose();
        let input = layer.per_layer_input.as_ref().map(|input| {
            Ok::<_, Refusal>(LayerInput {
                gate: self.linear(&input.gate)?,
                projection: self.linear(&input.projection)?,
                norm: Norm { weight: self.gpu.upload(&input.norm)?, bias: None },
            })
        });
        Ok(Layer {
            mixer_norm: norm(&layer.mixer_norm)?,
            mixer: self.mixer(&layer.mixer)?,
            post_mixer_norm: norm(&layer.post_mixer_norm)?,
            feed_forward_norm: norm(&layer.feed_forward_norm)?,
            feed_forward: self.feed_forward(&layer.feed_forward)?,
            post_feed_forward_norm: norm(&layer.post_feed_forward_norm)?,
            per_layer_input: input.transpose()?,
            scale: layer.scale.unwrap_or(1.0),
        })
    }

    fn norm(&self, norm: &weights::Norm) -> Result<Norm, GpuError> {
        let bias = norm.bias.as_deref().map(|bias| self.gpu.upload(bias)).transpose()?;
        Ok(Norm { weight: self.gpu.upload(&norm.weight)?, bias })
    }

    fn feed_forward(&self, block: &weights::FeedForward) -> Result<FeedForward, Refusal> {
        Ok(match block {
            weights::FeedForward::Nothing => FeedForward::Nothing,
            weights::FeedForward::Dense(dense) => FeedForward::Dense(self.dense(&[dense])?),
            weights::FeedForward::Experts(mixture) => FeedForward::Experts(Box::new(self.mixture(mixture)?)),
            weights::FeedForward::DenseAndExperts(both) => {
                FeedForward::DenseAndExperts(Box::new(DenseAndExperts {
                    dense: self.dense(&[&both.dense])?,
                    dense_norm: self.gpu.upload(&both.dense_norm)?,
                    mixture_norm: self.gpu.upload(&both.mixture_norm)?,
                    mixture: self.mixture(&both.mixture)?,
                    router_norm: self.gpu.upload(&both.router_norm)?,
                    experts_norm: self.gpu.upload(&both.experts_norm)?,
                }))
            }
        })
    }

    fn mixer(&self, mixer: &weights::Mixer) -> Result<Mixer, Refusal> {
        Ok(match mixer {
            weights::Mixer::Nothing => Mixer::Nothing,
            weights::Mixer::Attention(attention) => Mixer::Attention(Box::new(self.attention(attention)?)),
            weights::Mixer::Latent(block) => Mixer::Latent(Box::new(self.latent(block)?)),
            weights::Mixer::ShortConvolution(block) => Mixer::ShortConvolution(Box::new(ShortConvolution {
                input: self.linear(&block.input)?,
                convolution: self.convolution(&block.convolution, true)?,
                output: self.linear(&block.output)?,
            })),
            weights::Mixer::DeltaRule(block) => Mixer::Recurrent(Box::new(Recurrent {
                kind: RecurrentKind::DeltaRule(block.shape),
                input: self.row(&[&block.mixed, &block.gate, &block.rate, &block.time], 1)?,
                convolution: self.convolution(&block.convolution, false)?,
                constants: self.pairs(&block.time_bias, &block.growth)?,
                skip: None,
                norm: self.counted(&block.norm)?,
                output: self.linear(&block.output)?,
            })),
            weights::Mixer::Mamba2(block) => Mixer::Recurrent(Box::new(Recurrent {
                kind: RecurrentKind::Mamba2(block.shape),
                input: vec![self.linear(&block.input)?],
                convolution: self.convolution(&block.convolution, false)?,
                constants: self.pairs(&block.time_bias, &block.growth)?,
                skip: Some(self.gpu.upload(&block.skip)?),
                norm: self.counted(&block.norm)?,
                output: self.linear(&block.output)?,
            })),
        })
    }

    fn attention(&self, attention: &weights::AttentionWeights) -> Result<Attention, Refusal> {
        let vector = |values: &[f32]| self.gpu.upload(values);
        let pair = |norm: &weights::QkNormWeights| Ok((vector(&norm.query)?, vector(&norm.key)?));
        let qk_norm: Option<Result<_, GpuError>> = attention.qk_norm.as_ref().map(pair);
        let keys_values = [&attention.key, &attention.value].into_iter().flatten();
        let mut row: Vec<&weights::Linear> = [&attention.query].into_iter().chain(keys_values).collect();
        let gates = row.iter().map(|linear| linear.weight.rows).sum();
        row.extend(&attention.gate);
        Ok(Attention {
            shape: attention.shape,
            qkv: self.row(&row, 1)?,
            gates,
            qk_norm: qk_norm.transpose()?,
            sinks: attention.sinks.as_deref().map(vector).transpose()?,
            output: self.linear(&attention.output)?,
        })
    }

    fn latent(&self, block: &weights::LatentWeights) -> Result<Latent, Refusal> {
        let (down, query) = match &block.query {
            weights::LatentQuery::Direct(query) => (None, query),
            weights::LatentQuery::Compressed { down, norm, up } => {
                (Some((self.linear(down)?, self.gpu.upload(norm)?)), up)
            }
        };
        let heads = |linears: &[weights::Linear]| self.stack(&linears.iter().collect::<Vec<_>>(), 0);
        Ok(Latent {
            shape: block.shape,
            down,
            query: self.linear(query)?,
            short: self.linear(&block.latent)?,
            norm: self.gpu.upload(&block.latent_norm)?,
            key: heads(&block.key)?,
            value: heads(&block.value)?,
            output: self.linear(&block.output)?,
        })
    }

    fn convolution(
        &self,
        convolution: &weights::Convolution,
        is_gated: bool,
    ) -> Result<Convolution, Refusal> {
        let bias = convolution.bias.as_deref().map(|bias| self.gpu.upload(bias)).transpose()?;
        let factors = self.gpu.upload(&convolution.factors)?;
        Ok(Convolution { shape: convolution.shape, factors, bias, is_gated })
    }

    fn pairs(&self, first: &[f32], second: &[f32]) -> Result<Buffer, Refusal> {
        let pairs: Vec<[f32; 2]> =
            first.iter().zip(second).map(|(first, second)| [*first, *second]).collect();
        Ok(self.gpu.upload(&pairs)?)
    }

    fn counted(&self, values: &[f32]) -> Result<(Buffer, usize), Refusal> {
        Ok((self.gpu.upload(values)?, values.len()))
    }

    fn mixture(&self, mixture: &weights::Mixture) -> Result<Mixture, Refusal> {
        let vector =
            |values: &Option<Vec<f32>>| values.as_deref().map(|values| self.gpu.upload(values)).transpose();
        let shared = mixture.shared.as_ref().map(|shared| {
            let gate = shared.gate.as_ref().map(|gate| self.linear(gate)).transpose()?;
            Ok::<_, Refusal>((self.dense(&[&shared.block])?, gate))
        });
        let latent = mixture
            .latent
            .as_ref()
            .map(|[before, after]| Ok::<_, Refusal>([self.linear(before)?, self.linear(after)?]));
        Ok(Mixture {
            spec: mixture.spec,
            router: self.linear(&mixture.router)?,
            choice_bias: vector(&mixture.choice_bias)?,
            output_scales: vector(&mixture.output_scales)?,
            experts: self.dense(&mixture.experts.iter().collect::<Vec<_>>())?,
            shared: shared.transpose()?,
            latent: latent.transpose()?,
        })
    }

    /// Uploads a dense block, or the experts of a mixture: one matrix has the rows of all experts, one
    /// expert after another.
    fn dense(&self, experts: &[&GatedLinear]) -> Result<Dense, Refusal> {
        let one = experts[0];
        let width = one.gate.weight.rows;
        let of = |linear: fn(&GatedLinear) -> Option<&weights::Linear>| -> Vec<&weights::Linear> {
            experts.iter().filter_map(|expert| linear(expert)).collect()
        };
        let (gates, ups) = (of(|expert| Some(&expert.gate)), of(|expert| expert.up.as_ref()));
        let gate_up = if experts.len() == 1 {
            let row: Vec<&weights::Linear> = [&one.gate].into_iter().chain(&one.up).collect();
            self.row(&row, 32)?
        } else if one.up.as_ref().is_some_and(|up| width.is_multiple_of(32) && is_alike(&one.gate, up)) {
            let both = gates.iter().zip(&ups).flat_map(|(gate, up)| [*gate, *up]);
            vec![self.stack(&both.collect::<Vec<_>>(), 0)?]
        } else {
            let mut apart = vec![self.stack(&gates, 0)?];
            if !ups.is_empty() {
                apart.push(self.stack(&ups, width.next_multiple_of(32))?);
            }
            apart
        };
        Ok(Dense { gate_up, width, down: self.stack(&of(|expert| Some(&expert.down)), 0)? })
    }

    /// Uploads matrices as one, with the rows of all.
    fn stack(&self, linears: &[&weights::Linear], first: usize) -> Result<Linear, Refusal> {
        if linears.iter().any(|linear| !is_alike(linear, linears[0])) {
            return Err(Refusal::Unsupported("experts or heads with different types or factors of weights"));
        }
        let parts: Vec<Part<'_>> =
            linears.iter().map(|linear| (&linear.weight, linear.bias.as_deref())).collect();
        self.matrices(&parts, first)
    }

    fn linear(&self, linear: &weights::Linear) -> Result<Linear, Refusal> {
        self.matrices(&[(&linear.weight, linear.bias.as_deref())], 0)
    }

    /// Uploads matrices whose outputs are in one row, each from a multiple of `unit` columns on.
    /// Neighbours of one storage become one matrix, so that one step computes them.
    fn row(&self, linears: &[&weights::Linear], unit: usize) -> Result<Vec<Linear>, Refusal> {
        let mut joined: Vec<(Vec<Part<'_>>, usize, usize)> = Vec::new();
        let mut end = 0;
        for linear in linears {
            let (weight, bias) = (&linear.weight, linear.bias.as_deref());
            let first = usize::next_multiple_of(end, unit);
            end = first + weight.rows;
            match joined.last_mut() {
                Some((parts, _, last)) if is_alike_matrix(parts[0].0, weight) && *last == first => {
                    parts.push((weight, bias));
                    *last = end;
                }
                _ => joined.push((vec![(weight, bias)], first, end)),
            }
        }
        joined.iter().map(|(parts, first, _)| self.matrices(parts, *first)).collect()
    }

    fn matrices(&self, parts: &[Part<'_>], first: usize) -> Result<Linear, Refusal> {
        let rows: Vec<FileRows<'_>> = parts
            .iter()
            .map(|(matrix, _)| FileRows {
                bytes: matrix.all_bytes(),
                row_bytes: matrix.row_bytes(),
                encoding: matrix.encoding(),
                columns: matrix.columns,
            })
            .collect();
        let bias = parts.iter().any(|(_, bias)| bias.is_some()).then(|| {
            let of_part =
                |(matrix, bias): &Part<'_>| bias.map_or_else(|| vec![0.0; matrix.rows], <[f32]>::to_vec);
            parts.iter().flat_map(of_part).collect::<Vec<f32>>()
        });
        Ok(Linear {
            matrix: Matrix::upload(self.gpu, &rows)?,
            bias: bias.map(|bias| self.gpu.upload(&bias)).transpose()?,
            factor: parts[0].0.factor(),
            first,
        })
    }
}
