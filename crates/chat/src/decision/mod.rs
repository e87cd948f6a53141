//! Decisions: typed questions about a conversation, as prompts whose answers have known texts.
//!
//! A [`DecisionQuestion`] becomes one or more [`AskedPrompt`]s ([`Asker::ask`]). The engine measures the
//! probability of each answer text, and [`Asked::answer`] combines the measurements. The wording of the
//! prompts is versioned ([`PROMPT_FORMAT_VERSION`]), because it changes probabilities.
//!
//! # Limitations
//! Probabilities are those of the model for this wording. They depend on the order of options, on labels
//! and on the chat template.

mod ask;
mod combine;
mod encode;
mod wording;

use std::collections::BTreeMap;

use formwork_lm::TemplateError;
use formwork_vocab::VocabError;
use thiserror::Error;

pub use ask::{Asked, AskedPrompt, Asker, ThoughtEnd, prompt_count};
pub use combine::{DecisionAnswer, OptionBounds};
pub use encode::PromptHead;

/// Version of the wording of prompts.
pub const PROMPT_FORMAT_VERSION: u32 = 1;

/// Maximum number of options that letters can label.
pub const MAX_LABELS: usize = 26;
/// Maximum number of levels of a score, which digits label.
pub const MAX_LEVELS: usize = 10;

/// A question about a conversation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecisionQuestion {
    /// Instructions. May be empty.
    pub instructions: String,
    /// Type of the answer.
    pub kind: DecisionKind,
}

/// Type of an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DecisionKind {
    /// True or false.
    Predicate {
        /// Description of the case in which the answer is true.
        when_true: Option<String>,
        /// Description of the case in which the answer is false.
        when_false: Option<String>,
    },
    /// One of several options, at least one.
    Choice(Vec<DecisionOption>),
    /// One of 1 to 10 levels, lowest first.
    Score(Vec<DecisionOption>),
}

/// An option of a choice, or a level of a score.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecisionOption {
    /// Value of the option.
    pub value: OptionValue,
    /// Description of the option.
    pub description: Option<String>,
}

/// Value of an option.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OptionValue {
    /// A text.
    Text(String),
    /// A boolean, which differs from the text of the same spelling.
    Bool(bool),
}

impl OptionValue {
    /// Returns the text of the value.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            Self::Bool(true) => "true",
            Self::Bool(false) => "false",
        }
    }
}

impl DecisionQuestion {
    /// Returns the number of options. A predicate has two: true and false.
    pub fn options(&self) -> usize {
        match &self.kind {
            DecisionKind::Predicate { .. } => 2,
            DecisionKind::Choice(options) | DecisionKind::Score(options) => options.len(),
        }
    }
}

/// Settings for asking questions.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Asking {
    /// Form of the answers. By default, labels for predicates, for scores and for up to 26 options, and
    /// the options' texts otherwise.
    pub answers: Option<AnswerForm>,
    /// Orders in which the options of choices and predicates are asked. The answers are averaged.
    pub orders: Orders,
    /// True to ask for each option of a choice by itself whether it is right.
    pub independent: bool,
    /// True if an answer may continue after the text of an option.
    pub open_end: bool,
    /// Maximum number of tokens of a thought before each answer. `None` switches thoughts off. The
    /// probabilities are those after the thought.
    pub reasoning: Option<usize>,
    /// Correction of the probabilities.
    pub calibration: Calibration,
}

/// Form of the answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerForm {
    /// A letter or a digit for each option; `yes` and `no` for predicates.
    Label,
    /// The text of the option; `yes` and `no` for predicates.
    Text,
    /// A JSON object with the member `answer`.
    Json,
}

/// Orders in which options are asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Orders {
    /// The given order.
    One,
    /// The given order and its reverse.
    #[default]
    Two,
    /// All rotations of the given order.
    Cyclic,
}

/// Correction of probabilities.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Calibration {
    /// Temperature, which divides the logarithms of probabilities. 1 by default.
    pub temperature: Option<f64>,
    /// Temperatures by the number of options. A number of options without an entry uses the entry of the
    /// next smaller number, or `temperature` if there is none.
    pub by_options: BTreeMap<usize, f64>,
    /// True to divide by the probabilities of the same question about no input.
    pub content_free: bool,
}

impl Calibration {
    /// Returns the temperature for a question with a number of options.
    pub fn temperature(&self, options: usize) -> f64 {
        let known = self.by_options.range(..=options).next_back().map(|(_, temperature)| *temperature);
        known.or(self.temperature).unwrap_or(1.0)
    }
}

/// Error of a question that cannot be asked.
#[derive(Debug, Error)]
pub enum AskError {
    /// The chat template failed.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The tokenizer has no tokens for a part of the prompt.
    #[error("the prompt cannot be encoded: {0}")]
    Prompt(#[from] VocabError),
    /// A thought was asked for, and the model has none.
    #[error("this model writes no thoughts, so there is no reasoning before its answer")]
    NoThoughts,
    /// The vocabulary has no token that ends an answer.
    #[error("the vocabulary has no end-of-sequence token; answers may only be asked with an open end")]
    NoEnds,
    /// A choice has too many options for letters.
    #[error("{given} options exceed the limit of {MAX_LABELS} for answers by label")]
    TooManyLabels {
        /// Number of options.
        given: usize,
    },
    /// Two options have the same text, and answers are texts.
    #[error("option {option} has the text of an earlier option, so an answer by text is ambiguous")]
    SameText {
        /// Index of the later option.
        option: usize,
    },
}
