//! A trial of matrix cores: whether they give the results of other kernels, in less time.

use std::time::Instant;

use half::f16;

use crate::product::{Activations, Batch, Inputs, Operand, Output, Outputs, Product};
use crate::weights::{Codes, Matrix, Part, Scales, Storage};
use crate::{AdapterKind, Gpu, GpuError, Step};

/// Largest share of the time of other kernels that matrix cores may take. Measured times vary a little, and
/// the choice should not.
const SHARE: f64 = 0.8;

/// Maximum difference of the results of matrix cores from others, relative to their norm. Weights and
/// activations are rounded to 16 bits.
const DIFFERENCE: f64 = 2e-3;

/// Number of tokens without which the others are computed again, so that they have other places in blocks.
const SHIFT: usize = 17;

/// The storages of `Q8_0`, `Q4_K` and `Q6_K`.
const STORAGES: [Storage; 3] = [
    Storage { codes: Codes::Bytes, scales: Scales::Half, bias: 0 },
    Storage { codes: Codes::Nibbles, scales: Scales::Header, bias: 0 },
    Storage { codes: Codes::SixBits, scales: Scales::Small, bias: 32 },
];

/// Tests the matrix cores of a device, and lets them multiply prompts if this holds:
///
/// - Apart from the rounding to 16 bits, their results are those of other kernels.
/// - A token has the same bits at each place among others.
/// - They take less time. On a driver that computes on the CPU, the time does not matter.
///
/// Returns true if they multiply prompts.
///
/// # Errors
/// Returns an error if the device reported one.
pub fn choose_matrix_cores(gpu: &Gpu) -> Result<bool, GpuError> {
    gpu.use_matrix_cores(true);
    if gpu.prompt_cores().is_none() {
        return Ok(false);
    }
    let is_hardware = gpu.adapter().kind != AdapterKind::Cpu;
    let [rows, groups, tokens] = if is_hardware { [4096, 128, 256] } else { [70, 16, 70] };
    let (mut other_seconds, mut seconds, mut is_right) = (0.0, 0.0, true);
    for storage in STORAGES {
        let trial = Trial::new(gpu, storage, [rows, groups, tokens])?;
        gpu.use_matrix_cores(false);
        let expected = trial.results(gpu, 0)?;
        other_seconds += if is_hardware { trial.least_seconds(gpu)? } else { 0.0 };
        gpu.use_matrix_cores(true);
        let found = trial.results(gpu, 0)?;
        seconds += if is_hardware { trial.least_seconds(gpu)? } else { 0.0 };
        let shifted = trial.results(gpu, SHIFT)?;
        let is_invariant =
            shifted.iter().zip(&found[SHIFT * rows..]).all(|(x, y)| x.to_bits() == y.to_bits());
        is_right &= is_invariant && difference(&expected, &found) <= DIFFERENCE;
    }
    let is_chosen = is_right && seconds <= SHARE * other_seconds;
    gpu.use_matrix_cores(is_chosen);
    Ok(is_chosen)
}

/// A product of a prompt with random weights.
struct Trial {
    matrix: Matrix,
    tokens: usize,
    /// Activations in the two planes of [`Activations`].
    codes: Vec<i8>,
    heads: Vec<[u32; 2]>,
}

impl Trial {
    /// Creates a matrix with numbers of rows and of groups in a row, and activations of a number of tokens.
    fn new(gpu: &Gpu, storage: Storage, [rows, groups, tokens]: [usize; 3]) -> Result<Self, GpuError> {
        let mut random = Random(0x2545_f491);
        let count = rows * groups;
        let [low, high] = match storage.codes {
            Codes::Bytes => [8, 0],
            Codes::SixBits => [4, 2],
            _ => [4, 0],
        };
        let codes: Vec<u32> = (0..low * count).map(|_| random.next()).collect();
        let more: Vec<u32> = (0..(high * count).max(4)).map(|_| random.next()).collect();
        let mut half = || u32::from(f16::from_f32((random.next() % 100) as f32 / 1e4).to_bits());
        let mut scales: Vec<u32> = Vec::new();
        match storage.scales {
            Scales::Half => scales.extend((0..count.div_ceil(2)).map(|_| half() | half() << 16)),
            Scales::Small => scales.extend((0..count).map(|at| at as u32 & 0x7f7f | half() << 16)),
            // Any bits are scales and minima of six bits.
            _ => (0..rows * groups.div_ceil(8)).for_each(|at| {
                let bits = (at as u32).wrapping_mul(0x9e37_79b9);
                scales.extend([half() | half() << 16, bits, bits.rotate_left(7), bits.rotate_left(13)]);
            }),
        }
        let planes = [gpu.upload(&codes)?, gpu.upload(&more)?, gpu.upload(&scales)?];
        let parts = vec![Part { first: 0, rows: rows as u32, planes }];
        let matrix = Matrix { storage, rows: rows as u32, groups: groups as u32, parts };
        let codes: Vec<i8> = (0..tokens * groups * 32).map(|_| (random.next() % 255) as i8).collect();
        let heads = codes.chunks_exact(32).map(|group| {
            let sum = |half: &[i8]| half.iter().map(|code| i32::from(*code)).sum::<i32>() as u32;
            let (low, high) = group.split_at(16);
            // Steps of very different sizes.
            let step = (random.next() % 1000 + 1) as f32 * 2f32.powi((random.next() % 16) as i32 - 20);
            [step.to_bits(), sum(low) & 0xffff | sum(high) << 16]
        });
        let heads = heads.collect();
        Ok(Self { matrix, tokens, codes, heads })
    }

