//! Decisions: typed questions about a conversation, answered with probabilities. [`DecisionsRequest`] is the
//! request of OpenAI's `/v1/decisions`, and [`SystemOneRequest`] that of `TypeSafe`'s `/v1/systemone`.

mod answer;
mod input;
mod questions;
mod settings;
mod system_one;

use formwork_chat::decision::{Calibration, DecisionQuestion};

use crate::error::Problem;
use crate::request::{Fields, Place, read_model};
use crate::{ChatMessage, IgnoredFields, RequestError};

pub use answer::{
    AnswerDetails, AnswerTokens, ChoiceProbability, Decisions, DecisionsAnswer, DecisionsSettings,
    DecisionsUsage, LevelProbability, Measured, OptionJson, OutputTokens,
};
pub use settings::{Confidence, DecisionSettings};
pub use system_one::{SystemOne, SystemOneAnswer, SystemOneRequest, SystemOneUsage};

/// Maximum number of questions in a request.
const MAX_QUESTIONS: usize = 400;
/// Maximum number of options of a choice.
const MAX_CHOICES: usize = 255;
/// Maximum total length of the options of a question with their descriptions, in bytes.
const MAX_OPTION_BYTES: usize = 64 << 10;

/// A question with its name in the request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedQuestion {
    /// Name for the answer. It does not reach the model.
    pub name: Option<String>,
    /// The question.
    pub question: DecisionQuestion,
    /// Path of the question in the request, such as `questions[0]`.
    pub place: String,
    /// Name of the member with the options, such as `choices`.
    pub options_field: &'static str,
}

/// Request to `/v1/decisions`.
#[derive(Clone, PartialEq, Debug)]
pub struct DecisionsRequest {
    /// Name under which the server offers the model.
    pub model: String,
    /// The conversation that the questions are about.
    pub messages: Vec<ChatMessage>,
    /// The questions, 1 to 400.
    pub questions: Vec<NamedQuestion>,
    /// Settings of the extension `formwork`.
    pub settings: DecisionSettings,
    /// Fields of the request that have no effect.
    pub ignored: IgnoredFields,
}

impl DecisionsRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown field or value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?;
        let model = read_model(&mut fields)?;
        let messages = input::read(fields.required("input")?)?;
        let questions = questions::read_list(fields.required("questions")?)?;
        let settings = fields.read("formwork", settings::read)?.unwrap_or_default();
        // The prefix cache needs no hints, and no safety system identifies users.
        fields.read("prompt_cache_key", Place::string)?;
        fields.read("prompt_cache_options", read_cache_options)?;
        fields.read("safety_identifier", Place::string)?;
        let ignored = fields.finish_request()?;
        Ok(Self { model, messages, questions, settings, ignored })
    }
}

fn read_cache_options(at: Place) -> Result<(), RequestError> {
    let mut fields = at.fields()?;
    let known = |name: &str| ["implicit", "explicit"].contains(&name).then_some(());
    fields.read("mode", |at| at.one_of(known, "implicit and explicit"))?;
    fields.read("ttl", Place::string)?;
    fields.finish()
}

/// Returns the text of a value: a string as it is, and anything else as compact JSON.
fn text_of(at: Place) -> Result<String, RequestError> {
    match at.value() {
        value if value.is_object() || value.is_array() => Ok(at.value().to_string()),
        _ => at.string(),
    }
}

/// Parses a calibration file: an object with `temperature`, `by_options` and `prior`.
///
/// # Errors
/// Returns an error if the text is not JSON or has an unknown field or value.
pub fn read_calibration(text: &[u8]) -> Result<Calibration, RequestError> {
    settings::read_calibration_fields(Fields::from_json(text)?)
}

/// Checks the number of questions.
fn check_count(at: &Place, given: usize) -> Result<(), RequestError> {
    match given {
        0 => Err(at.error(Problem::Empty)),
        _ if given > MAX_QUESTIONS => Err(at.error(Problem::TooMany { given, limit: MAX_QUESTIONS })),
        _ => Ok(()),
    }
}
