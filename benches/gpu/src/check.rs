//! Checks products against plain Rust.

use anyhow::Result;

use crate::gpu::Gpu;
use crate::kernels::{Activations, Arrangement, VARIANTS, Variant};
use crate::products::{self, Product, Shape};
use crate::reference::{self, Rounding, Vector};

/// Compares every variant, in all arrangements and for 1, 2, 4 and 8 tokens, with plain Rust.
///
/// Returns the variants that differ.
pub(crate) fn all(gpu: &Gpu) -> Result<Vec<String>> {
    let mut failures = Vec::new();
    println!("\n## Correctness (2048 x 64; error as a share of the norm; the worst of all kernels)\n");
    println!("| product | kernels | error | exact sums | bits: separate | bits: fused, first | second |");
    println!("|---|---|---|---|---|---|---|");
    for variant in VARIANTS {
        let mut cases: Vec<_> =
            products::arrangements(gpu).into_iter().map(|arrangement| (arrangement, 1)).collect();
        let wide = Arrangement { threads: 128, lanes: 32, rows: 2, subgroup: false };
        cases.extend([2, 4, 8].map(|tokens| (wide, tokens)));
        let mut result = Checked::default();
        for &(arrangement, tokens) in &cases {
            check_one(gpu, variant, arrangement, tokens, &mut result)?;
        }
        let share = |count: usize| match result.bits {
            0 => "-".to_owned(),
            bits => format!("{count}/{bits}"),
        };
        let [separate, first, second] = result.equal.map(share);
        let exact = share(result.exact);
        let (count, error) = (cases.len(), result.error);
        println!("| {variant} | {count} | {error:.1e} | {exact} | {separate} | {first} | {second} |");
        if result.error > 1e-5 {
            failures.push(format!("{variant}: error {error:.1e} exceeds 1e-5"));
        }
        if result.exact != result.bits {
            failures.push(format!("{variant}: sums of integers differ"));
        }
    }
    Ok(failures)
}

#[derive(Default)]
struct Checked {
    error: f64,
    /// Number of products whose bits were compared.
    bits: usize,
    exact: usize,
    equal: [usize; 3],
}

fn check_one(
    gpu: &Gpu,
    variant: Variant,
    arrangement: Arrangement,
    tokens: u32,
    result: &mut Checked,
) -> Result<()> {
    let (rows, k) = (64, 2048);
    let stride = variant.weights.stride(k) as usize * 4;
    let mut matrix = reference::random_words(stride * rows);
    let mut xs: Vec<_> = (0..tokens as usize).map(|token| Vector::random(k as usize, token)).collect();
    let product = Product::new(gpu, variant, arrangement, tokens);
    let shape = Shape { rows: rows as u32, k };
    let y = run(gpu, &product, shape, &matrix, &xs)?;
    let (mut difference, mut norm) = (0.0, 0.0);
    for (token, x) in xs.iter().enumerate() {
        for (row, weights) in matrix.chunks(stride).enumerate() {
            let value = y[token * rows + row];
            let exact = reference::product(variant, weights, x);
            difference += (f64::from(value) - exact).powi(2);
            norm += exact.powi(2);
            if variant.activations == Activations::Int8 && !arrangement.subgroup {
                result.bits += 1;
                let roundings = [Rounding::Separate, Rounding::FusedFirst, Rounding::FusedSecond];
                for (rounding, equal) in roundings.into_iter().zip(&mut result.equal) {
                    let same = reference::ordered(variant.weights, arrangement, rounding, weights, x);
                    *equal += usize::from(same.to_bits() == value.to_bits());
                }
            }
        }
    }
    result.error = result.error.max((difference / norm).sqrt());
    if variant.activations == Activations::Int8 && !arrangement.subgroup {
        xs.iter_mut().for_each(Vector::simplify);
        reference::simplify(variant.weights, &mut matrix, k);
        let y = run(gpu, &product, shape, &matrix, &xs)?;
        for (token, x) in xs.iter().enumerate() {
            for (row, weights) in matrix.chunks(stride).enumerate() {
                let exact = reference::product(variant, weights, x);
                result.exact += usize::from((f64::from(y[token * rows + row]) - exact).abs() == 0.0);
            }
        }
    }
    Ok(())
}

fn run(gpu: &Gpu, product: &Product, shape: Shape, matrix: &[u32], xs: &[Vector]) -> Result<Vec<f32>> {
    let matrix = gpu.upload(matrix);
    let x = match product.variant.activations {
        Activations::F32 => gpu.upload(&xs.iter().flat_map(|x| x.values.clone()).collect::<Vec<_>>()),
        Activations::Int8 => gpu.upload(&xs.iter().flat_map(|x| x.codes.clone()).collect::<Vec<_>>()),
    };
    let heads = gpu.upload(&xs.iter().flat_map(Vector::heads).collect::<Vec<_>>());
    let size = u64::from(shape.rows) * 4 * xs.len() as u64;
    let y = gpu.buffer(size);
    let parameters = gpu.upload(&[shape.k, shape.rows, shape.rows, 0]);
    let storage = [&matrix, &matrix, &x, &heads, &heads, &y].map(|buffer| buffer.as_entire_binding());
    let bindings = gpu.bind(&product.kernel, &parameters, &storage);
    gpu.time(&[], &[product.step(&bindings, shape.rows)])?;
    Ok(bytemuck::pod_collect_to_vec(&gpu.read(&y, size)?))
}
