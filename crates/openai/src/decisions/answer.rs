//! Responses of `/v1/decisions`.

use formwork_chat::decision::{
    AnswerForm, Asking, DecisionAnswer, DecisionKind, DecisionQuestion, OptionValue, Orders,
    PROMPT_FORMAT_VERSION,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Confidence, DecisionSettings, DecisionsRequest, NamedQuestion};

/// Response with one answer for each question, in the order of the request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Decisions {
    /// Name under which the server offers the model.
    pub model: String,
    /// The answers.
    pub answers: Vec<DecisionsAnswer>,
    /// Token counts.
    pub usage: DecisionsUsage,
    /// The settings in effect. An extension.
    pub formwork: DecisionsSettings,
}

/// Answer to a question.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum DecisionsAnswer {
    /// Probability that a statement is true.
    Predicate {
        /// Name of the question.
        name: Option<String>,
        /// The probability.
        probability: f64,
        /// Extensions.
        #[serde(flatten)]
        measured: Measured,
    },
    /// Probabilities of the options of a choice.
    Choice {
        /// Name of the question.
        name: Option<String>,
        /// The likeliest option, the first of several.
        choice: OptionJson,
        /// Confidence in the option, in 0..=1.
        confidence: f64,
        /// Probabilities in the order of the request.
        probabilities: Vec<ChoiceProbability>,
        /// Extensions.
        #[serde(flatten)]
        measured: Measured,
    },
    /// Probabilities of the levels of a score.
    Score {
        /// Name of the question.
        name: Option<String>,
        /// Expected level, where the lowest level counts 0.
        score: f64,
        /// Confidence in the likeliest level, in 0..=1.
        confidence: f64,
        /// Probabilities, lowest level first.
        probabilities: Vec<LevelProbability>,
        /// Extensions.
        #[serde(flatten)]
        measured: Measured,
    },
}

/// Value of an option: a string or a boolean.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum OptionJson {
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(String),
}

/// Probability of an option.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ChoiceProbability {
    /// Value of the option.
    pub value: OptionJson,
    /// Its probability. The probabilities of a question sum to 1.
    pub probability: f64,
}

/// Probability of a level.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LevelProbability {
    /// Index of the level, starting at 0.
    pub value: usize,
    /// Label of the level.
    pub label: String,
    /// Its probability. The probabilities of a question sum to 1.
    pub probability: f64,
}

/// Measurements behind an answer. Extensions.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Probability that the model answers with any of the options, the mean over all prompts.
    pub mass: f64,
    /// Bound on the error of the probabilities, from token sequences that were not visited.
    pub error: f64,
    /// Number of tokens of all prompts of the question.
    pub prompt_tokens: usize,
    /// Tokens of the prompts, if the request asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_token_ids: Option<Vec<Vec<u32>>>,
    /// Thoughts before the answers to the prompts, if the request asks for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<String>,
}

/// Measurements of a question, for its answer.
#[derive(Clone, PartialEq, Debug)]
pub struct AnswerDetails {
    /// Probabilities, mass and error.
    pub answer: DecisionAnswer,
    /// Number of tokens of all prompts of the question.
    pub prompt_tokens: usize,
    /// Tokens of the prompts, if the request asks for them.
    pub prompt_token_ids: Option<Vec<Vec<u32>>>,
    /// Thoughts before the answers to the prompts.
    pub reasoning: Vec<String>,
}

/// Token counts of a request for decisions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DecisionsUsage {
    /// Number of tokens that were read: what all prompts begin with once, and the rest of each prompt.
    pub input_tokens: usize,
    /// Parts of `input_tokens`.
    pub input_tokens_details: AnswerTokens,
    /// Number of tokens of thoughts. Nothing else is generated.
    pub output_tokens: usize,
    /// Parts of `output_tokens`.
    pub output_tokens_details: OutputTokens,
    /// Sum of input and output tokens.
    pub total_tokens: usize,
}

/// Parts of the input tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AnswerTokens {
    /// Tokens that were taken from the prefix cache.
    pub cached_tokens: usize,
    /// Always 0, because writing to the cache costs nothing.
    pub cache_write_tokens: usize,
}

/// Parts of the output tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct OutputTokens {
    /// Number of tokens of thoughts.
    pub reasoning_tokens: usize,
}

/// The settings in effect.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DecisionsSettings {
    /// Version of the wording of prompts.
    pub prompt_format_version: u32,
    /// Form of the answers, or null for the default.
    pub answers: Option<String>,
    /// Orders in which options were asked: 1, 2 or `cyclic`.
    pub orders: Value,
    /// True if each option of a choice was asked by itself.
    pub independent: bool,
    /// True if the end of the answer is a part of the event.
    pub end: bool,
    /// Maximum number of tokens of a thought before each answer, or null without thoughts.
    pub reasoning: Option<usize>,
    /// Formula of `confidence`.
    pub confidence: String,
    /// The calibration, or null if there is none.
    pub calibration: Option<Value>,
    /// Error at which a search ended.
    pub tolerance: f64,
    /// Maximum number of token prefixes for a prompt.
    pub max_nodes: usize,
    /// True if a larger error refuses the request.
    pub strict: bool,
}

