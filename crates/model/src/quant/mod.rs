//! Arithmetic on quantised weight rows, straight from the bytes of the file.
//!
//! Every block type is described once, by a [`BlockFormat`]: how 32 elements of a block become small integers, a scale
//! and an offset. From that come both uses: [`dequantize`], whose values are exactly those of the reference
//! implementation, and [`dot`], which multiplies with an activation row that was itself rounded to 8 bits per block of 32
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
mod encoding;
mod float;
mod k;
mod legacy;
mod table;

pub(crate) use self::activation::{Activation, Q8Block};
pub(crate) use self::encoding::Encoding;
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

/// Runs `$body` with `$format` as the format of `$encoding`, or `$float` for a type without blocks.
macro_rules! with_format {
    ($encoding:expr, $format:ident => $body:expr, $float:ident => $plain:expr) => {
        match $encoding {
            Encoding::Q4_0 => {
                type $format = legacy::Q4_0;
                $body
            }
            Encoding::Q4_1 => {
                type $format = legacy::Q4_1;
                $body
            }
            Encoding::Q5_0 => {
                type $format = legacy::Q5_0;
                $body
            }
            Encoding::Q5_1 => {
                type $format = legacy::Q5_1;
                $body
            }
            Encoding::Q8_0 => {
                type $format = legacy::Q8_0;
                $body
            }
            Encoding::Q2K => {
                type $format = k::Q2K;
                $body
            }
            Encoding::Q3K => {
                type $format = k::Q3K;
                $body
            }
            Encoding::Q4K => {
                type $format = k::Q4K;
                $body
            }
            Encoding::Q5K => {
                type $format = k::Q5K;
                $body
            }
            Encoding::Q6K => {
                type $format = k::Q6K;
                $body
            }
            Encoding::Iq4Nl => {
                type $format = table::Iq4Nl;
                $body
            }
            Encoding::Iq4Xs => {
                type $format = table::Iq4Xs;
                $body
            }
            Encoding::Mxfp4 => {
                type $format = table::Mxfp4;
                $body
            }
            Encoding::F16 => {
                type $float = F16;
                $plain
            }
            Encoding::Bf16 => {
                type $float = Bf16;
                $plain
            }
            Encoding::F32 => {
                type $float = F32;
                $plain
            }
        }
    };
}

/// Expands a row of weights. `out` has as many elements as the row.
pub(crate) fn dequantize(encoding: Encoding, row: &[u8], out: &mut [f32]) {
    with_format!(encoding, B => dequantize_blocks::<B>(row, out), E => float::expand::<E>(row, out));
}

/// The dot products of several weight rows, `row_bytes` each, with one activation row.
pub(crate) fn dot(encoding: Encoding, rows: &[u8], row_bytes: usize, x: &Activation<'_>, out: &mut [f32]) {
    with_format!(encoding,
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
            // Where there is no offset this adds 0, at the price of the sign of a zero: without the addition the loop is
            // not always turned into vector code, and Q4_0 takes five times as long.
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
    use std::collections::HashMap;

    use candle_core::safetensors::load_buffer;
    use candle_core::{Device, Tensor};

    use super::*;
    use crate::gguf::TensorType;

    /// Random blocks and their values by the reference implementation: see `generate.py` beside the file.
    const BLOCKS: &[u8] = include_bytes!("../../tests/runtime/dequantized/blocks.safetensors");

    /// The type numbers of the format end before this.
    const TYPE_IDS: u32 = 64;

    /// Weights of one type, written down and as floats.
    struct Sample {
        dtype: TensorType,
        encoding: Encoding,
        blocks: Vec<u8>,
        values: Vec<f32>,
    }

    impl Sample {
        fn new(file: &HashMap<String, Tensor>, id: u32) -> Option<Self> {
            let dtype = TensorType::from_id(id)?;
            let encoding = dtype.compute()?;
            let tensor = |part: &str| &file[&format!("{id}.{dtype}.{part}")];
            let blocks = tensor("blocks").to_vec1().unwrap();
            let values = tensor("values").to_vec1().unwrap();
            Some(Self { dtype, encoding, blocks, values })
        }

        /// A sample of every type that there is arithmetic for.
        fn all() -> Vec<Self> {
            let file = load_buffer(BLOCKS, &Device::Cpu).unwrap();
            let samples: Vec<Self> = (0..TYPE_IDS).filter_map(|id| Self::new(&file, id)).collect();
            assert_eq!(2 * samples.len(), file.len(), "each tensor belongs to a type");
            samples
        }

        fn dot(&self, x: &[f32]) -> f64 {
            let groups = Activation::quantize(x);
            let mut out = [0.0];
            dot(self.encoding, &self.blocks, self.blocks.len(), &Activation::new(x, &groups), &mut out);
            f64::from(out[0])
        }

        /// What each element adds to the dot product with `x`.
        fn terms(&self, x: &[f32]) -> impl Iterator<Item = f64> {
            self.values.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x))
        }
    }

    fn noise(len: usize, mut state: u64) -> Vec<f32> {
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    #[test]
    fn dequantized_weights_are_exactly_those_of_the_reference() {
        for Sample { dtype, encoding, blocks, values } in Sample::all() {
            assert_eq!(blocks.len() / dtype.block_bytes() * dtype.block_len(), values.len(), "{dtype}");
            let mut given = vec![f32::NAN; values.len()];
            dequantize(encoding, &blocks, &mut given);
            // All finite, so what is equal has the same bits, but for the sign of a zero.
            assert_eq!(given, values, "{dtype}");
        }
    }

    #[test]
    fn dot_products_are_off_by_the_rounding_of_activations_at_most() {
        for sample in Sample::all() {
            let x = noise(sample.values.len(), 3);
            let error = (sample.dot(&x) - sample.terms(&x).sum::<f64>()).abs();
            let size: f64 = sample.terms(&x).map(f64::abs).sum();
            let groups = sample.values.chunks_exact(GROUP).zip(Activation::quantize(&x));
            let half_steps = |(weights, group): (&[f32], Q8Block)| {
                weights.iter().map(|w| f64::from(w.abs()) * f64::from(group.scale) / 2.0).sum::<f64>()
            };
            let rounding: f64 =
                if sample.dtype.block_len() == 1 { 0.0 } else { groups.map(half_steps).sum() };
            assert!(error <= rounding + 1e-5 * size, "{}: {error} {rounding} {size}", sample.dtype);
        }
    }

    #[test]
    fn dot_products_with_exact_activations_are_exact_to_rounding() {
        for sample in Sample::all() {
            // Integers up to 127 with a 127 in each group survive the rounding to 8 bits.
            let mut x: Vec<f32> = noise(sample.values.len(), 5).iter().map(|x| (x * 127.0).round()).collect();
            for group in x.chunks_exact_mut(GROUP) {
                group[0] = 127.0;
            }
            let error = (sample.dot(&x) - sample.terms(&x).sum::<f64>()).abs();
            let size: f64 = sample.terms(&x).map(f64::abs).sum();
            assert!(error <= 1e-5 * size, "{}: {error} {size}", sample.dtype);
        }
    }

    #[test]
    fn the_largest_products_fit_their_lanes() {
        for mut sample in Sample::all() {
            for byte in 0..=u8::MAX {
                sample.blocks.fill(byte);
                for x in [-1.0, 1.0] {
                    // An overflow panics here; the scales are whatever the byte makes of them.
                    sample.dot(&vec![x; sample.values.len()]);
                }
            }
        }
    }
}
