//! The extension `decisions`: probabilities of the choices within a structured output.

use formwork_chat::decision::OptionBounds;
use formwork_grammar::{ChoiceKind, ChoicePoint, OptionValue, Part};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::RequestError;
use crate::error::Problem;
use crate::request::{Fields, Format, Place, shortened};

/// Maximum number of pointers in a request.
const MAX_POINTERS: usize = 1024;

/// The choices whose probabilities a request asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecisionScope {
    /// All choices.
    All,
    /// Choices at these JSON pointers and below them. A pointer to a member also means the choice of that
    /// member.
    Pointers(Vec<String>),
}

impl DecisionScope {
    /// Parses `decisions`: true, false, or a list of JSON pointers.
    ///
    /// # Errors
    /// Also returns an error if choices are asked for and the output has no format or a format of tags.
    pub(crate) fn read(fields: &mut Fields, format: Option<&Format>) -> Result<Option<Self>, RequestError> {
        let Some(at) = fields.take("decisions") else { return Ok(None) };
        let scope = match at.value() {
            Value::Bool(false) => return Ok(None),
            Value::Bool(true) => Self::All,
            Value::Array(pointers) if pointers.len() > MAX_POINTERS => {
                return Err(at.error(Problem::TooMany { given: pointers.len(), limit: MAX_POINTERS }));
            }
            _ => {
                let pointers = at.clone().list("true, false or a list of JSON pointers")?;
                Self::Pointers(pointers.iter().map(read_pointer).collect::<Result<_, _>>()?)
            }
        };
        match format {
            None => Err(at.error(Problem::NoFormat)),
            Some(Format { part: Part::Tags(_), field, .. }) => {
                Err(at.error(Problem::Conflict { other: field }))
            }
            Some(_) => Ok(Some(scope)),
        }
    }

    /// Returns the choices at JSON pointers. An empty pointer alone stands for all.
    ///
    /// # Errors
    /// Returns an error if a text is not a JSON pointer.
    pub fn of_pointers(pointers: Vec<String>) -> Result<Self, RequestError> {
        let is_wrong = |pointer: &&String| !is_pointer(pointer);
        if let Some(pointer) = pointers.iter().find(is_wrong) {
            let problem = Problem::Pointer { given: shortened(pointer) };
            return Err(RequestError::field("decisions", problem));
        }
        let is_all = pointers.iter().all(String::is_empty);
        Ok(if is_all { Self::All } else { Self::Pointers(pointers) })
    }

    /// Returns true if the probabilities of a choice are asked for.
    pub fn includes(&self, point: &ChoicePoint) -> bool {
        let Self::Pointers(pointers) = self else { return true };
        let is_at = |pointer: &String| {
            let below = point.path.strip_prefix(pointer.as_str());
            if below.is_some_and(|below| below.is_empty() || below.starts_with('/')) {
                return true;
            }
            let Some(name) = pointer.strip_prefix(&point.path).and_then(|rest| rest.strip_prefix('/')) else {
                return false;
            };
            if name.contains('/') {
                return false;
            }
            let name = name.replace("~1", "/").replace("~0", "~");
            point.kind == ChoiceKind::Member
                && point.options.iter().any(|option| option.value == OptionValue::Value(name.as_str().into()))
        };
        pointers.iter().any(is_at)
    }
}

fn is_pointer(text: &str) -> bool {
    let is_escaped = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && is_escaped
}

fn read_pointer(at: &Place) -> Result<String, RequestError> {
    let pointer = at.clone().string()?;
    if is_pointer(&pointer) {
        return Ok(pointer);
    }
    Err(at.error(Problem::Pointer { given: shortened(&pointer) }))
}

/// Probabilities of a choice within an output.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OutputDecision {
    /// JSON pointer of the value, or of the object or array that may go on. Empty for other text.
    pub path: String,
    /// What is chosen: `value`, `member`, `end` or `text`.
    pub kind: String,
    /// The chosen option.
    #[serde(flatten)]
    pub chosen: OptionName,
    /// The chosen option's probability by the model's own distribution, given the text before and that one of
    /// the options follows.
    pub probability: f64,
    /// The probability with which the sampler chooses the option after the same text. `null` if the sampler
    /// can reach no option.
    pub sampled: Option<f64>,
    /// Probabilities of all options.
    pub probabilities: Vec<OptionShare>,
    /// Probability that any of the options follows, by the model's own distribution.
    pub mass: f64,
    /// Bound on the error of the probabilities, from token sequences that were not visited.
    pub error: f64,
    /// Confidence in the likeliest option, in 0..=1.
    pub confidence: f64,
    /// Offset in the content at which the options begin, in bytes.
    pub start: usize,
    /// Offset after the chosen option.
    pub end: usize,
}

/// An option: a value, or a type with more values than are listed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionName {
    /// The value. For a member, its name, or null for the end of the object. For the end of an array, true or
    /// false.
    Value(Value),
    /// JSON type of the value, or `string` for any other name of a member.
    Type(String),
}

/// Probabilities of one option.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OptionShare {
    /// The option.
    #[serde(flatten)]
    pub option: OptionName,
    /// Probability by the model's own distribution. The probabilities of a choice sum to 1.
    pub probability: f64,
    /// Probability with which the sampler chooses the option.
    pub sampled: Option<f64>,
}

impl OutputDecision {
    /// Combines the bounds on the probabilities of a choice's options, by the model's own distribution and by
    /// the sampler's. Returns `None` if the model can reach no option.
    pub fn new(point: &ChoicePoint, own: &OptionBounds, sampled: &OptionBounds) -> Option<Self> {
        let (own, sampled) = (own.answer()?, sampled.answer());
        let of_sampler = |index: usize| sampled.as_ref().map(|sampled| sampled.probabilities[index]);
        let option = |(index, option): (usize, &formwork_grammar::ChoiceOption)| OptionShare {
            option: OptionName::from(&option.value),
            probability: own.probabilities[index],
            sampled: of_sampler(index),
        };
        let kind = match point.kind {
            ChoiceKind::Value => "value",
            ChoiceKind::Member => "member",
            ChoiceKind::End => "end",
            ChoiceKind::Text => "text",
        };
        Some(Self {
            path: point.path.clone(),
            kind: kind.to_owned(),
            chosen: OptionName::from(&point.options[point.chosen].value),
            probability: own.probabilities[point.chosen],
            sampled: of_sampler(point.chosen),
            probabilities: point.options.iter().enumerate().map(option).collect(),
            mass: own.mass,
            error: sampled.as_ref().map_or(own.error, |sampled| own.error.max(sampled.error)),
            confidence: own.choice_confidence(),
            start: point.start,
            end: point.end,
        })
    }
}

impl From<&OptionValue> for OptionName {
    fn from(value: &OptionValue) -> Self {
        match value {
            OptionValue::Value(value) => Self::Value(value.clone()),
            OptionValue::Type(name) => Self::Type((*name).to_owned()),
        }
    }
}
