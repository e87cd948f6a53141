use super::fields::{Fields, Place};
use crate::RequestError;
use crate::error::Problem;

/// The most stop strings or stop tokens that a request may have.
const MAX_STOPS: usize = 16;
/// The most texts that end a repetition, and the most bytes of one.
const MAX_BREAKERS: usize = 64;
const MAX_BREAKER_BYTES: usize = 64;
/// The most answers to one request.
const MAX_CHOICES: usize = 128;
/// The most likely tokens that a request may ask to be told of.
const MAX_TOP_LOGPROBS: usize = 20;

/// How an output is generated: what chats, completions and responses have in common.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameters {
    /// The most tokens of output, at least 1.
    pub max_tokens: Option<TokenLimit>,
    /// How many outputs; at least 1.
    pub n: usize,
    /// In 0..=2.
    pub temperature: Option<f32>,
    /// In 0..=1.
    pub top_p: Option<f32>,
    /// How many of the likeliest tokens are kept; 0 keeps all (as does -1 on the wire). An extension.
    pub top_k: Option<usize>,
    /// In 0..=1. An extension.
    pub min_p: Option<f32>,
    /// In 0..=1; 1 keeps all. An extension.
    pub typical_p: Option<f32>,
    /// In -2..=2: taken from the logits of tokens that are in the output; 0 does nothing.
    pub presence_penalty: f32,
    /// In -2..=2: taken from them once for each time that they are; 0 does nothing.
    pub frequency_penalty: f32,
    /// In 0.01..=100: what the logits of tokens of prompt and output are divided by, or multiplied with below zero; 1 does
    /// nothing. An extension.
    pub repetition_penalty: f32,
    /// What is done against repeated sequences. Extensions, with llama.cpp's names.
    pub dry: Dry,
    /// How often, in 0..=1, the likeliest tokens are left out, and from which probability on. Extensions.
    pub xtc: (f32, f32),
    /// Tokens by their ids, and what is added to their logits, in -100..=100.
    pub logit_bias: Vec<(u32, f32)>,
    /// What random draws follow from.
    pub seed: Option<u64>,
    /// Texts that end the output; none is empty.
    pub stop: Vec<String>,
    /// Tokens that end the output. An extension.
    pub stop_token_ids: Vec<u32>,
    /// Whether an output with a constraint is cut off at the limit, rather than brought to an end within it. An extension.
    pub cut_off: bool,
    /// The most tokens that the model may think. An extension.
    pub reasoning_budget: Option<usize>,
}

/// A penalty on tokens that would go on with a sequence that came before.
#[derive(Clone, PartialEq, Debug)]
pub struct Dry {
    /// How strong it is; 0 does nothing.
    pub multiplier: f32,
    /// How it grows with the length of the sequence.
    pub base: f32,
    /// The longest sequence that goes unpunished.
    pub allowed_length: usize,
    /// How many of the last tokens are looked at; `None` is all.
    pub penalty_last_n: Option<usize>,
    /// Texts that end a sequence; `None` is the usual ones.
    pub sequence_breakers: Option<Vec<String>>,
}

/// A bound on the output, and the field that set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenLimit {
    /// At least 1.
    pub tokens: usize,
    /// `max_completion_tokens`, its older name `max_tokens`, or `max_output_tokens`.
    pub field: &'static str,
}

/// How an answer is streamed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamOptions {
    /// Whether a last chunk gives the usage.
    pub include_usage: bool,
}

impl Parameters {
    pub(crate) fn read(fields: &mut Fields) -> Result<Self, RequestError> {
        let unit = |at: Place| at.number(0.0..=1.0, "0..=1");
        Ok(Self {
            max_tokens: read_max_tokens(fields)?,
            n: fields.read("n", |at| at.at_most(MAX_CHOICES, "1..=128"))?.unwrap_or(1),
            temperature: fields.read("temperature", |at| at.number(0.0..=2.0, "0..=2"))?,
            top_p: fields.read("top_p", unit)?,
            top_k: fields.read("top_k", |at| read_top_k(&at))?,
            min_p: fields.read("min_p", unit)?,
            typical_p: fields.read("typical_p", unit)?,
            presence_penalty: read_penalty(fields, "presence_penalty")?,
            frequency_penalty: read_penalty(fields, "frequency_penalty")?,
            repetition_penalty: fields
                .read("repetition_penalty", |at| at.number(0.01..=100.0, "0.01..=100"))?
                .unwrap_or(1.0),
            dry: Dry::read(fields)?,
            xtc: (
                fields.read("xtc_probability", unit)?.unwrap_or(0.0),
                fields.read("xtc_threshold", unit)?.unwrap_or(0.1),
            ),
            logit_bias: fields.read("logit_bias", read_logit_bias)?.unwrap_or_default(),
            seed: fields.read("seed", Place::seed)?,
            stop: fields.read("stop", read_stop)?.unwrap_or_default(),
            stop_token_ids: fields.read("stop_token_ids", read_stop_tokens)?.unwrap_or_default(),
            cut_off: fields.read("on_budget", |at| at.one_of(cut_off, "close and length"))?.unwrap_or(false),
            reasoning_budget: read_reasoning_budget(fields)?,
        })
    }
}

