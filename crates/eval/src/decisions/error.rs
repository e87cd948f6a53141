use std::fmt;

use serde_json::Value;
use thiserror::Error;

/// Error in the text of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetError {
    /// Line, from 1. `None` if the error is about the whole dataset.
    line: Option<usize>,
    fault: Fault,
}

impl DatasetError {
    pub(super) const fn at_line(line: usize, fault: Fault) -> Self {
        Self { line: Some(line), fault }
    }

    pub(super) const fn of_dataset(problem: Problem) -> Self {
        Self { line: None, fault: Fault { place: String::new(), problem } }
    }

    /// Returns the number of the line, from 1. Returns `None` if the error is about the whole dataset.
    pub const fn line(&self) -> Option<usize> {
        self.line
    }

    /// Returns the place in the line, such as `gold.team`. Empty if the error is about the whole line.
    pub fn place(&self) -> &str {
        &self.fault.place
    }
}

impl fmt::Display for DatasetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { place, problem } = &self.fault;
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        match place.as_str() {
            "" => write!(f, "{problem}"),
            place => write!(f, "{place}: {problem}"),
        }
    }
}

impl std::error::Error for DatasetError {}

/// A problem and its place in a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fault {
    place: String,
    problem: Problem,
}

impl Fault {
    pub(super) fn at(place: impl Into<String>, problem: Problem) -> Self {
        Self { place: place.into(), problem }
    }

    /// Reports that the value at `place` has the wrong type.
    pub(super) fn expected(place: impl Into<String>, expected: &'static str, given: &Value) -> Self {
        Self::at(place, Problem::Expected { expected, given: kind(given) })
    }
}

#[derive(Clone, Debug, PartialEq, Error)]
pub(super) enum Problem {
    #[error("no lines; expected one JSON object per line")]
    NoLines,
    #[error("no question has a gold answer")]
    NoGold,
    #[error("{given} bytes exceed the limit of {limit} bytes per line")]
    TooLong { given: usize, limit: usize },
    #[error("{problem} at column {column}")]
    Json { column: usize, problem: String },
    #[error("missing member `{member}`")]
    Missing { member: &'static str },
    #[error("expected {expected}, not {given}")]
    Expected { expected: &'static str, given: &'static str },
    #[error("expected a text that is not empty")]
    EmptyText,
    #[error("duplicate id {id}, which is also the id of line {line}")]
    SameId { id: String, line: usize },
    #[error("unknown type {given}; expected one of noul, choice, score")]
    UnknownType { given: String },
    #[error("unknown member {given}; expected one of {expected}")]
    UnknownMember { given: String, expected: &'static str },
    #[error("expected instructions or a criterion")]
    Bare,
    #[error("expected 1 to {limit} {what}, not {given}")]
    Count { given: usize, limit: usize, what: &'static str },
    #[error("there is no such question")]
    NoQuestion,
    #[error("{given} is not an option")]
    NotAnOption { given: String },
    #[error("{given} could mean several levels; expected an array of probabilities")]
    Ambiguous { given: String },
    #[error("level {given} is out of range; expected 0 to {last}")]
    Level { given: String, last: usize },
    #[error("expected {options} probabilities, not {given}")]
    Length { given: usize, options: usize },
    #[error("{given} is not a probability; expected a number from 0 to 1")]
    NoProbability { given: f64 },
    #[error("the probabilities sum to {given}; expected 1")]
    Sum { given: f64 },
}

/// Error in a journal of outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}")]
pub struct OutcomeError {
    /// Line, from 1.
    line: usize,
    problem: OutcomeProblem,
}

impl OutcomeError {
    pub(super) const fn at_line(line: usize, problem: OutcomeProblem) -> Self {
        Self { line, problem }
    }

    /// Returns the number of the line, from 1.
    pub const fn line(&self) -> usize {
        self.line
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum OutcomeProblem {
    #[error("not an outcome: {reason}")]
    NoOutcome { reason: String },
    #[error("{list}: expected {options} probabilities from 0 to 1")]
    Law { list: &'static str, options: usize },
    #[error("duplicate outcome of question {question} about state {id}")]
    Twice { id: String, question: String },
    #[error("asked of another model or with other settings ({given}); use another file")]
    Asked { given: String },
    #[error("the dataset has no question {question} about state {id} with this gold answer")]
    NotInDataset { id: String, question: String },
}

/// Longest text that an error quotes, in characters.
const QUOTED: usize = 60;

/// Returns a text in quotation marks, shortened if it is long.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{:?}", format!("{}…", &text[..end])),
        None => format!("{text:?}"),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_line_place_and_problem() {
        let fault = Fault::at("gold.team", Problem::NotAnOption { given: quoted("x") });
        assert_eq!(DatasetError::at_line(3, fault).to_string(), "line 3: gold.team: \"x\" is not an option");
        let error = DatasetError::at_line(2, Fault::expected("", "an object", &Value::Null));
        assert_eq!(error.to_string(), "line 2: expected an object, not null");
        let error = DatasetError::of_dataset(Problem::NoGold);
        assert_eq!((error.to_string().as_str(), error.line()), ("no question has a gold answer", None));
    }

    #[test]
    fn long_texts_are_quoted_in_part() {
        assert_eq!(quoted("a\n"), r#""a\n""#);
        assert_eq!(quoted(&"é".repeat(61)), format!("\"{}…\"", "é".repeat(60)));
    }
}
