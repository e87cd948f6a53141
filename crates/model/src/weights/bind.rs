mod latent;
mod mixers;
mod text_head;

use std::sync::Arc;

use super::matrix::{Matrix, Origin, Purpose, RowFormat};
use super::stored;
use super::{
    DenseAndExperts, DraftHeadWeights, FeedForward, GatedLinear, LayerWeights, Linear, Mixture, Norm,
    PerLayerInput, PerLayerInputs, SharedExpert, Weights,
};
use crate::checkpoint::{Checkpoint, Names};
use crate::error::Kind;
use crate::spec::{
    ExpertSpec, Family, FeedForwardSpec, LayerSpec, MixerSpec, ModelSpec, NormKind, NormPlacement,
    SharedExpertSpec,
};
use formwork_kernels::{Encoding, quantizer};

/// Target type for converting float matrices on load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantization {
    /// 8 bits per element, in blocks of 32.
    Q8_0,
    /// 4 bits per element, in blocks of 256 with quantised scales. Matrices whose rows are not
    /// whole blocks are converted to [`Quantization::Q8_0`].
    Q4K,
}

pub(super) fn bind(
    checkpoint: &Checkpoint,
    spec: &ModelSpec,
    quantize: Option<Quantization>,
    purpose: Purpose,
) -> Result<Weights, Kind> {
    let (family, _) = Family::of(checkpoint)?;
    let (names, stored) = (Names::new(checkpoint, family), stored::Method::of(checkpoint)?);
    Binder { checkpoint, spec, names, stored, quantize, purpose }.bind()
}

/// The matrices of a feed-forward block, and those of the expert that computes every token.
const DENSE: [&str; 3] = ["ffn_gate", "ffn_up", "ffn_down"];
const SHARED: [&str; 3] = ["ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"];

struct Binder<'a> {
    checkpoint: &'a Checkpoint,
    spec: &'a ModelSpec,
    names: Names,
    stored: stored::Method,
    quantize: Option<Quantization>,
    purpose: Purpose,
}

