use std::collections::HashMap;

use serde_json::{Map, Value};

use super::baseline::set_priors;
use super::error::{DatasetError, Fault, Problem, quoted};
use super::question::{DatasetQuestion, parse_gold, parse_question};
use super::unique::UniqueKeys;

/// Maximum length of a line, in bytes.
pub const MAX_LINE: usize = 1 << 20;

/// States, questions about them and gold answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// States that have at least one question with a gold answer, in the order of the lines.
    pub states: Vec<DatasetState>,
    /// Number of questions that were skipped because they have no gold answer.
    pub skipped: usize,
}

/// A state and the questions about it that have gold answers.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetState {
    /// Name of the state. Unique in the dataset.
    pub id: String,
    /// Origin of the state, by which a report groups outcomes. `None` if the line names none.
    pub source: Option<String>,
    /// The state: a string, an object or an array.
    pub state: Value,
    /// The questions in the order of the line, at least one.
    pub questions: Vec<DatasetQuestion>,
    /// Members of the line that this crate does not use, such as `licence`.
    pub others: Map<String, Value>,
}

impl Dataset {
    /// Parses a dataset of one JSON object per line. Blank lines are ignored.
    ///
    /// A line has the members `id`, `state`, `questions` and `gold`, and may have others. Questions are
    /// in System One form. A gold answer is `true` or `false`, an option or the index of a level. It may
    /// also be a distribution: an array of probabilities, or an object from options to probabilities.
    ///
    /// ```
    /// use formwork_eval::decisions::Dataset;
    /// let line = r#"{"id": "a", "state": "It rains.", "questions":
    ///     {"wet": {"type": "noul", "instructions": "Is it wet?"}}, "gold": {"wet": true}}"#;
    /// let dataset = Dataset::parse(line.replace('\n', " ").as_bytes())?;
    /// let (_, question) = dataset.decisions().next().expect("a question");
    /// assert_eq!((&*question.name, &*question.gold), ("wet", &[1.0, 0.0][..]));
    /// # Ok::<(), formwork_eval::decisions::DatasetError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if:
    /// - a line exceeds [`MAX_LINE`], is not JSON or repeats a key,
    /// - a member is missing or has the wrong type,
    /// - a question is not in System One form, or exceeds the limits on options,
    /// - a gold answer has no question, or does not answer it,
    /// - two lines have the same `id`,
    /// - there is no question with a gold answer.
    pub fn parse(text: &[u8]) -> Result<Self, DatasetError> {
        let mut dataset = Self { states: Vec::new(), skipped: 0 };
        let mut lines = HashMap::new();
        for (index, bytes) in text.split(|&byte| byte == b'\n').enumerate() {
            let line = index + 1;
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            let (state, skipped) = parse_line(bytes).map_err(|fault| DatasetError::at_line(line, fault))?;
            if let Some(earlier) = lines.insert(state.id.clone(), line) {
                let problem = Problem::SameId { id: quoted(&state.id), line: earlier };
                return Err(DatasetError::at_line(line, Fault::at("id", problem)));
            }
            dataset.skipped += skipped;
            if !state.questions.is_empty() {
                dataset.states.push(state);
            }
        }
        match (lines.is_empty(), dataset.states.is_empty()) {
            (true, _) => return Err(DatasetError::of_dataset(Problem::NoLines)),
            (_, true) => return Err(DatasetError::of_dataset(Problem::NoGold)),
            _ => {}
        }
        set_priors(&mut dataset.states);
        Ok(dataset)
    }

    /// Returns each question with its state, in the order of the dataset.
    pub fn decisions(&self) -> impl Iterator<Item = (&DatasetState, &DatasetQuestion)> {
        self.states.iter().flat_map(|state| state.questions.iter().map(move |question| (state, question)))
    }
}

/// Parses a line. Also returns the number of skipped questions.
fn parse_line(bytes: &[u8]) -> Result<(DatasetState, usize), Fault> {
    if bytes.len() > MAX_LINE {
        return Err(Fault::at("", Problem::TooLong { given: bytes.len(), limit: MAX_LINE }));
    }
    let UniqueKeys(value) = formwork_json::from_slice(bytes).map_err(|error| {
        let problem = Problem::Json { column: error.place().1, problem: error.problem() };
        Fault::at("", problem)
    })?;
    let Value::Object(mut members) = value else {
        return Err(Fault::expected("", "an object", &value));
    };
    let id = match take(&mut members, "id")? {
        Value::String(id) if id.trim().is_empty() => return Err(Fault::at("id", Problem::EmptyText)),
        Value::String(id) => id,
        other => return Err(Fault::expected("id", "a string", &other)),
    };
    let source = match members.shift_remove("source") {
        None | Some(Value::Null) => None,
        Some(Value::String(source)) => Some(source),
        Some(other) => return Err(Fault::expected("source", "a string", &other)),
    };
    let state = match take(&mut members, "state")? {
        state @ (Value::String(_) | Value::Object(_) | Value::Array(_)) => state,
        other => return Err(Fault::expected("state", "a string, an object or an array", &other)),
    };
    let questions = match take(&mut members, "questions")? {
        Value::Object(questions) => questions,
        other => return Err(Fault::expected("questions", "an object", &other)),
    };
    let gold = match members.shift_remove("gold") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(gold)) => gold,
        Some(other) => return Err(Fault::expected("gold", "an object", &other)),
    };
    let (questions, skipped) = parse_questions(questions, gold)?;
    Ok((DatasetState { id, source, state, questions, others: members }, skipped))
}

