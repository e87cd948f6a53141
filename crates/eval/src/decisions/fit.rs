use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::outcome::Outcome;

/// Range of fitted temperatures.
pub const TEMPERATURES: RangeInclusive<f64> = 0.05..=50.0;

/// Minimum number of outcomes to which a temperature for a number of options is fitted.
pub const MIN_FITTED: usize = 20;

/// Temperatures that minimise the cross-entropy of outcomes (C. Guo et al., 2017).
///
/// A temperature T maps probabilities p to p^(1/T), divided by their sum. Its JSON is a calibration
/// file: `{"temperature": 1.3, "by_options": {"2": 1.2}}`.
///
/// # Limits
/// The temperature is fitted to the final probabilities of an outcome, and Formwork applies it to them. A
/// server that applies it to each order of the options has other results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// Temperature fitted to all outcomes.
    pub temperature: f64,
    /// Temperatures by the number of options.
    #[serde(default)]
    pub by_options: BTreeMap<usize, f64>,
}

impl Fitted {
    /// Fits temperatures within [`TEMPERATURES`], rounded to four decimals.
    ///
    /// A number of options with fewer than [`MIN_FITTED`] outcomes is pooled with the nearest number. If
    /// all outcomes together are fewer, `by_options` is empty. The temperature is 1 if it has no effect,
    /// for example if there are no outcomes.
    ///
    /// ```
    /// use formwork_eval::decisions::Fitted;
    /// assert_eq!(serde_json::to_string(&Fitted::of(&[]))?, r#"{"temperature":1.0,"by_options":{}}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Self {
        // A single option has probability 1 at any temperature.
        let outcomes: Vec<_> = outcomes.into_iter().filter(|outcome| outcome.options > 1).collect();
        let mut pools: BTreeMap<usize, Vec<&Outcome>> = BTreeMap::new();
        for outcome in &outcomes {
            pools.entry(outcome.options).or_default().push(outcome);
        }
        let pools = pools.into_iter().map(|(number, outcomes)| Pool { numbers: vec![number], outcomes });
        let mut by_options = BTreeMap::new();
        for Pool { numbers, outcomes } in merge_small(pools.collect()) {
            if outcomes.len() >= MIN_FITTED {
                let temperature = fit(&outcomes);
                by_options.extend(numbers.into_iter().map(|number| (number, temperature)));
            }
        }
        Self { temperature: fit(&outcomes), by_options }
    }

    /// Returns the temperature for a number of options. A number without an entry uses the entry of the
    /// next smaller number, or `temperature` if there is none. Servers do the same.
    pub fn temperature_of(&self, options: usize) -> f64 {
        self.by_options.range(..=options).next_back().map_or(self.temperature, |(_, known)| *known)
    }
}

/// Applies the temperature for the outcome's number of options. The result has no bound on the error.
pub fn applied(outcome: &Outcome, fitted: &Fitted) -> Outcome {
    let temperature = fitted.temperature_of(outcome.options);
    let probabilities = at_temperature(&outcome.probabilities, temperature);
    Outcome { probabilities, error: None, ..outcome.clone() }
}

