//! Every type against the reference implementation, and the ways of computing against each other.

use std::collections::HashMap;

use candle_core::safetensors::load_buffer;
use candle_core::{Device, Tensor};

use super::*;
use crate::products::{Rows, products_by};

/// Random blocks and their values by the reference implementation: see `generate.py` beside the file.
const BLOCKS: &[u8] = include_bytes!("../tests/dequantized/blocks.safetensors");

/// What the file calls them.
const NAMES: [(&str, Encoding); 16] = [
    ("F32", Encoding::F32),
    ("F16", Encoding::F16),
    ("BF16", Encoding::Bf16),
    ("Q4_0", Encoding::Q4_0),
    ("Q4_1", Encoding::Q4_1),
    ("Q5_0", Encoding::Q5_0),
    ("Q5_1", Encoding::Q5_1),
    ("Q8_0", Encoding::Q8_0),
    ("Q2_K", Encoding::Q2K),
    ("Q3_K", Encoding::Q3K),
    ("Q4_K", Encoding::Q4K),
    ("Q5_K", Encoding::Q5K),
    ("Q6_K", Encoding::Q6K),
    ("IQ4_NL", Encoding::Iq4Nl),
    ("IQ4_XS", Encoding::Iq4Xs),
    ("MXFP4", Encoding::Mxfp4),
];

/// Weights of one type, written down and as floats.
struct Sample {
    encoding: Encoding,
    blocks: Vec<u8>,
    values: Vec<f32>,
}

impl Sample {
    /// A sample of every type.
    fn all() -> Vec<Self> {
        let file: HashMap<String, Tensor> = load_buffer(BLOCKS, &Device::Cpu).unwrap();
        assert_eq!(2 * NAMES.len(), file.len(), "each tensor belongs to a type");
        let sample = |(name, encoding)| {
            let tensor = |part: &str| {
                let suffix = format!(".{name}.{part}");
                file.iter().find(|(name, _)| name.ends_with(&suffix)).expect("one of each").1
            };
            let blocks = tensor("blocks").to_vec1().unwrap();
            let values = tensor("values").to_vec1().unwrap();
            Self { encoding, blocks, values }
        };
        NAMES.into_iter().map(sample).collect()
    }

    fn is_float(&self) -> bool {
        self.encoding.is_float()
    }

    fn dot(&self, x: &[f32]) -> f64 {
        let groups = Activation::quantize(x);
        let mut out = [0.0];
        let x = Activation::new(x, &groups);
        products(self.encoding, &self.blocks, self.blocks.len(), &[x], &mut [&mut out]);
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
    for Sample { encoding, blocks, values } in Sample::all() {
        let mut given = vec![f32::NAN; values.len()];
        dequantize(encoding, &blocks, &mut given);
        // All finite, so what is equal has the same bits, but for the sign of a zero.
        assert_eq!(given, values, "{encoding:?}");
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
        let rounding: f64 = if sample.is_float() { 0.0 } else { groups.map(half_steps).sum() };
        assert!(error <= rounding + 1e-5 * size, "{:?}: {error} {rounding} {size}", sample.encoding);
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
        assert!(error <= 1e-5 * size, "{:?}: {error} {size}", sample.encoding);
    }
}

/// Blocks of one byte over and over are the extremes of what integers there are; scales that make no numbers of it are left
/// out.
#[test]
fn the_largest_products_fit_their_lanes() {
    let mut compared = 0;
    for mut sample in Sample::all().into_iter().filter(|sample| !sample.is_float()) {
        let len = sample.values.len();
        let signs: [fn(usize) -> f32; 4] = [
            |_| 1.0,
            |_| -1.0,
            |i| if i.is_multiple_of(2) { 1.0 } else { -1.0 },
            |i| if i / 2 % 2 == 0 { 1.0 } else { -1.0 },
        ];
        for byte in 0..=u8::MAX {
            sample.blocks.fill(byte);
            for sign in signs {
                let x: Vec<f32> = (0..len).map(sign).collect();
                let groups = Activation::quantize(&x);
                let x = Activation::new(&x, &groups);
                let by = |tier, count: usize, tokens: usize| {
                    let bytes = sample.blocks.repeat(count);
                    let rows = Rows { bytes: &bytes, row_bytes: sample.blocks.len() };
                    let mut sums = vec![0f32; count * tokens];
                    let mut out: Vec<&mut [f32]> = sums.chunks_mut(count).collect();
                    products_by(tier, sample.encoding, rows, &vec![x; tokens], &mut out);
                    sums
                };
                let expected = by(Tier::Portable, 1, 1)[0];
                if !expected.is_finite() {
                    continue;
                }
                compared += 1;
                for tier in Tier::available() {
                    for (rows, tokens) in [(1, 1), (16, 5)] {
                        let is_equal = |given: &f32| given.to_bits() == expected.to_bits();
                        let given = by(tier, rows, tokens);
                        assert!(
                            given.iter().all(is_equal),
                            "{:?}, {tier:?}, bytes of {byte}",
                            sample.encoding
                        );
                    }
                }
            }
        }
    }
    assert!(compared > 5000, "{compared}");
}

/// All that this processor has, on all shapes of tiles.
#[test]
fn tiers_and_tiles_give_the_same_bits() {
    const ROWS: usize = 37;
    for sample in Sample::all() {
        let columns = sample.values.len();
        // Rows that differ: the blocks of the sample, turned, where they are more than one.
        let block = sample.blocks.len() / (columns / 256);
        let mut rows = Vec::new();
        for row in 0..ROWS {
            let mut bytes = sample.blocks.clone();
            bytes.rotate_left(row % (sample.blocks.len() / block) * block);
            rows.extend(bytes);
        }
        let rows = Rows { bytes: &rows, row_bytes: sample.blocks.len() };
        for tokens in 1..9 {
            let x: Vec<f32> = noise(tokens * columns, 7 + tokens as u64);
            let groups = Activation::quantize(&x);
            let len = columns / GROUP;
            let x: Vec<Activation<'_>> = (0..tokens)
                .map(|t| Activation::new(&x[t * columns..(t + 1) * columns], &groups[t * len..(t + 1) * len]))
                .collect();
            let by = |tier, x: &[Activation<'_>]| {
                let mut sums = vec![[0f32; ROWS]; x.len()];
                let mut out: Vec<&mut [f32]> = sums.iter_mut().map(|sums| &mut sums[..]).collect();
                products_by(tier, sample.encoding, rows, x, &mut out);
                sums.into_iter().map(|sums| sums.map(f32::to_bits)).collect::<Vec<_>>()
            };
            let expected: Vec<_> = x.iter().flat_map(|&x| by(Tier::Portable, &[x])).collect();
            for tier in Tier::available() {
                assert_eq!(by(tier, &x), expected, "{:?}, {tier:?}, {tokens} tokens", sample.encoding);
            }
        }
    }
}