    /// Returns the steps of the product of all tokens but the first `skipped`, and its output.
    fn steps(&self, gpu: &Gpu, skipped: usize) -> Result<(Vec<Step>, Output), GpuError> {
        let (rows, groups) = (self.matrix.rows, self.matrix.groups as usize);
        let tokens = (self.tokens - skipped) as u32;
        let x = Activations {
            floats: gpu.buffer(16),
            codes: gpu.upload(&self.codes[32 * groups * skipped..])?,
            heads: gpu.upload(&self.heads[groups * skipped..])?,
        };
        let batch = Batch { tokens, ..Batch::default() };
        let uniform = gpu.upload(&[batch])?;
        let output = Output { buffer: gpu.buffer(4 * u64::from(tokens * rows)), stride: rows, first: 0 };
        let (operand, outputs) = (Operand::Bytes, Outputs::All);
        let inputs = Inputs { batch: &uniform, x: &x, operand, bias: None, factor: 1.0, outputs };
        let mut steps = Vec::new();
        Product::new(gpu, &self.matrix, &inputs, &output).prompt_steps(gpu, batch, &mut steps);
        Ok((steps, output))
    }

    fn results(&self, gpu: &Gpu, skipped: usize) -> Result<Vec<f32>, GpuError> {
        let (steps, output) = self.steps(gpu, skipped)?;
        let count = (self.tokens - skipped) * self.matrix.rows as usize;
        gpu.run_and_read(steps, &output.buffer, count)
    }

    /// Returns the least time of some runs.
    fn least_seconds(&self, gpu: &Gpu) -> Result<f64, GpuError> {
        const RUNS: usize = 5;
        let mut least = f64::INFINITY;
        let (steps, _) = self.steps(gpu, 0)?;
        for _ in 0..RUNS {
            let start = Instant::now();
            let seconds = gpu.time(steps.iter().cloned())?;
            if seconds.is_none() {
                gpu.run(steps.iter().cloned())?;
                gpu.wait()?;
            }
            least = least.min(seconds.unwrap_or_else(|| start.elapsed().as_secs_f64()));
        }
        Ok(least)
    }
}

/// A generator of random bits (xorshift).
struct Random(u32);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}

/// Returns the norm of the difference relative to that of the expected values. Infinite if a value is not
/// a number.
fn difference(expected: &[f32], found: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let differences = expected.iter().zip(found).map(|(x, y)| square(f64::from(*x) - f64::from(*y)));
    let ratio = differences.sum::<f64>() / expected.iter().map(|x| square(f64::from(*x))).sum::<f64>();
    if ratio.is_finite() { ratio.sqrt() } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_result_is_a_large_difference() {
        assert!(difference(&[1.0, 2.0], &[1.0, 2.001]) < DIFFERENCE);
        assert!(difference(&[1.0, 2.0], &[1.0, 2.1]) > DIFFERENCE);
        assert!(difference(&[1.0, 2.0], &[1.0, f32::NAN]) > DIFFERENCE);
        assert!(difference(&[0.0, 0.0], &[0.0, 0.0]) > DIFFERENCE);
    }

    #[test]
    fn matrix_cores_with_right_results_are_chosen_on_the_cpu() {
        let Some(adapter) = crate::adapters().into_iter().find(|adapter| adapter.kind == AdapterKind::Cpu)
        else {
            eprintln!("not tested: no driver computes on the CPU");
            return;
        };
        let gpu = adapter.open().unwrap();
        for storage in STORAGES {
            let results = Trial::new(&gpu, storage, [70, 16, 70]).unwrap().results(&gpu, 0).unwrap();
            assert!(results.iter().all(|x| x.is_finite()) && results.iter().any(|x| *x != 0.0));
        }
        assert_eq!(choose_matrix_cores(&gpu).unwrap(), adapter.matrix_cores.is_some());
        assert_eq!(gpu.prompt_cores(), adapter.matrix_cores);
    }
}
