//! Outcomes for tests.

use super::{Outcome, QuestionKind};

/// Returns the outcome of the question `q`, whose gold answer is the option `gold`.
pub(super) fn outcome(id: &str, probabilities: &[f64], gold: usize) -> Outcome {
    let options = probabilities.len();
    Outcome {
        id: id.to_owned(),
        question: "q".to_owned(),
        source: None,
        kind: if options == 2 { QuestionKind::Noul } else { QuestionKind::Choice },
        options,
        probabilities: probabilities.to_vec(),
        gold: (0..options).map(|option| f64::from(option == gold)).collect(),
        prior: vec![1.0 / options as f64; options],
        mass: None,
        error: None,
        flipped: None,
        asked: None,
    }
}

/// Returns outcomes of yes-or-no questions: for each pair the probability of the likelier option, and
/// whether it is right.
pub(super) fn tops(tops: &[(f64, bool)]) -> Vec<Outcome> {
    let one = |(index, &(top, right)): (usize, &(f64, bool))| {
        outcome(&format!("{index:03}"), &[top, 1.0 - top], usize::from(!right))
    };
    tops.iter().enumerate().map(one).collect()
}
