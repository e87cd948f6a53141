//! Combination of measured probabilities to answers.
//!
//! Sums are over sorted numbers, so that no order of prompts or options changes their bits.

/// Bounds on the probabilities of a prompt's options.
#[derive(Clone, PartialEq, Debug)]
pub struct OptionBounds {
    /// Natural logarithm of the lower bound of each option.
    pub ln_lower: Vec<f64>,
    /// Natural logarithm of the upper bound of each option.
    pub ln_upper: Vec<f64>,
    /// Maximum difference between the true shares and those by the lower bounds.
    pub error: f64,
}

/// Probabilities of a question's options.
#[derive(Clone, PartialEq, Debug)]
pub struct DecisionAnswer {
    /// Probability of each option. The sum is 1. For a predicate: true, then false.
    pub probabilities: Vec<f64>,
    /// Mean probability that the model's answer is any of the options, over all prompts.
    pub mass: f64,
    /// Bound on the error of the probabilities, from sequences of tokens that were not visited.
    pub error: f64,
}

/// Shares of options at a temperature, with a bound on their error.
fn shares(bounds: &OptionBounds, temperature: f64) -> Option<(Vec<f64>, f64)> {
    let OptionBounds { ln_lower, ln_upper, error } = bounds;
    let is_known = ln_lower.iter().any(|ln| *ln > f64::NEG_INFINITY);
    let known = if is_known { ln_lower } else { ln_upper };
    let scale = ln_upper.iter().chain(ln_lower).copied().fold(f64::NEG_INFINITY, f64::max);
    let weigh =
        |lns: &[f64]| -> Vec<f64> { lns.iter().map(|ln| ((ln - scale) / temperature).exp()).collect() };
    let total = sum(weigh(known));
    // A scale of -inf makes NaN of every weight.
    if total.is_nan() || total <= 0.0 {
        return None;
    }
    let shares = weigh(known).into_iter().map(|weight| weight / total).collect();
    #[allow(clippy::float_cmp, reason = "the temperature 1 is exact")]
    if temperature == 1.0 || *error == 0.0 {
        return Some((shares, *error));
    }
    let (lower, upper) = (weigh(ln_lower), weigh(ln_upper));
    let (all_lower, all_upper) = (sum(lower.clone()), sum(upper.clone()));
    let widths = lower.iter().zip(&upper).map(|(&low, &high)| {
        let least = if low > 0.0 { low / (low + (all_upper - high).max(0.0)) } else { 0.0 };
        let others = (all_lower - low).max(0.0);
        let most = if high + others > 0.0 { high / (high + others) } else { 0.0 };
        (most - least).max(0.0)
    });
    Some((shares, widths.fold(0.0, f64::max)))
}

/// Returns the mean of the shares over prompts. `orders` has the options of each prompt.
pub(super) fn combine(
    bounds: &[OptionBounds],
    orders: &[Vec<usize>],
    temperature: f64,
) -> Option<DecisionAnswer> {
    let mut by_option = vec![Vec::new(); orders.first()?.len()];
    let mut errors = Vec::new();
    for (bounds, order) in bounds.iter().zip(orders) {
        let (shares, error) = shares(bounds, temperature)?;
        for (&option, share) in order.iter().zip(shares) {
            by_option[option].push(share);
        }
        errors.push(error);
    }
    let probabilities = by_option.into_iter().map(mean).collect();
    Some(DecisionAnswer { probabilities, mass: 0.0, error: mean(errors).min(1.0) })
}

/// Returns the shares of the options by the probability that each is right by itself. Each option has the
/// same number of prompts, whose first answer is yes in the first prompt and no in the second one.
pub(super) fn combine_independent(
    bounds: &[OptionBounds],
    options: usize,
    temperature: f64,
) -> Option<DecisionAnswer> {
    let prompts = bounds.len() / options.max(1);
    let (mut rights, mut errors) = (Vec::new(), Vec::new());
    for prompts in bounds.chunks(prompts.max(1)) {
        let (mut right, mut error) = (Vec::new(), Vec::new());
        for (place, bounds) in prompts.iter().enumerate() {
            let (shares, width) = shares(bounds, temperature)?;
            right.push(shares[place % 2]);
            error.push(width);
        }
        rights.push(mean(right));
        errors.push(mean(error));
    }
    let total = sum(rights.clone());
    if total.is_nan() || total <= 0.0 {
        return None;
    }
    let probabilities: Vec<f64> = rights.iter().map(|right| right / total).collect();
    // The derivative of r / Σr is at most 1 / Σr in each of the terms.
    let error = (sum(errors) / total).min(1.0);
    Some(DecisionAnswer { probabilities, mass: 0.0, error })
}

