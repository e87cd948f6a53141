//! The decoder on GPUs, with the kernels of `formwork-gpu`.
//!
//! The weights, and the keys and values of all sequences, are in the memory of the device. A pass
//! appends tokens of several sequences and runs one list of steps ([`plan`]). Only logits are read
//! back, and of those only the rows that are asked for.
//!
//! For quantised weights, activations are rounded to 8 bits as on the CPU, except those of a sequence's
//! first token. The others are `f32`, where the CPU has 16 bits. Keys and values are `f16`, or `f32` if
//! the weights are.
//!
//! All sums have a fixed order. If the driver keeps the order, the results of a token do not depend on
//! the other tokens of a pass ([`Network::is_invariant`]).

mod decoder;
mod plan;
mod pool;
mod progress;
mod sequence;
mod states;
mod weights;

use std::sync::Arc;

use formwork_gpu::layer::{KvType, workgroup_memory};
use formwork_gpu::{AdapterKind, Gpu, GpuError, SELF_TEST_ROWS, adapters, is_batch_invariant};
use formwork_lm::{Abilities, LanguageModel, ModelError};
use formwork_vocab::TokenId;

use self::decoder::Decoder;
use self::weights::{Refusal, Weights};
use crate::Device;
use crate::backend::{Adapters, Backend, StepTime};
use crate::device::{GpuInfo, GpuNumber};
use crate::error::Kind;
use crate::ops::softcap;
use crate::rope::Rope;
use crate::spec::{ExpertSpec, LayerSpec, MixerSpec, ModelSpec, NormKind, NormPlacement};
use crate::weights::{self as host, Matrix, Mixer};

/// Default of [`OpenOptions::state_bytes`](crate::OpenOptions::state_bytes).
const STATE_BYTES: usize = 1 << 30;

/// Immutable state shared by all decoders of a model.
pub(crate) struct Network {
    gpu: Gpu,
    number: GpuNumber,
    spec: ModelSpec,
    /// The embedding, in host memory, because a pass needs only the rows of its tokens.
    embedding: Matrix,
    /// The embedding for the additional inputs of layers, in host memory for the same reason.
    layer_embedding: Option<Matrix>,
    weights: Weights,
    rope: Rope,
    kv: KvType,
    /// Maximum size in bytes of the copies of states of a decoder.
    state_bytes: usize,
    /// True if a token has the same bits alone and with others.
    is_invariant: bool,
}

/// Returns the GPUs of the system, hardware first. The list is empty if the system has no Vulkan
/// loader, or if the feature `gpu` is off.
pub fn gpus() -> Vec<GpuInfo> {
    let mut hardware = 0;
    let info = |adapter: formwork_gpu::Adapter| {
        let number = if adapter.kind == AdapterKind::Cpu {
            GpuNumber::Cpu
        } else {
            hardware += 1;
            GpuNumber::Hardware(hardware - 1)
        };
        GpuInfo {
            device: Device::Gpu(number),
            name: adapter.name,
            kind: adapter.kind.to_string(),
            interface: adapter.interface,
            driver: adapter.driver,
            binding_bytes: adapter.limits.binding,
            buffer_bytes: adapter.limits.buffer,
        }
    };
    adapters().into_iter().map(info).collect()
}

/// Opens the device with this number. Drivers that compute on the CPU have no number.
pub(crate) fn device(number: GpuNumber) -> Result<Gpu, Kind> {
    let adapters = adapters();
    let is_cpu = |adapter: &&formwork_gpu::Adapter| adapter.kind == AdapterKind::Cpu;
    let fail = |error| Kind::Gpu { device: Device::Gpu(number), error };
    let adapter = match number {
        GpuNumber::Cpu => adapters.iter().find(is_cpu).ok_or(GpuError::NoSoftwareDriver),
        GpuNumber::Hardware(number) => {
            let hardware = || adapters.iter().filter(|adapter| !is_cpu(adapter));
            hardware().nth(number).ok_or(GpuError::NoAdapter { number, found: hardware().count() })
        }
    };
    let adapter = adapter.map_err(fail)?;
    adapter.open().map_err(fail)
}

