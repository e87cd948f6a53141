//! A trial of a model's first layers on a GPU that nobody asked for: whether it computes what the CPU
//! does, and in less time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use formwork_gpu::Gpu;
use formwork_gpu::attention::KvType;
use formwork_lm::{ModelError, Role, Run, Wanted};
use formwork_vocab::TokenId;

use super::decoder::Decoder;
use super::pipeline::LastLayers;
use super::{Layers, Network, NetworkMemory};
use crate::OpenOptions;
use crate::backend::Adapters;
use crate::cpu;
use crate::device::GpuNumber;
use crate::error::Kind;
use crate::ops::scale;
use crate::spec::ModelSpec;
use crate::weights::{InputWeights, LayerWeights, Matrix, TextHead, Weights};

/// Size in bytes of the matrices that are tried. More than the caches of the CPU hold, if the model has
/// as many.
const TRIED: usize = 256 << 20;

/// Number of tokens of the prompt.
const PROMPT: usize = 8;

/// Number of tokens after the prompt. Each is measured.
const GENERATED: usize = 8;

/// Maximum difference of nine tenths of the results, relative to the largest. Rounded weights and
/// another choice of experts make some differences. A driver with an error makes far larger ones.
const DIFFERENCE: f32 = 0.1;

/// Results of a trial.
#[derive(Debug)]
pub(super) struct Trial {
    /// Difference of nine tenths of the results of the two devices, relative to the largest.
    difference: f32,
    /// Time of a token on the GPU.
    gpu: Duration,
    /// Time of a token on the CPU.
    cpu: Duration,
}

impl Trial {
    /// Computes some tokens with the first layers of a model, on `device` and on the CPU.
    ///
    /// # Errors
    /// Returns an error if a device fails, or has too little memory.
    pub(super) fn of(
        spec: &ModelSpec,
        weights: &Weights,
        (kv, options): (KvType, OpenOptions),
        device: (GpuNumber, Gpu),
    ) -> Result<Self, Kind> {
        let (first, first_weights) = first_layers(spec, weights);
        let input = embedded(&first, &first_weights);
        let (number, context) = (device.0, PROMPT + GENERATED);
        let memory = NetworkMemory { rope_context: context, reserved: 0, state_bytes: 1 << 20, kv };
        let on_gpu = Layers { spec: first, weights: first_weights, blocks: Vec::new() };
        let network = Arc::new(Network::new(on_gpu, memory, false, device, None)?);
        let fail = |error| Kind::GpuTrial { device: crate::Device::Gpu(number), error };
        let (gpu, found) = computed(&mut Decoder::new(network, context), &input).map_err(fail)?;
        let (first, first_weights) = first_layers(spec, weights);
        let network = cpu::Network::new(first, first_weights, (context, options), options.team()?)?;
        let mut decoder = cpu::Decoder::new(Arc::new(network), context, Adapters::default());
        let (cpu, expected) = computed(&mut decoder, &input).map_err(fail)?;
        Ok(Self { difference: difference(&expected, &found), gpu, cpu })
    }

    /// Accepts the GPU.
    ///
    /// # Errors
    /// Returns an error with the numbers if its results are wrong, or if the CPU takes less time.
    pub(super) fn verdict(&self) -> Result<(), Kind> {
        let Self { difference, gpu, cpu } = *self;
        tracing::debug!(difference, ?gpu, ?cpu, "tried the first layers");
        // A difference that is not a number must not pass.
        if difference.is_nan() || difference > DIFFERENCE {
            return Err(Kind::GpuDiffers { difference });
        }
        if gpu >= cpu {
            return Err(Kind::GpuSlower { gpu, cpu });
        }
        Ok(())
    }
}

/// Reports whether the error means that the CPU takes less time.
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
    let weights = Weights {
        embedding: Some(embedding),
        per_layer_inputs: None,
        layers,
        draft_head: None,
        output_norm: weights.output_norm.clone(),
        input: InputWeights::default(),
        text_head: TextHead::default(),
        head: Matrix::of_floats(&vec![0.0; spec.hidden], spec.hidden),
    };
    (spec, weights)
}

/// Returns the embeddings of all tokens, which are different tokens of the vocabulary. Shape: `[tokens, hidden]`.
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

/// Returns the difference that nine tenths of the elements do not exceed, relative to the largest element.
fn difference(expected: &[f32], found: &[f32]) -> f32 {
    let largest = expected.iter().fold(f32::MIN_POSITIVE, |largest, x| largest.max(x.abs()));
    let mut differences: Vec<f32> = expected.iter().zip(found).map(|(x, y)| (x - y).abs()).collect();
    // What is not a number comes last.
    differences.sort_by(f32::total_cmp);
    differences.get(differences.len() * 9 / 10).map_or(f32::NAN, |difference| difference / largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::device;
    use crate::gpu::open::kv_type;
    use crate::synthetic::Synthetic;
    use crate::weights::Purpose;
    use crate::{Checkpoint, Device};

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
            let how = (kv_type(&weights), OpenOptions::default());
            let trial = Trial::of(&spec, &weights, how, (number, gpu.clone())).unwrap();
            eprintln!("{synthetic}: {trial:?}");
            assert!(trial.difference < DIFFERENCE / 2.0, "{synthetic}: {trial:?}");
            assert!(trial.gpu > Duration::ZERO && trial.cpu > Duration::ZERO, "{synthetic}: {trial:?}");
        }
    }

    #[test]
    fn the_verdict_needs_equal_results_in_less_time() {
        let (short, long) = (Duration::from_millis(2), Duration::from_millis(3));
        let verdict = |difference, gpu, cpu| Trial { difference, gpu, cpu }.verdict();
        assert!(verdict(0.01, short, long).is_ok());
        let error = verdict(0.01, long, short).unwrap_err().to_string();
        assert_eq!(error, "some layers of a token take 3 ms on it, and 2 ms on the CPU");
        let error = verdict(0.5, short, long).unwrap_err().to_string();
        assert_eq!(error, "its results differ from those of the CPU by 50%");
        assert!(verdict(f32::NAN, short, long).is_err());
        let numbers = [[1.0; 10], [f32::NAN; 10]];
        assert!(difference(&numbers[0], &numbers[1]).is_nan());
    }
}
