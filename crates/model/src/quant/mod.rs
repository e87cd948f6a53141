//! Arithmetic on quantised weight rows, straight from the bytes of the file.
//!
//! Every block type is described once, by a [`BlockFormat`]: how 32 elements of a block become small integers, a scale
//! and an offset. From that come both uses: [`dequantize`], which is bit for bit what the reference implementation gives,
//! and [`dot`], which multiplies with an activation row that was itself rounded to 8 bits per block of 32
//! ([`Activation`]). The inner loops have fixed lengths and no branches, so the compiler turns them into vector code of
//! whatever width the target has.
//!
//! A row's dot product depends on that row and the activation alone, in a fixed order of additions. That is what makes
//! results independent of batching and lets the head compute any subset of its rows.

#![expect(
    clippy::inline_always,
    reason = "left to itself, the compiler calls the unpacking of a block, through memory: half the speed"
)]

mod activation;
mod float;
mod k;
mod legacy;

use candle_core::quantized::GgmlDType;

pub(crate) use self::activation::{Activation, Q8Block};
pub(crate) use self::float::dot as dot_f32;
use self::float::{Bf16, F16, F32};

/// Elements that share an activation scale.
pub(crate) const GROUP: usize = 32;

/// The floats of a block: element `i` is `scale[i / 16] * q[i] + offset[i / 16]`, where each format fills in as many as
/// it has groups. Formats without scales of their own for half groups fill in one per group: see [`BlockFormat::SPLIT`].
struct Header {
    scale: [f32; 16],
    offset: [f32; 16],
}

/// Fills an array from its indices. A plain loop, which the compiler always unrolls into vector code; the library's
/// `from_fn` and `map` are sometimes left as calls.
#[inline(always)]
fn each<T: Copy + Default, const N: usize>(value: impl Fn(usize) -> T) -> [T; N] {
    let mut out = [T::default(); N];
    for (i, out) in out.iter_mut().enumerate() {
        *out = value(i);
    }
    out
}

/// A block type of the GGUF format.
trait BlockFormat {
    /// Elements in a block, a multiple of [`GROUP`].
    const LEN: usize;
    /// Bytes in a block.
    const BYTES: usize;
    /// Whether the two halves of a group have scales of their own.
    const SPLIT: bool = false;
    /// Whether there are offsets.
    const OFFSET: bool = false;

    /// Computes the floats of a block of [`BlockFormat::BYTES`] bytes.
    fn header(block: &[u8]) -> Header;

    /// Unpacks the integers of group `index`.
    fn group(block: &[u8], index: usize) -> [i16; GROUP];
}

/// Runs `$body` with `$format` as the format of `$dtype`, or `$float` for a type without blocks.
macro_rules! with_format {
    ($dtype:expr, $format:ident => $body:expr, $float:ident => $plain:expr) => {
        match $dtype {
            GgmlDType::Q4_0 => {
                type $format = legacy::Q4_0;
                $body
            }
            GgmlDType::Q4_1 => {
                type $format = legacy::Q4_1;
                $body
            }
            GgmlDType::Q5_0 => {
                type $format = legacy::Q5_0;
                $body
            }
            GgmlDType::Q5_1 => {
                type $format = legacy::Q5_1;
                $body
            }
            GgmlDType::Q8_0 => {
                type $format = legacy::Q8_0;
                $body
            }
            GgmlDType::Q2K => {
                type $format = k::Q2K;
                $body
            }
            GgmlDType::Q3K => {
                type $format = k::Q3K;
                $body
            }
            GgmlDType::Q4K => {
                type $format = k::Q4K;
                $body
            }
            GgmlDType::Q5K => {
                type $format = k::Q5K;
                $body
            }
            GgmlDType::Q6K => {
                type $format = k::Q6K;
                $body
            }
            GgmlDType::F16 => {
                type $float = F16;
                $plain
            }
            GgmlDType::BF16 => {
                type $float = Bf16;
                $plain
            }
            // The loader lets no other type through (`TensorType::compute`).
            GgmlDType::F32 | GgmlDType::Q8_1 | GgmlDType::Q8K => {
                type $float = F32;
                $plain
            }
        }
    };
}

/// Expands a row of weights. `out` has as many elements as the row.
pub(crate) fn dequantize(dtype: GgmlDType, row: &[u8], out: &mut [f32]) {
    with_format!(dtype, B => dequantize_blocks::<B>(row, out), E => float::expand::<E>(row, out));
}

/// The dot products of several weight rows, `row_bytes` each, with one activation row.
pub(crate) fn dot(dtype: GgmlDType, rows: &[u8], row_bytes: usize, x: &Activation<'_>, out: &mut [f32]) {
    with_format!(dtype,
        B => for (out, row) in out.iter_mut().zip(rows.chunks_exact(row_bytes)) {
            *out = dot_blocks::<B>(row, x.groups());
        },
        E => for (out, row) in out.iter_mut().zip(rows.chunks_exact(row_bytes)) {
            *out = float::dot_encoded::<E>(row, x.values());
        }
    );
}

