use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::measure::{Scored, estimates, median};
use super::outcome::Outcome;

/// Source of the probabilities that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predictor {
    /// The model.
    Model,
    /// Baseline: the same probability for each option.
    Uniform,
    /// Baseline: the prior of each question ([`DatasetQuestion::prior`](super::DatasetQuestion::prior)).
    Prior,
}

impl Predictor {
    /// All predictors.
    pub const ALL: [Self; 3] = [Self::Model, Self::Uniform, Self::Prior];

    /// Returns the name in reports, such as `model`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Uniform => "uniform",
            Self::Prior => "prior",
        }
    }
}

/// A value measured on a sample of states.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Value on the sample.
    pub value: f64,
    /// Ends of the bootstrap interval, at 95% confidence. Contains the value. `None` if too few states
    /// define the value.
    pub interval: Option<(f64, f64)>,
}

/// Metrics of probabilities against gold answers. A metric is `None` if no outcome defines it.
///
/// # Limits
/// An interval is the 95% percentile interval of 1,000 resamples of states, with a fixed seed. It is too
/// narrow for few states. The calibration error of a small sample is too high, because noise adds to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Number of outcomes.
    pub decisions: usize,
    /// Number of states.
    pub states: usize,
    /// Share of outcomes whose likeliest option is the likeliest one of the gold answer. Of several
    /// options with the same probability, the model chooses the first, and a baseline chooses at random.
    pub accuracy: Option<Estimate>,
    /// Mean over outcomes of the sum of squared differences to the gold probabilities, from 0 to 2 (G. W.
    /// Brier, 1950).
    pub brier: Option<Estimate>,
    /// Mean cross-entropy of the gold probabilities, in nats. Probabilities below 1e-12 count as 1e-12.
    pub nll: Option<Estimate>,
    /// Expected calibration error: the mean difference between the share of right outcomes and the top
    /// probability, over ten bins of the top probability.
    pub ece: Option<Estimate>,
    /// Coverage at 5% error: the largest share of outcomes, taken by falling top probability, with at most
    /// 5% wrong outcomes. Outcomes with the same top probability are taken together.
    pub coverage: Option<Estimate>,
    /// Share of outcomes whose likeliest option changed when the options were asked in reverse.
    pub flips: Option<Estimate>,
    /// Mean absolute difference between the expected levels of prediction and gold answer. Only of
    /// scores.
    pub level_error: Option<Estimate>,
    /// Median of the probability that the model's answer is any of the options.
    pub mass: Option<f64>,
    /// Maximum of the bounds on the error of probabilities.
    pub max_error: Option<f64>,
}