fn take(members: &mut Map<String, Value>, member: &'static str) -> Result<Value, Fault> {
    members.shift_remove(member).ok_or_else(|| Fault::at("", Problem::Missing { member }))
}

/// Parses the questions of a line. Also returns the number of questions without a gold answer.
fn parse_questions(
    questions: Map<String, Value>,
    mut gold: Map<String, Value>,
) -> Result<(Vec<DatasetQuestion>, usize), Fault> {
    let (mut parsed, mut skipped) = (Vec::new(), 0);
    for (name, json) in questions {
        let mut question = parse_question(name, json)?;
        match gold.shift_remove(&question.name) {
            None | Some(Value::Null) => skipped += 1,
            Some(answer) => {
                question.gold = parse_gold(&question, &answer)?;
                parsed.push(question);
            }
        }
    }
    match gold.keys().next() {
        Some(name) => Err(Fault::at(format!("gold.{name}"), Problem::NoQuestion)),
        None => Ok((parsed, skipped)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decisions::QuestionKind;

    fn line(id: &str, gold: &Value) -> String {
        let questions = json!({
            "wet": {"type": "noul", "instructions": "Is it wet?"},
            "team": {"type": "choice", "criteria": {"b": null, "a": "The first team"}},
        });
        json!({"id": id, "licence": "MIT", "source": "s", "state": {"x": 1}, "questions": questions, "gold": gold})
            .to_string()
    }

    fn error(text: &str) -> String {
        Dataset::parse(text.as_bytes()).expect_err("an error").to_string()
    }

    #[test]
    fn keeps_raw_questions_and_parses_them() {
        let text = format!("{}\n\r\n{}", line("1", &json!({"team": "a"})), line("2", &json!({"wet": false})));
        let dataset = Dataset::parse(text.as_bytes()).expect("a dataset");
        assert_eq!((dataset.states.len(), dataset.skipped), (2, 2));
        let state = &dataset.states[0];
        assert_eq!((&*state.id, state.source.as_deref(), &state.state), ("1", Some("s"), &json!({"x": 1})));
        assert_eq!(Value::from(state.others.clone()), json!({"licence": "MIT"}));
        let question = &state.questions[0];
        assert_eq!((&*question.name, question.kind), ("team", QuestionKind::Choice));
        assert_eq!(question.options, ["b", "a"]);
        assert_eq!(question.gold, [0.0, 1.0]);
        assert_eq!(question.json["criteria"].to_string(), r#"{"b":null,"a":"The first team"}"#);
        let names: Vec<_> =
            dataset.decisions().map(|(state, question)| (&*state.id, &*question.name)).collect();
        assert_eq!(names, [("1", "team"), ("2", "wet")]);
    }

    #[test]
    fn skips_states_without_gold_answers() {
        let text = format!("{}\n{}", line("1", &json!({"wet": null})), line("2", &json!({"wet": true})));
        let dataset = Dataset::parse(text.as_bytes()).expect("a dataset");
        assert_eq!((dataset.states.len(), dataset.skipped), (1, 3));
        assert_eq!(error(&line("1", &json!({}))), "no question has a gold answer");
    }

    #[test]
    fn errors_name_line_and_place() {
        let good = line("1", &json!({"wet": true}));
        let after = |text: &str| error(&format!("{good}\n{text}"));
        assert_eq!(after(&line("2", &json!({"team": "x"}))), "line 2: gold.team: \"x\" is not an option");
        assert_eq!(after(&line("2", &json!({"x": 1}))), "line 2: gold.x: there is no such question");
        assert_eq!(after(&good), "line 2: id: duplicate id \"1\", which is also the id of line 1");
        assert_eq!(after("{\"id\":"), "line 2: EOF while parsing a value at column 6");
        assert_eq!(after("[1]"), "line 2: expected an object, not an array");
        assert_eq!(after("{\"id\": \"\"}"), "line 2: id: expected a text that is not empty");
        assert_eq!(after("{\"id\": \"2\"}"), "line 2: missing member `state`");
        assert_eq!(
            after(r#"{"id": "2", "state": 1}"#),
            "line 2: state: expected a string, an object or an array, not a number"
        );
        assert_eq!(after(r#"{"id": "2", "id": "3"}"#), "line 2: the key \"id\" occurs twice at column 16");
        assert_eq!(after(&line("2", &json!([]))), "line 2: gold: expected an object, not an array");
    }

    #[test]
    fn empty_and_hostile_texts_are_errors() {
        assert_eq!(error(""), "no lines; expected one JSON object per line");
        assert_eq!(error("\n \n"), "no lines; expected one JSON object per line");
        let long = format!("\n\"{}\"", "a".repeat(MAX_LINE));
        assert_eq!(error(&long), "line 2: 1048578 bytes exceed the limit of 1048576 bytes per line");
        let deep = error(&"[".repeat(5000));
        assert_eq!(deep, "line 1: nested deeper than the limit of 1024 levels at column 1025");
        assert!(Dataset::parse(b"{\"id\": \"\xff\"}").is_err());
    }
}
