//! `/v1/completions`: text that continues a prompt.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::chat::{ChunkUsage, FinishReason};
use crate::error::Problem;
use crate::request::{Fields, Parameters, Place, StreamOptions, take_without_effect};
use crate::{Format, RequestError, Undeclared, request};

/// Maximum number of prompts in a request, and maximum value of `best_of`.
const MAX_PROMPTS: usize = 128;
/// Maximum value of `logprobs`.
const MAX_LOGPROBS: usize = 20;

/// A request for completions.
#[derive(Clone, PartialEq, Debug)]
pub struct CompletionRequest {
    /// Served name of the model.
    pub model: String,
    /// Prompts to continue; at least one.
    pub prompts: Vec<CompletionPrompt>,
    /// Generation parameters. Without a limit, an output has at most 16 tokens, as with OpenAI.
    pub parameters: Parameters,
    /// Number of outputs to generate; the `n` likeliest are returned. At least `n`.
    pub best_of: usize,
    /// True if each output starts with its prompt.
    pub echo: bool,
    /// Number of likely tokens to report beside each token's log-probability; `None` reports none.
    pub logprobs: Option<usize>,
    /// Streaming options, if the response is streamed.
    pub stream: Option<StreamOptions>,
    /// Format that the outputs must match; `None` for free text.
    pub format: Option<Format>,
    /// Undeclared members in generated objects. An extension.
    pub undeclared: Undeclared,
}

/// A prompt to continue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompletionPrompt {
    /// A text.
    Text(String),
    /// Token ids.
    Tokens(Vec<u32>),
}

impl CompletionRequest {
    /// Parses a request's body.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown or
    /// unsupported field or value.
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
            let problem = Problem::Range { given: self.best_of.to_string(), range: "at least `n`" };
            return Err(RequestError::field("best_of", problem));
        }
        self.best_of = self.best_of.max(n);
        if self.stream.is_some() && self.best_of > n {
            return Err(RequestError::field("best_of", Problem::Conflict { other: "stream" }));
        }
        if self.parameters.reasoning_budget.is_some() {
            // Without a conversation the server cannot tell which part of a text is reasoning.
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

/// Parses a prompt: a text, an array of texts, an array of tokens, or an array of those arrays.
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

/// A whole completion, or one chunk of a streamed one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Completion {
    /// Unique id that starts with `cmpl-`.
    pub id: String,
    /// Always `text_completion`.
    pub object: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// The model that answered.
    pub model: String,
    /// The outputs: `n` for each prompt, in the order of the prompts.
    pub choices: Vec<CompletionChoice>,
    /// Token counts. In a stream, absent unless requested, and `null` until the last chunk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChunkUsage>,
    /// Fingerprint of the backend. A seeded output depends on it and on the request.
    pub system_fingerprint: Option<String>,
}

/// One output.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CompletionChoice {
    /// Index among the choices.
    pub index: usize,
    /// The text, or the new part of the text in a stream.
    pub text: String,
    /// Log-probabilities, if requested.
    pub logprobs: Option<CompletionLogprobs>,
    /// Reason why the output ended; `null` before the end.
    pub finish_reason: Option<FinishReason>,
    /// True if the output was closed early to stay within its token budget. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
}

/// The log-probabilities of an output as parallel lists, one entry per token.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CompletionLogprobs {
    /// Text of each token.
    pub tokens: Vec<String>,
    /// Natural logarithm of each token's probability.
    pub token_logprobs: Vec<f32>,
    /// Likeliest tokens at each position, with their log-probabilities.
    pub top_logprobs: Vec<Map<String, Value>>,
    /// Start of each token in the text, in characters.
    pub text_offset: Vec<usize>,
}