impl Metrics {
    /// Computes the metrics of a predictor's probabilities. Flips, mass and maximum error are only of the
    /// model.
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>, predictor: Predictor) -> Self {
        let mut outcomes: Vec<&Outcome> = outcomes.into_iter().collect();
        // Sums are in this order, so that results do not depend on the order of outcomes.
        outcomes.sort_by_key(|outcome| (&outcome.id, &outcome.question));
        let ids: BTreeSet<&str> = outcomes.iter().map(|outcome| outcome.id.as_str()).collect();
        let ids: Vec<&str> = ids.into_iter().collect();
        let mut scored: Vec<Scored> = outcomes
            .iter()
            .map(|outcome| {
                let state = ids.binary_search(&outcome.id.as_str()).unwrap_or_default();
                Scored::of(outcome, predictor, state)
            })
            .collect();
        scored.sort_by(|one, other| other.top.total_cmp(&one.top));
        let [accuracy, brier, nll, ece, coverage, flips, level_error] = estimates(&scored, ids.len());
        let is_model = predictor == Predictor::Model;
        let masses =
            outcomes.iter().filter_map(|outcome| outcome.mass.filter(|mass| is_model && mass.is_finite()));
        let errors =
            outcomes.iter().filter_map(|outcome| outcome.error.filter(|error| is_model && error.is_finite()));
        Self {
            decisions: outcomes.len(),
            states: ids.len(),
            accuracy,
            brier,
            nll,
            ece,
            coverage,
            flips,
            level_error,
            mass: median(masses.collect()),
            max_error: errors.reduce(f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::QuestionKind;
    use crate::decisions::samples::{outcome, tops};

    fn value(estimate: Option<Estimate>) -> f64 {
        estimate.expect("a value").value
    }

    fn near(found: Option<Estimate>, expected: f64) {
        assert!((value(found) - expected).abs() < 1e-12, "{found:?}, expected {expected}");
    }

    #[test]
    fn metrics_match_values_computed_by_hand() {
        let outcomes = [
            outcome("a", &[0.5, 0.25, 0.25], 0),
            outcome("b", &[0.2, 0.8], 0),
            Outcome { gold: vec![0.25, 0.75], ..outcome("c", &[0.5, 0.5], 0) },
        ];
        let metrics = Metrics::of(&outcomes, Predictor::Model);
        assert_eq!((metrics.decisions, metrics.states), (3, 3));
        // The tie of c goes to the first option, but the likelier gold option is the second one.
        near(metrics.accuracy, 1.0 / 3.0);
        near(metrics.brier, (0.375 + 1.28 + 0.125) / 3.0);
        near(metrics.nll, (2.0_f64.ln() + 5.0_f64.ln() + 2.0_f64.ln()) / 3.0);
        // Bin of 0.5: one right of two. Bin of 0.8: none right of one.
        near(metrics.ece, (0.0 + 0.8) / 3.0);
        near(metrics.coverage, 0.0);
        assert_eq!(
            (metrics.flips, metrics.level_error, metrics.mass, metrics.max_error),
            (None, None, None, None)
        );
    }

    #[test]
    fn impossible_gold_options_have_a_finite_cross_entropy() {
        let metrics = Metrics::of(&[outcome("a", &[1.0, 0.0], 1)], Predictor::Model);
        near(metrics.nll, 1e12_f64.ln());
        near(metrics.brier, 2.0);
        let metrics = Metrics::of(&[outcome("a", &[1.0, 0.0], 0)], Predictor::Model);
        assert_eq!(value(metrics.nll).to_string(), "0");
    }

    #[test]
    fn coverage_is_the_largest_share_with_at_most_5_percent_wrong() {
        // Right up to 0.9, then one wrong, then right: 1 of 20 is wrong after 20 outcomes.
        let mut list = vec![(0.9, true); 10];
        list.push((0.8, false));
        list.extend([(0.7, true); 9]);
        near(Metrics::of(&tops(&list), Predictor::Model).coverage, 1.0);
        list.push((0.6, false));
        near(Metrics::of(&tops(&list), Predictor::Model).coverage, 20.0 / 21.0);
        list.remove(0);
        near(Metrics::of(&tops(&list), Predictor::Model).coverage, 9.0 / 20.0);
        // One threshold cannot separate outcomes of the same probability.
        near(Metrics::of(&tops(&[(0.9, true), (0.9, false)]), Predictor::Model).coverage, 0.0);
    }

    #[test]
    fn scores_have_an_error_of_the_expected_level() {
        let score = |id, law: &[f64], gold| Outcome { kind: QuestionKind::Score, ..outcome(id, law, gold) };
        let outcomes =
            [score("a", &[0.5, 0.5, 0.0], 2), score("b", &[0.0, 0.5, 0.5], 1), outcome("c", &[0.5, 0.5], 0)];
        // Expected levels 0.5 and 1.5 against 2 and 1. The uniform one is 1.
        near(Metrics::of(&outcomes, Predictor::Model).level_error, 1.0);
        near(Metrics::of(&outcomes, Predictor::Uniform).level_error, 0.5);
    }

    #[test]
    fn flips_mass_and_error_are_of_the_outcomes_that_have_them() {
        let measured =
            |id, flipped, mass, error| Outcome { mass, error, flipped, ..outcome(id, &[1.0, 0.0], 0) };
        let outcomes = [
            measured("a", Some(true), Some(0.5), Some(1e-4)),
            measured("b", Some(false), Some(0.25), None),
            measured("c", None, Some(0.125), Some(1e-3)),
            measured("d", None, None, None),
        ];
        let metrics = Metrics::of(&outcomes, Predictor::Model);
        near(metrics.flips, 0.5);
        assert_eq!((metrics.mass, metrics.max_error), (Some(0.25), Some(1e-3)));
        let uniform = Metrics::of(&outcomes, Predictor::Uniform);
        assert_eq!((uniform.flips, uniform.mass, uniform.max_error), (None, None, None));
    }

    #[test]
    fn baselines_choose_at_random_among_ties() {
        let prior = |id, prior: &[f64], gold| Outcome {
            prior: prior.to_vec(),
            ..outcome(id, &vec![1.0 / prior.len() as f64; prior.len()], gold)
        };
        let outcomes =
            [prior("a", &[0.25; 4], 3), prior("b", &[0.5, 0.5, 0.0], 2), prior("c", &[0.1, 0.9], 1)];
        let uniform = Metrics::of(&outcomes, Predictor::Uniform);
        near(uniform.accuracy, (0.25 + 1.0 / 3.0 + 0.5) / 3.0);
        near(uniform.ece, 0.0);
        near(Metrics::of(&outcomes, Predictor::Prior).accuracy, (0.25 + 0.0 + 1.0) / 3.0);
    }

    #[test]
    fn no_outcomes_have_no_metrics() {
        let metrics = Metrics::of(&[], Predictor::Model);
        assert_eq!((metrics.decisions, metrics.states, metrics.accuracy, metrics.ece), (0, 0, None, None));
        let single = Metrics::of(&[outcome("a", &[1.0, 0.0], 0)], Predictor::Model);
        assert_eq!(single.accuracy, Some(Estimate { value: 1.0, interval: None }));
    }

    #[test]
    fn intervals_contain_the_value_and_do_not_depend_on_order() {
        let list: Vec<_> =
            (0..60).map(|index| (0.5 + f64::from(index) / 121.0, index % 4 != 0 || index > 40)).collect();
        let mut outcomes = tops(&list);
        let metrics = Metrics::of(&outcomes, Predictor::Model);
        let all = [metrics.accuracy, metrics.brier, metrics.nll, metrics.ece, metrics.coverage];
        for Estimate { value, interval } in all.into_iter().flatten() {
            let (low, high) = interval.expect("an interval");
            assert!(low <= value && value <= high && low < high, "{low} {value} {high}");
        }
        // The normal approximation for 49 of 60 gives a half width of 0.098.
        let (low, high) = metrics.accuracy.and_then(|found| found.interval).expect("an interval");
        assert!((high - low - 0.196).abs() < 0.03, "{low} {high}");
        outcomes.reverse();
        assert_eq!(Metrics::of(&outcomes, Predictor::Model), metrics);
    }

    #[test]
    fn questions_of_one_state_are_resampled_together() {
        let outcomes = |states: usize| -> Vec<Outcome> {
            let one = |index: usize| Outcome {
                question: index.to_string(),
                ..outcome(&(index % states).to_string(), &[1.0, 0.0], index % states % 2)
            };
            (0..80).map(one).collect()
        };
        let width = |states| {
            let metrics = Metrics::of(&outcomes(states), Predictor::Model);
            let (low, high) = metrics.accuracy.and_then(|found| found.interval).expect("an interval");
            high - low
        };
        assert!(width(8) > 2.5 * width(80), "{} {}", width(8), width(80));
    }
}