/// Divides the probabilities of options by those of the same prompt without content.
pub(super) fn divide(asked: &OptionBounds, empty: &OptionBounds) -> OptionBounds {
    let quotient = |ln: f64, by: f64| if by > f64::NEG_INFINITY { ln - by } else { ln };
    let all = |lns: &[f64], by: &[f64]| lns.iter().zip(by).map(|(&ln, &by)| quotient(ln, by)).collect();
    let mut divided = OptionBounds {
        ln_lower: all(&asked.ln_lower, &empty.ln_upper),
        ln_upper: all(&asked.ln_upper, &empty.ln_lower),
        error: 0.0,
    };
    let is_exact = asked.error == 0.0 && empty.error == 0.0;
    if !is_exact {
        // The width at another temperature than 1 is that of the bounds.
        divided.error = 1.0;
        divided.error = shares(&divided, 1.0 + f64::EPSILON).map_or(1.0, |(_, error)| error);
    }
    divided
}

impl DecisionAnswer {
    pub(super) fn set_mass(&mut self, bounds: &[OptionBounds]) {
        let mass = |bounds: &OptionBounds| sum(bounds.ln_lower.iter().map(|ln| ln.exp()).collect()).min(1.0);
        self.mass = mean(bounds.iter().map(mass).collect());
    }

    /// Returns the index of the likeliest option, the first of several.
    pub fn best(&self) -> usize {
        let mut best = 0;
        for (option, probability) in self.probabilities.iter().enumerate() {
            if *probability > self.probabilities[best] {
                best = option;
            }
        }
        best
    }

    /// Returns the expected index of the option, starting at 0: the score of a question with levels.
    pub fn score(&self) -> f64 {
        self.probabilities.iter().enumerate().map(|(level, probability)| level as f64 * probability).sum()
    }

    /// Returns the confidence in a choice, in 0..=1: the largest probability, scaled so that equal
    /// probabilities give 0. 1 if there is one option.
    ///
    /// This is the formula of `TypeSafe`'s System One, by the sources of llama.cpp and transformers.
    pub fn choice_confidence(&self) -> f64 {
        let equal = 1.0 / self.probabilities.len() as f64;
        if self.probabilities.len() < 2 {
            return 1.0;
        }
        ((self.probabilities[self.best()] - equal) / (1.0 - equal)).clamp(0.0, 1.0)
    }

    /// Returns the confidence in a score, in 0..=1: 1 less the mean distance from the likeliest level,
    /// relative to that of equal probabilities from the middle. 1 if there is one level.
    ///
    /// This is the formula of `TypeSafe`'s System One, by the sources of llama.cpp and transformers.
    pub fn score_confidence(&self) -> f64 {
        let count = self.probabilities.len();
        if count < 2 {
            return 1.0;
        }
        let best = self.best();
        let distances = self.probabilities.iter().enumerate();
        let distance: f64 =
            distances.map(|(level, probability)| probability * level.abs_diff(best) as f64).sum();
        let middle = (count - 1) as f64 / 2.0;
        let equal = (0..count).map(|level| (level as f64 - middle).abs()).sum::<f64>() / count as f64;
        (1.0 - distance / equal).clamp(0.0, 1.0)
    }

    /// Returns 1 less the entropy of the probabilities, relative to that of equal ones. 1 if there is one
    /// option.
    pub fn entropy_confidence(&self) -> f64 {
        let count = self.probabilities.len();
        if count < 2 {
            return 1.0;
        }
        let terms = self.probabilities.iter().filter(|probability| **probability > 0.0);
        let entropy: f64 = terms.map(|probability| -probability * probability.ln()).sum();
        (1.0 - entropy / (count as f64).ln()).clamp(0.0, 1.0)
    }
}

