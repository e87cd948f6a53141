//! The decoder on GPUs, with the kernels of `formwork-gpu`.
//!
//! The weights, and the keys and values of all sequences, are in the memory of the device. A pass
//! appends tokens of several sequences and runs one list of steps ([`plan`]). Only logits are read
//! back, and of those only the rows that are asked for.
//!
//! For quantised weights, activations are rounded to 8 bits as on the CPU, except those of a sequence's
//! first token. The others are `f32`, where the CPU has 16 bits. Matrix cores also round the weights, to 16
//! bits. Keys and values are `f16`, or `f32` if
//! the weights are.
//!
//! All sums have a fixed order. If the driver keeps the order, the results of a token do not depend on
//! the other tokens of a pass ([`Network::is_invariant`]).

mod decoder;
mod head;
mod open;
mod pass;
mod pipeline;
mod placement;
mod plan;
mod pool;
mod progress;
mod sequence;
mod states;
mod trial;
mod weights;

use std::sync::{Arc, Mutex, PoisonError};

use formwork_gpu::attention::{KvType, workgroup_memory};
use formwork_gpu::{
    AdapterKind, Gpu, GpuError, SELF_TEST_ROWS, WeakGpu, adapters, choose_matrix_cores, is_batch_invariant,
};
use formwork_kernels::Team;
use formwork_lm::{Abilities, LanguageModel, ModelError};
use formwork_vocab::TokenId;

use self::decoder::Decoder;
use self::open::{Layers, NetworkMemory};
pub(crate) use self::open::{Request, open};
pub(crate) use self::pipeline::LastLayers;
pub(crate) use self::trial::is_slower;
use self::weights::{Refusal, Rows, Weights};
use crate::Device;
use crate::backend::{Adapters, Backend, StepTime};
use crate::cpu::FeedForwards;
use crate::device::{GpuInfo, GpuNumber};
use crate::error::Kind;
use crate::ops::softcap;
use crate::rope::Rope;
use crate::spec::{ExpertSpec, LayerSpec, MixerSpec, ModelSpec, NormKind, NormPlacement};
use crate::weights::Matrix;

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
            matrix_cores: adapter.matrix_cores.map(|cores| cores.size),
        }
    };
    adapters().into_iter().map(info).collect()
}

/// Returns the first GPU that may be faster than the CPU: one with memory of its own, or Apple's. Another one
/// reads the memory of the CPU, and no faster than the CPU does. Returns `None` if there is no such GPU.
pub(crate) fn found() -> Option<Device> {
    let first = adapters().into_iter().next()?;
    let may_be_faster = first.kind == AdapterKind::Discrete || first.interface == "metal";
    may_be_faster.then_some(Device::Gpu(GpuNumber::Hardware(0)))
}

/// Opens the device with this number. Drivers that compute on the CPU have no number. All models of the
/// process share an open device, and its compiled kernels.
pub(crate) fn device(number: GpuNumber) -> Result<Gpu, Kind> {
    static OPEN: Mutex<Vec<(GpuNumber, WeakGpu)>> = Mutex::new(Vec::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(gpu) = open.iter().filter(|(own, _)| *own == number).find_map(|(_, gpu)| gpu.open()) {
        return Ok(gpu);
    }
    let fail = |error| Kind::Gpu { device: Device::Gpu(number), error };
    let mut gpu = open_adapter(number).map_err(fail)?;
    match choose_matrix_cores(&gpu) {
        Ok(is_chosen) => tracing::info!(device = %Device::Gpu(number), is_chosen, "tried the matrix cores"),
        Err(error) => {
            tracing::warn!(device = %Device::Gpu(number), %error, "the matrix cores cannot be used");
            // The device may be lost.
            gpu = open_adapter(number).map_err(fail)?;
        }
    }
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

/// Returns the size of all matrices that tokens are multiplied with, in the file and on a GPU.
#[cfg(test)]
pub(crate) fn weight_bytes(checkpoint: &crate::Checkpoint) -> Result<[usize; 2], crate::LoadError> {
    let spec = ModelSpec::of(checkpoint)?;
    let purpose = crate::weights::Purpose::Measure;
    let weights = crate::weights::Weights::bind(checkpoint, &spec, None, purpose)?;
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
