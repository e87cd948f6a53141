//! The body of `POST /v1/chat/completions`.

mod fields;
mod format;
mod message;
mod neutral;
mod structural_tag;

use serde_json::{Map, Value};

pub(crate) use fields::{Fields, Place};
pub use format::Format;
pub(crate) use format::read as read_format;
pub use message::{ChatMessage, Role};
pub use structural_tag::{StructuralTag, StructuralTags, TagContent};

use crate::RequestError;
use crate::error::Problem;

/// The most stop strings that a request may have.
const MAX_STOPS: usize = 16;

/// Fields that are accepted and have no effect here: they are about accounts, storage and caching elsewhere.
const WITHOUT_EFFECT: [&str; 6] =
    ["user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"];

/// A request for a chat completion.
#[derive(Clone, PartialEq, Debug)]
pub struct ChatRequest {
    /// The model, by a name under which it is served.
    pub model: String,
    /// The conversation so far, oldest first; at least one message.
    pub messages: Vec<ChatMessage>,
    /// How to stream the answer, when it is to be streamed.
    pub stream: Option<StreamOptions>,
    /// The most tokens of output, at least 1.
    pub max_tokens: Option<TokenLimit>,
    /// In 0..=2.
    pub temperature: Option<f32>,
    /// In 0..=1.
    pub top_p: Option<f32>,
    /// How many of the likeliest tokens are kept; 0 keeps all (as does -1 on the wire). An extension.
    pub top_k: Option<usize>,
    /// In 0..=1. An extension.
    pub min_p: Option<f32>,
    /// In -2..=2: taken from the logits of tokens that are in the output; 0 does nothing.
    pub presence_penalty: f32,
    /// In -2..=2: taken from them once for each time that they are; 0 does nothing.
    pub frequency_penalty: f32,
    /// In 0.01..=100: what the logits of tokens of prompt and output are divided by, or multiplied with below zero; 1 does
    /// nothing. An extension.
    pub repetition_penalty: f32,
    /// Tokens by their ids, and what is added to their logits, in -100..=100.
    pub logit_bias: Vec<(u32, f32)>,
    /// What random draws follow from.
    pub seed: Option<u64>,
    /// Texts that end the output; none is empty.
    pub stop: Vec<String>,
    /// What the output must look like, unless it is free text.
    pub format: Option<Format>,
    /// Whether the prompt tells the model about `format`. An extension; true unless the request says otherwise.
    pub schema_in_prompt: bool,
    /// Further variables for the chat template. An extension.
    pub chat_template_kwargs: Map<String, Value>,
}

/// How an answer is streamed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamOptions {
    /// Whether a last chunk gives the usage.
    pub include_usage: bool,
}

/// A bound on the output, and the field that set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenLimit {
    /// At least 1.
    pub tokens: usize,
    /// `max_completion_tokens`, or its older name `max_tokens`.
    pub field: &'static str,
}