/// Returns the sum of numbers, which does not depend on their order.
fn sum(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.into_iter().sum()
}

fn mean(numbers: Vec<f64>) -> f64 {
    let count = numbers.len() as f64;
    sum(numbers) / count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(probabilities: &[f64]) -> DecisionAnswer {
        DecisionAnswer { probabilities: probabilities.to_vec(), mass: 1.0, error: 0.0 }
    }

    fn is_close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn confidence_has_the_values_of_published_examples() {
        assert!(is_close(answer(&[0.88, 0.12, 0.0]).choice_confidence(), 0.82));
        assert!(is_close(answer(&[0.0, 0.95, 0.05]).score_confidence(), 0.925));
        for count in 1..6 {
            let equal = answer(&vec![1.0 / count as f64; count]);
            let expected = if count == 1 { 1.0 } else { 0.0 };
            assert!(is_close(equal.choice_confidence(), expected));
            assert!(is_close(equal.entropy_confidence(), expected));
        }
        let sure = answer(&[0.0, 1.0]);
        assert_eq!(
            (sure.choice_confidence(), sure.score_confidence(), sure.entropy_confidence()),
            (1.0, 1.0, 1.0)
        );
        assert_eq!(answer(&[0.5, 0.5]).best(), 0);
        assert!(is_close(answer(&[0.25, 0.25, 0.5]).score(), 1.25));
    }

    fn exact(probabilities: &[f64]) -> OptionBounds {
        let lns: Vec<f64> = probabilities.iter().map(|probability| probability.ln()).collect();
        OptionBounds { ln_lower: lns.clone(), ln_upper: lns, error: 0.0 }
    }

    #[test]
    fn orders_are_averaged_after_each_is_normalised() {
        let bounds = [exact(&[0.3, 0.1]), exact(&[0.001, 0.001])];
        let combined = combine(&bounds, &[vec![0, 1], vec![1, 0]], 1.0).unwrap();
        assert!(is_close(combined.probabilities[0], 0.625) && is_close(combined.probabilities[1], 0.375));
        let hotter = combine(&bounds[..1], &[vec![0, 1]], 2.0).unwrap();
        assert!(is_close(hotter.probabilities[0], 3f64.sqrt() / (1.0 + 3f64.sqrt())));
        assert!(combine(&[exact(&[0.0, 0.0])], &[vec![0, 1]], 1.0).is_none());
    }

    #[test]
    fn independent_options_share_by_their_own_probabilities() {
        // Yes is the first answer of the first prompt, and the second one of the second prompt.
        let bounds = [exact(&[0.6, 0.2]), exact(&[0.1, 0.3]), exact(&[0.1, 0.3]), exact(&[0.3, 0.1])];
        let combined = combine_independent(&bounds, 2, 1.0).unwrap();
        assert!(is_close(combined.probabilities[0], 0.75) && is_close(combined.probabilities[1], 0.25));
    }

    #[test]
    fn bounds_on_shares_hold_after_corrections() {
        let bounds = OptionBounds {
            ln_lower: vec![0.30f64.ln(), 0.10f64.ln()],
            ln_upper: vec![0.32f64.ln(), 0.12f64.ln()],
            error: 0.06,
        };
        for temperature in [0.5, 1.0, 3.0] {
            let (known, error) = shares(&bounds, temperature).unwrap();
            for (first, second) in [(0.30, 0.12), (0.32, 0.10), (0.31, 0.11)] {
                let [first, second] = [first, second].map(|p: f64| p.powf(1.0 / temperature));
                assert!((first / (first + second) - known[0]).abs() <= error + 1e-9);
            }
        }
        let divided = divide(&bounds, &exact(&[0.5, 0.1]));
        let (known, error) = shares(&divided, 1.0).unwrap();
        assert!((0.31 / 0.5 / (0.31 / 0.5 + 0.11 / 0.1) - known[0]).abs() <= error);
    }
}
