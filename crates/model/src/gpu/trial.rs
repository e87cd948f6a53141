//! A trial of a model's first layers on a GPU that nobody asked for: whether it computes what the CPU
//! does, and in less time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use formwork_gpu::Gpu;
use formwork_gpu::attention::KvType;
use formwork_lm::{ModelError, Role, Run, Wanted};
use formwork_vocab::TokenId;

use super::decoder::Decoder;
use super::open::take_mixtures;
use super::pipeline::LastLayers;
use super::placement::with_layers;
use super::{Layers, Network, NetworkMemory};
use crate::backend::Adapters;
use crate::cpu;
use crate::device::GpuNumber;
use crate::error::Kind;
use crate::ops::scale;
use crate::spec::ModelSpec;
use crate::weights::{LayerWeights, Matrix, Weights};
use crate::{Device, OpenOptions};

/// Size in bytes of the matrices that are tried, if the model has as many. The caches of most CPUs are
/// smaller.
const TRIED: usize = 256 << 20;

/// Number of tokens of the prompt.
const PROMPT: usize = 8;

/// Number of tokens after the prompt. Each is measured.
const GENERATED: usize = 8;

/// Largest share of the time on the CPU that a token may take. Measured times vary a little, and the choice
/// should not.
const SHARE: f64 = 0.8;

/// Maximum difference of the results of a token, relative to their norm. Rounding makes some difference, such
/// as 0.07 after all layers of Gemma 3 270M in `Q4_K`, and a driver with an error a far larger one.
const DIFFERENCE: f32 = 0.25;

/// Results of a trial.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    /// Difference of the results on the two devices: see [`difference`].
    difference: f32,
    /// Time of a token on the GPU, and on the CPU.
    gpu: Duration,
    cpu: Duration,
}

/// Properties of the opened model that a trial shares.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub(super) kv: KvType,
    pub(super) options: OpenOptions,
    /// Number of first mixtures of experts that the CPU computes, and number of all mixtures.
    pub(super) cpu_experts: (usize, usize),
}

impl Trial {
    /// Computes some tokens with the first layers of a model, on `device` and on the CPU. If the CPU has
    /// only some of the experts, the time on the device is the mean of layers with and without them.
    ///
    /// # Errors
    /// Returns an error if a device fails, or has too little memory.
    pub(super) fn of(
        spec: &ModelSpec,
        weights: &Weights,
        how: How,
        device: &(GpuNumber, Gpu),
    ) -> Result<Self, Kind> {
        let How { kv, options, cpu_experts: (on_cpu, mixtures) } = how;
        let (number, context) = (device.0, PROMPT + GENERATED);
        let fail = |error| Kind::GpuTrial { device: Device::Gpu(number), error };
        let team = options.team()?;
        let (first, first_weights) = first_layers(spec, weights);
        let input = embedded(&first, &first_weights);
        let network = cpu::Network::new(first, first_weights, (context, options), Arc::clone(&team))?;
        let mut decoder = cpu::Decoder::new(Arc::new(network), context, Adapters::default());
        let (cpu, expected) = computed(&mut decoder, &input).map_err(fail)?;
        let share_on_cpu = if mixtures == 0 { 0.0 } else { on_cpu as f64 / mixtures as f64 };
        let mut trial = Self { difference: 0.0, gpu: Duration::ZERO, cpu };
        for (share, mut left) in [(1.0 - share_on_cpu, 0), (share_on_cpu, usize::MAX)] {
            if share <= 0.0 {
                continue;
            }
            let (spec, mut weights) = first_layers(spec, weights);
            let blocks = take_mixtures(&mut weights, &mut left);
            let memory = NetworkMemory { rope_context: context, reserved: 0, state_bytes: 1 << 20, kv };
            let layers = Layers { spec, weights, blocks };
            let network = Network::new(layers, memory, false, device.clone(), Some(Arc::clone(&team)))?;
            let (gpu, found) =
                computed(&mut Decoder::new(Arc::new(network), context), &input).map_err(fail)?;
            trial.gpu += gpu.mul_f64(share);
            trial.difference = trial.difference.max(difference(&expected, &found));
        }
        Ok(trial)
    }

