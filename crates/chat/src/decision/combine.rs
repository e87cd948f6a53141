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
    /// True if the bounds are equal, because every sequence of tokens was visited.
    pub is_exact: bool,
}

impl OptionBounds {
    /// Returns the probabilities of the options of a question with this prompt alone. Returns `None` if all
    /// are 0.
    pub fn answer(&self) -> Option<DecisionAnswer> {
        let bounds = std::slice::from_ref(self);
        let mut answer = combine(bounds, &[(0..self.ln_lower.len()).collect()], 1.0)?;
        answer.set_mass(bounds);
        Some(answer)
    }
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

/// A number with bounds.
#[derive(Clone, Copy, Debug)]
struct Bounded {
    low: f64,
    value: f64,
    high: f64,
}

/// Returns numbers in proportion to `parts` whose sum is 1. Returns `None` if all are 0.
fn normalised(parts: &[Bounded]) -> Option<Vec<Bounded>> {
    let total = |of: fn(&Bounded) -> f64| sum(parts.iter().map(of).collect());
    let (low, value, high) = (total(|part| part.low), total(|part| part.value), total(|part| part.high));
    if value.is_nan() || value <= 0.0 {
        return None;
    }
    let share = |part: &Bounded| {
        let (others_low, others_high) = ((low - part.low).max(0.0), (high - part.high).max(0.0));
        Bounded {
            low: if part.low > 0.0 { part.low / (part.low + others_high) } else { 0.0 },
            value: part.value / value,
            high: if part.high + others_low > 0.0 { part.high / (part.high + others_low) } else { 0.0 },
        }
    };
    Some(parts.iter().map(share).collect())
}

/// Returns the share of each option of a prompt.
fn shares(bounds: &OptionBounds) -> Option<Vec<Bounded>> {
    let OptionBounds { ln_lower, ln_upper, .. } = bounds;
    let largest = |lns: &[f64]| lns.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let is_known = ln_lower.iter().any(|ln| *ln > f64::NEG_INFINITY);
    let known = if is_known { ln_lower } else { ln_upper };
    let (scale, upper) = (largest(known), largest(ln_upper));
    if upper == f64::INFINITY {
        // Nothing is known of an option, so that every share may be anything.
        let values: Vec<f64> = known.iter().map(|ln| (ln - scale).exp()).collect();
        let total = sum(values.clone());
        return Some(
            values.iter().map(|value| Bounded { low: 0.0, value: value / total, high: 1.0 }).collect(),
        );
    }
    let values = known.iter().map(|ln| Bounded { low: 0.0, value: (ln - scale).exp(), high: 0.0 });
    let values = normalised(&values.collect::<Vec<_>>())?;
    let part = |(&low, &high): (&f64, &f64)| Bounded {
        low: (low - upper).exp(),
        value: (high - upper).exp(),
        high: (high - upper).exp(),
    };
    let bounds = normalised(&ln_lower.iter().zip(ln_upper).map(part).collect::<Vec<_>>())?;
    Some(bounds.iter().zip(values).map(|(bounds, value)| Bounded { value: value.value, ..*bounds }).collect())
}

/// Returns the answer whose probabilities are proportional to `parts` at a temperature.
fn answer(parts: &[Bounded], temperature: f64, is_exact: bool) -> Option<DecisionAnswer> {
    let power = |number: f64| number.powf(1.0 / temperature);
    let tempered = parts.iter().map(|part| Bounded {
        low: power(part.low),
        value: power(part.value),
        high: power(part.high),
    });
    let shares = normalised(&tempered.collect::<Vec<_>>())?;
    let widths = shares.iter().map(|share| (share.high - share.value).max(share.value - share.low).max(0.0));
    let error = if is_exact { 0.0 } else { widths.fold(0.0, f64::max).min(1.0) };
    Some(DecisionAnswer { probabilities: shares.iter().map(|share| share.value).collect(), mass: 0.0, error })
}

/// Returns the mean of the shares over prompts, at a temperature. `orders` has the options of each prompt.
pub(super) fn combine(
    bounds: &[OptionBounds],
    orders: &[Vec<usize>],
    temperature: f64,
) -> Option<DecisionAnswer> {
    let mut by_option = vec![Vec::new(); orders.first()?.len()];
    for (bounds, order) in bounds.iter().zip(orders) {
        for (&option, share) in order.iter().zip(shares(bounds)?) {
            by_option[option].push(share);
        }
    }
    let means: Vec<Bounded> = by_option.iter().map(|shares| mean_of(shares)).collect();
    answer(&means, temperature, bounds.iter().all(|bounds| bounds.is_exact))
}

/// Returns the shares of the options by the probability that each is right by itself, at a temperature.
/// Each option has the same number of prompts, whose first answer is yes in the first prompt and no in the
/// second one.
pub(super) fn combine_independent(
    bounds: &[OptionBounds],
    options: usize,
    temperature: f64,
) -> Option<DecisionAnswer> {
    let prompts = bounds.len() / options.max(1);
    let right = |prompts: &[OptionBounds]| {
        let shares = prompts.iter().enumerate().map(|(place, bounds)| Some(shares(bounds)?[place % 2]));
        Some(mean_of(&shares.collect::<Option<Vec<_>>>()?))
    };
    let rights = bounds.chunks(prompts.max(1)).map(right).collect::<Option<Vec<_>>>()?;
    answer(&rights, temperature, bounds.iter().all(|bounds| bounds.is_exact))
}

/// Divides the probabilities of options by those of the same prompt without content. An option that is
/// impossible there is not divided.
pub(super) fn divide(asked: &OptionBounds, empty: &OptionBounds) -> OptionBounds {
    let options = 0..asked.ln_lower.len();
    let is_impossible = |option: usize| empty.ln_upper[option] == f64::NEG_INFINITY;
    let lower = |option: usize| {
        let by = if is_impossible(option) { 0.0 } else { empty.ln_upper[option] };
        asked.ln_lower[option] - by
    };
    let upper = |option: usize| match empty.ln_lower[option] {
        _ if is_impossible(option) || asked.ln_upper[option] == f64::NEG_INFINITY => asked.ln_upper[option],
        // No sequence of tokens was visited, so that the quotient has no bound.
        f64::NEG_INFINITY => f64::INFINITY,
        by => asked.ln_upper[option] - by,
    };
    OptionBounds {
        ln_lower: options.clone().map(lower).collect(),
        ln_upper: options.map(upper).collect(),
        is_exact: asked.is_exact && empty.is_exact,
    }
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

fn mean_of(numbers: &[Bounded]) -> Bounded {
    let of = |part: fn(&Bounded) -> f64| mean(numbers.iter().map(part).collect());
    Bounded { low: of(|number| number.low), value: of(|number| number.value), high: of(|number| number.high) }
}

fn mean(numbers: Vec<f64>) -> f64 {
    let count = numbers.len() as f64;
    sum(numbers) / count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(probabilities: &[f64]) -> DecisionAnswer {
        DecisionAnswer { probabilities: probabilities.to_vec(), mass: 1.0, error: 0.0 }
    }

    fn is_close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn confidence_has_the_values_of_published_examples() {
        assert!(is_close(of(&[0.88, 0.12, 0.0]).choice_confidence(), 0.82));
        assert!(is_close(of(&[0.0, 0.95, 0.05]).score_confidence(), 0.925));
        for count in 1..6 {
            let equal = of(&vec![1.0 / count as f64; count]);
            let expected = if count == 1 { 1.0 } else { 0.0 };
            assert!(is_close(equal.choice_confidence(), expected));
            assert!(is_close(equal.entropy_confidence(), expected));
        }
        let sure = of(&[0.0, 1.0]);
        assert_eq!(
            (sure.choice_confidence(), sure.score_confidence(), sure.entropy_confidence()),
            (1.0, 1.0, 1.0)
        );
        assert_eq!(of(&[0.5, 0.5]).best(), 0);
        assert!(is_close(of(&[0.25, 0.25, 0.5]).score(), 1.25));
    }

    fn exact(probabilities: &[f64]) -> OptionBounds {
        let lns: Vec<f64> = probabilities.iter().map(|probability| probability.ln()).collect();
        OptionBounds { ln_lower: lns.clone(), ln_upper: lns, is_exact: true }
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
            is_exact: false,
        };
        for temperature in [0.5, 1.0, 3.0] {
            let known = combine(std::slice::from_ref(&bounds), &[vec![0, 1]], temperature).unwrap();
            for (first, second) in [(0.30, 0.12), (0.32, 0.10), (0.31, 0.11)] {
                let [first, second] = [first, second].map(|p: f64| p.powf(1.0 / temperature));
                assert!((first / (first + second) - known.probabilities[0]).abs() <= known.error + 1e-12);
            }
        }
        let divided = divide(&bounds, &exact(&[0.5, 0.1]));
        let known = combine(&[divided], &[vec![0, 1]], 1.0).unwrap();
        let true_share = 0.31 / 0.5 / (0.31 / 0.5 + 0.11 / 0.1);
        assert!((true_share - known.probabilities[0]).abs() <= known.error);
    }

    #[test]
    fn a_prior_that_was_not_visited_leaves_everything_open() {
        let empty = OptionBounds {
            ln_lower: vec![0.0, f64::NEG_INFINITY],
            ln_upper: vec![0.0, 3e-5f64.ln()],
            is_exact: false,
        };
        let known = combine(&[divide(&exact(&[0.2, 0.8]), &empty)], &[vec![0, 1]], 1.0).unwrap();
        assert!(known.error > 0.7, "{known:?}");
    }

    #[test]
    fn tiny_lower_bounds_do_not_make_an_answer_impossible() {
        let bounds = OptionBounds {
            ln_lower: vec![-9.0, f64::NEG_INFINITY],
            ln_upper: vec![-1.0, -1.0],
            is_exact: false,
        };
        let known = combine(&[bounds], &[vec![0, 1]], 0.01).unwrap();
        assert!(is_close(known.probabilities[0], 1.0) && known.error > 0.99);
    }
}
