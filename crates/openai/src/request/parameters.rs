use super::fields::{Fields, Place};
use crate::RequestError;
use crate::error::Problem;

/// Maximum number of stop strings, and of stop tokens.
const MAX_STOPS: usize = 16;
/// Maximum number of sequence breakers.
const MAX_BREAKERS: usize = 64;
const MAX_BREAKER_BYTES: usize = 64;
/// Maximum number of outputs of a request.
const MAX_CHOICES: usize = 128;
/// Maximum value of `top_logprobs`.
const MAX_TOP_LOGPROBS: usize = 20;

/// Generation parameters that chats, completions and responses share.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameters {
    /// Maximum number of output tokens, at least 1.
    pub max_tokens: Option<TokenLimit>,
    /// Number of outputs, at least 1.
    pub n: usize,
    /// Sampling temperature, in 0..=2.
    pub temperature: Option<f32>,
    /// Probability mass of nucleus sampling, in 0..=1.
    pub top_p: Option<f32>,
    /// Number of likeliest tokens to keep; 0 keeps all, as does -1 on the wire. An extension.
    pub top_k: Option<usize>,
    /// Minimum probability relative to the likeliest token, in 0..=1. An extension.
    pub min_p: Option<f32>,
    /// Probability mass of locally typical sampling, in 0..=1; 1 keeps all tokens. An extension.
    pub typical_p: Option<f32>,
    /// Subtracted from the logit of each token that the output contains. In -2..=2; 0 has no
    /// effect.
    pub presence_penalty: f32,
    /// Subtracted from a token's logit for each occurrence in the output. In -2..=2; 0 has no
    /// effect.
    pub frequency_penalty: f32,
    /// Divides the positive logits of tokens in prompt and output, and multiplies the negative
    /// ones. In 0.01..=100; 1 has no effect. An extension.
    pub repetition_penalty: f32,
    /// Settings of the DRY penalty on repeated sequences. An extension; the fields are named as in
    /// llama.cpp.
    pub dry: Dry,
    /// XTC sampling as `(probability, threshold)`. With `probability`, in 0..=1, the likeliest tokens
    /// are excluded. A token counts as likeliest if its own probability reaches `threshold`. An
    /// extension.
    pub xtc: (f32, f32),
    /// Token ids, and the number in -100..=100 that is added to each token's logit.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of random draws.
    pub seed: Option<u64>,
    /// Strings that end the output; none is empty.
    pub stop: Vec<String>,
    /// Token ids that end the output. An extension.
    pub stop_token_ids: Vec<u32>,
    /// True if a constrained output is cut off at the token limit; false if it is closed within the
    /// limit. An extension.
    pub cut_off: bool,
    /// Maximum number of reasoning tokens. An extension.
    pub reasoning_budget: Option<usize>,
}

/// Penalty on tokens that would continue a sequence that already occurred.
#[derive(Clone, PartialEq, Debug)]
pub struct Dry {
    /// Strength of the penalty; 0 turns it off.
    pub multiplier: f32,
    /// Factor by which the penalty grows with each token of the sequence.
    pub base: f32,
    /// Longest repeated sequence without a penalty, in tokens.
    pub allowed_length: usize,
    /// Number of last tokens to search; `None` searches all.
    pub penalty_last_n: Option<usize>,
    /// Strings that end a sequence; `None` uses the engine's default.
    pub sequence_breakers: Option<Vec<String>>,
}

/// A limit on the number of output tokens, with the field that set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenLimit {
    /// Number of tokens, at least 1.
    pub tokens: usize,
    /// `max_completion_tokens`, its older name `max_tokens`, or `max_output_tokens`.
    pub field: &'static str,
}

/// Options of a streamed response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamOptions {
    /// True if a last chunk reports the usage.
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
        let last_n = fields.read("dry_penalty_last_n", |at| at.integer(-1, "at least -1"))?.unwrap_or(-1);
        Ok(Self {
            multiplier: fields.read("dry_multiplier", |at| at.number(0.0..=100.0, "0..=100"))?.unwrap_or(0.0),
            base: fields.read("dry_base", |at| at.number(1.0..=100.0, "1..=100"))?.unwrap_or(1.75),
            allowed_length: fields
                .read("dry_allowed_length", |at| at.integer(0, "at least 0"))?
                .map_or(2, |given| given as usize),
            penalty_last_n: usize::try_from(last_n).ok(),
            sequence_breakers: fields.read("dry_sequence_breakers", breakers)?,
        })
    }
}

/// Parses `stream` and `stream_options`.
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

/// Parses `logprobs` and `top_logprobs` of a chat. Returns the number of likely tokens to report.
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

/// Parses the token limit of a chat, which has two names. Some clients send both, which is accepted
/// if the values agree.
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

/// Parses `reasoning_budget`, which vLLM also calls `thinking_token_budget`.
fn read_reasoning_budget(fields: &mut Fields) -> Result<Option<usize>, RequestError> {
    let mut read = |name| fields.read(name, |at| at.integer(0, "at least 0"));
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

/// Parses `top_k`; -1 is a common way to keep all tokens, so it becomes 0.
fn read_top_k(at: &Place) -> Result<usize, RequestError> {
    let given = at.integer(-1, "at least -1")?;
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
