//! `TypeSafe`'s System One: the same questions about a state, in another form.

use formwork_chat::decision::{DecisionKind, DecisionOption, DecisionQuestion, MAX_LEVELS, OptionValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answer::{AnswerDetails, DecisionsSettings, DecisionsUsage, Measured, confidence};
use super::questions::check_bytes;
use super::{DecisionSettings, MAX_CHOICES, NamedQuestion, check_count, settings, text_of};
use crate::RequestError;
use crate::error::Problem;
use crate::request::{ChatMessage, Fields, Place, Role, read_model};

/// Request to `/v1/systemone`.
#[derive(Clone, PartialEq, Debug)]
pub struct SystemOneRequest {
    /// Name under which the server offers the model.
    pub model: String,
    /// The state as a message of the user.
    pub messages: Vec<ChatMessage>,
    /// The questions, at least one, in the order of the request.
    pub questions: Vec<NamedQuestion>,
    /// Settings of the extension `formwork`.
    pub settings: DecisionSettings,
}

impl SystemOneRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown field or value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?;
        let model = read_model(&mut fields)?;
        let state = text_of(fields.required("state")?)?;
        let at = fields.required("questions")?;
        let whole = at.clone();
        let entries = at.entries()?;
        check_count(&whole, entries.len())?;
        let questions =
            entries.into_iter().map(|(name, at)| read_question(name, at)).collect::<Result<_, _>>()?;
        let settings = fields.read("formwork", settings::read)?.unwrap_or_default();
        if let Some(at) = fields.take("assets")
            && !at.value().as_object().is_some_and(Map::is_empty)
        {
            return Err(at.error(Problem::NotNeutral {
                accepted: "an empty object",
                hint: "images are not supported",
            }));
        }
        // Ollama's clients send it. The server decides how long models stay loaded.
        fields.ignore("keep_alive");
        fields.finish_strictly()?;
        let messages = vec![ChatMessage::new(Role::User, state)];
        Ok(Self { model, messages, questions, settings })
    }
}

fn read_question(name: String, at: Place) -> Result<NamedQuestion, RequestError> {
    let known = |name: &str| ["noul", "choice", "score"].into_iter().find(|known| *known == name);
    let place = at.path().to_owned();
    let mut fields = at.fields()?;
    let kind = fields.required("type")?.one_of(known, "noul, choice and score")?;
    let instructions = fields.read("instructions", text_of)?.unwrap_or_default();
    let kind = match kind {
        "choice" => DecisionKind::Choice(read_options(fields.required("criteria")?)?),
        "score" => DecisionKind::Score(read_levels(fields.required("criteria")?)?),
        _ => read_noul(&mut fields)?,
    };
    fields.finish_strictly()?;
    let is_bare = matches!(kind, DecisionKind::Predicate { when_true: None, when_false: None });
    if is_bare && instructions.trim().is_empty() {
        return Err(RequestError::field(format!("{place}.instructions"), Problem::Missing));
    }
    let question = DecisionQuestion { instructions, kind };
    Ok(NamedQuestion { name: Some(name), question, place, options_field: "criteria" })
}

fn read_noul(fields: &mut Fields) -> Result<DecisionKind, RequestError> {
    let (mut when_true, mut when_false) = (None, None);
    if let Some(at) = fields.take("criteria") {
        let mut criteria = at.fields()?;
        when_true = criteria.read("true", text_of)?;
        when_false = criteria.read("false", text_of)?;
        criteria.finish_strictly()?;
    }
    Ok(DecisionKind::Predicate { when_true, when_false })
}

/// Parses a map from options to descriptions.
fn read_options(at: Place) -> Result<Vec<DecisionOption>, RequestError> {
    let whole = at.clone();
    let entries = at.entries()?;
    let given = entries.len();
    if given == 0 {
        return Err(whole.error(Problem::Empty));
    }
    if given > MAX_CHOICES {
        return Err(whole.error(Problem::TooMany { given, limit: MAX_CHOICES }));
    }
    let mut bytes = 0;
    let option = |(name, at): (String, Place)| {
        if name.is_empty() {
            return Err(at.error(Problem::Empty));
        }
        let description = if at.value().is_null() { None } else { Some(text_of(at)?) };
        bytes += name.len() + description.as_ref().map_or(0, String::len);
        let description = description.filter(|text| !text.is_empty());
        Ok(DecisionOption { value: OptionValue::Text(name), description })
    };
    let options = entries.into_iter().map(option).collect::<Result<Vec<_>, _>>()?;
    check_bytes(&whole, bytes)?;
    Ok(options)
}

