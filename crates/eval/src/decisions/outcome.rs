use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::dataset::{Dataset, DatasetState};
use super::error::{OutcomeError, OutcomeProblem, quoted};
use super::question::{DatasetQuestion, QuestionKind};

/// A model's answer to a question, with the gold answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the state.
    pub id: String,
    /// Name of the question.
    pub question: String,
    /// Origin of the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Type of the question.
    pub kind: QuestionKind,
    /// Number of options.
    pub options: usize,
    /// Probability of each option by the model. The sum is 1.
    pub probabilities: Vec<f64>,
    /// Gold probability of each option. The sum is 1.
    pub gold: Vec<f64>,
    /// Prior probability of each option. See [`DatasetQuestion::prior`].
    pub prior: Vec<f64>,
    /// Probability that the model's answer is any of the options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mass: Option<f64>,
    /// Bound on the error of the probabilities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// True if the likeliest option changed when the options were asked in reverse. `None` if they were
    /// not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flipped: Option<bool>,
    /// The model and the settings with which the question was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Value>,
}

impl Outcome {
    /// Creates the outcome of a question of a dataset, without mass, error and flip.
    pub fn new(state: &DatasetState, question: &DatasetQuestion, probabilities: Vec<f64>) -> Self {
        Self {
            id: state.id.clone(),
            question: question.name.clone(),
            source: state.source.clone(),
            kind: question.kind,
            options: question.options.len(),
            probabilities,
            gold: question.gold.clone(),
            prior: question.prior.clone(),
            mass: None,
            error: None,
            flipped: None,
            asked: None,
        }
    }

    /// Returns the index of the likeliest option, the first of several.
    pub fn best(&self) -> usize {
        first_max(&self.probabilities)
    }

    /// Reports whether the likeliest option is also the likeliest one by the gold answer.
    pub fn is_right(&self) -> bool {
        self.best() == first_max(&self.gold)
    }

    /// Formats the outcome as a line of a journal, with a line feed at the end.
    pub fn line(&self) -> String {
        // An outcome has no map keys, so serialization cannot fail.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    /// Checks that each list has a probability for each option.
    fn check(&self) -> Result<(), OutcomeProblem> {
        let lists = [("probabilities", &self.probabilities), ("gold", &self.gold), ("prior", &self.prior)];
        let is_law = |law: &[f64]| {
            !law.is_empty() && law.len() == self.options && law.iter().all(|p| (0.0..=1.0).contains(p))
        };
        match lists.into_iter().find(|(_, law)| !is_law(law)) {
            Some((list, _)) => Err(OutcomeProblem::Law { list, options: self.options }),
            None => Ok(()),
        }
    }
}

/// Returns the index of the maximum, the first of several. Returns 0 if there are no values.
pub(super) fn first_max(values: &[f64]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best
}

/// Contents of a journal of outcomes, with one JSON object per line. A line is appended for each
/// outcome, and lines never change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutcomeJournal {
    /// Outcomes in the order of the lines.
    pub outcomes: Vec<Outcome>,
    /// Length of the complete lines, in bytes. An incomplete line may follow, which an interruption has
    /// left. The caller must truncate the file to this length before appending.
    pub len: usize,
}

impl OutcomeJournal {
    /// Parses a journal. Ignores an incomplete last line.
    ///
    /// # Errors
    /// Returns an error if a complete line is not an outcome, or repeats the outcome of a question.
    pub fn parse(text: &[u8]) -> Result<Self, OutcomeError> {
        let (mut journal, mut done) = (Self::default(), HashSet::new());
        let whole = text.split_inclusive(|&byte| byte == b'\n').take_while(|line| line.ends_with(b"\n"));
        for (index, bytes) in whole.enumerate() {
            let fault = |problem| OutcomeError::at_line(index + 1, problem);
            let outcome: Outcome = formwork_json::from_slice(bytes)
                .map_err(|error| fault(OutcomeProblem::NoOutcome { reason: error.problem() }))?;
            outcome.check().map_err(fault)?;
            if !done.insert((outcome.id.clone(), outcome.question.clone())) {
                let (id, question) = (quoted(&outcome.id), quoted(&outcome.question));
                return Err(fault(OutcomeProblem::Twice { id, question }));
            }
            journal.outcomes.push(outcome);
            journal.len += bytes.len();
        }
        Ok(journal)
    }

    /// Parses a journal, and checks that its outcomes belong to a dataset.
    ///
    /// # Errors
    /// Also returns an error if the dataset lacks a question of the journal, or has another gold answer.
    pub fn parse_for(dataset: &Dataset, text: &[u8]) -> Result<Self, OutcomeError> {
        let journal = Self::parse(text)?;
        let key =
            |state: &DatasetState, question: &DatasetQuestion| (state.id.clone(), question.name.clone());
        let golds: HashMap<_, _> =
            dataset.decisions().map(|(state, question)| (key(state, question), &question.gold)).collect();
        for (index, outcome) in journal.outcomes.iter().enumerate() {
            let gold = golds.get(&(outcome.id.clone(), outcome.question.clone()));
            // Reading a number back may change its last bit.
            let is_same = |gold: &Vec<f64>| {
                let mut pairs = gold.iter().zip(&outcome.gold);
                gold.len() == outcome.gold.len() && pairs.all(|(one, other)| (one - other).abs() < 1e-9)
            };
            if !gold.is_some_and(|gold| is_same(gold)) {
                let (id, question) = (quoted(&outcome.id), quoted(&outcome.question));
                return Err(OutcomeError::at_line(index + 1, OutcomeProblem::NotInDataset { id, question }));
            }
        }
        Ok(journal)
    }

