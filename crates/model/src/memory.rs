//! The memory that a model takes on the CPU, computed without reading its matrices.

use std::fmt;

use indicatif::HumanBytes;

use crate::checkpoint::Checkpoint;
use crate::cpu;
#[cfg(feature = "gpu")]
use crate::error::Kind;
use crate::spec::ModelSpec;
use crate::weights::{Purpose, Weights};
use crate::{KvCacheType, LoadError, OpenOptions};

/// Memory that a model takes on the CPU, in bytes.
///
/// [`Display`](fmt::Display) formats the fields, in powers of 1024.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// Packed matrices.
    pub weights: usize,
    /// Matrices from which a token needs a few rows only, such as the embedding. They stay in the
    /// file, which the system keeps in memory as far as there is room. Not part of the totals below.
    pub mapped: usize,
    /// Additional matrices while the model is opened: those of quantised types that are converted.
    pub converted: usize,
    /// Keys and values of a token. 0 if no layer has attention.
    pub per_token: usize,
    /// State of a sequence beside its keys and values. 0 if no layer has a recurrence or a convolution.
    pub per_sequence: usize,
}

impl MemoryUse {
    /// Memory for activations, logits and drafts, in bytes. The actual amount depends on the model and on the
    /// batches, and is usually smaller.
    pub const WORK: usize = 128 << 20;

    /// Computes the memory of the model in a checkpoint that is opened with the `options`.
    ///
    /// # Errors
    /// Returns an error if Formwork's own decoder does not support the model, or if a tensor is
    /// missing or has the wrong shape.
    pub fn of(checkpoint: &Checkpoint, options: OpenOptions) -> Result<Self, LoadError> {
        let spec = options.adjusted(ModelSpec::of(checkpoint)?);
        let weights = Weights::bind(checkpoint, &spec, options.quantize, Purpose::Measure)?;
        Ok(Self::of_weights(&spec, &weights, options.kv_cache))
    }

    /// Computes the memory of bound weights.
    pub(crate) fn of_weights(spec: &ModelSpec, weights: &Weights, kv_cache: KvCacheType) -> Self {
        let (per_token, per_sequence) = cpu::bytes_of_sequence(spec, weights, kv_cache);
        let size = weights.size();
        Self { weights: size.packed, mapped: size.mapped, converted: size.converted, per_token, per_sequence }
    }

    /// Checks that the model and one sequence of `context` tokens fit in `limit` bytes.
    ///
    /// # Errors
    /// Returns an error with the numbers if they do not fit.
    #[cfg(feature = "gpu")]
    pub(crate) fn check(&self, context: usize, limit: usize) -> Result<(), Kind> {
        let (total, fits) = (self.with_context(context), self.context_within(limit).unwrap_or_default());
        if total <= limit {
            return Ok(());
        }
        Err(Kind::Memory { needed: *self, context, total, limit, fits: fits.min(context) })
    }

    /// Returns the memory for the model and one sequence of `context` tokens, in bytes.
    pub const fn with_context(&self, context: usize) -> usize {
        let sequence = self.per_sequence.saturating_add(self.per_token.saturating_mul(context));
        let sequence = if sequence < self.converted { self.converted } else { sequence };
        self.weights.saturating_add(sequence).saturating_add(Self::WORK)
    }

    /// Returns the memory of two models together.
    #[must_use]
    pub const fn beside(&self, other: Self) -> Self {
        Self {
            weights: self.weights + other.weights + Self::WORK,
            mapped: self.mapped + other.mapped,
            converted: self.converted + other.converted,
            per_token: self.per_token + other.per_token,
            per_sequence: self.per_sequence + other.per_sequence,
        }
    }

    /// Returns the number of tokens of the longest sequence for which `limit` bytes are enough. Returns
    /// `None` if the model alone takes more.
    pub const fn context_within(&self, limit: usize) -> Option<usize> {
        match limit.checked_sub(self.with_context(0)) {
            None => None,
            Some(_) if self.per_token == 0 => Some(usize::MAX),
            Some(_) => {
                let fixed = self.weights + self.per_sequence + Self::WORK;
                Some(limit.saturating_sub(fixed) / self.per_token)
            }
        }
    }
}

/// Returns a number of bytes with a unit, for messages.
pub(crate) const fn bytes(count: usize) -> HumanBytes {
    HumanBytes(count as u64)
}

impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "weights {}", bytes(self.weights))?;
        if self.converted > 0 {
            write!(f, ", {} more while it is opened", bytes(self.converted))?;
        }
        if self.mapped > 0 {
            write!(f, ", {} in the mapped file", bytes(self.mapped))?;
        }
        if self.per_token > 0 {
            write!(f, ", keys and values {} per token", bytes(self.per_token))?;
        }
        if self.per_sequence > 0 {
            write!(f, ", state {} per sequence", bytes(self.per_sequence))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_context_fits_and_one_more_token_does_not() {
        let of_model =
            MemoryUse { weights: 1 << 30, mapped: 5, converted: 0, per_token: 3000, per_sequence: 7 };
        let limit = 2 << 30;
        let context = of_model.context_within(limit).unwrap();
        assert!(of_model.with_context(context) <= limit && of_model.with_context(context + 1) > limit);
        assert_eq!(of_model.context_within(1 << 30), None);
        // A conversion takes memory before there is a sequence.
        let converted = MemoryUse { converted: 1 << 30, ..of_model };
        assert_eq!(converted.context_within(limit), None);
        assert_eq!(converted.context_within(3 << 30), of_model.context_within(3 << 30));
        assert_eq!(MemoryUse { per_token: 0, ..of_model }.context_within(limit), Some(usize::MAX));
    }
}
