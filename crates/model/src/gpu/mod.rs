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
mod head;
mod pass;
mod pipeline;
mod placement;
mod plan;
mod pool;
mod progress;
mod sequence;
mod states;
mod weights;

use std::sync::{Arc, Mutex, PoisonError};

use formwork_gpu::attention::{KvType, workgroup_memory};
use formwork_gpu::{AdapterKind, Gpu, GpuError, SELF_TEST_ROWS, WeakGpu, adapters, is_batch_invariant};
use formwork_kernels::Team;
use formwork_lm::{Abilities, LanguageModel, ModelError};
use formwork_vocab::TokenId;

use self::decoder::Decoder;
pub(crate) use self::pipeline::LastLayers;
use self::pipeline::{Last, Pipeline};
use self::placement::{Needs, joined, place, take_layers};
use self::weights::{Refusal, Rows, Weights};
use crate::backend::{Adapters, Backend, StepTime};
use crate::cpu::{self, FeedForwards};
use crate::device::{GpuInfo, GpuLayers, GpuNumber};
use crate::error::Kind;
use crate::ops::softcap;
use crate::rope::Rope;
use crate::spec::{ExpertSpec, LayerSpec, MixerSpec, ModelSpec, NormKind, NormPlacement};
use crate::weights::{self as host, Matrix, Mixer, packed_block_bytes};
use crate::{Device, MemoryUse, OpenOptions};

/// Default of [`OpenOptions::state_bytes`](crate::OpenOptions::state_bytes).
const STATE_BYTES: usize = 1 << 30;

/// True if this build has kernels for GPUs: the feature `gpu`.
pub const HAS_GPU_KERNELS: bool = true;

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
    /// Feed-forward blocks that the CPU computes.
    on_host: Option<FeedForwards>,
    rope: Rope,
    kv: KvType,
    /// Number of tokens for whose keys and values a decoder takes memory at once.
    reserved: usize,
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
            memory_bytes: adapter.memory,
        }
    };
    adapters().into_iter().map(info).collect()
}

/// Returns the first GPU with memory of its own. `None` if there is none.
pub(crate) fn found() -> Option<Device> {
    let discrete = adapters().iter().any(|adapter| adapter.kind == AdapterKind::Discrete);
    // Such GPUs come first.
    discrete.then_some(Device::Gpu(GpuNumber::Hardware(0)))
}

/// Opens the device with this number. Drivers that compute on the CPU have no number. All models of the
/// process share an open device, and its compiled kernels.
pub(crate) fn device(number: GpuNumber) -> Result<Gpu, Kind> {
    static OPEN: Mutex<Vec<(GpuNumber, WeakGpu)>> = Mutex::new(Vec::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(gpu) = open.iter().filter(|(own, _)| *own == number).find_map(|(_, gpu)| gpu.open()) {
        return Ok(gpu);
    }
    let gpu = open_adapter(number).map_err(|error| Kind::Gpu { device: Device::Gpu(number), error })?;
    open.retain(|(own, _)| *own != number);
    open.push((number, gpu.downgrade()));
    Ok(gpu)
}

fn open_adapter(number: GpuNumber) -> Result<Gpu, GpuError> {
    let adapters = adapters();
    let is_cpu = |adapter: &&formwork_gpu::Adapter| adapter.kind == AdapterKind::Cpu;
    let adapter = match number {
        GpuNumber::Cpu => adapters.iter().find(is_cpu).ok_or(GpuError::NoSoftwareDriver),
        GpuNumber::Hardware(number) => {
            let hardware = || adapters.iter().filter(|adapter| !is_cpu(adapter));
            hardware().nth(number).ok_or(GpuError::NoAdapter { number, found: hardware().count() })
        }
    };
    adapter?.open()
}

/// Requests that decide on the devices of a model's layers.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    /// Maximum number of tokens of a sequence.
    pub(crate) context: usize,
    pub(crate) options: OpenOptions,
    /// True if nobody asked for a GPU. At least half of the layers must then fit.
    pub(crate) is_found: bool,
}

/// Smallest context that is tried to keep a whole model on the GPUs if no context is given.
const LEAST_CONTEXT: usize = 8192;

