//! Rotary frequencies and their scaling for longer contexts.

use std::f32::consts::PI;

/// A set of rotary frequencies, used by some or all layers.
#[derive(Clone, PartialEq, Debug)]
pub struct RopeSpec {
    /// Number of elements of a head that are rotated.
    pub dims: usize,
    /// Base of the geometric series of wavelengths.
    pub theta: f32,
    /// Scaling of the series.
    pub scaling: RopeScaling,
}

/// Scaling of rotary frequencies.
#[derive(Clone, PartialEq, Debug)]
pub enum RopeScaling {
    /// No scaling.
    None,
    /// Divides all frequencies by the same factor.
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// Divides each frequency by its own factor. Shape: `[dims / 2]`.
    Factors(Vec<f32>),
    /// Divides each frequency by its own factor, which depends on the context length.
    Long(LongFactors),
    /// Divides low frequencies, keeps high ones and interpolates between.
    Yarn(Yarn),
}

/// Factors of models that were trained in two steps (`longrope`). Shape of both lists:
/// `[dims / 2]`.
#[derive(Clone, PartialEq, Debug)]
pub struct LongFactors {
    /// Factors for contexts of at most `original` positions.
    pub short: Vec<f32>,
    /// Factors for longer contexts.
    pub long: Vec<f32>,
    /// Context length of the first training step.
    pub original: usize,
    /// Factor for the rotated elements of a head.
    pub magnitude: f32,
}

/// `YaRN`, "yet another `RoPE` extension": <https://arxiv.org/abs/2309.00071>.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Yarn {
    /// Ratio of the extended context to the original one.
    pub factor: f32,
    /// Original context length.
    pub original: usize,
    /// Frequencies with more rotations than this within the original context are kept.
    pub beta_fast: f32,
    /// Frequencies with fewer rotations than this within the original context are divided by the
    /// factor.
    pub beta_slow: f32,
    /// True if the two ends of the interpolated range are rounded outwards to whole pairs.
    pub truncate: bool,
    /// Factor for the rotated elements of a head.
    pub magnitude: f32,
}

impl RopeSpec {
    /// Creates frequencies without scaling.
    pub const fn plain(dims: usize, theta: f32) -> Self {
        Self { dims, theta, scaling: RopeScaling::None }
    }

    /// Returns the radians per position of each pair of elements, for a context of `context`
    /// positions.
    pub(crate) fn frequencies(&self, context: usize) -> Vec<f32> {
        let dims = self.dims as f32;
        let plain = (0..self.dims / 2).map(|pair| 1.0 / self.theta.powf((2 * pair) as f32 / dims));
        match &self.scaling {
            RopeScaling::None => plain.collect(),
            RopeScaling::Linear { factor } => plain.map(|frequency| frequency / factor).collect(),
            RopeScaling::Factors(factors) => divided(plain, factors),
            RopeScaling::Long(long) if context > long.original => divided(plain, &long.long),
            RopeScaling::Long(long) => divided(plain, &long.short),
            RopeScaling::Yarn(yarn) => {
                let (low, high) = yarn.ramp(dims, self.theta);
                let scale = |(pair, frequency): (usize, f32)| {
                    let divided = ((pair as f32 - low) / (high - low)).clamp(0.0, 1.0);
                    frequency / yarn.factor * divided + frequency * (1.0 - divided)
                };
                plain.enumerate().map(scale).collect()
            }
        }
    }

    /// Returns the factor for the rotated elements of a head.
    pub(crate) const fn magnitude(&self) -> f32 {
        match &self.scaling {
            RopeScaling::Long(LongFactors { magnitude, .. }) | RopeScaling::Yarn(Yarn { magnitude, .. }) => {
                *magnitude
            }
            _ => 1.0,
        }
    }
}

impl RopeScaling {
    /// Computes the factors of Llama 3.1. They divide low frequencies by `factor`, keep high ones
    /// and interpolate between.
    pub(crate) fn llama3(
        (theta, dims): (f32, usize),
        factor: f32,
        (low_freq_factor, high_freq_factor): (f32, f32),
        original: usize,
    ) -> Self {
        let factors = (0..dims / 2).map(|pair| {
            let wavelength = 2.0 * PI * theta.powf((2 * pair) as f32 / dims as f32);
            let turns = original as f32 / wavelength;
            let kept = ((turns - low_freq_factor) / (high_freq_factor - low_freq_factor)).clamp(0.0, 1.0);
            1.0 / (kept + (1.0 - kept) / factor)
        });
        Self::Factors(factors.collect())
    }

    /// Computes the factors that multiply the base of the series by `alpha` to the power of
    /// `dims / (dims - 2)`. The lowest frequency is then divided by `alpha`, and the highest is kept.
    pub(crate) fn larger_base(dims: usize, alpha: f32) -> Self {
        let last = dims.saturating_sub(2).max(1) as f32;
        Self::Factors((0..dims / 2).map(|pair| alpha.powf((2 * pair) as f32 / last)).collect())
    }
}

impl Yarn {
    /// Returns the magnitude `1 + 0.1 · scale · ln(factor)`, which the authors of `YaRN` recommend with
    /// a scale of 1.
    pub(crate) fn magnitude_of(factor: f32, scale: f32) -> f32 {
        if factor > 1.0 { (0.1 * scale).mul_add(factor.ln(), 1.0) } else { 1.0 }
    }

    /// Returns the range of pairs whose frequencies are interpolated.
    fn ramp(&self, dims: f32, theta: f32) -> (f32, f32) {
        let pair = |turns: f32| dims * (self.original as f32 / (turns * 2.0 * PI)).ln() / (2.0 * theta.ln());
        let (mut low, mut high) = (pair(self.beta_fast), pair(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, high) = (low.max(0.0), high.min(dims - 1.0));
        // The range is never empty, which avoids a division by zero.
        (low, if low < high { high } else { low + 0.001 })
    }
}

fn divided(frequencies: impl Iterator<Item = f32>, factors: &[f32]) -> Vec<f32> {
    frequencies.zip(factors).map(|(frequency, factor)| frequency / factor).collect()
}
