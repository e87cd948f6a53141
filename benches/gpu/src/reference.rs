//! Random weights and activations, and the same products computed in plain Rust.

use half::f16;

use crate::kernels::{Activations, Arrangement, Variant, Weights};

/// Returns random words from a fixed seed; each half of a word is a finite `f16` below 2.
pub(crate) fn random_words(count: usize) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u32 & 0xbfff_bfff
    };
    std::iter::repeat_with(word).take(count).collect()
}

/// One vector of activations, as floats and as quantized codes.
pub(crate) struct Vector {
    pub(crate) values: Vec<f32>,
    pub(crate) codes: Vec<i8>,
    /// Step size of each group of 32 codes.
    pub(crate) steps: Vec<f32>,
}

impl Vector {
    /// Returns `k` activations between -1 and 1, and their codes.
    pub(crate) fn random(k: usize, seed: usize) -> Self {
        let words = random_words(k + seed * 97);
        let values: Vec<f32> =
            words[seed * 97..].iter().map(|word| (word % 20_011) as f32 / 10_005.0 - 1.0).collect();
        let mut codes = Vec::with_capacity(k);
        let mut steps = Vec::with_capacity(k / 32);
        for group in values.chunks(32) {
            let step = group.iter().fold(0.0_f32, |most, value| most.max(value.abs())) / 127.0;
            codes.extend(group.iter().map(|value| (value / step).round_ties_even() as i8));
            steps.push(step);
        }
        Self { values, codes, steps }
    }

    /// Replaces the codes with small ones of step 1, so that products are exact in `f32`.
    pub(crate) fn simplify(&mut self) {
        self.codes.iter_mut().for_each(|code| *code %= 8);
        self.steps.fill(1.0);
    }

    /// Returns the step, as `f32` bits, and the sum of the codes of each group of 16.
    pub(crate) fn heads(&self) -> Vec<[u32; 2]> {
        let sums = self.codes.chunks(16).map(|group| group.iter().map(|code| i32::from(*code)).sum::<i32>());
        sums.enumerate().map(|(group, sum)| [self.steps[group / 2].to_bits(), sum as u32]).collect()
    }

    fn value(&self, activations: Activations, place: usize) -> f64 {
        match activations {
            Activations::F32 => f64::from(self.values[place]),
            Activations::Int8 => f64::from(self.codes[place]) * f64::from(self.steps[place / 32]),
        }
    }
}

/// Sets all scales of `rows` to 1, so that products with simplified vectors are exact in `f32`.
pub(crate) fn simplify(weights: Weights, rows: &mut [u32], k: u32) {
    match weights {
        Weights::Q4K => rows.chunks_mut(36).for_each(|block| block[0] = 0x3c00_3c00),
        Weights::Q80 => rows
            .chunks_mut(weights.stride(k) as usize * 4)
            .for_each(|row| row[k as usize / 4..].fill(0x3c00_3c00)),
        Weights::F16 => {}
    }
}

fn half(words: &[u32], place: usize) -> f32 {
    f16::from_bits((words[place / 2] >> (place % 2 * 16)) as u16).to_f32()
}

fn byte(words: &[u32], place: usize) -> u8 {
    (words[place / 4] >> (place % 4 * 8)) as u8
}

/// Returns the scale and the minimum of one of a block's eight groups, as six-bit integers.
fn group_scales(block: &[u32], group: usize) -> (i32, i32) {
    let b = |place: usize| i32::from(byte(&block[1..4], place));
    if group < 4 {
        (b(group) & 63, b(group + 4) & 63)
    } else {
        (b(group + 4) & 15 | b(group - 4) >> 6 << 4, b(group + 4) >> 4 | b(group) >> 6 << 4)
    }
}

/// Returns weight `place` of a row.
fn weight(weights: Weights, row: &[u32], k: usize, place: usize) -> f64 {
    match weights {
        Weights::Q4K => {
            let block = &row[place / 256 * 36..][..36];
            let within = place % 256;
            let code = byte(&block[4..], within / 64 * 32 + within % 32) >> (within / 32 % 2 * 4) & 15;
            let (scale, minimum) = group_scales(block, within / 32);
            f64::from(half(block, 0)) * f64::from(scale) * f64::from(code)
                - f64::from(half(block, 1)) * f64::from(minimum)
        }
        Weights::Q80 => {
            let code = byte(row, place) as i8;
            f64::from(code) * f64::from(half(&row[k / 4..], place / 32))
        }
        Weights::F16 => f64::from(half(row, place)),
    }
}

/// Returns the product of one row in `f64`.
pub(crate) fn product(variant: Variant, row: &[u32], x: &Vector) -> f64 {
    let k = x.values.len();
    (0..k).map(|place| weight(variant.weights, row, k, place) * x.value(variant.activations, place)).sum()
}

/// Rounding of `a * b + c * d` and of sums of products, which a driver may choose.
#[derive(Clone, Copy)]
pub(crate) enum Rounding {
    /// Each multiplication and each addition is rounded.
    Separate,
    /// Every addition of a product is fused; in a difference of products the first product is fused.
    FusedFirst,
    /// Every addition of a product is fused; in a difference of products the second product is fused.
    FusedSecond,
}

impl Rounding {
    fn add(self, sum: f32, a: f32, b: f32) -> f32 {
        if matches!(self, Self::Separate) { sum + a * b } else { a.mul_add(b, sum) }
    }

    fn difference(self, a: f32, b: f32, c: f32, d: f32) -> f32 {
        match self {
            Self::Separate => a * b - c * d,
            Self::FusedFirst => a.mul_add(b, -(c * d)),
            Self::FusedSecond => (-c).mul_add(d, a * b),
        }
    }
}

/// Returns the product of one row and int8 activations, summed in the same order as the kernel.
pub(crate) fn ordered(
    weights: Weights,
    arrangement: Arrangement,
    rounding: Rounding,
    row: &[u32],
    x: &Vector,
) -> f32 {
    let k = x.values.len();
    let lanes = arrangement.lanes as usize;
    let mut partial = vec![0.0_f32; lanes];
    for unit in 0..k / 32 {
        let sum = &mut partial[unit % lanes];
        if weights == Weights::Q80 {
            let dot: i32 = (unit * 32..unit * 32 + 32)
                .map(|place| i32::from(byte(row, place) as i8) * i32::from(x.codes[place]))
                .sum();
            *sum = rounding.add(*sum, half(&row[k / 4..], unit) * x.steps[unit], dot as f32);
            continue;
        }
        let block = &row[unit / 8 * 36..][..36];
        for group in [unit % 8 / 2 * 2, unit % 8 / 2 * 2 + 1] {
            let first = unit / 8 * 256 + group * 32 + unit % 2 * 16;
            let (mut dot, mut total) = (0, 0);
            for place in first..first + 16 {
                let code = byte(&block[4..], group / 2 * 32 + place % 32) >> (group % 2 * 4) & 15;
                dot += i32::from(code) * i32::from(x.codes[place]);
                total += i32::from(x.codes[place]);
            }
            let (scale, minimum) = group_scales(block, group);
            let (scaled, offset) = ((scale * dot) as f32, (minimum * total) as f32);
            let value = rounding.difference(half(block, 0), scaled, half(block, 1), offset);
            *sum = rounding.add(*sum, x.steps[first / 32], value);
        }
    }
    let mut step = lanes / 2;
    while step > 0 {
        for lane in 0..step {
            partial[lane] += partial[lane + step];
        }
        step /= 2;
    }
    partial[0]
}