    /// Accepts the GPU.
    ///
    /// # Errors
    /// Returns an error if its results are wrong, or if it saves too little time.
    pub(super) fn verdict(&self) -> Result<(), Kind> {
        let Self { difference, gpu, cpu } = *self;
        tracing::debug!(difference, ?gpu, ?cpu, "tried the first layers");
        if difference > DIFFERENCE {
            return Err(Kind::GpuDiffers);
        }
        if gpu > cpu.mul_f64(SHARE) {
            return Err(Kind::GpuSlower { gpu, cpu });
        }
        Ok(())
    }
}

/// Reports whether the error means that the GPU saves too little time.
pub(crate) const fn is_slower(error: &Kind) -> bool {
    matches!(error, Kind::GpuSlower { .. })
}

/// Returns the first layers of a model that have [`TRIED`] bytes of matrices, or all layers, with a head of
/// one row. Leaves out additional inputs of layers, which have a matrix for all layers together.
fn first_layers(spec: &ModelSpec, weights: &Weights) -> (ModelSpec, Weights) {
    let mut bytes = 0;
    let mut layers = Vec::new();
    for layer in &weights.layers {
        if bytes >= TRIED {
            break;
        }
        layer.each(&mut |matrix: &Matrix| bytes += matrix.rows * matrix.row_bytes());
        layers.push(LayerWeights { per_layer_input: None, ..layer.clone() });
    }
    let layer_specs = spec.layers[..layers.len()].to_vec();
    let spec = ModelSpec { layers: layer_specs, per_layer_input: None, ..spec.clone() };
    let embedding = weights.embedding.as_ref().unwrap_or(&weights.head).clone();
    let head = Matrix::of_floats(&vec![0.0; spec.hidden], spec.hidden);
    let weights = Weights { embedding: Some(embedding), head, ..with_layers(weights, layers) };
    (spec, weights)
}

/// Returns the embeddings of tokens from all over the vocabulary. Shape: `[tokens, hidden]`.
fn embedded(spec: &ModelSpec, weights: &Weights) -> Vec<f32> {
    let mut rows = vec![0.0; (PROMPT + GENERATED) * spec.hidden];
    for (index, row) in rows.chunks_exact_mut(spec.hidden).enumerate() {
        let token = index * spec.vocabulary / (PROMPT + GENERATED);
        if let Some(embedding) = &weights.embedding {
            embedding.dequantize(token..token + 1, row);
        }
        scale(row, spec.embedding_scale);
    }
    rows
}

/// Appends all tokens to a sequence, those after the prompt one by one. Returns the shortest time of one of
/// them, and the hidden states of all.
fn computed(decoder: &mut dyn LastLayers, input: &[f32]) -> Result<(Duration, Vec<f32>), ModelError> {
    let hidden = input.len() / (PROMPT + GENERATED);
    let sequence = decoder.open();
    let (mut least, mut states) = (Duration::MAX, Vec::new());
    let ones = (0..GENERATED).map(|index| (PROMPT + index, 1, Role::Generated));
    for (first, count, role) in [(0, PROMPT, Role::Prompt)].into_iter().chain(ones) {
        let tokens = vec![TokenId(0); count];
        let run = Run { sequence, tokens: &tokens, role, wanted: Wanted::Nothing };
        let start = Instant::now();
        states.extend(decoder.states(run, &input[first * hidden..][..count * hidden])?);
        if count == 1 {
            least = least.min(start.elapsed());
        }
    }
    Ok((least, states))
}