fn at_temperature(law: &[f64], temperature: f64) -> Vec<f64> {
    let lns: Vec<f64> = law.iter().map(|p| p.ln()).collect();
    let top = lns.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !top.is_finite() {
        return law.to_vec();
    }
    let weights: Vec<f64> = lns.iter().map(|ln| ((ln - top) / temperature).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// Outcomes of neighbouring numbers of options, which share a temperature.
struct Pool<'a> {
    /// Numbers of options, ascending.
    numbers: Vec<usize>,
    outcomes: Vec<&'a Outcome>,
}

/// Merges the smallest pool with the nearest one until all have [`MIN_FITTED`] outcomes, or one is left.
fn merge_small(mut pools: Vec<Pool<'_>>) -> Vec<Pool<'_>> {
    while pools.len() > 1 {
        let sizes = pools.iter().map(|pool| pool.outcomes.len()).enumerate();
        let Some((small, _)) = sizes.filter(|(_, size)| *size < MIN_FITTED).min_by_key(|(_, size)| *size)
        else {
            break;
        };
        // Distance between the pools `left` and `left + 1`. `None` if one does not exist.
        let distance = |left: usize| {
            let (left, right) = (pools.get(left)?, pools.get(left + 1)?);
            Some(right.numbers.first()? - left.numbers.last()?)
        };
        let before = small.checked_sub(1).and_then(distance);
        let left = match (before, distance(small)) {
            (Some(before), Some(after)) if before > after => small,
            (Some(_), _) => small - 1,
            (None, _) => small,
        };
        let Pool { numbers, outcomes } = pools.remove(left + 1);
        pools[left].numbers.extend(numbers);
        pools[left].outcomes.extend(outcomes);
    }
    pools
}

/// Returns the temperature that minimises the cross-entropy.
///
/// The cross-entropy is convex in u = 1/T, so bisection finds the root of its derivative.
fn fit(outcomes: &[&Outcome]) -> f64 {
    let slope = |u: f64| outcomes.iter().map(|outcome| slope(outcome, u)).sum::<f64>();
    let (mut low, mut high) = (1.0 / TEMPERATURES.end(), 1.0 / TEMPERATURES.start());
    let (at_low, at_high) = (slope(low), slope(high));
    let rounding = 1e-12 * outcomes.len() as f64;
    if at_low.abs() <= rounding && at_high.abs() <= rounding {
        return 1.0;
    }
    if at_low >= 0.0 {
        return *TEMPERATURES.end();
    }
    if at_high <= 0.0 {
        return *TEMPERATURES.start();
    }
    // Each step halves ln(high / low), which is 6.9 at first.
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        let end = if slope(middle) < 0.0 { &mut low } else { &mut high };
        *end = middle;
    }
    (1e4 / (low * high).sqrt()).round() / 1e4
}

/// Returns the derivative of an outcome's cross-entropy by u = 1/T: the expected ln p of the tempered
/// probabilities, less that of the gold answer. Options of probability 0 keep it at any temperature.
fn slope(outcome: &Outcome, u: f64) -> f64 {
    let possible = || outcome.probabilities.iter().zip(&outcome.gold).filter(|(p, _)| **p > 0.0);
    let top = possible().map(|(p, _)| p.ln()).fold(f64::NEG_INFINITY, f64::max);
    let (mut total, mut expected, mut gold_sum, mut gold_expected) = (0.0, 0.0, 0.0, 0.0);
    for (p, gold) in possible() {
        let ln = p.ln() - top;
        let weight = (u * ln).exp();
        total += weight;
        expected += weight * ln;
        gold_sum += gold;
        gold_expected += gold * ln;
    }
    if total > 0.0 { gold_sum * expected / total - gold_expected } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::samples::outcome;
    use crate::decisions::{Metrics, Predictor};

    /// Outcomes whose gold distribution is that of the model at a temperature.
    fn tempered(options: usize, count: usize, temperature: f64) -> Vec<Outcome> {
        let one = |index: usize| {
            let weights: Vec<f64> =
                (0..options).map(|option| 1.0 + ((index + 3) * (option + 5) % 11) as f64).collect();
            let total: f64 = weights.iter().sum();
            let law: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
            let gold = at_temperature(&law, temperature);
            Outcome { gold, ..outcome(&format!("{options}-{index}"), &law, 0) }
        };
        (0..count).map(one).collect()
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found}, expected {expected}");
    }

    #[test]
    fn recovers_a_known_temperature() {
        for temperature in [0.25, 1.0, 1.7, 12.0] {
            near(Fitted::of(&tempered(4, 30, temperature)).temperature, temperature);
        }
    }

    #[test]
    fn recovers_the_temperature_of_overconfident_answers() {
        // The model says 0.9 and is right in 3 of 4 cases: T = ln 9 / ln 3 = 2.
        let outcomes: Vec<_> = (0..40)
            .map(|index| outcome(&index.to_string(), &[0.9, 0.1], usize::from(index % 4 == 0)))
            .collect();
        let fitted = Fitted::of(&outcomes);
        assert_eq!(fitted, Fitted { temperature: 2.0, by_options: BTreeMap::from([(2, 2.0)]) });
        let after: Vec<_> = outcomes.iter().map(|outcome| applied(outcome, &fitted)).collect();
        assert!((after[0].probabilities[0] - 0.75).abs() < 1e-12);
        let nll = |outcomes: &[Outcome]| Metrics::of(outcomes, Predictor::Model).nll.expect("a value").value;
        let entropy = -0.75 * 0.75_f64.ln() - 0.25 * 0.25_f64.ln();
        assert!((nll(&after) - entropy).abs() < 1e-12 && nll(&outcomes) > entropy);
    }

    #[test]
    fn temperatures_stay_in_range() {
        let right: Vec<_> = (0..20).map(|index| outcome(&index.to_string(), &[0.6, 0.4], 0)).collect();
        near(Fitted::of(&right).temperature, 0.05);
        let wrong: Vec<_> = (0..20).map(|index| outcome(&index.to_string(), &[0.6, 0.4], 1)).collect();
        near(Fitted::of(&wrong).temperature, 50.0);
    }

    #[test]
    fn a_temperature_without_effect_is_1() {
        let third = 1.0 / 3.0;
        let flat: Vec<_> = (0..30).map(|index| outcome(&index.to_string(), &[third; 3], index % 3)).collect();
        let sure: Vec<_> = (0..30).map(|index| outcome(&index.to_string(), &[1.0, 0.0], index % 2)).collect();
        let single: Vec<_> = (0..30).map(|index| outcome(&index.to_string(), &[1.0], 0)).collect();
        for outcomes in [flat, sure, single] {
            let fitted = Fitted::of(&outcomes);
            near(fitted.temperature, 1.0);
            let after = applied(&outcomes[0], &fitted).probabilities;
            let pairs = after.iter().zip(&outcomes[0].probabilities);
            assert!(pairs.into_iter().all(|(one, other)| (one - other).abs() < 1e-15));
        }
    }

    #[test]
    fn small_numbers_of_options_are_pooled_with_the_nearest() {
        let pools = |counts: &[(usize, usize)]| -> Vec<Vec<usize>> {
            let outcomes: Vec<Vec<Outcome>> =
                counts.iter().map(|&(options, count)| tempered(options, count, 1.0)).collect();
            let pools = counts.iter().zip(&outcomes).map(|(&(options, _), outcomes)| Pool {
                numbers: vec![options],
                outcomes: outcomes.iter().collect(),
            });
            merge_small(pools.collect()).into_iter().map(|pool| pool.numbers).collect()
        };
        assert_eq!(pools(&[(2, 20), (4, 30), (5, 2), (10, 50)]), [vec![2], vec![4, 5], vec![10]]);
        assert_eq!(pools(&[(2, 20), (4, 2), (6, 20)]), [vec![2, 4], vec![6]]);
        assert_eq!(pools(&[(2, 20), (8, 15), (9, 2), (77, 4)]), [vec![2], vec![8, 9, 77]]);
        assert_eq!(pools(&[(2, 1), (3, 1)]), [vec![2, 3]]);
        assert!(pools(&[]).is_empty());
    }

    #[test]
    fn each_number_of_options_has_its_temperature() {
        let mut outcomes = tempered(2, 40, 2.0);
        outcomes.extend(tempered(5, 40, 0.5));
        let fitted = Fitted::of(&outcomes);
        assert_eq!(fitted.by_options, BTreeMap::from([(2, 2.0), (5, 0.5)]));
        assert!(0.5 < fitted.temperature && fitted.temperature < 2.0);
        let found: Vec<f64> = [1, 2, 4, 5, 9].map(|options| fitted.temperature_of(options)).to_vec();
        assert_eq!(found, [fitted.temperature, 2.0, 2.0, 0.5, 0.5]);
        assert!(Fitted::of(&outcomes[..10]).by_options.is_empty());
        outcomes.reverse();
        assert_eq!(Fitted::of(&outcomes), fitted);
    }

    #[test]
    fn the_calibration_file_is_read_back() {
        let fitted = Fitted { temperature: 1.3, by_options: BTreeMap::from([(2, 1.2)]) };
        let text = serde_json::to_string(&fitted).expect("JSON");
        assert_eq!(text, r#"{"temperature":1.3,"by_options":{"2":1.2}}"#);
        assert_eq!(serde_json::from_str::<Fitted>(&text).expect("temperatures"), fitted);
    }

    #[test]
    fn applying_drops_the_error_bound_and_keeps_zeros() {
        let given = Outcome { error: Some(1e-4), mass: Some(0.5), ..outcome("a", &[0.8, 0.2, 0.0], 0) };
        let after = applied(&given, &Fitted { temperature: 2.0, by_options: BTreeMap::new() });
        let expected = [2.0 / 3.0, 1.0 / 3.0, 0.0];
        assert!(after.probabilities.iter().zip(expected).all(|(p, expected)| (p - expected).abs() < 1e-12));
        assert_eq!((after.error, after.mass), (None, Some(0.5)));
    }
}
