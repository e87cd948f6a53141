use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::{Fault, Problem, quoted};

/// Maximum number of options of a choice.
pub const MAX_OPTIONS: usize = 255;
/// Maximum number of levels of a score.
pub const MAX_LEVELS: usize = 10;
/// Maximum difference between 1 and the sum of a gold distribution, which may be rounded.
const MAX_ROUNDING: f64 = 0.01;

/// Type of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// True or false.
    Noul,
    /// One of several options.
    Choice,
    /// One of several levels, lowest first.
    Score,
}

impl QuestionKind {
    /// All types.
    pub const ALL: [Self; 3] = [Self::Noul, Self::Choice, Self::Score];

    /// Returns the name in datasets, such as `noul`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Noul => "noul",
            Self::Choice => "choice",
            Self::Score => "score",
        }
    }
}

/// A question with a gold answer.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetQuestion {
    /// Name of the question. Unique among the questions about a state.
    pub name: String,
    /// The question in System One form, as it is in the dataset.
    pub json: Value,
    /// Type of the question.
    pub kind: QuestionKind,
    /// Names of the options in the order of the question: `true` and `false`, the options of a choice, or
    /// the levels of a score.
    pub options: Vec<String>,
    /// Gold probability of each option. The sum is 1.
    pub gold: Vec<f64>,
    /// Probability of each option by the gold answers of the dataset's other questions with the same
    /// options. An option is counted once more than it occurs (rule of succession). The sum is 1.
    ///
    /// Choices have the same options if they have the same set of names. The question's own answer does
    /// not count. In a sample with equally frequent options, this makes the prior worse than uniform.
    pub prior: Vec<f64>,
}

const MEMBERS: &str = "type, instructions, criteria";

/// Parses a question. Its gold answer and prior remain empty.
pub(super) fn parse_question(name: String, json: Value) -> Result<DatasetQuestion, Fault> {
    let place = format!("questions.{name}");
    let Value::Object(members) = &json else {
        return Err(Fault::expected(place, "an object", &json));
    };
    let is_known = |key: &&String| ["type", "instructions", "criteria"].contains(&key.as_str());
    if let Some(given) = members.keys().find(|key| !is_known(key)) {
        let problem = Problem::UnknownMember { given: quoted(given), expected: MEMBERS };
        return Err(Fault::at(place, problem));
    }
    let has_instructions = match members.get("instructions") {
        None => false,
        Some(Value::String(text)) => !text.trim().is_empty(),
        Some(Value::Object(_) | Value::Array(_)) => true,
        Some(other) => {
            let place = format!("{place}.instructions");
            return Err(Fault::expected(place, "a string, an object or an array", other));
        }
    };
    let criteria_place = format!("{place}.criteria");
    let criteria = members.get("criteria");
    let required = || criteria.ok_or_else(|| Fault::at(&*place, Problem::Missing { member: "criteria" }));
    let (kind, options) = match members.get("type") {
        None => return Err(Fault::at(place, Problem::Missing { member: "type" })),
        Some(Value::String(kind)) => match kind.as_str() {
            "noul" => (QuestionKind::Noul, noul_options(criteria, &criteria_place)?),
            "choice" => (QuestionKind::Choice, choice_options(required()?, &criteria_place)?),
            "score" => (QuestionKind::Score, score_levels(required()?, &criteria_place)?),
            other => {
                let problem = Problem::UnknownType { given: quoted(other) };
                return Err(Fault::at(format!("{place}.type"), problem));
            }
        },
        Some(other) => return Err(Fault::expected(format!("{place}.type"), "a string", other)),
    };
    let has_criteria = criteria.and_then(Value::as_object).is_some_and(|criteria| !criteria.is_empty());
    if kind == QuestionKind::Noul && !has_instructions && !has_criteria {
        return Err(Fault::at(place, Problem::Bare));
    }
    Ok(DatasetQuestion { name, json, kind, options, gold: Vec::new(), prior: Vec::new() })
}

fn noul_options(criteria: Option<&Value>, place: &str) -> Result<Vec<String>, Fault> {
    let empty = Map::new();
    let criteria = match criteria {
        None => &empty,
        Some(Value::Object(criteria)) => criteria,
        Some(other) => return Err(Fault::expected(place, "an object", other)),
    };
    for (key, value) in criteria {
        if !["true", "false"].contains(&key.as_str()) {
            let problem = Problem::UnknownMember { given: quoted(key), expected: "true, false" };
            return Err(Fault::at(place, problem));
        }
        check_description(value, place, key)?;
    }
    Ok(vec!["true".to_owned(), "false".to_owned()])
}

fn choice_options(criteria: &Value, place: &str) -> Result<Vec<String>, Fault> {
    let Value::Object(criteria) = criteria else {
        return Err(Fault::expected(place, "an object from options to descriptions", criteria));
    };
    check_count(place, criteria.len(), MAX_OPTIONS, "options")?;
    for (option, description) in criteria {
        if option.is_empty() {
            return Err(Fault::at(place, Problem::EmptyText));
        }
        if !description.is_null() {
            check_description(description, place, option)?;
        }
    }
    Ok(criteria.keys().cloned().collect())
}