impl Binder<'_> {
    fn bind(&self) -> Result<Weights, Kind> {
        let spec = self.spec;
        let embedding = self.vocabulary_matrix(&(self.names.global("token_embd") + ".weight"))?;
        let head = self.names.global("output") + ".weight";
        // If the configuration does not say whether the head is tied, the head is tied if its
        // tensor is absent.
        let has_head = match self.checkpoint.ties_embeddings() {
            // A model that does not generate text needs no head, and its files may lack one.
            _ if !spec.abilities.generates => {
                stored::rows(self.checkpoint, head.trim_end_matches(".weight")).is_some()
            }
            Some(tied) => !tied,
            None => stored::rows(self.checkpoint, head.trim_end_matches(".weight")).is_some(),
        };
        let text_head = self.text_head(&head)?;
        let (embedding, head) =
            if has_head { (Some(embedding), self.vocabulary_matrix(&head)?) } else { (None, embedding) };
        // Adapters change the head and the embedding separately, even if they are one tensor.
        let name = self.names.global("output");
        let head_origin = Origin::whole(&name, spec.vocabulary, spec.vocabulary);
        let head = head.with_origin(Some(head_origin));
        Ok(Weights {
            embedding,
            per_layer_inputs: spec.per_layer_input.map(|width| self.per_layer_inputs(width)).transpose()?,
            layers: (0..spec.layers.len())
                .map(|index| self.layer(index, spec.layers[index]))
                .collect::<Result<_, _>>()?,
            draft_head: spec.draft_head.and_then(|layer| self.usable_draft_head(layer)),
            output_norm: self.output_norm()?,
            input: self.input()?,
            text_head,
            head,
        })
    }

    /// Reads the norm before the head.
    fn output_norm(&self) -> Result<Option<Norm>, Kind> {
        if !self.spec.output_norm {
            return Ok(None);
        }
        let names = ["output_norm", "token_embd_norm"].map(|name| self.names.global(name) + ".weight");
        // LFM2 has the name of a norm of the embedding.
        let found = names.iter().find(|name| self.checkpoint.tensor(name).is_some());
        let name = match self.spec.encoder {
            Some(_) => &names[0],
            None => found.unwrap_or(&names[0]),
        };
        self.layer_norm(name.trim_end_matches(".weight"), self.spec.hidden).map(Some)
    }

    /// Reads a norm of the residual stream, which has a bias if the file has one.
    fn layer_norm(&self, name: &str, len: usize) -> Result<Norm, Kind> {
        let bias = format!("{name}.bias");
        let has_bias = self.spec.norm_kind == NormKind::LayerNorm && self.checkpoint.tensor(&bias).is_some();
        Ok(Norm {
            weight: self.norm(&format!("{name}.weight"), len)?,
            bias: has_bias.then(|| self.vector(&bias, len)).transpose()?,
        })
    }

    /// Reads the embedding or the head. They affect results most, so a conversion of the model to 4
    /// bits converts them to 8 bits.
    fn vocabulary_matrix(&self, name: &str) -> Result<Matrix, Kind> {
        let quantize = self.quantize.map(|_| Quantization::Q8_0);
        Binder { quantize, ..*self }.matrix(name, self.spec.hidden, self.spec.vocabulary)
    }

    fn per_layer_inputs(&self, width: usize) -> Result<PerLayerInputs, Kind> {
        let (hidden, all) = (self.spec.hidden, self.spec.layers.len() * width);
        // The table is only read by row, so a conversion would only cost time.
        let exact = Binder { quantize: None, ..*self };
        let table = self.names.global("per_layer_token_embd") + ".weight";
        Ok(PerLayerInputs {
            embedding: exact.matrix(&table, all, self.spec.vocabulary)?,
            projection: self.linear(&self.names.global("per_layer_model_proj"), hidden, all)?,
            norm: self.norm(&(self.names.global("per_layer_proj_norm") + ".weight"), width)?,
        })
    }

    fn per_layer_input(&self, index: usize, width: usize) -> Result<PerLayerInput, Kind> {
        let hidden = self.spec.hidden;
        let name = |part: &str| self.names.layer(index, part);
        Ok(PerLayerInput {
            gate: self.linear(&name("inp_gate"), hidden, width)?,
            projection: self.linear(&name("proj"), width, hidden)?,
            norm: self.norm(&(name("post_norm") + ".weight"), hidden)?,
        })
    }

    /// Reads the head for drafts. A model runs as well without it, so a head that cannot be read is left
    /// out, with a warning.
    fn usable_draft_head(&self, layer: LayerSpec) -> Option<Box<DraftHeadWeights>> {
        match self.draft_head(layer) {
            Ok(head) => Some(Box::new(head)),
            Err(kind) => {
                let error = self.checkpoint.error(kind);
                tracing::warn!(%error, "the model's head for drafts cannot be used");
                None
            }
        }
    }

    fn draft_head(&self, layer: LayerSpec) -> Result<DraftHeadWeights, Kind> {
        let (index, hidden) = (self.spec.layers.len(), self.spec.hidden);
        let own = Binder { names: self.names.with_draft_layer(index), ..*self };
        let name = |part: &str| own.names.layer(index, part);
        let own_matrix = |part: &str| {
            let name = name(part);
            let is_there = stored::rows(self.checkpoint, &name).is_some();
            is_there.then(|| own.vocabulary_matrix(&(name + ".weight"))).transpose()
        };
        let output_norm = match own.layer_norm(&name("nextn.shared_head_norm"), hidden) {
            Err(Kind::MissingTensor { .. }) => self.output_norm()?,
            norm => Some(norm?),
        };
        let no_norm = || Kind::MissingTensor { tensor: name("nextn.shared_head_norm") + ".weight" };
        Ok(DraftHeadWeights {
            token_norm: own.layer_norm(&name("nextn.enorm"), hidden)?,
            state_norm: own.layer_norm(&name("nextn.hnorm"), hidden)?,
            projection: own.linear(&name("nextn.eh_proj"), 2 * hidden, hidden)?,
            layer: own.layer(index, layer)?,
            output_norm: output_norm.ok_or_else(no_norm)?,
            embedding: own_matrix("nextn.embed_tokens")?,
            head: own_matrix("nextn.shared_head_head")?,
        })
    }

    fn layer(&self, index: usize, layer: LayerSpec) -> Result<LayerWeights, Kind> {
        let spec = self.spec;
        let name = |part: &str| self.names.layer(index, part);
        let norm =
            |wanted: bool, part: &str| wanted.then(|| self.layer_norm(&name(part), spec.hidden)).transpose();
        let is_residual = spec.norms == NormPlacement::Residual;
        let before = spec.norms != NormPlacement::After && !is_residual;
        let after =
            matches!(spec.norms, NormPlacement::After | NormPlacement::Both | NormPlacement::Residual);
        let LayerSpec { mixer, feed_forward } = layer;
        let has_mixer = mixer != MixerSpec::Nothing;
        let has_feed_forward = feed_forward != FeedForwardSpec::Nothing;
        let is_parallel = spec.norms == NormPlacement::Parallel;
        // A layer of one block has one norm.
        let feed_forward_norm = if has_mixer { "ffn_norm" } else { "attn_norm" };
        let (post_mixer_norm, post_feed_forward_norm) = if is_residual {
            ("attn_output_norm", "layer_output_norm")
        } else {
            ("post_attention_norm", "post_ffw_norm")
        };
        // The norm of the embedding is that of ModernBERT's first layer.
        let is_normed = index == 0 && before && spec.encoder.is_some_and(|encoder| encoder.norm);
        Ok(LayerWeights {
            mixer_norm: norm(before && has_mixer && !is_normed, "attn_norm")?,
            mixer: self.mixer(index, mixer)?,
            post_mixer_norm: norm(after && has_mixer, post_mixer_norm)?,
            feed_forward_norm: norm(before && has_feed_forward && !is_parallel, feed_forward_norm)?,
            feed_forward: match feed_forward {
                FeedForwardSpec::Nothing => FeedForward::Nothing,
                FeedForwardSpec::Experts(experts) => {
                    FeedForward::Experts(Box::new(self.experts(index, experts)?))
                }
                FeedForwardSpec::DenseAndExperts { width, experts } => {
                    FeedForward::DenseAndExperts(Box::new(self.dense_and_experts(index, width, experts)?))
                }
                FeedForwardSpec::Dense { width } => FeedForward::Dense(self.gated(index, DENSE, width)?),
            },
            post_feed_forward_norm: norm(after && has_feed_forward, post_feed_forward_norm)?,
            per_layer_input: spec
                .per_layer_input
                .map(|width| self.per_layer_input(index, width))
                .transpose()?,
            scale: if spec.layer_scales {
                Some(self.vector(&name("layer_output_scale.weight"), 1)?[0])
            } else {
                None
            },
        })
    }

    /// Reads a feed-forward block with the matrices `parts`: gate, up and down. Gate and up are two
    /// tensors, or one tensor that contains both. A block without a gate has only up and down.
    fn gated(&self, index: usize, parts: [&str; 3], width: usize) -> Result<GatedLinear, Kind> {
        let hidden = self.spec.hidden;
        let [gate, up, down] = parts.map(|part| self.names.layer(index, part));
        let down = self.linear(&down, width, hidden)?;
        if !self.spec.activation.is_gated() {
            return Ok(GatedLinear { gate: self.linear(&up, hidden, width)?, up: None, down });
        }
        let is_fused = stored::rows(self.checkpoint, &gate).is_none()
            && stored::rows(self.checkpoint, &up) == Some(2 * width as u64);
        if is_fused {
            let both = self.linear(&up, hidden, 2 * width)?;
            let (gate, up) = (both.slice(0..width), both.slice(width..2 * width));
            return Ok(GatedLinear { gate, up: Some(up), down });
        }
        let (gate, up) = (self.linear(&gate, hidden, width)?, self.linear(&up, hidden, width)?);
        Ok(GatedLinear { gate, up: Some(up), down })
    }

    fn dense_and_experts(
        &self,
        index: usize,
        width: usize,
        spec: ExpertSpec,
    ) -> Result<DenseAndExperts, Kind> {
        let hidden = self.spec.hidden;
        let norm = |part: &str| self.norm(&(self.names.layer(index, part) + ".weight"), hidden);
        let [router_scale, output_scales] =
            ["ffn_gate_inp.scale", "ffn_down_exps.scale"].map(|part| self.names.layer(index, part));
        let mut router_norm = self.vector(&router_scale, hidden)?;
        crate::ops::scale(&mut router_norm, 1.0 / (hidden as f32).sqrt());
        let mut mixture = self.experts(index, spec)?;
        mixture.output_scales = Some(self.vector(&output_scales, spec.count)?);
        Ok(DenseAndExperts {
            dense: self.gated(index, DENSE, width)?,
            dense_norm: norm("post_ffw_norm_1")?,
            mixture,
            router_norm,
            experts_norm: norm("pre_ffw_norm_2")?,
            mixture_norm: norm("post_ffw_norm_2")?,
        })
    }

    /// Reads experts whose gates and ups are rows of one tensor, gates first.
    fn stacked_experts(
        &self,
        [both, downs]: [String; 2],
        spec: ExpertSpec,
    ) -> Result<Vec<GatedLinear>, Kind> {
        let (hidden, ExpertSpec { count, width, .. }) = (self.spec.hidden, spec);
        let stacked = |name: &str, columns: usize, rows: usize| -> Result<Linear, Kind> {
            let shape = [columns as u64, rows as u64, count as u64];
            Ok(Linear { weight: self.stacked(name, &shape, columns, rows * count)?, bias: None })
        };
        let factors = |name: &str| stored::factors(self.checkpoint, name, count);
        // Beside a dense block, the factors of the downs are read as those of the experts' outputs.
        let is_dense =
            |layer: &LayerSpec| matches!(layer.feed_forward, FeedForwardSpec::DenseAndExperts { .. });
        let down_factors =
            if self.spec.layers.iter().any(is_dense) { vec![1.0; count] } else { factors(&downs)? };
        let factors = factors(&both)?.into_iter().zip(down_factors);
        let (both, downs) = (stacked(&both, hidden, 2 * width)?, stacked(&downs, width, hidden)?);
        let expert = |(expert, (factor, down_factor)): (usize, (f32, f32))| GatedLinear {
            gate: both.slice(2 * expert * width..(2 * expert + 1) * width).scaled(factor),
            up: Some(both.slice((2 * expert + 1) * width..(2 * expert + 2) * width).scaled(factor)),
            down: downs.slice(expert * hidden..(expert + 1) * hidden).scaled(down_factor),
        };
        Ok((0..count).zip(factors).map(expert).collect())
    }

    fn experts(&self, index: usize, spec: ExpertSpec) -> Result<Mixture, Kind> {
        let hidden = self.spec.hidden;
        // Routers are never converted: rounded scores could select other experts.
        let exact = Binder { quantize: None, ..*self };
        let router = exact.linear(&self.names.layer(index, "ffn_gate_inp"), hidden, spec.count)?;
        let choice_bias =
            spec.gating.has_bias.then(|| self.flat(&self.names.layer(index, "exp_probs_b.bias"), spec.count));
        let choice_bias = choice_bias.transpose()?;
        let shared = spec.shared.map(|shared| self.shared_expert(index, shared)).transpose()?;
        let stacked =
            self.names.stacked_experts(index).filter(|[both, _]| self.checkpoint.tensor(both).is_some());
        let experts = match (self.names.transposed_experts(index), stacked) {
            (Some(prefix), _) => self.transposed_experts(&prefix, spec)?,
            (None, Some(names)) => self.stacked_experts(names, spec)?,
            (None, None) => self.plain_experts(index, spec)?,
        };
        let latent = spec.latent.map(|width| -> Result<_, Kind> {
            let name = |part: &str| self.names.layer(index, part);
            let before = self.linear(&name("ffn_latent_down"), hidden, width)?;
            Ok([before, self.linear(&name("ffn_latent_up"), width, hidden)?])
        });
        let latent = latent.transpose()?;
        Ok(Mixture { spec, router, choice_bias, output_scales: None, experts, shared, latent })
    }

    fn shared_expert(&self, index: usize, spec: SharedExpertSpec) -> Result<SharedExpert, Kind> {
        let block = self.gated(index, SHARED, spec.width)?;
        let gate = spec.is_gated.then(|| self.shared_gate(index));
        Ok(SharedExpert { block, gate: gate.transpose()? })
    }

    /// Reads the projection that weights the shared expert of a layer. In GGUF files it is a vector.
    fn shared_gate(&self, index: usize) -> Result<Linear, Kind> {
        let name = self.names.layer(index, "ffn_gate_inp_shexp");
        let tensor = format!("{name}.weight");
        let hidden = self.spec.hidden;
        // Like routers, the projection is never converted.
        let exact = Binder { quantize: None, ..*self };
        if self.checkpoint.tensor(&tensor).is_some_and(|info| info.shape.len() == 1) {
            let weight = exact.stacked(&tensor, &[hidden as u64], hidden, 1)?;
            return Ok(Linear { weight, bias: None });
        }
        exact.linear(&name, hidden, 1)
    }

    fn plain_experts(&self, index: usize, spec: ExpertSpec) -> Result<Vec<GatedLinear>, Kind> {
        let outer = spec.latent.unwrap_or(self.spec.hidden);
        let matrices = |part, columns, rows| self.expert_matrices(index, part, spec.count, (columns, rows));
        let ups = matrices("ffn_up", outer, spec.width)?;
        let downs = matrices("ffn_down", spec.width, outer)?;
        if !self.spec.activation.is_gated() {
            let experts = ups.into_iter().zip(downs);
            return Ok(experts.map(|(gate, down)| GatedLinear { gate, up: None, down }).collect());
        }
        let gates = matrices("ffn_gate", outer, spec.width)?;
        let experts = gates.into_iter().zip(ups).zip(downs);
        Ok(experts.map(|((gate, up), down)| GatedLinear { gate, up: Some(up), down }).collect())
    }

    /// Reads the matrices `part` of all experts of a layer: `rows` by `columns` each. They are one
    /// tensor per expert, or one tensor that contains all of them.
    fn expert_matrices(
        &self,
        index: usize,
        part: &str,
        count: usize,
        (columns, rows): (usize, usize),
    ) -> Result<Vec<Linear>, Kind> {
        let shared = self.names.experts(index, part);
        let Some(shared) = shared.filter(|name| self.checkpoint.tensor(&format!("{name}.weight")).is_some())
        else {
            return (0..count)
                .map(|expert| self.linear(&self.names.expert(index, expert, part), columns, rows))
                .collect();
        };
        let shape = [columns as u64, rows as u64, count as u64];
        let weight = self.stacked(&format!("{shared}.weight"), &shape, columns, rows * count)?;
        let bias = format!("{shared}.bias");
        let bias =
            self.checkpoint.tensor(&bias).map(|_| self.checkpoint.values(&bias, &shape[1..])).transpose()?;
        let all = Linear { weight, bias };
        let factors = stored::factors(self.checkpoint, &format!("{shared}.weight"), count)?;
        let slices = (0..count).map(|expert| all.slice(expert * rows..(expert + 1) * rows));
        Ok(slices.zip(factors).map(|(expert, factor)| expert.scaled(factor)).collect())
    }

    /// Reads experts whose matrices are stored transposed. Gate and up are one tensor in which
    /// their outputs alternate.
    fn transposed_experts(&self, prefix: &str, spec: ExpertSpec) -> Result<Vec<GatedLinear>, Kind> {
        let ExpertSpec { count, width, .. } = spec;
        let hidden = self.spec.hidden;
        // The result has all rows of the gate before those of the up matrix.
        let unravelled = |row: usize| if row < width { 2 * row } else { 2 * (row - width) + 1 };
        let both =
            self.transposed(&format!("{prefix}.gate_up_proj"), (hidden, 2 * width, count), unravelled)?;
        let down = self.transposed(&format!("{prefix}.down_proj"), (width, hidden, count), |row| row)?;
        let gated = |expert: usize| GatedLinear {
            gate: both.slice(2 * expert * width..(2 * expert + 1) * width),
            up: Some(both.slice((2 * expert + 1) * width..(2 * expert + 2) * width)),
            down: down.slice(expert * hidden..(expert + 1) * hidden),
        };
        Ok((0..count).map(gated).collect())
    }

    /// Reads a transposed tensor and its biases. In the result, the outputs of all experts are
    /// rows, one expert after the other.
    ///
    /// Row `r` of an expert in the result is output `source(r)` of the expert in the tensor.
    fn transposed(
        &self,
        name: &str,
        (inputs, outputs, count): (usize, usize, usize),
        source: impl Fn(usize) -> usize,
    ) -> Result<Linear, Kind> {
        let matrix = if self.checkpoint.tensor(&format!("{name}_blocks")).is_some() {
            self.packed(name, (inputs, outputs, count), &source)?
        } else {
            let matrix = self.transposed_matrix(name, (inputs, outputs, count), &source)?;
            self.converted(matrix)
        };
        let given = self.checkpoint.values(&format!("{name}_bias"), &[outputs as u64, count as u64])?;
        let bias = given.chunks_exact(outputs).flat_map(|bias| (0..outputs).map(|row| bias[source(row)]));
        Ok(Linear { weight: matrix, bias: Some(bias.collect()) })
    }

    /// Transposes a tensor of floats, in which the outputs are columns. In the result, the outputs
    /// of all experts are rows.
    fn transposed_matrix(
        &self,
        name: &str,
        (inputs, outputs, count): (usize, usize, usize),
        source: impl Fn(usize) -> usize,
    ) -> Result<Matrix, Kind> {
        let (info, encoding) =
            self.checkpoint.encoded(name, &[outputs as u64, inputs as u64, count as u64])?;
        let size = info.dtype.block_bytes();
        if info.dtype.block_len() != 1 {
            return Err(Kind::UnsupportedType { tensor: name.to_owned(), given: info.dtype.name() });
        }
        let all = self.checkpoint.bytes(info);
        let format = RowFormat { encoding, bytes: inputs * size };
        Ok(Matrix::owned(self.purpose, format, outputs * count, inputs, || {
            let mut bytes = Vec::with_capacity(info.byte_len);
            for expert in all.chunks_exact(inputs * outputs * size) {
                for output in (0..outputs).map(&source) {
                    let rows = expert.chunks_exact(outputs * size);
                    let elements = rows.map(|row| &row[output * size..(output + 1) * size]);
                    elements.for_each(|element| bytes.extend(element));
                }
            }
            bytes
        }))
    }

    /// Assembles MXFP4 rows from two tensors: `NAME_blocks` with the elements and `NAME_scales`
    /// with the scales.
    fn packed(
        &self,
        name: &str,
        (inputs, outputs, count): (usize, usize, usize),
        source: impl Fn(usize) -> usize,
    ) -> Result<Matrix, Kind> {
        if !inputs.is_multiple_of(MXFP4_LEN) {
            let (given, limit) = (inputs as u64, MXFP4_LEN as u64);
            return Err(Kind::RowLength { tensor: name.to_owned(), given, limit, dtype: "MXFP4" });
        }
        let blocks = inputs / MXFP4_LEN;
        let shape = [MXFP4_LEN as u64 / 2, blocks as u64, outputs as u64, count as u64];
        let elements = self.bytes(&format!("{name}_blocks"), &shape)?;
        let scales = self.bytes(&format!("{name}_scales"), &shape[1..])?;
        let format = RowFormat { encoding: Encoding::Mxfp4, bytes: blocks * (1 + MXFP4_LEN / 2) };
        Ok(Matrix::owned(self.purpose, format, outputs * count, inputs, || {
            let mut bytes = Vec::with_capacity(elements.len() + scales.len());
            for expert in 0..count {
                for row in (0..outputs).map(|output| expert * outputs + source(output)) {
                    let blocks = row * blocks..(row + 1) * blocks;
                    for (scale, pairs) in scales[blocks.clone()].iter().zip(&elements.as_chunks().0[blocks]) {
                        bytes.push(*scale);
                        bytes.extend(stored::halves::<{ MXFP4_LEN / 2 }>(pairs));
                    }
                }
            }
            bytes
        }))
    }

    /// Returns the bytes of a tensor of type `U8`, after checking its shape.
    fn bytes(&self, name: &str, shape: &[u64]) -> Result<&[u8], Kind> {
        let info = self.checkpoint.shaped(name, shape)?;
        if info.dtype.name() != "U8" {
            return Err(Kind::UnsupportedType { tensor: name.to_owned(), given: info.dtype.name() });
        }
        Ok(self.checkpoint.bytes(info))
    }

    fn linear(&self, name: &str, columns: usize, rows: usize) -> Result<Linear, Kind> {
        let bias = format!("{name}.bias");
        Ok(Linear {
            weight: self.matrix(&format!("{name}.weight"), columns, rows)?,
            bias: self.checkpoint.tensor(&bias).map(|_| self.vector(&bias, rows)).transpose()?,
        })
    }

    fn matrix(&self, name: &str, columns: usize, rows: usize) -> Result<Matrix, Kind> {
        let matrix = self.stacked(name, &[columns as u64, rows as u64], columns, rows)?;
        let factors = stored::factors(self.checkpoint, name, 1)?;
        Ok(factors.into_iter().fold(matrix, Matrix::scaled))
    }

    /// Reads a tensor of shape `shape` as a matrix with `rows` rows of `columns` elements each.
    fn stacked(&self, name: &str, shape: &[u64], columns: usize, rows: usize) -> Result<Matrix, Kind> {
        let height = if shape.len() > 2 { shape[1] as usize } else { rows };
        let origin = Some(Origin::whole(name, rows, height));
        if let Some(matrix) = stored::read(self.checkpoint, (self.stored, self.purpose), name, shape)? {
            return Ok(matrix.with_origin(origin));
        }
        let (info, encoding) = self.checkpoint.encoded(name, shape)?;
        let bytes = columns / info.dtype.block_len() * info.dtype.block_bytes();
        let map = Arc::clone(self.checkpoint.map(info));
        let format = RowFormat { encoding, bytes };
        Ok(self.converted(Matrix::mapped(map, info.offset, format, rows, columns).with_origin(origin)))
    }

    /// Converts a matrix if it has floats and a conversion was requested. Returns other matrices
    /// unchanged.
    fn converted(&self, matrix: Matrix) -> Matrix {
        match self.quantize {
            Some(wanted) if matrix.is_float() => quantized(self.purpose, &matrix, wanted).unwrap_or(matrix),
            _ => matrix,
        }
    }

    fn norm(&self, name: &str, len: usize) -> Result<Vec<f32>, Kind> {
        let mut weights = self.vector(name, len)?;
        let offset = self.names.norm_offset();
        for weight in &mut weights {
            *weight += offset;
        }
        Ok(weights)
    }

    fn vector(&self, name: &str, len: usize) -> Result<Vec<f32>, Kind> {
        self.checkpoint.values(name, &[len as u64])
    }
}