/// Copies the weights of a model that [`check`] accepts to GPUs. Packs the layers that the options leave to the CPU in host
/// memory. The second part of the result is the maximum number of tokens of a sequence.
///
/// # Errors
/// Returns an error if a part of the model is not supported on GPUs, or if a device fails.
pub(crate) fn open(
    mut spec: ModelSpec,
    mut weights: host::Weights,
    Request { context, options, is_found }: Request,
    mut gpus: Vec<(GpuNumber, Gpu)>,
) -> Result<(Arc<dyn Backend>, usize), Kind> {
    let kv = kv_type(&weights);
    // The memory must not change the rotary frequencies.
    let rope_context = context;
    let memory: Vec<Option<u64>> = gpus.iter().map(|device| room(device, &gpus, options)).collect();
    let state_bytes = options.state_bytes.unwrap_or_else(|| {
        // A GPU usually has less memory than the host.
        let least = memory.iter().flatten().min().map_or(u64::MAX, |memory| memory / 16);
        STATE_BYTES.min(usize::try_from(least).unwrap_or(usize::MAX))
    });
    let wanted = options.gpu_layers.unwrap_or(if is_found { GpuLayers::Auto } else { GpuLayers::All });
    let joined = joined(&spec);
    let place_for = |context| {
        let needs = Needs::of(&spec, &weights, (context, kv.bytes()), state_bytes);
        place(&needs, &memory, (wanted, options.cpu_experts), &joined)
    };
    let fewest_on_cpu = options.cpu_experts.unwrap_or(0);
    let (context, placement) = if wanted == GpuLayers::Auto && options.context.is_none() {
        // A shorter context may leave the whole model on the GPUs.
        let shorter = std::iter::successors(Some(context), |context| Some(context / 2));
        let contexts = shorter.take_while(|shorter| *shorter >= LEAST_CONTEXT.min(context));
        let tried = contexts.map(|context| (context, place_for(context)));
        let last = context.min(LEAST_CONTEXT);
        let mut whole =
            tried.filter(|(_, placement)| placement.is_whole && placement.cpu_experts <= fewest_on_cpu);
        whole.next().unwrap_or_else(|| (last, place_for(last)))
    } else {
        (context, place_for(context))
    };
    let placed: usize = placement.layers.iter().map(ExactSizeIterator::len).sum();
    if is_found && 2 * placed < spec.layers.len() {
        return Err(Kind::GpuShare { placed, layers: spec.layers.len() });
    }
    let is_one = placement.is_whole && gpus.len() == 1;
    if spec.per_layer_input.is_some() && !is_one {
        let part = "additional inputs of layers on several devices";
        return Err(Kind::GpuModel { architecture: spec.architecture, part });
    }
    // Memory that was counted is taken at once, because a growth would need more.
    let reserved = if wanted == GpuLayers::Auto { context } else { 0 };
    let whole = spec.clone();
    let last_gpu = if placement.is_whole { gpus.pop() } else { None };
    let mut cpu_experts = placement.cpu_experts;
    let mut parts = Vec::new();
    for (device, layers) in gpus.into_iter().zip(&placement.layers).filter(|(_, layers)| !layers.is_empty()) {
        let (spec, mut weights) = take_layers(&mut spec, &mut weights, layers.len());
        let blocks = take_mixtures(&mut weights, &mut cpu_experts);
        parts.push((device, Layers { spec, weights, blocks }));
    }
    let last_blocks =
        if last_gpu.is_some() { take_mixtures(&mut weights, &mut cpu_experts) } else { Vec::new() };
    let blocks = parts.iter().flat_map(|(_, layers)| &layers.blocks).chain(&last_blocks).flatten();
    let of_blocks: usize = blocks.map(packed_block_bytes).sum();
    let team = if last_gpu.is_none() || of_blocks > 0 { Some(options.team()?) } else { None };
    if let Some(limit) = options.memory.filter(|_| team.is_some()) {
        let of_layers = match last_gpu {
            None => MemoryUse::of_weights(&spec, &weights, options.kv_cache),
            Some(_) => MemoryUse::default(),
        };
        MemoryUse { weights: of_layers.weights + of_blocks, ..of_layers }.check(context, limit)?;
    }
    let network = |layers, has_head, device| {
        let memory = NetworkMemory { rope_context, reserved, state_bytes, kv };
        Network::new(layers, memory, has_head, device, team.clone()).map(Arc::new)
    };
    let mut first = Vec::new();
    for (device, layers) in parts {
        first.push(network(layers, false, device)?);
    }
    let last = if let Some(device) = last_gpu {
        let last = network(Layers { spec, weights, blocks: last_blocks }, true, device)?;
        if first.is_empty() {
            return Ok((last, context));
        }
        Last::Gpu(last)
    } else {
        let team = team.map_or_else(|| options.team(), Ok)?;
        let last = Arc::new(cpu::Network::new(spec, weights, (rope_context, options), team)?);
        if first.is_empty() {
            tracing::warn!("the CPU computes all layers");
            return Ok((last, context));
        }
        Last::Cpu(last)
    };
    Ok((Arc::new(Pipeline { spec: whole, first, last }), context))
}

