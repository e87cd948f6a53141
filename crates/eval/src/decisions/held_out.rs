use serde::{Deserialize, Serialize};

use super::fit::{Fitted, applied};
use super::metrics::{Metrics, Predictor};
use super::outcome::Outcome;
use crate::settings::seed_of;

/// Seed salt that keeps the split independent of the seeds of trials.
const SPLIT: u64 = 0x5b71;

/// Reports whether a state belongs to the first half of a split. Depends on the name of the state only, so
/// a state stays in its half when a dataset grows.
pub fn is_in_first_half(id: &str) -> bool {
    seed_of(SPLIT, id, 0).is_multiple_of(2)
}

/// Splits outcomes by the halves of their states. The halves of a small dataset may have different sizes.
pub fn split_halves<'a>(
    outcomes: impl IntoIterator<Item = &'a Outcome>,
) -> (Vec<&'a Outcome>, Vec<&'a Outcome>) {
    outcomes.into_iter().partition(|outcome| is_in_first_half(&outcome.id))
}

/// Effect of temperatures on outcomes to which they were not fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Temperatures fitted to the first half.
    pub fitted: Fitted,
    /// Number of outcomes in the first half.
    pub fitted_on: usize,
    /// Metrics of the second half without temperatures.
    pub before: Metrics,
    /// Metrics of the second half at the fitted temperatures.
    pub after: Metrics,
}

impl HeldOut {
    /// Fits temperatures to the first half, and measures the second. Returns `None` if a half is empty.
    pub fn of<'a>(outcomes: impl IntoIterator<Item = &'a Outcome>) -> Option<Self> {
        let (first, second) = split_halves(outcomes);
        if first.is_empty() || second.is_empty() {
            return None;
        }
        let fitted = Fitted::of(first.iter().copied());
        let tempered: Vec<Outcome> = second.iter().map(|outcome| applied(outcome, &fitted)).collect();
        Some(Self {
            fitted,
            fitted_on: first.len(),
            before: Metrics::of(second, Predictor::Model),
            after: Metrics::of(&tempered, Predictor::Model),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::samples::outcome;

    #[test]
    fn the_split_is_stable_and_even() {
        let halves: String =
            (0..16).map(|id| if is_in_first_half(&format!("state-{id}")) { '1' } else { '2' }).collect();
        assert_eq!(halves, "1211221111211221", "another split makes fitted temperatures incomparable");
        let first = (0..1000).filter(|id| is_in_first_half(&id.to_string())).count();
        assert!((440..=560).contains(&first), "{first}");
    }

    #[test]
    fn questions_of_a_state_stay_together() {
        let one = |index: usize| Outcome {
            question: index.to_string(),
            ..outcome(&(index % 20).to_string(), &[0.9, 0.1], 0)
        };
        let outcomes: Vec<_> = (0..60).map(one).collect();
        let (first, second) = split_halves(&outcomes);
        assert_eq!(first.len() + second.len(), 60);
        assert!(first.iter().all(|one| second.iter().all(|other| one.id != other.id)));
        assert_eq!(first.len() % 3, 0);
    }

    #[test]
    fn fitted_temperatures_help_overconfident_answers_of_the_other_half() {
        let one =
            |index: usize| outcome(&index.to_string(), &[0.99, 0.01], usize::from(index.is_multiple_of(4)));
        let outcomes: Vec<_> = (0..200).map(one).collect();
        let held_out = HeldOut::of(&outcomes).expect("two halves");
        assert_eq!(held_out.fitted_on + held_out.before.decisions, 200);
        assert!(held_out.fitted.temperature > 2.0);
        let (before, after) = (held_out.before.nll.expect("a value"), held_out.after.nll.expect("a value"));
        assert!(after.value < before.value);
        assert_eq!(held_out.before.accuracy, held_out.after.accuracy);
        assert_eq!(HeldOut::of(&outcomes[..1]), None);
    }
}