/// Compares results token by token: divides the norm of the difference by that of the expected results.
/// Returns the larger one of the first token's, which has kernels of its own, and the median of the others'.
/// Single other tokens do not count, because a small difference can choose another expert. Returns infinity
/// if a result is not a number.
fn difference(expected: &[f32], found: &[f32]) -> f32 {
    let hidden = expected.len() / (PROMPT + GENERATED);
    let square = |sum: f32, x: f32| x.mul_add(x, sum);
    let of_token = |(expected, found): (&[f32], &[f32])| {
        let differences = expected.iter().zip(found).map(|(x, y)| x - y);
        (differences.fold(0.0, square) / expected.iter().copied().fold(0.0, square)).sqrt()
    };
    let mut tokens: Vec<f32> =
        expected.chunks_exact(hidden).zip(found.chunks_exact(hidden)).map(of_token).collect();
    if tokens.iter().any(|difference| !difference.is_finite()) {
        return f32::INFINITY;
    }
    let first = tokens.remove(0);
    tokens.sort_by(f32::total_cmp);
    first.max(tokens[tokens.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Checkpoint;
    use crate::gpu::device;
    use crate::gpu::open::kv_type;
    use crate::synthetic::Synthetic;
    use crate::weights::Purpose;

    #[test]
    fn a_trial_compares_the_devices() {
        let number = match std::env::var("FORMWORK_TEST_GPU").map(|name| name.parse()) {
            Ok(Ok(Device::Gpu(number))) => number,
            _ => GpuNumber::Cpu,
        };
        let Ok(gpu) = device(number) else {
            eprintln!("not tested: no driver");
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        for synthetic in Synthetic::checks() {
            let checkpoint = Checkpoint::open(synthetic.write(folder.path()).unwrap()).unwrap();
            let spec = ModelSpec::of(&checkpoint).unwrap();
            let weights = Weights::bind(&checkpoint, &spec, None, Purpose::Compute).unwrap();
            let kv = kv_type(&weights);
            let mixtures = weights.layers.iter().filter(|layer| layer.feed_forward.has_experts()).count();
            let how = How { kv, options: OpenOptions::default(), cpu_experts: (mixtures / 2, mixtures) };
            let trial = Trial::of(&spec, &weights, how, &(number, gpu.clone())).unwrap();
            eprintln!("{synthetic}: {trial:?}");
            assert!(trial.difference < DIFFERENCE / 2.0, "{synthetic}: {trial:?}");
            assert!(trial.gpu > Duration::ZERO && trial.cpu > Duration::ZERO, "{synthetic}: {trial:?}");
        }
    }

    #[test]
    fn the_verdict_needs_equal_results_in_less_time() {
        let [short, long] = [2, 3].map(Duration::from_millis);
        let verdict = |difference, gpu, cpu| Trial { difference, gpu, cpu }.verdict();
        assert!(verdict(0.01, short, long).is_ok());
        let error = verdict(0.01, long, short).unwrap_err().to_string();
        assert_eq!(error, "the GPU takes 3 ms for the first layers of a token, and the CPU 2 ms");
        // Equal times would make the choice a matter of chance.
        assert!(verdict(0.01, short, short).is_err());
        let error = verdict(0.5, short, long).unwrap_err().to_string();
        assert_eq!(error, "the results of the GPU differ from those of the CPU");
        assert!(verdict(f32::INFINITY, short, long).is_err());
    }

    #[test]
    fn wrong_results_of_some_tokens_are_a_large_difference() {
        const HIDDEN: usize = 64;
        // The first token has an element far larger than all others, as in many models.
        let mut expected: Vec<f32> =
            (0..(PROMPT + GENERATED) * HIDDEN).map(|at| at as f32 % 7.0 - 3.0).collect();
        expected[5] = 1000.0;
        let changed = |change: &dyn Fn(usize, f32) -> f32| -> Vec<f32> {
            expected.iter().enumerate().map(|(at, x)| change(at, *x)).collect()
        };
        let of = |found: Vec<f32>| difference(&expected, &found);
        assert!(of(changed(&|_, x| x * 1.01)) < DIFFERENCE);
        assert!(of(changed(&|_, _| 0.0)) > DIFFERENCE);
        assert!(of(changed(&|at, x| if at < HIDDEN { 0.0 } else { x })) > DIFFERENCE);
        assert!(of(changed(&|at, x| if at < HIDDEN { x } else { -x })) > DIFFERENCE);
        // Another choice of experts for one token is no error of the driver.
        assert!(of(changed(&|at, x| if at / HIDDEN == 3 { -x } else { x })) < DIFFERENCE);
        assert!(of(changed(&|at, x| if at == 9 * HIDDEN { f32::NAN } else { x })) > DIFFERENCE);
    }
}