/// Parses a list of levels, lowest first.
fn read_levels(at: Place) -> Result<Vec<DecisionOption>, RequestError> {
    let whole = at.clone();
    let items = at.list("an array of levels, lowest first")?;
    let given = items.len();
    if given == 0 {
        return Err(whole.error(Problem::Empty));
    }
    if given > MAX_LEVELS {
        return Err(whole.error(Problem::TooMany { given, limit: MAX_LEVELS }));
    }
    let level = |item: Place| {
        let empty = item.error(Problem::Empty);
        let text = text_of(item)?;
        if text.is_empty() {
            return Err(empty);
        }
        Ok(DecisionOption { value: OptionValue::Text(text), description: None })
    };
    let levels = items.into_iter().map(level).collect::<Result<Vec<_>, RequestError>>()?;
    check_bytes(&whole, levels.iter().map(|level| level.value.text().len()).sum())?;
    Ok(levels)
}

/// Response of `/v1/systemone`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SystemOne {
    /// Name under which the server offers the model.
    pub model: String,
    /// Answers by the names of the questions.
    pub answers: Map<String, Value>,
    /// Token counts.
    pub usage: SystemOneUsage,
    /// The settings in effect. An extension.
    pub formwork: DecisionsSettings,
}

/// Token counts of a System One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SystemOneUsage {
    /// Number of tokens that were read: what all prompts begin with once, and the rest of each prompt.
    pub input_tokens: usize,
    /// Number of tokens of thoughts. Nothing else is generated.
    pub output_tokens: usize,
    /// Tokens that were taken from the prefix cache. An extension.
    pub cached_tokens: usize,
    /// Sum of input and output tokens.
    pub total_tokens: usize,
}

/// Answer of System One, without the extensions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum SystemOneAnswer {
    /// Probability that a statement is true.
    Noul {
        /// The probability.
        noul: f64,
    },
    /// Probabilities of options.
    Choice {
        /// The likeliest option, the first of several.
        choice: String,
        /// Probabilities by option.
        probabilities: Map<String, Value>,
        /// Confidence in the option, in 0..=1.
        confidence: f64,
    },
    /// Probabilities of levels.
    Score {
        /// Expected level, where the lowest level counts 0.
        score: f64,
        /// Labels by the index of the level.
        legend: Map<String, Value>,
        /// Probabilities by the index of the level.
        probabilities: Map<String, Value>,
        /// Confidence in the likeliest level, in 0..=1.
        confidence: f64,
    },
}

impl SystemOne {
    /// Creates the response. `details` has the measurements of each question. `limits` are the tolerance
    /// and the number of nodes in effect.
    pub fn new(
        model: String,
        request: &SystemOneRequest,
        details: Vec<AnswerDetails>,
        usage: DecisionsUsage,
        limits: (f64, usize),
    ) -> Self {
        let settings = &request.settings;
        let answers = request.questions.iter().zip(details).map(|(named, details)| {
            let measured = json!(Measured::new(&details));
            let mut answer = json!(SystemOneAnswer::new(&named.question, &details, settings));
            if let (Value::Object(answer), Value::Object(measured)) = (&mut answer, measured) {
                answer.extend(measured);
            }
            (named.name.clone().unwrap_or_default(), answer)
        });
        Self {
            model,
            answers: answers.collect(),
            usage: SystemOneUsage {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cached_tokens: usage.input_tokens_details.cached_tokens,
                total_tokens: usage.total_tokens,
            },
            formwork: DecisionsSettings::new(settings, limits),
        }
    }
}

impl SystemOneAnswer {
    fn new(question: &DecisionQuestion, details: &AnswerDetails, settings: &DecisionSettings) -> Self {
        let answer = &details.answer;
        let confidence = confidence(question, answer, settings.confidence);
        let probabilities = answer.probabilities.iter().copied().map(Value::from);
        match &question.kind {
            DecisionKind::Predicate { .. } => Self::Noul { noul: answer.probabilities[0] },
            DecisionKind::Choice(options) => {
                let name = |option: &DecisionOption| option.value.text().to_owned();
                Self::Choice {
                    choice: name(&options[answer.best()]),
                    probabilities: options.iter().map(name).zip(probabilities).collect(),
                    confidence,
                }
            }
            DecisionKind::Score(levels) => {
                let label = |level: &DecisionOption| Value::from(level.value.text());
                let by_index = |values: &mut dyn Iterator<Item = Value>| -> Map<String, Value> {
                    values.enumerate().map(|(index, value)| (index.to_string(), value)).collect()
                };
                Self::Score {
                    score: answer.score(),
                    legend: by_index(&mut levels.iter().map(label)),
                    probabilities: by_index(&mut { probabilities }),
                    confidence,
                }
            }
        }
    }
}