/// Copies the weights of a model to a device.
pub(crate) fn open(
    spec: ModelSpec,
    weights: &host::Weights,
    (context, state_bytes): (usize, Option<usize>),
    (number, gpu): (GpuNumber, Gpu),
) -> Result<Arc<dyn Backend>, Kind> {
    let refuse = |part| Kind::GpuModel { architecture: spec.architecture.clone(), part };
    if let Some(part) = unsupported(&spec) {
        return Err(refuse(part));
    }
    let fail = |error| Kind::Gpu { device: Device::Gpu(number), error };
    let widths = spec.layers.iter().filter_map(|layer| Some(layer.mixer.cached()?.head_dim));
    let head_dim = widths.max().unwrap_or_default();
    let (needed, limit) = (workgroup_memory(head_dim), gpu.limits().workgroup_memory as usize);
    if needed > limit {
        return Err(fail(GpuError::WorkgroupMemory { needed, limit }));
    }
    let on_device = Weights::upload(&gpu, weights).map_err(|refusal| match refusal {
        Refusal::Unsupported(part) => refuse(part),
        Refusal::Device(error) => fail(error),
    })?;
    let is_f32 = |layer: &host::LayerWeights| match &layer.mixer {
        Mixer::Attention(attention) => [&attention.key, &attention.value]
            .into_iter()
            .flatten()
            .all(|linear| linear.weight.encoding() == formwork_kernels::Encoding::F32),
        Mixer::Latent(latent) => latent.latent.weight.encoding() == formwork_kernels::Encoding::F32,
        _ => true,
    };
    let kv = if weights.layers.iter().all(is_f32) { KvType::F32 } else { KvType::F16 };
    let embedding = weights.embedding.as_ref().unwrap_or(&weights.head).clone();
    let layer_embedding = weights.per_layer_inputs.as_ref().map(|inputs| inputs.embedding.clone());
    let rope = Rope::new(&spec, context);
    let is_invariant = is_invariant(&gpu, &on_device).map_err(fail)?;
    if !is_invariant {
        tracing::warn!(
            device = %Device::Gpu(number),
            "the driver rounds products of several tokens differently, so results depend on other requests"
        );
    }
    let weights = on_device;
    let state_bytes = state_bytes.unwrap_or(STATE_BYTES);
    let network = Network {
        gpu,
        number,
        spec,
        embedding,
        layer_embedding,
        weights,
        rope,
        kv,
        state_bytes,
        is_invariant,
    };
    Ok(Arc::new(network))
}

/// Tests a matrix of each storage and width, and the head.
fn is_invariant(gpu: &Gpu, weights: &Weights) -> Result<bool, GpuError> {
    let mut tested = Vec::new();
    for matrix in weights.layers.iter().flat_map(weights::Layer::matrices).chain([&weights.head.matrix]) {
        let kind = (matrix.storage, matrix.groups, matrix.rows.min(SELF_TEST_ROWS));
        if !tested.contains(&kind) {
            tested.push(kind);
            if !is_batch_invariant(gpu, matrix)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns a part of the model that the back end has no code for.
pub(crate) fn unsupported(spec: &ModelSpec) -> Option<&'static str> {
    let is_odd = |layer: &LayerSpec| {
        let width = layer.mixer.cached().map(|attention| attention.head_dim);
        let rows = layer.mixer.recurrence().map(|recurrence| recurrence.rows);
        let latent = layer.feed_forward.experts().and_then(|experts| experts.latent);
        let (short, is_whole) = match layer.mixer {
            MixerSpec::Latent(shape) => (shape.query_rank, shape.attention().query_len().is_multiple_of(32)),
            _ => (None, true),
        };
        let mut widths = [width, rows, latent, short, spec.per_layer_input].into_iter().flatten();
        !is_whole || widths.any(|width| !width.is_multiple_of(4))
    };
    let mut mixtures = spec.layers.iter().filter_map(|layer| layer.feed_forward.experts());
    let sizes =
        |experts: &ExpertSpec| (experts.count, experts.used, experts.latent, experts.shared.is_some());
    let first = mixtures.next().map(sizes);
    let mut latents = spec.layers.iter().filter_map(|layer| match layer.mixer {
        MixerSpec::Latent(shape) => Some(shape),
        _ => None,
    });
    let first_latent = latents.next();
    let has_bare_norms = matches!(spec.norms, NormPlacement::Before | NormPlacement::Parallel);
    [
        (spec.encoder.is_some() || spec.abilities != Abilities::default(), "models for embeddings"),
        (!spec.output_norm, "a head without a norm"),
        (spec.norms == NormPlacement::Residual, "norms of the residual stream"),
        (spec.norm_kind != NormKind::Rms && !has_bare_norms, "norms of outputs that subtract the mean"),
        (spec.layers.iter().any(is_odd), "widths that are not multiples of 4"),
        (!spec.hidden.is_multiple_of(4), "widths that are not multiples of 4"),
        (mixtures.any(|experts| Some(sizes(experts)) != first), "mixtures of different sizes"),
        (latents.any(|latent| Some(latent) != first_latent), "latent attention of different shapes"),
    ]
    .into_iter()
    .find_map(|(is_part, part)| is_part.then_some(part))
}

impl Network {
    /// Caps a logit.
    fn finished(&self, logit: f32) -> f32 {
        let mut row = [logit];
        if let Some(cap) = self.spec.logit_softcap {
            softcap(&mut row, cap);
        }
        row[0]
    }
}

impl Backend for Network {
    fn device_name(&self) -> String {
        Device::Gpu(self.number).to_string()
    }

    fn threads(&self) -> usize {
        1
    }

    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.spec)
    }

    fn decoder(self: Arc<Self>, context: usize, _: Adapters) -> Box<dyn LanguageModel> {
        Box::new(Decoder::new(self, context))
    }

    fn hidden_states(&self, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, ModelError> {
        ModelError::check_tokens(tokens, self.spec.vocabulary)?;
        decoder::residual_streams(self, tokens).map_err(ModelError::backend)
    }

    fn step_times(&self, tokens: usize, position: usize) -> Result<Vec<StepTime>, ModelError> {
        decoder::times(self, tokens, position)
    }
}