fn score_levels(criteria: &Value, place: &str) -> Result<Vec<String>, Fault> {
    let Value::Array(levels) = criteria else {
        return Err(Fault::expected(place, "an array of levels, lowest first", criteria));
    };
    check_count(place, levels.len(), MAX_LEVELS, "levels")?;
    let label = |(index, level): (usize, &Value)| match level {
        Value::String(label) if label.is_empty() => {
            Err(Fault::at(format!("{place}[{index}]"), Problem::EmptyText))
        }
        Value::String(label) => Ok(label.clone()),
        other => Err(Fault::expected(format!("{place}[{index}]"), "a string", other)),
    };
    levels.iter().enumerate().map(label).collect()
}

fn check_count(place: &str, given: usize, limit: usize, what: &'static str) -> Result<(), Fault> {
    match given {
        given if (1..=limit).contains(&given) => Ok(()),
        given => Err(Fault::at(place, Problem::Count { given, limit, what })),
    }
}

fn check_description(value: &Value, place: &str, option: &str) -> Result<(), Fault> {
    match value {
        Value::String(_) | Value::Object(_) | Value::Array(_) => Ok(()),
        other => Err(Fault::expected(format!("{place}.{option}"), "a description", other)),
    }
}

/// Parses the gold answer of a question. Returns the probability of each option.
pub(super) fn parse_gold(question: &DatasetQuestion, answer: &Value) -> Result<Vec<f64>, Fault> {
    let place = format!("gold.{}", question.name);
    let count = question.options.len();
    let one_hot = |index: usize| (0..count).map(|option| f64::from(option == index)).collect();
    let index_of = |name: &str| index_of(question, name).map_err(|problem| Fault::at(&*place, problem));
    match (answer, question.kind) {
        (Value::Array(values), _) => {
            if values.len() != count {
                let problem = Problem::Length { given: values.len(), options: count };
                return Err(Fault::at(place, problem));
            }
            let at = |(index, value)| probability(format!("{place}[{index}]"), value);
            normalised(values.iter().enumerate().map(at).collect::<Result<_, _>>()?, &place)
        }
        (Value::Object(values), _) => {
            let mut gold = vec![0.0; count];
            for (name, value) in values {
                gold[index_of(name)?] += probability(format!("{place}.{name}"), value)?;
            }
            normalised(gold, &place)
        }
        (Value::Bool(answer), QuestionKind::Noul) => Ok(one_hot(usize::from(!answer))),
        (Value::String(name), QuestionKind::Choice | QuestionKind::Score) => Ok(one_hot(index_of(name)?)),
        (Value::Number(number), QuestionKind::Score) => {
            let index = number.as_u64().filter(|&index| index < count as u64);
            let problem = || Problem::Level { given: number.to_string(), last: count - 1 };
            index.map(|index| one_hot(index as usize)).ok_or_else(|| Fault::at(place, problem()))
        }
        (other, kind) => {
            let expected = match kind {
                QuestionKind::Noul => "true, false or probabilities",
                QuestionKind::Choice => "an option or probabilities",
                QuestionKind::Score => "the index of a level or probabilities",
            };
            Err(Fault::expected(place, expected, other))
        }
    }
}

/// Returns the index of the option with a name. A level is named by its label or its index.
fn index_of(question: &DatasetQuestion, name: &str) -> Result<usize, Problem> {
    let is_named = |(index, option): &(usize, &String)| {
        *option == name || (question.kind == QuestionKind::Score && index.to_string() == name)
    };
    let mut found = question.options.iter().enumerate().filter(is_named).map(|(index, _)| index);
    match (found.next(), found.next()) {
        (None, _) => Err(Problem::NotAnOption { given: quoted(name) }),
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err(Problem::Ambiguous { given: quoted(name) }),
    }
}

fn probability(place: String, value: &Value) -> Result<f64, Fault> {
    match value.as_f64() {
        None => Err(Fault::expected(place, "a probability", value)),
        Some(given) if (0.0..=1.0).contains(&given) => Ok(given),
        Some(given) => Err(Fault::at(place, Problem::NoProbability { given })),
    }
}

