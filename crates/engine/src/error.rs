use std::sync::Arc;

use thiserror::Error;

/// Error for a request that was refused before its first token.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct RequestError(#[from] pub(crate) RequestKind);

#[derive(Debug, Error)]
pub(crate) enum RequestKind {
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("prompt token {given} is out of range (vocabulary size {limit})")]
    TokenOutside { given: u32, limit: usize },
    #[error(
        "this model's maximum context length is {limit} tokens; the prompt has {given} tokens, and the output needs at least {room}"
    )]
    PromptTooLong { given: usize, room: usize, limit: usize },
    #[error("a budget of {given} tokens is too small; the shortest guaranteed output needs {minimum}")]
    BudgetTooSmall { given: usize, minimum: usize },
    #[error("the budget must be at least 1 token")]
    NoBudget,
    #[error("the model's vocabulary cannot spell the shortest output of this grammar")]
    Unspellable,
    #[error("{name} is {given}; expected {range}")]
    Sampling { name: &'static str, given: f32, range: &'static str },
    #[error("logit_bias: token {given} is out of range (vocabulary size {limit})")]
    BiasOutside { given: u32, limit: usize },
    #[error("stop_token_ids: token {given} is out of range (vocabulary size {limit})")]
    StopOutside { given: u32, limit: usize },
    #[error("the beginning of the answer does not match the constraint")]
    BegunNotAllowed,
    #[error("this model reports log-probabilities of prompts only up to {limit} tokens")]
    TooManyRows { limit: usize },
    #[error("a stop string must not be empty")]
    EmptyStop,
    #[error("the end marker of the reasoning is empty")]
    EmptyReasoningEnd,
    #[error("end-of-reasoning token {given} is out of range (vocabulary size {limit})")]
    ReasoningEndOutside { given: u32, limit: usize },
    #[error("the text has {given} tokens, more than the model's context length of {limit}")]
    TextTooLong { given: usize, limit: usize },
    #[error("this model {purpose}, and cannot generate text")]
    NoGeneration { purpose: &'static str },
    #[error("queue full: {waiting} requests are waiting (limit {waiting})")]
    Busy { waiting: usize },
    #[error("queue full: {waiting} waiting + {given} new exceeds the limit of {limit}")]
    NoRoom { given: usize, waiting: usize, limit: usize },
    #[error("the engine has stopped")]
    Stopped,
}

/// A numeric setting of a request.
pub(crate) struct Setting {
    /// Name of the request field.
    pub(crate) name: &'static str,
    pub(crate) given: f32,
    /// Description of the valid values.
    pub(crate) range: &'static str,
}

impl Setting {
    /// Refuses the request unless the setting is valid.
    pub(crate) fn check(self, is_valid: bool) -> Result<(), RequestError> {
        let Self { name, given, range } = self;
        if is_valid { Ok(()) } else { Err(RequestKind::Sampling { name, given, range }.into()) }
    }
}

impl RequestError {
    /// Returns true if the same request may succeed later.
    pub const fn is_busy(&self) -> bool {
        match self.0 {
            RequestKind::Busy { .. } => true,
            RequestKind::NoRoom { given, limit, .. } => given <= limit,
            _ => false,
        }
    }

    /// Returns true if the engine has stopped for good.
    pub const fn is_stopped(&self) -> bool {
        matches!(self.0, RequestKind::Stopped)
    }

    /// Returns true if the prompt or text does not fit the model's context.
    pub const fn is_too_long(&self) -> bool {
        matches!(self.0, RequestKind::PromptTooLong { .. } | RequestKind::TextTooLong { .. })
    }

    /// Returns the number of tokens of a prompt that does not fit the context, and the context length.
    pub const fn overlong_prompt(&self) -> Option<(usize, usize)> {
        match self.0 {
            RequestKind::PromptTooLong { given, limit, .. } => Some((given, limit)),
            _ => None,
        }
    }