impl Linear {
    /// Returns the rows in the range `rows`, with their biases.
    fn slice(&self, rows: std::ops::Range<usize>) -> Self {
        let bias = self.bias.as_ref().map(|bias| bias[rows.clone()].to_vec());
        Self { weight: self.weight.slice(rows), bias }
    }

    /// Returns the layer with all weights multiplied by `factor`.
    fn scaled(self, factor: f32) -> Self {
        Self { weight: self.weight.scaled(factor), bias: self.bias }
    }
}

/// Number of elements in an MXFP4 block.
const MXFP4_LEN: usize = 32;

/// Converts a matrix to the type `wanted`. Returns `None` if its rows are not whole blocks of this
/// type.
fn quantized(purpose: Purpose, matrix: &Matrix, wanted: Quantization) -> Option<Matrix> {
    let columns = matrix.columns;
    let candidates = match wanted {
        Quantization::Q4K => &[Encoding::Q4K, Encoding::Q8_0][..],
        Quantization::Q8_0 => &[Encoding::Q8_0],
    };
    let fits = |encoding: &&Encoding| columns.is_multiple_of(encoding.block().0);
    let encoding = *candidates.iter().find(fits)?;
    let quantize = quantizer(encoding)?;
    let (block_len, block_bytes) = encoding.block();
    let format = RowFormat { encoding, bytes: columns / block_len * block_bytes };
    let converted = Matrix::filled(purpose, format, matrix.rows, columns, |rows, out| {
        let mut values = vec![0.0; rows.len() * columns];
        matrix.dequantize(rows, &mut values);
        quantize(&values, out);
    });
    Some(converted.with_origin(matrix.origin().cloned()))
}