fn dequantize_blocks<B: BlockFormat>(row: &[u8], out: &mut [f32]) {
    for (block, out) in row.chunks_exact(B::BYTES).zip(out.chunks_exact_mut(B::LEN)) {
        let Header { scale, offset } = B::header(block);
        for (index, out) in out.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
            let q = B::group(block, index);
            let (low, high) = if B::SPLIT { (2 * index, 2 * index + 1) } else { (index, index) };
            let (scale, offset) = ([scale[low], scale[high]], [offset[low], offset[high]]);
            for i in 0..GROUP {
                out[i] = scale[i / 16] * f32::from(q[i]) + offset[i / 16];
            }
        }
    }
}

/// `Σ wᵢxᵢ`, in 16 lanes that are added at the end. The products of a group fit 16 bits: a lane adds two, each at most
/// 128 · 127.
#[inline(always)]
fn dot_blocks<B: BlockFormat>(row: &[u8], x: &[Q8Block]) -> f32 {
    let mut lanes = [0f32; 16];
    let mut offsets = 0f32;
    for (block, x) in row.chunks_exact(B::BYTES).zip(x.chunks_exact(B::LEN / GROUP)) {
        let Header { scale, offset } = B::header(block);
        for (index, x) in x.iter().enumerate() {
            let q = B::group(block, index);
            let product = |i: usize| q[i] * x.q[i];
            if B::SPLIT {
                let (low, high) = (scale[2 * index] * x.scale, scale[2 * index + 1] * x.scale);
                for (i, lane) in lanes.iter_mut().enumerate() {
                    *lane = fma(low, f32::from(product(i)), *lane);
                    *lane = fma(high, f32::from(product(i + 16)), *lane);
                }
            } else {
                let scale = scale[index] * x.scale;
                for (i, lane) in lanes.iter_mut().enumerate() {
                    *lane = fma(scale, f32::from(product(i) + product(i + 16)), *lane);
                }
            }
            if B::OFFSET {
                offsets = if B::SPLIT {
                    offsets + offset[2 * index] * x.sums[0] + offset[2 * index + 1] * x.sums[1]
                } else {
                    fma(offset[index], x.sum, offsets)
                };
            }
        }
    }
    lanes.iter().sum::<f32>() + offsets
}

/// `a * b + c`, fused where the target does that in one instruction.
#[inline(always)]
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    if cfg!(any(target_feature = "fma", target_arch = "aarch64")) { a.mul_add(b, c) } else { a * b + c }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use candle_core::quantized::{QStorage, QTensor};
    use candle_core::{Device, Tensor};

    use super::*;

    const TYPES: [GgmlDType; 13] = [
        GgmlDType::F32,
        GgmlDType::F16,
        GgmlDType::BF16,
        GgmlDType::Q4_0,
        GgmlDType::Q4_1,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
        GgmlDType::Q8_0,
        GgmlDType::Q2K,
        GgmlDType::Q3K,
        GgmlDType::Q4K,
        GgmlDType::Q5K,
        GgmlDType::Q6K,
    ];
    const LEN: usize = 1024;

    fn noise(len: usize, mut state: u64) -> Vec<f32> {
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    fn quantized(dtype: GgmlDType) -> (Vec<u8>, Vec<f32>) {
        let tensor = Tensor::from_vec(noise(LEN, 7), LEN, &Device::Cpu).unwrap();
        let bytes = QTensor::quantize(&tensor, dtype).unwrap().data().unwrap().into_owned();
        let storage = QStorage::from_data(Cow::Borrowed(&bytes), &Device::Cpu, dtype).unwrap();
        let values = QTensor::new(storage, LEN).unwrap().dequantize(&Device::Cpu).unwrap();
        (bytes, values.to_vec1().unwrap())
    }

    #[test]
    fn dequantized_weights_equal_the_tensor_librarys_bit_by_bit() {
        for dtype in TYPES {
            let (bytes, expected) = quantized(dtype);
            let mut given = vec![0.0; LEN];
            dequantize(dtype, &bytes, &mut given);
            assert_eq!(given, expected, "{dtype:?}");
        }
    }

    #[test]
    fn dot_products_are_those_of_the_expanded_rows() {
        let x = noise(LEN, 3);
        let groups = Activation::quantize(&x);
        let activation = Activation::new(&x, &groups);
        for dtype in TYPES {
            let (bytes, weights) = quantized(dtype);
            let mut given = [0.0];
            dot(dtype, &bytes, bytes.len(), &activation, &mut given);
            let expected: f64 = weights.iter().zip(&x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
            let rounding = if bytes.len() >= 2 * LEN { 1e-4 } else { 0.15 };
            assert!((f64::from(given[0]) - expected).abs() < rounding, "{dtype:?}: {} {expected}", given[0]);
        }
    }

    #[test]
    fn dot_products_with_exact_activations_are_exact_to_rounding() {
        // Integers up to 127 with a 127 in each group survive the rounding to 8 bits.
        let mut x: Vec<f32> = noise(LEN, 5).iter().map(|x| (x * 127.0).round()).collect();
        for group in x.chunks_exact_mut(GROUP) {
            group[0] = 127.0;
        }
        let groups = Activation::quantize(&x);
        let activation = Activation::new(&x, &groups);
        for dtype in TYPES {
            let (bytes, weights) = quantized(dtype);
            let mut given = [0.0];
            dot(dtype, &bytes, bytes.len(), &activation, &mut given);
            let expected: f64 = weights.iter().zip(&x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum();
            assert!((f64::from(given[0]) - expected).abs() < 2e-2, "{dtype:?}: {} {expected}", given[0]);
        }
    }
}