    /// Returns the request field at fault, by its OpenAI name.
    pub const fn field(&self) -> Option<&'static str> {
        match self.0 {
            RequestKind::EmptyPrompt
            | RequestKind::BegunNotAllowed
            | RequestKind::TooManyRows { .. }
            | RequestKind::TokenOutside { .. }
            | RequestKind::PromptTooLong { .. } => Some("messages"),
            RequestKind::BudgetTooSmall { .. } | RequestKind::NoBudget => Some("max_tokens"),
            RequestKind::Unspellable => Some("response_format"),
            RequestKind::Sampling { name, .. } => Some(name),
            RequestKind::BiasOutside { .. } => Some("logit_bias"),
            RequestKind::StopOutside { .. } => Some("stop_token_ids"),
            RequestKind::EmptyStop => Some("stop"),
            RequestKind::TextTooLong { .. } => Some("input"),
            RequestKind::EmptyReasoningEnd
            | RequestKind::ReasoningEndOutside { .. }
            | RequestKind::Busy { .. }
            | RequestKind::Stopped => None,
            RequestKind::NoRoom { .. } => Some("n"),
            RequestKind::NoGeneration { .. } => Some("model"),
        }
    }

    /// Returns the minimum budget, in tokens, that guarantees a complete output, if the budget was
    /// smaller.
    pub const fn minimum_tokens(&self) -> Option<usize> {
        match self.0 {
            RequestKind::BudgetTooSmall { minimum, .. } => Some(minimum),
            _ => None,
        }
    }
}

/// Error that ended a generation before it finished.
///
/// If a forward pass failed, the sequence was alone in it: after the failure of a shared pass, its
/// sequences start over in a pass each.
#[derive(Clone, Debug, Error)]
#[error(transparent)]
pub struct GenerationError(#[from] pub(crate) GenerationKind);

#[derive(Clone, Debug, Error)]
pub(crate) enum GenerationKind {
    #[error("the forward pass failed")]
    Model(#[source] Arc<formwork_lm::ModelError>),
    #[error("the grammar requires token {given}, which is out of range (vocabulary size {limit})")]
    NoEmbedding { given: u32, limit: usize },
    #[error("the generation panicked")]
    Panicked,
    #[error("the model gave no finite logit for any allowed token")]
    NoCandidate,
    #[error("a token outside the mask was about to be emitted")]
    OutsideMask(#[from] formwork_grammar::NotAllowed),
    #[error("the deadline has passed")]
    Deadline,
    #[error("the engine stopped")]
    Stopped,
}

impl GenerationError {
    /// Returns true if the request's deadline passed.
    pub const fn is_deadline(&self) -> bool {
        matches!(self.0, GenerationKind::Deadline)
    }

    /// Returns true if the model does not support the operation.
    pub fn is_unsupported(&self) -> bool {
        matches!(&self.0, GenerationKind::Model(error) if error.is_unsupported())
    }
}

impl GenerationKind {
    pub(crate) fn model(error: formwork_lm::ModelError) -> Self {
        Self::Model(Arc::new(error))
    }
}

/// Error of a request for decisions.
#[derive(Debug, Error)]
pub enum DecisionError {
    /// The request was refused.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// The computation failed.
    #[error(transparent)]
    Failed(#[from] GenerationError),
    /// An option has no text or an empty one.
    #[error("option {option} has no text")]
    EmptyText {
        /// Index of the option.
        option: usize,
    },
    /// Two texts of a question are equal.
    #[error("option {option} repeats the text of another option")]
    RepeatedText {
        /// Index of the later option.
        option: usize,
    },
    /// One text begins with another one, so the beginning of an answer does not tell them apart.
    #[error("the text of option {option} is the beginning of the text of option {longer}")]
    PrefixText {
        /// Index of the option with the shorter text.
        option: usize,
        /// Index of the option with the longer text.
        longer: usize,
    },
    /// The model's vocabulary cannot spell a text.
    #[error("the model's vocabulary cannot spell option {option}")]
    Unspellable {
        /// Index of the option.
        option: usize,
    },
    /// A prompt and the longest text of its options exceed the context.
    #[error(
        "this model's maximum context length is {limit} tokens; the prompt of question {question} has {given} tokens, and its longest option needs up to {room}"
    )]
    TooLong {
        /// Index of the question.
        question: usize,
        /// Number of tokens of the prompt.
        given: usize,
        /// Maximum number of tokens of the longest option and the end of the answer.
        room: usize,
        /// The model's context length, in tokens.
        limit: usize,
    },
}

/// Error for a text that could not be embedded.
#[derive(Debug, Error)]
pub enum EmbedError {
    /// The request was refused.
    #[error(transparent)]
    Refused(#[from] RequestError),
    /// The computation failed.
    #[error(transparent)]
    Failed(#[from] GenerationError),
}