/// Takes the first mixtures of experts out of a model, at most `count`, which is reduced by their number.
/// Returns a feed-forward block for each layer that had one of them.
fn take_mixtures(weights: &mut host::Weights, count: &mut usize) -> Vec<Option<host::FeedForward>> {
    let take = |layer: &mut host::LayerWeights| {
        let is_taken = *count > 0 && layer.feed_forward.has_experts();
        *count -= usize::from(is_taken);
        is_taken.then(|| std::mem::replace(&mut layer.feed_forward, host::FeedForward::Nothing))
    };
    weights.layers.iter_mut().map(take).collect()
}

/// Returns the memory of a device that is left for a model, in bytes, if it is known.
fn room((number, gpu): &(GpuNumber, Gpu), all: &[(GpuNumber, Gpu)], options: OpenOptions) -> Option<u64> {
    let memory = options.gpu_memory.or(gpu.adapter().memory)?;
    let parts = all.iter().filter(|(other, _)| other == number).count() as u64;
    Some(memory.saturating_sub(gpu.allocated()) / parts)
}

/// Returns the type of the keys and values.
fn kv_type(weights: &host::Weights) -> KvType {
    let is_f32 = |linear: &host::Linear| linear.weight.encoding() == formwork_kernels::Encoding::F32;
    let is_exact = |layer: &host::LayerWeights| match &layer.mixer {
        Mixer::Attention(attention) => [&attention.key, &attention.value].into_iter().flatten().all(is_f32),
        Mixer::Latent(latent) => is_f32(&latent.latent),
        _ => true,
    };
    if weights.layers.iter().all(is_exact) { KvType::F32 } else { KvType::F16 }
}

/// Returns the size of all matrices that tokens are multiplied with, in the file and on a GPU.
#[cfg(test)]
pub(crate) fn weight_bytes(checkpoint: &crate::Checkpoint) -> Result<[usize; 2], crate::LoadError> {
    let spec = ModelSpec::of(checkpoint)?;
    let weights = host::Weights::bind(checkpoint, &spec, None, host::Purpose::Measure)?;
    let mut bytes = [0; 2];
    weights.each(&mut |matrix, _| {
        bytes[0] += matrix.rows * matrix.row_bytes();
        bytes[1] += formwork_gpu::weights::bytes_of_matrix(matrix.encoding(), matrix.rows, matrix.columns);
    });
    Ok(bytes)
}

