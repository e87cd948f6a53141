//! Terms of metrics, and their sums over samples of states.

use super::metrics::{Estimate, Predictor};
use super::outcome::{Outcome, first_max};
use super::question::QuestionKind;
use super::reliability::{BINS, bin_of};
use super::resample::{RESAMPLES, Resampler, interval};

/// Returns the negative logarithm of a probability.
fn surprisal(probability: f64) -> f64 {
    // `max` also replaces NaN. A probability of 1 must not give -0.
    0.0 - probability.max(1e-12).ln()
}

/// Terms of one outcome.
pub(super) struct Scored {
    /// Index of the state.
    state: usize,
    /// Probability that the choice is right, which is 0 or 1 without ties.
    right: f64,
    brier: f64,
    nll: f64,
    /// Top probability.
    pub(super) top: f64,
    flipped: Option<bool>,
    level_error: Option<f64>,
}

impl Scored {
    pub(super) fn of(outcome: &Outcome, predictor: Predictor, state: usize) -> Self {
        let uniform = vec![1.0 / outcome.options as f64; outcome.options];
        let law = match predictor {
            Predictor::Model => &outcome.probabilities,
            Predictor::Uniform => &uniform,
            Predictor::Prior => &outcome.prior,
        };
        let gold = &outcome.gold;
        let (best, gold_best) = (first_max(law), first_max(gold));
        let top = law.get(best).copied().unwrap_or_default();
        let is_tied = |p: &&f64| p.total_cmp(&top).is_eq();
        let right = match predictor {
            Predictor::Model => f64::from(best == gold_best),
            _ if law.get(gold_best).as_ref().is_some_and(is_tied) => {
                1.0 / law.iter().filter(is_tied).count() as f64
            }
            _ => 0.0,
        };
        let pairs = || law.iter().zip(gold);
        let level = |law: &[f64]| law.iter().enumerate().map(|(level, p)| level as f64 * p).sum::<f64>();
        Self {
            state,
            right,
            brier: pairs().map(|(p, gold)| (p - gold) * (p - gold)).sum(),
            nll: pairs().map(|(&p, gold)| gold * surprisal(p)).sum(),
            top,
            flipped: outcome.flipped.filter(|_| predictor == Predictor::Model),
            level_error: (outcome.kind == QuestionKind::Score).then(|| (level(law) - level(gold)).abs()),
        }
    }
}

/// Number of metrics that have intervals, in the order of [`measure`].
const MEASURES: usize = 7;

/// Measures a sample and its resamples. The highest top probability must be first.
pub(super) fn estimates(scored: &[Scored], states: usize) -> [Option<Estimate>; MEASURES] {
    let mut drawn = vec![1; states];
    let values = measure(scored, &drawn);
    let mut resampled: [Vec<f64>; MEASURES] = Default::default();
    // A single state has no resamples that differ.
    if states > 1 {
        let mut resampler = Resampler::new();
        for _ in 0..RESAMPLES {
            resampler.draw(&mut drawn);
            let again = measure(scored, &drawn);
            resampled.iter_mut().zip(again).for_each(|(all, value)| all.extend(value));
        }
    }
    let mut resampled = resampled.into_iter();
    values.map(|value| {
        let resampled = resampled.next().unwrap_or_default();
        value
            .filter(|value| value.is_finite())
            .map(|value| Estimate { value, interval: interval(resampled, value) })
    })
}

/// Weighted sum of values, and the sum of the weights.
#[derive(Clone, Copy, Default)]
struct WeightedSum {
    sum: f64,
    weight: f64,
}

impl WeightedSum {
    fn add(&mut self, value: f64, weight: f64) {
        self.sum += weight * value;
        self.weight += weight;
    }

    fn mean(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// Computes the metrics of a sample that has each state as often as `drawn` says: accuracy, Brier score,
/// cross-entropy, calibration error, coverage, flips and level error.
fn measure(scored: &[Scored], drawn: &[u32]) -> [Option<f64>; MEASURES] {
    let [mut accuracy, mut brier, mut nll, mut flips, mut levels] = [WeightedSum::default(); 5];
    // For each bin, the sum of right outcomes less that of top probabilities.
    let mut gaps = [0.0; BINS];
    let mut covered = 0.0;
    for tied in scored.chunk_by(|one, other| one.top.total_cmp(&other.top).is_eq()) {
        for outcome in tied {
            let weight = f64::from(drawn[outcome.state]);
            accuracy.add(outcome.right, weight);
            brier.add(outcome.brier, weight);
            nll.add(outcome.nll, weight);
            gaps[bin_of(outcome.top)] += weight * (outcome.right - outcome.top);
            if let Some(flipped) = outcome.flipped {
                flips.add(f64::from(flipped), weight);
            }
            if let Some(error) = outcome.level_error {
                levels.add(error, weight);
            }
        }
        let wrong = accuracy.weight - accuracy.sum;
        // 5% of the outcomes so far, without rounding.
        if wrong * 20.0 <= accuracy.weight {
            covered = accuracy.weight;
        }
    }
    let of_all = |sum: f64| (accuracy.weight > 0.0).then(|| sum / accuracy.weight);
    let gap = gaps.iter().map(|gap: &f64| gap.abs()).sum();
    [accuracy.mean(), brier.mean(), nll.mean(), of_all(gap), of_all(covered), flips.mean(), levels.mean()]
}

/// Returns the median, which is the mean of the two middle values of an even number.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::samples::outcome;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(
            (median(vec![]), median(vec![3.0, 1.0]), median(vec![5.0, 1.0, 2.0])),
            (None, Some(2.0), Some(2.0))
        );
    }

    #[test]
    fn a_state_that_was_drawn_twice_counts_twice() {
        let outcomes = [outcome("a", &[0.9, 0.1], 0), outcome("b", &[0.6, 0.4], 1)];
        let scored: Vec<_> =
            outcomes.iter().zip(0..).map(|(one, state)| Scored::of(one, Predictor::Model, state)).collect();
        let [accuracy, _, _, ece, coverage, flips, _] = measure(&scored, &[3, 1]);
        assert_eq!((accuracy, coverage, flips), (Some(0.75), Some(0.75), None));
        assert!((ece.expect("a value") - (3.0 * 0.1 + 0.6) / 4.0).abs() < 1e-12);
        assert_eq!(measure(&scored, &[0, 0]), [None; MEASURES]);
    }
}