impl DecisionsUsage {
    /// Creates the counts of a request that read `input` tokens, `cached` of them from the cache, and wrote
    /// thoughts of `reasoning` tokens.
    pub const fn new(input: usize, cached: usize, reasoning: usize) -> Self {
        Self {
            input_tokens: input,
            input_tokens_details: AnswerTokens { cached_tokens: cached, cache_write_tokens: 0 },
            output_tokens: reasoning,
            output_tokens_details: OutputTokens { reasoning_tokens: reasoning },
            total_tokens: input + reasoning,
        }
    }
}

impl Decisions {
    /// Creates the response. `details` has the measurements of each question. `limits` are the tolerance
    /// and the number of nodes in effect.
    pub fn new(
        model: String,
        request: &DecisionsRequest,
        details: Vec<AnswerDetails>,
        usage: DecisionsUsage,
        limits: (f64, usize),
    ) -> Self {
        let settings = &request.settings;
        let answers = request.questions.iter().zip(details);
        let answers = answers.map(|(named, details)| DecisionsAnswer::new(named, details, settings));
        Self { model, answers: answers.collect(), usage, formwork: DecisionsSettings::new(settings, limits) }
    }
}

impl DecisionsSettings {
    pub(super) fn new(settings: &DecisionSettings, (tolerance, max_nodes): (f64, usize)) -> Self {
        let Asking { answers, orders, independent, open_end, reasoning, calibration } = &settings.asking;
        let form = |form: &AnswerForm| match form {
            AnswerForm::Label => "label",
            AnswerForm::Text => "text",
            AnswerForm::Json => "json",
        };
        let calibrated = settings.has_calibration.then(|| {
            let by_options: serde_json::Map<String, Value> = calibration
                .by_options
                .iter()
                .map(|(count, temperature)| (count.to_string(), Value::from(*temperature)))
                .collect();
            let prior = calibration.content_free.then_some("content_free");
            json!({ "temperature": calibration.temperature, "by_options": by_options, "prior": prior })
        });
        Self {
            prompt_format_version: PROMPT_FORMAT_VERSION,
            answers: answers.as_ref().map(|answers| form(answers).to_owned()),
            orders: match orders {
                Orders::One => 1.into(),
                Orders::Two => 2.into(),
                Orders::Cyclic => "cyclic".into(),
            },
            independent: *independent,
            end: !open_end,
            reasoning: *reasoning,
            confidence: match settings.confidence {
                Confidence::Published => "published",
                Confidence::Entropy => "entropy",
                Confidence::Max => "max",
            }
            .to_owned(),
            calibration: calibrated,
            tolerance,
            max_nodes,
            strict: settings.strict,
        }
    }
}

impl From<&OptionValue> for OptionJson {
    fn from(value: &OptionValue) -> Self {
        match value {
            OptionValue::Bool(value) => Self::Bool(*value),
            OptionValue::Text(text) => Self::Text(text.clone()),
        }
    }
}

impl Measured {
    pub(super) fn new(details: &AnswerDetails) -> Self {
        let AnswerDetails { answer, prompt_tokens, prompt_token_ids, reasoning } = details;
        Self {
            mass: answer.mass,
            error: answer.error,
            prompt_tokens: *prompt_tokens,
            prompt_token_ids: prompt_token_ids.clone(),
            reasoning: reasoning.clone(),
        }
    }
}

/// Returns the confidence in the answer to a question.
pub(super) fn confidence(question: &DecisionQuestion, answer: &DecisionAnswer, formula: Confidence) -> f64 {
    match (formula, &question.kind) {
        (Confidence::Entropy, _) => answer.entropy_confidence(),
        (Confidence::Max, _) => answer.probabilities[answer.best()],
        (Confidence::Published, DecisionKind::Score(_)) => answer.score_confidence(),
        (Confidence::Published, _) => answer.choice_confidence(),
    }
}

impl DecisionsAnswer {
    fn new(named: &NamedQuestion, details: AnswerDetails, settings: &DecisionSettings) -> Self {
        let NamedQuestion { name, question, .. } = named;
        let name = name.clone();
        let measured = Measured::new(&details);
        let answer = details.answer;
        let confidence = confidence(question, &answer, settings.confidence);
        let probabilities = answer.probabilities.iter().copied();
        match &question.kind {
            DecisionKind::Predicate { .. } => {
                Self::Predicate { name, probability: answer.probabilities[0], measured }
            }
            DecisionKind::Choice(options) => {
                let probability = |(option, probability): (&formwork_chat::decision::DecisionOption, f64)| {
                    ChoiceProbability { value: (&option.value).into(), probability }
                };
                Self::Choice {
                    name,
                    choice: (&options[answer.best()].value).into(),
                    confidence,
                    probabilities: options.iter().zip(probabilities).map(probability).collect(),
                    measured,
                }
            }
            DecisionKind::Score(levels) => {
                let levels = levels.iter().zip(probabilities).enumerate();
                let levels = levels.map(|(value, (level, probability))| LevelProbability {
                    value,
                    label: level.value.text().to_owned(),
                    probability,
                });
                Self::Score {
                    name,
                    score: answer.score(),
                    confidence,
                    probabilities: levels.collect(),
                    measured,
                }
            }
        }
    }
}
