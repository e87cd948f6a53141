//! Opens a model on GPUs, and divides it among them and the CPU.

use std::sync::Arc;

use formwork_gpu::Gpu;
use formwork_gpu::attention::KvType;
use formwork_kernels::Encoding;

use super::pipeline::{Last, Pipeline};
use super::placement::{Needs, Placement, joined, place, take_layers};
use super::trial::{How, Trial};
use super::{Network, STATE_BYTES};
use crate::backend::Backend;
use crate::cpu;
use crate::device::{GpuLayers, GpuNumber};
use crate::error::Kind;
use crate::spec::ModelSpec;
use crate::weights::{FeedForward, LayerWeights, Linear, Mixer, Weights, packed_block_bytes};
use crate::{MemoryUse, OpenOptions};

/// Layers of a model on a GPU.
pub(super) struct Layers {
    pub(super) spec: ModelSpec,
    pub(super) weights: Weights,
    /// Blocks that the CPU computes, by layer.
    pub(super) blocks: Vec<Option<FeedForward>>,
}

/// Memory of the decoders of a model.
pub(super) struct NetworkMemory {
    /// Number of tokens that determines the rotary frequencies.
    pub(super) rope_context: usize,
    pub(super) reserved: usize,
    pub(super) state_bytes: usize,
    pub(super) kv: KvType,
}

/// Requests that decide on the devices of a model's layers.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    /// Maximum number of tokens of a sequence.
    pub(crate) context: usize,
    pub(crate) options: OpenOptions,
    /// True if nobody asked for a GPU. At least half of the layers must then fit, and a token must take
    /// less time than on the CPU.
    pub(crate) is_found: bool,
}

/// Smallest context that is tried to keep a whole model on the GPUs if no context is given.
const LEAST_CONTEXT: usize = 8192;

/// Copies the weights of a model that [`check`](super::check) accepts to GPUs. Packs the parts that are left
/// to the CPU in host memory. The second part of the result is the maximum number of tokens of a sequence.
///
/// # Errors
/// Returns an error if a part of the model is not supported on GPUs, or if a device fails.
pub(crate) fn open(
    mut spec: ModelSpec,
    mut weights: Weights,
    request: Request,
    mut gpus: Vec<(GpuNumber, Gpu)>,
) -> Result<(Arc<dyn Backend>, usize), Kind> {
    let kv = kv_type(&weights);
    let Request { context: rope_context, options, is_found } = request;
    let Division { context, placement, state_bytes, is_reserved } =
        divided(&spec, &weights, (kv, request), &gpus)?;
    if let Some(device) = gpus.first().filter(|_| is_found) {
        let mixtures = weights.layers.iter().filter(|layer| layer.feed_forward.has_experts()).count();
        let how = How { kv, options, cpu_experts: (placement.cpu_experts, mixtures) };
        Trial::of(&spec, &weights, how, device)?.verdict()?;
    }
    // Memory that was counted is taken at once, because a growth would need more.
    let reserved = if is_reserved { context } else { 0 };
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

/// Division of a model.
struct Division {
    /// Maximum number of tokens of a sequence.
    context: usize,
    placement: Placement,
    /// Maximum size in bytes of the copies of states of a decoder.
    state_bytes: usize,
    /// True if decoders take the memory of a whole sequence at once.
    is_reserved: bool,
}

/// Divides a model among `gpus` and the CPU.
fn divided(
    spec: &ModelSpec,
    weights: &Weights,
    (kv, Request { context, options, is_found }): (KvType, Request),
    gpus: &[(GpuNumber, Gpu)],
) -> Result<Division, Kind> {
    let memory: Vec<Option<u64>> = gpus.iter().map(|device| room(device, gpus, options)).collect();
    let state_bytes = options.state_bytes.unwrap_or_else(|| {
        // A GPU usually has less memory than the host.
        let least = memory.iter().flatten().min().map_or(u64::MAX, |memory| memory / 16);
        STATE_BYTES.min(usize::try_from(least).unwrap_or(usize::MAX))
    });
    let wanted = options.gpu_layers.unwrap_or(if is_found { GpuLayers::Auto } else { GpuLayers::All });
    let joined = joined(spec);
    let place_for = |context| {
        let needs = Needs::of(spec, weights, (context, kv.bytes()), state_bytes);
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
    if options.cpu_experts.is_some_and(|count| count > 0) && placement.cpu_experts == 0 {
        tracing::warn!("the model has no mixtures of experts to leave to the CPU");
    }
    let placed: usize = placement.layers.iter().map(ExactSizeIterator::len).sum();
    if is_found && 2 * placed < spec.layers.len() {
        return Err(Kind::GpuShare { placed, layers: spec.layers.len() });
    }
    let is_one = placement.is_whole && gpus.len() == 1;
    if spec.per_layer_input.is_some() && !is_one {
        let part = "additional inputs of layers on several devices";
        return Err(Kind::GpuModel { architecture: spec.architecture.clone(), part });
    }
    Ok(Division { context, placement, state_bytes, is_reserved: wanted == GpuLayers::Auto })
}

/// Takes the first mixtures of experts out of a model, at most `count`, which is reduced by their number.
/// Returns a feed-forward block for each layer that had one of them.
pub(super) fn take_mixtures(weights: &mut Weights, count: &mut usize) -> Vec<Option<FeedForward>> {
    let take = |layer: &mut LayerWeights| {
        let is_taken = *count > 0 && layer.feed_forward.has_experts();
        *count -= usize::from(is_taken);
        is_taken.then(|| std::mem::replace(&mut layer.feed_forward, FeedForward::Nothing))
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
pub(super) fn kv_type(weights: &Weights) -> KvType {
    let is_f32 = |linear: &Linear| linear.weight.encoding() == Encoding::F32;
    let is_exact = |layer: &LayerWeights| match &layer.mixer {
        Mixer::Attention(attention) => [&attention.key, &attention.value].into_iter().flatten().all(is_f32),
        Mixer::Latent(latent) => is_f32(&latent.latent),
        _ => true,
    };
    if weights.layers.iter().all(is_exact) { KvType::F32 } else { KvType::F16 }
}
