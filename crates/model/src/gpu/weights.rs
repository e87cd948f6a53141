//! Weights in the memory of a GPU.

use formwork_gpu::weights::{Matrix, Rows};
use formwork_gpu::{Buffer, Gpu, GpuError};

use crate::spec::AttentionSpec;
use crate::weights::{self, FeedForward, LayerWeights, Mixer, Norm};

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

pub(super) struct Layer {
    pub(super) shape: AttentionSpec,
    pub(super) mixer_norm: Option<Buffer>,
    /// Projections to queries, keys and values, in one row.
    pub(super) qkv: Vec<Linear>,
    /// Norm weights of queries and of keys.
    pub(super) qk_norm: Option<(Buffer, Buffer)>,
    /// Attention sinks: one score per query head.
    pub(super) sinks: Option<Buffer>,
    pub(super) output: Linear,
    pub(super) post_mixer_norm: Option<Buffer>,
    pub(super) feed_forward_norm: Option<Buffer>,
    /// Projections to the gate, and to the factor of the activated gate, in one row.
    pub(super) gate_up: Vec<Linear>,
    /// Width of the hidden layer of the feed-forward block.
    pub(super) width: usize,
    pub(super) down: Linear,
    pub(super) post_feed_forward_norm: Option<Buffer>,
}

/// All weights except the embedding, which stays in host memory.
pub(super) struct Weights {
    pub(super) layers: Vec<Layer>,
    pub(super) output_norm: Buffer,
    pub(super) head: Linear,
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
    pub(super) fn upload(gpu: &Gpu, weights: &weights::Weights) -> Result<Self, Refusal> {
        let upload = Upload { gpu };
        let norm = weights.output_norm.as_ref().ok_or(Refusal::Unsupported("a head without a norm"))?;
        Ok(Self {
            layers: weights.layers.iter().map(|layer| upload.layer(layer)).collect::<Result<_, _>>()?,
            output_norm: gpu.upload(&norm.weight)?,
            head: upload.matrices(&[(&weights.head, None)], 0)?,
        })
    }
}

type Part<'a> = (&'a weights::Matrix, Option<&'a [f32]>);

struct Upload<'a> {
    gpu: &'a Gpu,
}

impl Upload<'_> {
    fn layer(&self, layer: &LayerWeights) -> Result<Layer, Refusal> {
        let Mixer::Attention(attention) = &layer.mixer else {
            return Err(Refusal::Unsupported("layers without attention"));
        };
        let FeedForward::Dense(dense) = &layer.feed_forward else {
            return Err(Refusal::Unsupported("mixtures of experts"));
        };
        let (Some(key), Some(value)) = (&attention.key, &attention.value) else {
            return Err(Refusal::Unsupported("layers that share keys and values"));
        };
        let up = dense.up.as_ref().ok_or(Refusal::Unsupported("feed-forward blocks without a gate"))?;
        let vector = |values: &[f32]| self.gpu.upload(values);
        let norm = |norm: &Option<Norm>| norm.as_ref().map(|norm| vector(&norm.weight)).transpose();
        let pair = |norm: &weights::QkNormWeights| Ok((vector(&norm.query)?, vector(&norm.key)?));
        let qk_norm: Option<Result<_, GpuError>> = attention.qk_norm.as_ref().map(pair);
        let width = dense.gate.weight.rows;
        Ok(Layer {
            shape: attention.shape,
            mixer_norm: norm(&layer.mixer_norm)?,
            qkv: self.row(&[&attention.query, key, value], 1)?,
            qk_norm: qk_norm.transpose()?,
            sinks: attention.sinks.as_deref().map(vector).transpose()?,
            output: self.linear(&attention.output)?,
            post_mixer_norm: norm(&layer.post_mixer_norm)?,
            feed_forward_norm: norm(&layer.feed_forward_norm)?,
            gate_up: self.row(&[&dense.gate, up], 32)?,
            width,
            down: self.linear(&dense.down)?,
            post_feed_forward_norm: norm(&layer.post_feed_forward_norm)?,
        })
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
            let fits = |parts: &[Part<'_>], last: usize| {
                let known = parts[0].0;
                known.encoding() == weight.encoding()
                    && known.factor().to_bits() == weight.factor().to_bits()
                    && last == first
            };
            match joined.last_mut() {
                Some((parts, _, last)) if fits(parts, *last) => {
                    parts.push((weight, bias));
                    *last = end;
                }
                _ => joined.push((vec![(weight, bias)], first, end)),
            }
        }
        joined.iter().map(|(parts, first, _)| self.matrices(parts, *first)).collect()
    }

    fn matrices(&self, parts: &[Part<'_>], first: usize) -> Result<Linear, Refusal> {
        let rows: Vec<Rows<'_>> = parts
            .iter()
            .map(|(matrix, _)| Rows {
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
