//! `/v1/completions`: generates texts that continue a prompt.

use formwork_grammar::Undeclared;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::chat::{ChunkUsage, FinishReason};
use crate::error::Problem;
use crate::request::{Fields, Parameters, Place, StreamOptions, TokenLimit, take_without_effect};
use crate::{Format, IgnoredFields, RequestError, TokenMask, mask_view, request};

/// Maximum number of prompts in a request. Also the maximum value of `best_of`.
const MAX_PROMPTS: usize = 128;
/// Maximum value of `logprobs`.
const MAX_LOGPROBS: usize = 20;

/// Request for completions.
#[derive(Clone, PartialEq, Debug)]
pub struct CompletionRequest {
    /// Name under which the server offers the model. Empty if the request has none.
    pub model: String,
    /// Prompts to continue, at least one.
    pub prompts: Vec<CompletionPrompt>,
    /// Text after the outputs, for models that fill in text between a prompt and its suffix.
    pub suffix: Option<String>,
    /// Generation parameters. If `max_tokens` is absent, an output has at most 16 tokens, as with
    /// OpenAI.
    pub parameters: Parameters,
    /// Number of outputs to generate for each prompt, at least `n`. The `n` most likely are
    /// returned.
    pub best_of: usize,
    /// True if each output starts with its prompt. Log-probabilities then include those of the prompt.
    pub echo: bool,
    /// True if nothing is generated (`max_tokens` is 0). Only with `echo`.
    pub only_echo: bool,
    /// Number of likely tokens to report for each position, besides the generated token. If `None`,
    /// no log-probabilities are reported.
    pub logprobs: Option<usize>,
    /// Number of likely tokens to report with what the constraint did to each token of the output. If `None`,
    /// this is not reported. An extension.
    pub mask_view: Option<usize>,
    /// Streaming options. `None` if the response is not streamed.
    pub stream: Option<StreamOptions>,
    /// Format that the outputs must match. `None` if any text is allowed.
    pub format: Option<Format>,
    /// Treatment of undeclared members in generated objects. An extension.
    pub undeclared: Undeclared,
    /// Fields of the request that have no effect.
    pub ignored: IgnoredFields,
}

/// Prompt to continue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CompletionPrompt {
    /// Text that is encoded to tokens.
    Text(String),
    /// Token ids.
    Tokens(Vec<u32>),
}

impl CompletionRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown or
    /// unsupported field or value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let only_echo = fields.get("max_tokens").is_some_and(|given| given.as_f64() == Some(0.0));
        if only_echo
            && let Some(at) = fields.take("max_tokens")
            && !fields.get("echo").is_some_and(|echo| *echo == true)
        {
            return Err(at.error(Problem::Needs { other: "echo" }));
        }
        if only_echo && fields.get("max_completion_tokens").is_some() {
            let problem = Problem::Conflict { other: "max_tokens" };
            return Err(RequestError::field("max_completion_tokens", problem));
        }
        let mut request = Self {
            model: request::read_model(&mut fields)?,
            prompts: read_prompts(fields.required("prompt")?)?,
            suffix: fields.read("suffix", Place::string)?.filter(|suffix| !suffix.is_empty()),
            parameters: Parameters::read(&mut fields)?,
            best_of: fields.read("best_of", |at| at.at_most(MAX_PROMPTS, "1..=128"))?.unwrap_or(0),
            echo: fields.read("echo", Place::bool)?.unwrap_or(false),
            only_echo,
            logprobs: fields.read("logprobs", |at| read_logprobs(&at))?,
            mask_view: mask_view::read(&mut fields)?,
            stream: request::read_stream(&mut fields)?,
            format: request::read_format(&mut fields)?,
            undeclared: request::read_undeclared(&mut fields)?,
            ignored: IgnoredFields::default(),
        };
        if only_echo {
            request.parameters.max_tokens = Some(TokenLimit { tokens: 0, field: "max_tokens" });
        }
        take_without_effect(&mut fields);
        request::check_neutral_completion(&mut fields)?;
        request.ignored = fields.finish_request()?;
        request.checked()
    }

    /// Checks the fields that depend on each other.
    pub(crate) fn checked(mut self) -> Result<Self, RequestError> {
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
        if self.echo && self.suffix.is_some() {
            return Err(RequestError::field("echo", Problem::Conflict { other: "suffix" }));
        }
        Ok(self)
    }
}

/// Parses `prompt`, which is a text, an array of texts, an array of token ids, or an array of
/// arrays of token ids.
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

/// Response to a completion request, or one chunk of a streamed response.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Completion {
    /// Unique id that starts with `cmpl-`.
    pub id: String,
    /// Always `text_completion`.
    pub object: String,
    /// Creation time, in seconds since 1970.
    pub created: u64,
    /// Name under which the server offers the model.
    pub model: String,
    /// Outputs, `n` for each prompt, in the order of the prompts.
    pub choices: Vec<CompletionChoice>,
    /// Token counts. In a stream, absent unless requested. If requested, `null` in all chunks
    /// except the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ChunkUsage>,
    /// Fingerprint of the backend. With a seed, equal requests get equal outputs as long as the
    /// fingerprint is the same.
    pub system_fingerprint: Option<String>,
}

/// One output of a completion.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CompletionChoice {
    /// Index of the output, starting at 0.
    pub index: usize,
    /// Text of the output. In a stream, only the new part of the text.
    pub text: String,
    /// Log-probabilities of the tokens. `null` unless requested.
    pub logprobs: Option<CompletionLogprobs>,
    /// Effect of the constraint on each token of the output. Absent unless requested. In a stream, only the new
    /// tokens. An extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_view: Option<Vec<TokenMask>>,
    /// Reason why the output ended. In a stream, `null` before the end.
    pub finish_reason: Option<FinishReason>,
    /// True if a constrained output was closed early to stay within the token limit. An extension.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed_by_budget: bool,
}

/// Log-probabilities of the tokens of an output. All lists have one entry for each token.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CompletionLogprobs {
    /// Text of each token.
    pub tokens: Vec<String>,
    /// Natural logarithm of each token's probability, computed from the model's own logits. `null` for
    /// the first token of an echoed prompt.
    pub token_logprobs: Vec<Option<f32>>,
    /// Most likely tokens at each position, as an object that maps the text of a token to its
    /// log-probability. `null` for the first token of an echoed prompt.
    pub top_logprobs: Vec<Option<Map<String, Value>>>,
    /// Position of each token in the text of the output, in characters.
    pub text_offset: Vec<usize>,
}