    /// Checks that all questions were asked in the same way.
    ///
    /// # Errors
    /// Returns an error for the first outcome of another model or with other settings.
    pub fn check_asked(&self, asked: &Value) -> Result<(), OutcomeError> {
        let other = |(_, outcome): &(usize, &Outcome)| outcome.asked.as_ref() != Some(asked);
        match self.outcomes.iter().enumerate().find(other) {
            Some((index, outcome)) => {
                let given = outcome.asked.as_ref().map_or_else(|| "unknown".to_owned(), Value::to_string);
                Err(OutcomeError::at_line(index + 1, OutcomeProblem::Asked { given }))
            }
            None => Ok(()),
        }
    }

    /// Returns the names of the states and questions that have outcomes.
    pub fn done(&self) -> HashSet<(String, String)> {
        let key = |outcome: &Outcome| (outcome.id.clone(), outcome.question.clone());
        self.outcomes.iter().map(key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::samples::outcome;

    #[test]
    fn resumes_after_the_last_complete_line() {
        let outcomes = [
            outcome("a", &[0.25, 0.75], 1),
            Outcome { mass: Some(0.5), error: Some(0.0), flipped: Some(true), ..outcome("b", &[1.0], 0) },
        ];
        let whole: String = outcomes.iter().map(Outcome::line).collect();
        assert_eq!(whole.lines().count(), 2);
        for torn in ["", "{\"id\": \"c", outcome("c", &[1.0], 0).line().trim_end()] {
            let journal = OutcomeJournal::parse(format!("{whole}{torn}").as_bytes()).expect("a journal");
            assert_eq!((&*journal.outcomes, journal.len), (&outcomes[..], whole.len()));
            assert!(journal.done().contains(&("b".to_owned(), "q".to_owned())));
        }
        assert_eq!(OutcomeJournal::parse(b"").expect("a journal"), OutcomeJournal::default());
    }

    #[test]
    fn another_model_or_setting_needs_another_journal() {
        let asked = serde_json::json!({ "model": "m", "settings": { "orders": 2 } });
        let same = Outcome { asked: Some(asked.clone()), ..outcome("a", &[1.0], 0) };
        let journal = |outcomes: &[&Outcome]| {
            let text: String = outcomes.iter().map(|outcome| outcome.line()).collect();
            OutcomeJournal::parse(text.as_bytes()).expect("a journal")
        };
        assert!(journal(&[&same]).check_asked(&asked).is_ok());
        let other = Outcome { asked: Some(serde_json::json!({ "model": "n" })), ..outcome("b", &[1.0], 0) };
        for (other, given) in [(other, "{\"model\":\"n\"}"), (outcome("b", &[1.0], 0), "unknown")] {
            let error = journal(&[&same, &other]).check_asked(&asked).expect_err("another way").to_string();
            assert!(error.starts_with("line 2: ") && error.contains(given), "{error}");
        }
    }

    #[test]
    fn rejects_lines_that_are_no_outcomes() {
        let good = outcome("a", &[0.25, 0.75], 1);
        let after = |line: &str| {
            OutcomeJournal::parse(format!("{}{line}", good.line()).as_bytes())
                .expect_err("an error")
                .to_string()
        };
        assert_eq!(after(&good.line()), "line 2: duplicate outcome of question \"q\" about state \"a\"");
        assert_eq!(after("{}\n"), "line 2: not an outcome: missing field `id`");
        let short = Outcome { probabilities: vec![1.0], ..outcome("b", &[0.5, 0.5], 0) };
        assert_eq!(after(&short.line()), "line 2: probabilities: expected 2 probabilities from 0 to 1");
        let large = Outcome { prior: vec![2.0, 0.0], ..outcome("b", &[0.5, 0.5], 0) };
        assert_eq!(after(&large.line()), "line 2: prior: expected 2 probabilities from 0 to 1");
    }

    #[test]
    fn a_journal_of_another_dataset_is_an_error() {
        let dataset = |gold: &str| {
            let text = format!(
                r#"{{"id": "a", "source": "s", "state": "", "gold": {{"q": {gold}}},
                "questions": {{"q": {{"type": "noul", "instructions": "?"}}}}}}"#
            );
            Dataset::parse(text.replace('\n', "").as_bytes()).expect("a dataset")
        };
        let asked = dataset("{\"true\": 0.3, \"false\": 0.7}");
        let (state, question) = asked.decisions().next().expect("a question");
        let outcome = Outcome::new(state, question, vec![0.5, 0.5]);
        assert_eq!((outcome.source.as_deref(), outcome.options, outcome.best()), (Some("s"), 2, 0));
        let text = outcome.line();
        assert!(OutcomeJournal::parse_for(&asked, text.as_bytes()).is_ok());
        let error = OutcomeJournal::parse_for(&dataset("true"), text.as_bytes()).expect_err("another answer");
        let expected = "the dataset has no question \"q\" about state \"a\" with this gold answer";
        assert_eq!(error.to_string(), format!("line 1: {expected}"));
    }

    #[test]
    fn ties_go_to_the_first_option() {
        assert_eq!(first_max(&[0.2, 0.4, 0.4]), 1);
        assert_eq!(first_max(&[]), 0);
        assert!(outcome("a", &[0.5, 0.5], 0).is_right());
        assert!(!outcome("a", &[0.5, 0.5], 1).is_right());
    }
}