impl Dry {
    fn read(fields: &mut Fields) -> Result<Self, RequestError> {
        let breakers = |at: Place| {
            let places = within(at.list("an array of strings")?, "dry_sequence_breakers", MAX_BREAKERS)?;
            let text = |at: Place| {
                if at.value() == "" { at.non_empty_string() } else { at.string_within(MAX_BREAKER_BYTES) }
            };
            places.into_iter().map(text).collect::<Result<Vec<_>, _>>()
        };
        let last_n = fields.read("dry_penalty_last_n", |at| at.integer(-1, "-1 and up"))?.unwrap_or(-1);
        Ok(Self {
            multiplier: fields.read("dry_multiplier", |at| at.number(0.0..=100.0, "0..=100"))?.unwrap_or(0.0),
            base: fields.read("dry_base", |at| at.number(1.0..=100.0, "1..=100"))?.unwrap_or(1.75),
            allowed_length: fields
                .read("dry_allowed_length", |at| at.integer(0, "0 and up"))?
                .map_or(2, |given| given as usize),
            penalty_last_n: usize::try_from(last_n).ok(),
            sequence_breakers: fields.read("dry_sequence_breakers", breakers)?,
        })
    }
}

/// `stream` and `stream_options`.
pub(crate) fn read_stream(fields: &mut Fields) -> Result<Option<StreamOptions>, RequestError> {
    let stream = fields.read("stream", Place::bool)?.unwrap_or(false);
    let Some(options) = fields.take("stream_options") else {
        return Ok(stream.then(StreamOptions::default));
    };
    if !stream {
        return Err(options.error(Problem::NotStreaming));
    }
    let mut options = options.fields()?;
    let include_usage = options.read("include_usage", Place::bool)?.unwrap_or(false);
    super::neutral::check(&mut options, &super::neutral::STREAM_OPTIONS)?;
    options.finish()?;
    Ok(Some(StreamOptions { include_usage }))
}

/// `logprobs` and `top_logprobs` of a chat: how many likely tokens to tell of.
pub(crate) fn read_logprobs(fields: &mut Fields) -> Result<Option<usize>, RequestError> {
    let asked = fields.read("logprobs", Place::bool)?.unwrap_or(false);
    let Some(at) = fields.take("top_logprobs") else { return Ok(asked.then_some(0)) };
    let top = at.integer(0, "0..=20")? as usize;
    if top > MAX_TOP_LOGPROBS {
        return Err(at.error(Problem::Range { given: top.to_string(), range: "0..=20" }));
    }
    if top > 0 && !asked {
        return Err(at.error(Problem::Needs { other: "logprobs" }));
    }
    Ok(asked.then_some(top))
}

/// The names of the same limit. A request may use both of chat's, as some clients do, when they agree.
fn read_max_tokens(fields: &mut Fields) -> Result<Option<TokenLimit>, RequestError> {
    let mut read = |field| -> Result<_, RequestError> {
        let tokens = fields.read(field, Place::positive)?;
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

/// `reasoning_budget`, as vLLM also calls it `thinking_token_budget`.
fn read_reasoning_budget(fields: &mut Fields) -> Result<Option<usize>, RequestError> {
    let mut read = |name| fields.read(name, |at| at.integer(0, "0 and up"));
    let (own, other) = (read("reasoning_budget")?, read("thinking_token_budget")?);
    Ok(own.or(other).map(|given| given as usize))
}

fn cut_off(name: &str) -> Option<bool> {
    match name {
        "close" => Some(false),
        "length" => Some(true),
        _ => None,
    }
}

fn read_penalty(fields: &mut Fields, name: &str) -> Result<f32, RequestError> {
    Ok(fields.read(name, |at| at.number(-2.0..=2.0, "-2..=2"))?.unwrap_or(0.0))
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
    let places = if at.is_string() {
        vec![at]
    } else {
        within(at.list("a string or an array of strings")?, "stop", MAX_STOPS)?
    };
    places.into_iter().map(Place::non_empty_string).collect()
}

fn read_stop_tokens(at: Place) -> Result<Vec<u32>, RequestError> {
    within(at.list("an array of token ids")?, "stop_token_ids", MAX_STOPS)?.iter().map(Place::token).collect()
}

fn within(places: Vec<Place>, field: &str, limit: usize) -> Result<Vec<Place>, RequestError> {
    if places.len() <= limit {
        return Ok(places);
    }
    Err(RequestError::field(field, Problem::TooMany { given: places.len(), limit }))
}
