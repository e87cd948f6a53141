//! A test of the device at start.

use crate::mixture::Choice;
use crate::product::{Activations, Batch, Inputs, MANY_ROWS, Operand, Output, Outputs, Product};
use crate::weights::{Matrix, Part};
use crate::{Gpu, GpuError};

/// Maximum number of rows that [`is_batch_invariant`] multiplies. Products of more rows have the same
/// kernel as products of this number.
pub const SELF_TEST_ROWS: u32 = MANY_ROWS;

/// Reports whether the products of a token with `matrix` have the same bits alone, among others, and
/// for a list of rows. Tests the first rows, with both forms of activations. With `has_experts`, also
/// tests the rows as those of two experts.
///
/// Kernels for other numbers of tokens are other programs, and a driver may round their sums
/// differently.
///
/// # Errors
/// Returns an error if the device reported one.
pub fn is_batch_invariant(gpu: &Gpu, matrix: &Matrix, has_experts: bool) -> Result<bool, GpuError> {
    const TOKENS: u32 = 8;
    let Some(first) = matrix.parts.first() else { return Ok(true) };
    let rows = first.rows.min(SELF_TEST_ROWS);
    let part = Part { rows, ..first.clone() };
    let matrix = Matrix { rows, parts: vec![part], ..matrix.clone() };
    let x = activations(gpu, TOKENS as usize, matrix.groups as usize * 32)?;
    let listed: Vec<u32> = (0..rows).step_by(rows.div_ceil(100) as usize).collect();
    let run = |tokens: u32, list: Option<&[u32]>, operand: Operand| {
        let count = list.map_or(rows, |list| list.len() as u32);
        let batch = Batch { tokens, rows: count, ..Batch::default() };
        let uniform = gpu.upload(&[batch])?;
        let outputs = match list {
            None => Outputs::All,
            Some(list) => Outputs::Listed(gpu.upload(list)?),
        };
        let buffer = gpu.buffer(u64::from(tokens * count) * 4);
        let output = Output { buffer, stride: count, first: 0 };
        let inputs = Inputs { batch: &uniform, x: &x, operand, bias: None, factor: 1.0, outputs };
        let mut steps = Vec::new();
        Product::new(gpu, &matrix, &inputs, &output).steps(gpu, batch, &mut steps);
        gpu.run_and_read::<u32>(steps, &output.buffer, (tokens * count) as usize)
    };
    if has_experts && !are_experts_invariant(gpu, &matrix)? {
        return Ok(false);
    }
    for operand in [Operand::Bytes, Operand::Floats] {
        let together = run(TOKENS, None, operand)?;
        for tokens in [1, 2, 4] {
            if run(tokens, None, operand)? != together[..(tokens * rows) as usize] {
                return Ok(false);
            }
        }
        let picked: Vec<u32> = listed.iter().map(|row| together[*row as usize]).collect();
        if run(1, Some(&listed), operand)? != picked {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reports whether the products of a token with the rows of two experts have the same bits alone and
/// among others.
fn are_experts_invariant(gpu: &Gpu, matrix: &Matrix) -> Result<bool, GpuError> {
    const EXPERTS: usize = 2;
    const TOKENS: u32 = 8;
    let rows = matrix.rows / EXPERTS as u32;
    let choice = Choice::of_heads(gpu, TOKENS as usize, EXPERTS)?;
    let x = activations(gpu, TOKENS as usize * EXPERTS, matrix.groups as usize * 32)?;
    let run = |tokens: u32, operand: Operand| {
        let batch = Batch { tokens, ..Batch::default() };
        let uniform = gpu.upload(&[batch])?;
        let count = tokens as usize * EXPERTS * rows as usize;
        let output = Output { buffer: gpu.buffer(4 * count as u64), stride: rows, first: 0 };
        let outputs = Outputs::Experts { choice: choice.clone(), rows, has_pairs: true };
        let inputs = Inputs { batch: &uniform, x: &x, operand, bias: None, factor: 1.0, outputs };
        let mut steps = vec![choice.sort(gpu, &uniform).by_x(1)];
        Product::new(gpu, matrix, &inputs, &output).steps(gpu, batch, &mut steps);
        gpu.run_and_read::<u32>(steps, &output.buffer, count)
    };
    for operand in [Operand::Bytes, Operand::Floats] {
        let together = run(TOKENS, operand)?;
        for tokens in [1, 2, 4] {
            let alone = run(tokens, operand)?;
            if alone != together[..alone.len()] {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Creates varied activations in both forms. The forms need not agree.
fn activations(gpu: &Gpu, tokens: usize, width: usize) -> Result<Activations, GpuError> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let floats: Vec<f32> = (0..tokens * width).map(|_| next() as f32 / u32::MAX as f32 - 0.5).collect();
    let codes: Vec<u32> = (0..tokens * width / 4).map(|_| next()).collect();
    let heads: Vec<[u32; 2]> = (0..tokens * width / 32)
        .map(|_| [(next() as f32 / u32::MAX as f32).to_bits(), next() & 0x03ff_03ff])
        .collect();
    Ok(Activations { floats: gpu.upload(&floats)?, codes: gpu.upload(&codes)?, heads: gpu.upload(&heads)? })
}
