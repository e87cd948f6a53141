//! Bounds on the probabilities of a question's options.

/// Lower and upper bounds on the probability of each option.
///
/// The probability of an option is the sum over all sequences of tokens that spell one of its texts. The
/// lower bound is the sum over the visited sequences. The upper bound adds the probability of
/// all prefixes that may still lead to the option.
#[derive(Clone, PartialEq, Debug)]
pub struct Enclosure {
    /// Natural logarithm of the lower bound of each option. `-inf` if no sequence was visited.
    pub ln_lower: Vec<f64>,
    /// Natural logarithm of the upper bound of each option.
    pub ln_upper: Vec<f64>,
    /// Largest width of the bounds on an option's share of the total, at the temperature of the question.
    /// 0 if every sequence was visited.
    pub error: f64,
    /// Number of token prefixes that the model read after the prompt.
    pub nodes: usize,
    /// Number of tokens of the question's prompt.
    pub prompt_tokens: usize,
}

impl Enclosure {
    /// Returns the share of each option: its probability divided by the sum over all options. The true
    /// share differs by [`Self::error`] at most. Returns `None` if all probabilities are 0.
    pub fn shares(&self) -> Option<Vec<f64>> {
        let is_known = self.ln_lower.iter().any(|ln| *ln > f64::NEG_INFINITY);
        let known = if is_known { &self.ln_lower } else { &self.ln_upper };
        let largest = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return None;
        }
        let weights: Vec<f64> = known.iter().map(|ln| (ln - largest).exp()).collect();
        let sum: f64 = weights.iter().sum();
        Some(weights.into_iter().map(|weight| weight / sum).collect())
    }

    /// Returns the sum of the options' probabilities, by their lower bounds.
    pub fn mass(&self) -> f64 {
        self.ln_lower.iter().map(|ln| ln.exp()).sum::<f64>().min(1.0)
    }
}

/// Bounds on the options' shares of the total. They only get narrower.
#[derive(Debug)]
pub(crate) struct ShareBounds {
    lower: Vec<f64>,
    upper: Vec<f64>,
}

impl ShareBounds {
    pub(crate) fn new(options: usize) -> Self {
        Self { lower: vec![0.0; options], upper: vec![1.0; options] }
    }

    /// Narrows the bounds, given bounds on the probabilities on a common scale.
    pub(crate) fn narrow(&mut self, lower: &[f64], upper: &[f64]) {
        let (all_lower, all_upper): (f64, f64) = (lower.iter().sum(), upper.iter().sum());
        for (option, (&low, &high)) in lower.iter().zip(upper).enumerate() {
            let others_high = (all_upper - high).max(0.0);
            let others_low = (all_lower - low).max(0.0);
            if low > 0.0 {
                self.lower[option] = self.lower[option].max(low / (low + others_high));
            }
            if high + others_low > 0.0 {
                self.upper[option] = self.upper[option].min(high / (high + others_low));
            }
        }
    }

    /// Returns the largest width of the bounds.
    pub(crate) fn width(&self) -> f64 {
        let widths = self.lower.iter().zip(&self.upper).map(|(lower, upper)| (upper - lower).max(0.0));
        widths.fold(0.0, f64::max)
    }
}
