//! The likeliest tokens of rows of logits.
//!
//! Instead of a row as long as the vocabulary, the device returns about a thousand tokens, and the sum of
//! the weights of all others. The weight of a token is its probability, relative to the likeliest one.

use crate::kernel::Access::{Read, Write};
use crate::layer::{Bound, unsigned};
use crate::source::{fill, float};
use crate::{Buffer, Gpu, Step};

/// Maximum number of tokens that are returned for a row.
pub const MOST: usize = 1024;

/// Number of logits of a workgroup.
const PART: usize = 2048;

/// Number of bins of a row. Bin `i` has the tokens whose logits are `i / 4` to `(i + 1) / 4` below the
/// largest one.
const BINS: usize = 64;

/// Steps that find the likeliest tokens of rows, and their buffers.
pub struct Top {
    /// Number of logits of a row.
    count: usize,
    steps: [Bound; 3],
    /// Reciprocal of the temperature, and whether there is a mask. Shape: `[rows, 2]`.
    settings: Buffer,
    /// Bits of the allowed tokens. Shape: `[rows, words]`.
    masks: Buffer,
    result: Buffer,
}

/// The likeliest tokens of a row.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TopRow {
    /// Tokens in the order of their numbers, with their logits. These logits are finite, and those of all
    /// other tokens are smaller. The list is empty if no logit is finite, if one is infinity or not a
    /// number, or if too many are near the largest.
    pub tokens: Vec<(u32, f32)>,
    /// Sum of `exp((logit - largest) / temperature)` over the other tokens, of capped logits.
    pub rest: f64,
}

impl Top {
    /// Binds the steps to up to `rows` rows of `count` logits. Weights are those of logits that are capped by
    /// `cap`.
    pub fn new(gpu: &Gpu, (logits, rows, count): (&Buffer, usize, usize), cap: Option<f32>) -> Self {
        let buffer = |words: usize| gpu.buffer(4 * (rows * words) as u64);
        let parts = count.div_ceil(PART);
        let (settings, masks) = (buffer(2), buffer(words(count)));
        let (peaks, bins, result) = (buffer(parts), buffer(BINS), buffer(stride(count)));
        let step = |step: usize| {
            let values = [
                ("STEP", unsigned(step)),
                ("COUNT", unsigned(count)),
                ("PARTS", unsigned(parts)),
                ("PART", unsigned(PART)),
                ("BINS", unsigned(BINS)),
                ("WORDS", unsigned(words(count))),
                ("STRIDE", unsigned(stride(count))),
                ("MOST", unsigned(MOST)),
                ("CAPPED", cap.is_some().to_string()),
                ("CAP", float(cap.unwrap_or(1.0))),
            ];
            let source = fill(include_str!("shaders/top.wgsl"), &values);
            let buffers = [
                (Read, logits),
                (Read, &settings),
                (Read, &masks),
                (Write, &peaks),
                (Write, &bins),
                (Write, &result),
            ];
            Bound::new(gpu, &source, parts as u32, &buffers)
        };
        Self { count, steps: [step(0), step(1), step(2)], settings, masks, result }
    }

    /// Writes the mask of a row, with a bit for each token, and its temperature. Missing words of the mask
    /// are 0.
    pub fn write(&self, gpu: &Gpu, row: usize, mask: Option<&[u64]>, temperature: f32) {
        let settings = [temperature.recip().to_bits(), u32::from(mask.is_some())];
        gpu.write(&self.settings, 8 * row as u64, &settings);
        if let Some(mask) = mask {
            let mut bits = vec![0u64; words(self.count) / 2];
            let len = bits.len().min(mask.len());
            bits[..len].copy_from_slice(&mask[..len]);
            gpu.write(&self.masks, (4 * row * words(self.count)) as u64, &bits);
        }
    }

    /// Returns the steps for `rows` rows.
    pub fn steps(&self, rows: u32) -> [Step; 3] {
        self.steps.each_ref().map(|step| step.by_y(rows))
    }

    /// Returns the buffer of the result.
    pub const fn result(&self) -> &Buffer {
        &self.result
    }

    /// Returns the number of 32-bit words of the result for a row.
    pub const fn stride(&self) -> usize {
        stride(self.count)
    }

    /// Returns the likeliest tokens of a row, from its words of the result.
    pub fn row(&self, words: &[u32]) -> TopRow {
        let parts = self.count.div_ceil(PART);
        let (sums, tokens) = words[1..].split_at(parts);
        let len = (words[0] as usize).min(MOST);
        let (tokens, _) = tokens.as_chunks();
        let mut tokens: Vec<(u32, f32)> =
            tokens[..len].iter().map(|&[token, bits]| (token, f32::from_bits(bits))).collect();
        tokens.sort_unstable_by_key(|(token, _)| *token);
        TopRow { tokens, rest: sums.iter().map(|&bits| f64::from(f32::from_bits(bits))).sum() }
    }
}

/// Returns the number of 32-bit words of a mask. It is even.
const fn words(count: usize) -> usize {
    2 * count.div_ceil(64)
}

/// Returns the number of words of a row of the result.
const fn stride(count: usize) -> usize {
    1 + count.div_ceil(PART) + 2 * MOST
}
