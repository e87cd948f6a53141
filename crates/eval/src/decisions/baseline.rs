//! Prior probabilities of options, by the gold answers of other questions.

use std::collections::BTreeMap;

use super::dataset::DatasetState;
use super::question::{DatasetQuestion, QuestionKind};

/// Sets the prior of each question. Choices have the same options if they have the same set of names.
pub(super) fn set_priors(states: &mut [DatasetState]) {
    let mut totals: BTreeMap<(QuestionKind, Vec<String>), (usize, Vec<f64>)> = BTreeMap::new();
    for question in states.iter().flat_map(|state| &state.questions) {
        let order = order(question);
        let (questions, sums) =
            totals.entry(key(question, &order)).or_insert_with(|| (0, vec![0.0; order.len()]));
        *questions += 1;
        sums.iter_mut().zip(&order).for_each(|(sum, &option)| *sum += question.gold[option]);
    }
    for question in states.iter_mut().flat_map(|state| &mut state.questions) {
        let order = order(question);
        let (questions, sums) = &totals[&key(question, &order)];
        let total = (questions - 1 + order.len()) as f64;
        let mut prior = vec![0.0; order.len()];
        for (&option, sum) in order.iter().zip(sums) {
            prior[option] = (sum - question.gold[option] + 1.0) / total;
        }
        question.prior = prior;
    }
}

/// Returns the indices of the options in an order that does not depend on the question's order. The
/// order of levels is part of their meaning, so it is kept.
fn order(question: &DatasetQuestion) -> Vec<usize> {
    let mut order: Vec<usize> = (0..question.options.len()).collect();
    if question.kind == QuestionKind::Choice {
        order.sort_by_key(|&option| &question.options[option]);
    }
    order
}

fn key(question: &DatasetQuestion, order: &[usize]) -> (QuestionKind, Vec<String>) {
    (question.kind, order.iter().map(|&option| question.options[option].clone()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::decisions::Dataset;

    fn priors(questions: &[(Value, Value)]) -> Vec<Vec<f64>> {
        let line = |(index, (question, gold)): (usize, &(Value, Value))| {
            json!({"id": index.to_string(), "state": "", "questions": {"q": question}, "gold": {"q": gold}})
                .to_string()
        };
        let text: Vec<String> = questions.iter().enumerate().map(line).collect();
        let dataset = Dataset::parse(text.join("\n").as_bytes()).expect("a dataset");
        dataset.decisions().map(|(_, question)| question.prior.clone()).collect()
    }

    #[test]
    fn counts_the_other_questions_with_the_same_options_by_name() {
        let choice = |criteria: Value| json!({"type": "choice", "criteria": criteria});
        let found = priors(&[
            (choice(json!({"a": null, "b": null})), json!("a")),
            (choice(json!({"b": null, "a": "described"})), json!("a")),
            (choice(json!({"a": null, "b": null})), json!("b")),
            (choice(json!({"a": null, "c": null})), json!("c")),
        ]);
        // The others of the first question: a, b. Each is counted once more, so 2 of 4.
        assert_eq!(found, [vec![0.5, 0.5], vec![0.5, 0.5], vec![0.75, 0.25], vec![0.5, 0.5]]);
    }

    #[test]
    fn levels_in_another_order_are_other_options() {
        let score = |levels: [&str; 2]| json!({"type": "score", "criteria": levels});
        let found = priors(&[
            (score(["a", "b"]), json!(0)),
            (score(["b", "a"]), json!(0)),
            (score(["a", "b"]), json!([0.5, 0.5])),
        ]);
        assert_eq!(found, [vec![0.5, 0.5], vec![0.5, 0.5], vec![2.0 / 3.0, 1.0 / 3.0]]);
    }
}