fn normalised(mut gold: Vec<f64>, place: &str) -> Result<Vec<f64>, Fault> {
    let sum: f64 = gold.iter().sum();
    if (sum - 1.0).abs() > MAX_ROUNDING {
        return Err(Fault::at(place, Problem::Sum { given: sum }));
    }
    for share in &mut gold {
        *share /= sum;
    }
    Ok(gold)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decisions::DatasetError;

    fn question(json: Value) -> Result<DatasetQuestion, String> {
        parse_question("q".to_owned(), json).map_err(|fault| DatasetError::at_line(1, fault).to_string())
    }

    fn gold(json: Value, answer: &Value) -> Result<Vec<f64>, String> {
        let question = question(json).expect("a question");
        parse_gold(&question, answer).map_err(|fault| DatasetError::at_line(1, fault).to_string())
    }

    fn noul() -> Value {
        json!({"type": "noul", "instructions": "Is it so?"})
    }

    fn choice() -> Value {
        json!({"type": "choice", "criteria": {"a": null, "b": "B", "0": {"x": 1}}})
    }

    fn score(levels: &[&str]) -> Value {
        json!({"type": "score", "instructions": ["How much?"], "criteria": levels})
    }

    #[test]
    fn options_are_in_the_order_of_the_question() {
        assert_eq!(question(noul()).expect("a question").options, ["true", "false"]);
        assert_eq!(question(choice()).expect("a question").options, ["a", "b", "0"]);
        assert_eq!(question(score(&["low", "high"])).expect("a question").options, ["low", "high"]);
        let bare = json!({"type": "noul", "criteria": {"false": "It is not so"}});
        assert_eq!(question(bare).expect("a question").options, ["true", "false"]);
    }

    #[test]
    fn rejects_questions_that_a_server_rejects() {
        let many: Map<String, Value> = (0..256).map(|index| (index.to_string(), Value::Null)).collect();
        for (json, message) in [
            (json!(1), "questions.q: expected an object, not a number"),
            (json!({}), "questions.q: missing member `type`"),
            (
                json!({"type": "box"}),
                "questions.q.type: unknown type \"box\"; expected one of noul, choice, score",
            ),
            (json!({"type": "noul"}), "questions.q: expected instructions or a criterion"),
            (json!({"type": "choice"}), "questions.q: missing member `criteria`"),
            (
                json!({"type": "choice", "criteria": {}}),
                "questions.q.criteria: expected 1 to 255 options, not 0",
            ),
            (
                json!({"type": "choice", "criteria": many}),
                "questions.q.criteria: expected 1 to 255 options, not 256",
            ),
            (
                json!({"type": "choice", "criteria": {"a": 1}}),
                "questions.q.criteria.a: expected a description, not a number",
            ),
            (
                json!({"type": "score", "criteria": ["a", 1]}),
                "questions.q.criteria[1]: expected a string, not a number",
            ),
            (
                json!({"type": "noul", "criteria": {"yes": ""}}),
                "questions.q.criteria: unknown member \"yes\"; expected one of true, false",
            ),
            (
                json!({"type": "noul", "level": 1}),
                "questions.q: unknown member \"level\"; expected one of type, instructions, criteria",
            ),
        ] {
            assert_eq!(question(json), Err(format!("line 1: {message}")));
        }
    }

    #[test]
    fn gold_answers_become_probabilities() {
        let levels = || score(&["low", "middle", "high"]);
        for (json, answer, expected) in [
            (noul(), json!(true), vec![1.0, 0.0]),
            (noul(), json!(false), vec![0.0, 1.0]),
            (noul(), json!({"true": 0.25, "false": 0.75}), vec![0.25, 0.75]),
            (choice(), json!("b"), vec![0.0, 1.0, 0.0]),
            (choice(), json!({"0": 0.5, "a": 0.5}), vec![0.5, 0.0, 0.5]),
            (choice(), json!([0.25, 0.25, 0.5]), vec![0.25, 0.25, 0.5]),
            (levels(), json!(2), vec![0.0, 0.0, 1.0]),
            (levels(), json!("low"), vec![1.0, 0.0, 0.0]),
            (levels(), json!({"1": 0.5, "high": 0.5}), vec![0.0, 0.5, 0.5]),
            (score(&["0", "1"]), json!({"1": 1}), vec![0.0, 1.0]),
        ] {
            assert_eq!(gold(json, &answer), Ok(expected), "{answer}");
        }
        let rounded = gold(levels(), &json!([0.333, 0.333, 0.333])).expect("a distribution");
        assert!((rounded.iter().sum::<f64>() - 1.0).abs() < 1e-15);
    }

    #[test]
    fn rejects_gold_answers_that_do_not_fit() {
        let levels = || score(&["1", "2", "3"]);
        for (json, answer, message) in [
            (noul(), json!("true"), "gold.q: expected true, false or probabilities, not a string"),
            (choice(), json!(0), "gold.q: expected an option or probabilities, not a number"),
            (choice(), json!("c"), "gold.q: \"c\" is not an option"),
            (choice(), json!([0.5, 0.5]), "gold.q: expected 3 probabilities, not 2"),
            (
                choice(),
                json!([0.5, 1.5, 0.5]),
                "gold.q[1]: 1.5 is not a probability; expected a number from 0 to 1",
            ),
            (choice(), json!({"a": "x"}), "gold.q.a: expected a probability, not a string"),
            (choice(), json!({"a": 0.5}), "gold.q: the probabilities sum to 0.5; expected 1"),
            (levels(), json!(3), "gold.q: level 3 is out of range; expected 0 to 2"),
            (levels(), json!(-1), "gold.q: level -1 is out of range; expected 0 to 2"),
            (
                levels(),
                json!({"1": 1}),
                "gold.q: \"1\" could mean several levels; expected an array of probabilities",
            ),
        ] {
            assert_eq!(gold(json, &answer), Err(format!("line 1: {message}")), "{answer}");
        }
    }
}
