//! `/v1/completions`: text that goes on from a prompt.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::chat::{ChunkUsage, FinishReason};
use crate::error::Problem;
use crate::request::{Fields, Parameters, Place, StreamOptions, take_without_effect};
use crate::{Format, RequestError, Undeclared, request};

/// The most prompts of a request.
const MAX_PROMPTS: usize = 128;
/// The most likely tokens that a request may ask to be told of.
const MAX_LOGPROBS: usize = 20;

/// A request for completions.
#[derive(Clone, PartialEq, Debug)]
pub struct CompletionRequest {
    /// The model, by a name under which it is served.
    pub model: String,
    /// What to go on from; at least one.
    pub prompts: Vec<CompletionPrompt>,
    /// How the outputs are generated. Without a limit, 16 tokens, as OpenAI has it.
    pub parameters: Parameters,
    /// How many outputs to choose the likeliest `n` from; at least `n`.
    pub best_of: usize,
    /// Whether the outputs begin with the prompt.
    pub echo: bool,
    /// How many likely tokens to tell of beside each token's log-probability; `None` tells nothing.
    pub logprobs: Option<usize>,
    /// How to stream the answer, when it is to be streamed.
    pub stream: Option<StreamOptions>,
    /// What the outputs must look like, unless they are free text.
    pub format: Option<Format>,
    /// Whether generated objects have members that their schema says nothing about. An extension.
    pub undeclared: Undeclared,
}

/// What to go on from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompletionPrompt {
    /// A text.
    Text(String),
    /// Tokens.
    Tokens(Vec<u32>),
}

impl CompletionRequest {
    /// Reads a request's body.
    ///
    /// # Errors
    /// When the body is not JSON, lacks what is required, or asks for what is not known or not supported.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?;
        let request = Self {
            model: fields.required("model")?.string()?,
            prompts: read_prompts(fields.required("prompt")?)?,
            parameters: Parameters::read(&mut fields)?,
            best_of: fields.read("best_of", |at| at.at_most(MAX_PROMPTS, "1..=128"))?.unwrap_or(0),
            echo: fields.read("echo", Place::bool)?.unwrap_or(false),
            logprobs: fields.read("logprobs", |at| read_logprobs(&at))?,
            stream: request::read_stream(&mut fields)?,
            format: request::read_format(&mut fields)?,
            undeclared: request::read_undeclared(&mut fields)?,
        };
        take_without_effect(&mut fields);
        request::check_neutral_completion(&mut fields)?;
        fields.finish()?;
        request.checked()
    }

    fn checked(mut self) -> Result<Self, RequestError> {
        let n = self.parameters.n;
        if self.best_of != 0 && self.best_of < n {
            let problem = Problem::Range { given: self.best_of.to_string(), range: "n and up" };
            return Err(RequestError::field("best_of", problem));
        }
        self.best_of = self.best_of.max(n);
        if self.stream.is_some() && self.best_of > n {
            return Err(RequestError::field("best_of", Problem::Conflict { other: "stream" }));
        }
        if self.parameters.reasoning_budget.is_some() {
            // What part of a text is thought is not known without a conversation.
            return Err(RequestError::field(
                "reasoning_budget",
                Problem::NotNeutral { accepted: "null", hint: "" },
            ));
        }
        if self.echo && self.logprobs.is_some() {
            return Err(RequestError::field("echo", Problem::Conflict { other: "logprobs" }));
        }
        Ok(self)
    }
}

/// A text, several, tokens, or several of those.
fn read_prompts(at: Place) -> Result<Vec<CompletionPrompt>, RequestError> {
    if at.is_string() {
        return Ok(vec![CompletionPrompt::Text(at.string()?)]);
    }
    let places = at.clone().list("a string, an array of strings, or arrays of tokens")?;
    if places.is_empty() {
        return Err(at.error(Problem::Empty));
    }
    if places.iter().all(|place| place.value().is_number()) {
        return Ok(vec![read_tokens(&places)?]);
    }
    if places.len() > MAX_PROMPTS {
        return Err(at.error(Problem::TooMany { given: places.len(), limit: MAX_PROMPTS }));
    }
    let prompt = |place: Place| {
        if place.is_string() {
            return Ok(CompletionPrompt::Text(place.string()?));
        }
        read_tokens(&place.list("a string or an array of tokens")?)
    };
    places.into_iter().map(prompt).collect()
}

fn read_tokens(places: &[Place]) -> Result<CompletionPrompt, RequestError> {
    let tokens = places.iter().map(Place::token).collect::<Result<_, _>>()?;
    Ok(CompletionPrompt::Tokens(tokens))
}

fn read_logprobs(at: &Place) -> Result<usize, RequestError> {
    let given = at.integer(0, "0..=20")? as usize;
    if given > MAX_LOGPROBS {
        return Err(at.error(Problem::Range { given: given.to_string(), range: "0..=20" }));
    }
    Ok(given)
}

/// A whole answer, or a piece of a streamed one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Completion {
    /// Unique, beginning with `cmpl-`.
    pub id: String,
    /// Always `text_completion`.
    pub object: String,
    /// When it began, in seconds since 1970.
    pub created: u64,
    /// The model that answered.
    pub model: String,
    /// The outputs: `n` for each prompt, in the prompts' order.
    pub choices: Vec<CompletionChoice>,
    /// Tokens that were used. In a stream absent unless it was asked for; `null` until the last piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChunkUsage>,
    /// What the output of a seed depends on besides the request.
    pub system_fingerprint: Option<String>,
}

/// One output.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CompletionChoice {
    /// Its place among the choices.
    pub index: usize,
    /// The text, or more of it.
    pub text: String,
    /// Log-probabilities, where they were asked for.
    pub logprobs: Option<CompletionLogprobs>,
    /// Why it ended; `null` before its end.
    pub finish_reason: Option<FinishReason>,
    /// Set when the output was steered to its end to stay within its token budget. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
}

/// The log-probabilities of an output, list by list.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CompletionLogprobs {
    /// The tokens' texts.
    pub tokens: Vec<String>,
    /// The natural logarithms of their probabilities.
    pub token_logprobs: Vec<f32>,
    /// The likeliest tokens in their places.
    pub top_logprobs: Vec<Map<String, Value>>,
    /// Where each token begins in the text, in characters.
    pub text_offset: Vec<usize>,
}
