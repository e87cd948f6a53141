//! Hardware that multiplies blocks of matrices ("matrix cores", "tensor cores").
//!
//! `wgpu` calls its support experimental, and no kernel here was tuned on such hardware. [`choose`] therefore
//! uses it only where it gives the results of other kernels in less time.

use std::time::Instant;

use half::f16;

use crate::product::{Activations, Batch, Inputs, Operand, Output, Outputs, Product};
use crate::self_test::activations;
use crate::weights::{Codes, Matrix, Part, Scales, Storage};
use crate::{AdapterKind, Gpu, GpuError};

/// Hardware that multiplies square blocks of 16-bit floats, with sums in 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MatrixCores {
    /// Rows and columns of a block.
    pub size: u32,
    /// Number of threads of a subgroup.
    pub subgroup: u32,
}

impl MatrixCores {
    /// Memory of a workgroup, in bytes.
    const MEMORY: u32 = 2 * 1152 * 8 + 4 * 16 * 16 * 4 + 64 * 4;

    /// Returns the features that a device needs.
    pub(crate) fn features() -> wgpu::Features {
        wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX
            | wgpu::Features::SHADER_F16
            | wgpu::Features::SUBGROUP
    }

    /// Returns the matrix cores of an adapter, with the largest blocks.
    pub(crate) fn of(adapter: &wgpu::Adapter) -> Option<Self> {
        use wgpu::CooperativeScalarType::{F16, F32};
        let (info, limits) = (adapter.get_info(), adapter.limits());
        // The kernels are not written for Metal's languages of matrices, which have other pointers.
        let is_vulkan = info.backend == wgpu::Backend::Vulkan;
        // Kernels need to know the number of subgroups of a workgroup.
        let subgroup = info.subgroup_min_size;
        let is_fixed = subgroup == info.subgroup_max_size
            && 4 * subgroup <= limits.max_compute_invocations_per_workgroup;
        let has_memory = limits.max_compute_workgroup_storage_size >= Self::MEMORY;
        if !adapter.features().contains(Self::features()) || !is_vulkan || !is_fixed || !has_memory {
            return None;
        }
        let shapes = adapter.cooperative_matrix_properties();
        let has = |size: u32| {
            shapes.iter().any(|shape| {
                [shape.m_size, shape.n_size, shape.k_size] == [size; 3]
                    && (shape.ab_type, shape.cr_type) == (F16, F32)
            })
        };
        [16, 8].into_iter().find(|size| has(*size)).map(|size| Self { size, subgroup })
    }
}

/// Largest share of the time of other kernels that matrix cores may take. Measured times vary a little, and
/// the choice should not.
const SHARE: f64 = 0.8;

/// Maximum difference of the results of matrix cores from others, relative to their norm. Weights and
/// activations are rounded to 16 bits.
const DIFFERENCE: f64 = 2e-3;

/// Tests the matrix cores of a device, and lets them multiply prompts if their results are right and
/// take less time. On a driver that computes on the CPU, the time does not matter. Returns true if they
/// multiply prompts.
///
/// # Errors
/// Returns an error if the device reported one.
pub fn choose_matrix_cores(gpu: &Gpu) -> Result<bool, GpuError> {
    if gpu.adapter().matrix_cores.is_none() {
        return Ok(false);
    }
    let is_hardware = gpu.adapter().kind != AdapterKind::Cpu;
    let trial = Trial::new(gpu, if is_hardware { [4096, 128, 256] } else { [70, 10, 70] })?;
    gpu.use_matrix_cores(false);
    let expected = trial.results(gpu)?;
    let least = trial.least_seconds(gpu, is_hardware)?;
    gpu.use_matrix_cores(true);
    let found = trial.results(gpu)?;
    let is_faster = trial.least_seconds(gpu, is_hardware)? <= SHARE * least || !is_hardware;
    let is_chosen = is_faster && difference(&expected, &found) <= DIFFERENCE;
    gpu.use_matrix_cores(is_chosen);
    Ok(is_chosen)
}

/// A product of a prompt with random weights.
struct Trial {
    matrix: Matrix,
    x: Activations,
    tokens: u32,
}

impl Trial {
    /// Creates a matrix with numbers of rows and of groups in a row, and activations of a number of tokens.
    fn new(gpu: &Gpu, [rows, groups, tokens]: [u32; 3]) -> Result<Self, GpuError> {
        let mut state = 0x2545_f491_u32;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        let count = rows * groups;
        let codes: Vec<u32> = (0..8 * count).map(|_| next()).collect();
        let scales: Vec<u16> =
            (0..count).map(|_| f16::from_f32((next() % 100) as f32 / 1e4).to_bits()).collect();
        let planes = [gpu.upload(&codes)?, gpu.upload(&[0u32; 4])?, gpu.upload(&scales)?];
        // Such products do not read the sums of activations, which the activations below have at random.
        let storage = Storage { codes: Codes::Bytes, scales: Scales::Half, bias: 0 };
        let parts = vec![Part { first: 0, rows, planes }];
        let matrix = Matrix { storage, rows, groups, parts };
        Ok(Self { matrix, x: activations(gpu, tokens as usize, groups as usize * 32)?, tokens })
    }

    /// Returns the steps of the product, and its output.
    fn steps(&self, gpu: &Gpu) -> Result<(Vec<crate::Step>, Output), GpuError> {
        let batch = Batch { tokens: self.tokens, ..Batch::default() };
        let uniform = gpu.upload(&[batch])?;
        let rows = self.matrix.rows;
        let buffer = gpu.buffer(4 * u64::from(self.tokens * rows));
        let output = Output { buffer, stride: rows, first: 0 };
        let (x, operand, outputs) = (&self.x, Operand::Bytes, Outputs::All);
        let inputs = Inputs { batch: &uniform, x, operand, bias: None, factor: 1.0, outputs };
        let mut steps = Vec::new();
        Product::new(gpu, &self.matrix, &inputs, &output).prompt_steps(gpu, batch, &mut steps);
        Ok((steps, output))
    }

    fn results(&self, gpu: &Gpu) -> Result<Vec<f32>, GpuError> {
        let (steps, output) = self.steps(gpu)?;
        gpu.run_and_read(steps, &output.buffer, (self.tokens * self.matrix.rows) as usize)
    }

    /// Returns the least time of some runs, or 0 if it is not `wanted`.
    fn least_seconds(&self, gpu: &Gpu, wanted: bool) -> Result<f64, GpuError> {
        const RUNS: usize = 5;
        let mut least = f64::INFINITY;
        let (steps, _) = self.steps(gpu)?;
        for _ in 0..if wanted { RUNS } else { return Ok(0.0) } {
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

/// Returns the norm of the difference relative to that of the expected values. Infinite if a value is not
/// a number.
fn difference(expected: &[f32], found: &[f32]) -> f64 {
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>();
    let differences = expected.iter().zip(found).map(|(x, y)| f64::from(*x) - f64::from(*y));
    let ratio = squares(&mut differences.into_iter()) / squares(&mut expected.iter().map(|x| f64::from(*x)));
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
        assert_eq!(choose_matrix_cores(&gpu).unwrap(), adapter.matrix_cores.is_some());
        assert_eq!(gpu.prompt_cores(), adapter.matrix_cores);
    }
}