/// Tests a matrix of each storage and width, with few and with many rows, and the head.
fn is_invariant(gpu: &Gpu, weights: &Weights) -> Result<bool, GpuError> {
    let mut tested = Vec::new();
    let head = weights.head.iter().map(|head| (&head.matrix, Rows::OfAllTokens));
    for (matrix, rows) in weights.layers.iter().flat_map(weights::Layer::matrices).chain(head) {
        let kind = (matrix.storage, matrix.groups, matrix.rows >= SELF_TEST_ROWS, rows);
        if !tested.contains(&kind) {
            tested.push(kind);
            if !is_batch_invariant(gpu, matrix, rows == Rows::OfChosenTokens)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Checks that the back end supports all parts of a model.
///
/// # Errors
/// Returns an error that names a part that it does not support.
pub(crate) fn check(spec: &ModelSpec) -> Result<(), Kind> {
    match unsupported(spec) {
        Some(part) => Err(Kind::GpuModel { architecture: spec.architecture.clone(), part }),
        None => Ok(()),
    }
}

/// Maximum number of rows of the state of a recurrence. A thread holds a column.
const MOST_STATE_ROWS: usize = 256;

/// Returns a part of the model that the back end has no code for.
fn unsupported(spec: &ModelSpec) -> Option<&'static str> {
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
    let has_long_state = |layer: &LayerSpec| {
        layer.mixer.recurrence().is_some_and(|recurrence| recurrence.rows > MOST_STATE_ROWS)
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
        (spec.layers.iter().any(has_long_state), "states of more than 256 rows"),
        (mixtures.any(|experts| Some(sizes(experts)) != first), "mixtures of different sizes"),
        (latents.any(|latent| Some(latent) != first_latent), "latent attention of different shapes"),
    ]
    .into_iter()
    .find_map(|(is_part, part)| is_part.then_some(part))
}

/// Layers of a model on a GPU.
struct Layers {
    spec: ModelSpec,
    weights: host::Weights,
    /// Blocks that the CPU computes, by layer.
    blocks: Vec<Option<host::FeedForward>>,
}

/// Memory of the decoders of a model.
struct NetworkMemory {
    /// Number of tokens that determines the rotary frequencies.
    rope_context: usize,
    reserved: usize,
    state_bytes: usize,
    kv: KvType,
}

impl Network {
    /// Copies the weights of a model, or of some of its layers, to a device. `team` computes the blocks on
    /// the CPU.
    fn new(
        Layers { spec, weights, blocks }: Layers,
        NetworkMemory { rope_context, reserved, state_bytes, kv }: NetworkMemory,
        has_head: bool,
        (number, gpu): (GpuNumber, Gpu),
        team: Option<Arc<Team>>,
    ) -> Result<Self, Kind> {
        let fail = |error| Kind::Gpu { device: Device::Gpu(number), error };
        let widths = spec.layers.iter().filter_map(|layer| Some(layer.mixer.cached()?.head_dim));
        let needed = workgroup_memory(widths.max().unwrap_or_default());
        let limit = gpu.limits().workgroup_memory as usize;
        if needed > limit {
            return Err(fail(GpuError::WorkgroupMemory { needed, limit }));
        }
        let team = team.filter(|_| blocks.iter().any(Option::is_some));
        let on_host = team.map(|team| FeedForwards::new(blocks, team)).transpose()?;
        let is_on_host = |layer| on_host.as_ref().is_some_and(|blocks| blocks.has(layer));
        let on_device =
            Weights::upload(&gpu, &weights, has_head, is_on_host).map_err(|refusal| match refusal {
                Refusal::Unsupported(part) => {
                    Kind::GpuModel { architecture: spec.architecture.clone(), part }
                }
                Refusal::Device(error) => fail(error),
            })?;
        let is_invariant = is_invariant(&gpu, &on_device).map_err(fail)?;
        if !is_invariant {
            tracing::warn!(
                device = %Device::Gpu(number),
                "the driver rounds products of several tokens differently, so results depend on other requests"
            );
        }
        Ok(Self {
            rope: Rope::new(&spec, rope_context),
            embedding: weights.embedding.as_ref().unwrap_or(&weights.head).clone(),
            layer_embedding: weights.per_layer_inputs.as_ref().map(|inputs| inputs.embedding.clone()),
            gpu,
            number,
            spec,
            weights: on_device,
            on_host,
            kv,
            reserved,
            state_bytes,
            is_invariant,
        })
    }

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
        let device = Device::Gpu(self.number);
        match &self.on_host {
            None => device.to_string(),
            Some(blocks) => format!("{device}, cpu (experts of {} layers)", blocks.count()),
        }
    }

    fn threads(&self) -> usize {
        self.on_host.as_ref().map_or(1, FeedForwards::threads)
    }

    fn spec(&self) -> Option<&ModelSpec> {
        Some(&self.spec)
    }

    fn decoder(self: Arc<Self>, context: usize, _: Adapters) -> Box<dyn LanguageModel> {
        Box::new(Decoder::new(self, context))
    }

    fn hidden_states(&self, tokens: &[TokenId]) -> Result<Vec<Vec<f32>>, ModelError> {
        ModelError::check_tokens(tokens, self.spec.vocabulary)?;
        pass::residual_streams(self, tokens).map_err(ModelError::backend)
    }

    fn step_times(&self, tokens: usize, position: usize) -> Result<Vec<StepTime>, ModelError> {
        pass::times(self, tokens, position)
    }
}
