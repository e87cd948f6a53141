//! Rotary frequencies, and the ways in which they are stretched to longer contexts.

use std::f32::consts::PI;

use super::ModelSpec;

/// The rotary frequencies of some layers.
#[derive(Clone, PartialEq, Debug)]
pub struct RopeSpec {
    /// The base of the geometric series of wavelengths.
    pub theta: f32,
    /// How the series is changed.
    pub scaling: RopeScaling,
}

/// How rotary frequencies differ from the geometric series.
#[derive(Clone, PartialEq, Debug)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All are divided by a factor.
    Linear {
        /// The factor.
        factor: f32,
    },
    /// Each is divided by a factor of its own, `[rope_dims / 2]`.
    Factors(Vec<f32>),
    /// Each is divided by a factor of its own, and which depends on the context.
    Long(LongFactors),
    /// Long wavelengths are divided, short ones are not, and those between in part.
    Yarn(Yarn),
}

/// The factors of models that were trained in two steps (`longrope`), `[rope_dims / 2]` each.
#[derive(Clone, PartialEq, Debug)]
pub struct LongFactors {
    /// For contexts up to `original`.
    pub short: Vec<f32>,
    /// For longer ones.
    pub long: Vec<f32>,
    /// The context of the first step.
    pub original: usize,
    /// What rotated heads are multiplied with.
    pub magnitude: f32,
}

/// "Yet another rope extension": <https://arxiv.org/abs/2309.00071>.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Yarn {
    /// How many times the context was stretched.
    pub factor: f32,
    /// The context before that.
    pub original: usize,
    /// Frequencies with more turns than that within the original context stay.
    pub beta_fast: f32,
    /// Frequencies with fewer turns than that are divided by the factor.
    pub beta_slow: f32,
    /// Whether the ends of the ramp between the two are rounded outwards to whole pairs.
    pub truncate: bool,
    /// What rotated heads are multiplied with.
    pub magnitude: f32,
}

impl RopeSpec {
    /// The plain series.
    pub const fn plain(theta: f32) -> Self {
        Self { theta, scaling: RopeScaling::None }
    }

    /// Radians per position for each pair of elements, in a context of so many positions.
    pub(crate) fn frequencies(&self, spec: &ModelSpec, context: usize) -> Vec<f32> {
        let dims = spec.rope_dims as f32;
        let plain = (0..spec.rope_dims / 2).map(|pair| 1.0 / self.theta.powf((2 * pair) as f32 / dims));
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

    /// What rotated heads are multiplied with.
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
    /// The factors of Llama 3.1: long wavelengths are divided by `factor`, short ones stay, and those between in part.
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
}

impl Yarn {
    /// The magnitude that the method's authors recommend.
    pub(crate) fn usual_magnitude(factor: f32) -> f32 {
        if factor > 1.0 { 0.1f32.mul_add(factor.ln(), 1.0) } else { 1.0 }
    }

    /// The pairs between which frequencies are divided in part.
    fn ramp(&self, dims: f32, theta: f32) -> (f32, f32) {
        let pair = |turns: f32| dims * (self.original as f32 / (turns * 2.0 * PI)).ln() / (2.0 * theta.ln());
        let (mut low, mut high) = (pair(self.beta_fast), pair(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, high) = (low.max(0.0), high.min(dims - 1.0));
        // Never empty, so that nothing is divided by zero.
        (low, if low < high { high } else { low + 0.001 })
    }
}

fn divided(frequencies: impl Iterator<Item = f32>, factors: &[f32]) -> Vec<f32> {
    frequencies.zip(factors).map(|(frequency, factor)| frequency / factor).collect()
}