impl ChatRequest {
    /// Reads a request's body.
    ///
    /// # Errors
    /// When the body is not JSON, lacks what is required, or asks for what is not known or not supported.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?;
        let model = fields.required("model")?.string()?;
        Self::read(model, fields)
    }

    /// Reads the fields besides `model`.
    pub(crate) fn read(model: String, mut fields: Fields) -> Result<Self, RequestError> {
        let request = Self {
            model,
            messages: message::read_all(fields.required("messages")?)?,
            stream: read_stream(&mut fields)?,
            max_tokens: read_max_tokens(&mut fields)?,
            temperature: fields.take("temperature").map(|at| at.number(0.0..=2.0, "0..=2")).transpose()?,
            top_p: fields.take("top_p").map(|at| at.number(0.0..=1.0, "0..=1")).transpose()?,
            top_k: fields.take("top_k").as_ref().map(read_top_k).transpose()?,
            min_p: fields.take("min_p").map(|at| at.number(0.0..=1.0, "0..=1")).transpose()?,
            presence_penalty: read_penalty(&mut fields, "presence_penalty")?,
            frequency_penalty: read_penalty(&mut fields, "frequency_penalty")?,
            repetition_penalty: fields
                .take("repetition_penalty")
                .map(|at| at.number(0.01..=100.0, "0.01..=100"))
                .transpose()?
                .unwrap_or(1.0),
            logit_bias: fields.take("logit_bias").map(read_logit_bias).transpose()?.unwrap_or_default(),
            seed: fields.take("seed").map(Place::seed).transpose()?,
            stop: fields.take("stop").map(read_stop).transpose()?.unwrap_or_default(),
            format: format::read(&mut fields)?,
            schema_in_prompt: fields.take("schema_in_prompt").map(Place::bool).transpose()?.unwrap_or(true),
            chat_template_kwargs: fields
                .take("chat_template_kwargs")
                .map(Place::map)
                .transpose()?
                .unwrap_or_default(),
        };
        for name in WITHOUT_EFFECT {
            fields.take(name);
        }
        neutral::check(&mut fields, &neutral::CHAT)?;
        fields.finish()?;
        Ok(request)
    }
}

fn read_stream(fields: &mut Fields) -> Result<Option<StreamOptions>, RequestError> {
    let stream = fields.take("stream").map(Place::bool).transpose()?.unwrap_or(false);
    let Some(options) = fields.take("stream_options") else {
        return Ok(stream.then(StreamOptions::default));
    };
    if !stream {
        return Err(options.error(Problem::NotStreaming));
    }
    let mut options = options.fields()?;
    let include_usage = options.take("include_usage").map(Place::bool).transpose()?.unwrap_or(false);
    neutral::check(&mut options, &neutral::STREAM_OPTIONS)?;
    options.finish()?;
    Ok(Some(StreamOptions { include_usage }))
}

/// The two names of the same limit. A request may use both, as some clients do, when they agree.
fn read_max_tokens(fields: &mut Fields) -> Result<Option<TokenLimit>, RequestError> {
    let mut read = |field| -> Result<_, RequestError> {
        let tokens = fields.take(field).map(Place::positive).transpose()?;
        Ok(tokens.map(|tokens| TokenLimit { tokens, field }))
    };
    match (read("max_completion_tokens")?, read("max_tokens")?) {
        (Some(new), Some(old)) if new.tokens != old.tokens => {
            let (given, other, limit) = (old.tokens, new.field, new.tokens);
            Err(RequestError::field(old.field, Problem::Disagreement { given, other, limit }))
        }
        (new, old) => Ok(new.or(old)),
    }
}

fn read_penalty(fields: &mut Fields, name: &str) -> Result<f32, RequestError> {
    let given = fields.take(name).map(|at| at.number(-2.0..=2.0, "-2..=2")).transpose()?;
    Ok(given.unwrap_or(0.0))
}

fn read_logit_bias(at: Place) -> Result<Vec<(u32, f32)>, RequestError> {
    at.entries()?
        .into_iter()
        .map(|(name, at)| {
            let token = name.parse().map_err(|_| at.error(Problem::NotATokenId))?;
            Ok((token, at.number(-100.0..=100.0, "-100..=100")?))
        })
        .collect()
}

/// -1 is a common spelling of "all".
fn read_top_k(at: &Place) -> Result<usize, RequestError> {
    let given = at.integer(-1, "-1 and up")?;
    Ok(usize::try_from(given).unwrap_or(0))
}

fn read_stop(at: Place) -> Result<Vec<String>, RequestError> {
    let places = if at.is_string() { vec![at] } else { at.list("a string or an array of strings")? };
    if places.len() > MAX_STOPS {
        let problem = Problem::TooMany { given: places.len(), limit: MAX_STOPS };
        return Err(RequestError::field("stop", problem));
    }
    places.into_iter().map(Place::non_empty_string).collect()
}
