use super::fields::{Fields, Place};
use crate::RequestError;
use crate::error::Problem;

/// Maximum number of stop strings. Also the maximum number of stop tokens.
const MAX_STOPS: usize = 64;
/// Maximum number of sequence breakers of the DRY penalty.
const MAX_BREAKERS: usize = 64;
const MAX_BREAKER_BYTES: usize = 64;
/// Maximum value of `n`.
const MAX_CHOICES: usize = 128;
/// Maximum value of `top_logprobs`.
const MAX_TOP_LOGPROBS: usize = 20;

/// Generation parameters, which requests for chats, completions and responses have in common. If a
/// parameter is `None`, the default of the engine or model applies.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameters {
    /// Maximum number of output tokens. If `None`, the server sets the limit.
    pub max_tokens: Option<TokenLimit>,
    /// Number of output tokens before which no end-of-sequence token, stop token or stop string ends the
    /// output. An extension.
    pub min_tokens: usize,
    /// True if no end-of-sequence token ends the output. An extension.
    pub ignore_eos: bool,
    /// True if the request asks for outputs of any length, with a limit of -1.
    pub unlimited: bool,
    /// Number of outputs for each prompt, from 1 to 128.
    pub n: usize,
    /// Sampling temperature, in 0..=10.
    pub temperature: Option<f32>,
    /// Probability mass of nucleus sampling, in 0..=1: less likely tokens beyond this mass are
    /// dropped.
    pub top_p: Option<f32>,
    /// Number of most likely tokens to keep. 0 keeps all tokens, and so does -1 in a request. An
    /// extension.
    pub top_k: Option<usize>,
    /// Minimum probability of a token, as a fraction of the probability of the most likely token.
    /// In 0..=1. An extension.
    pub min_p: Option<f32>,
    /// Probability mass of locally typical sampling, in 0..=1. 1 keeps all tokens. An extension.
    pub typical_p: Option<f32>,
    /// Penalty for tokens that occur in the output. Subtracted once from the token's logit. In
    /// -100..=100, and 0 has no effect.
    pub presence_penalty: f32,
    /// Penalty for tokens that occur in the output. Subtracted from the token's logit once for each
    /// occurrence. In -100..=100, and 0 has no effect.
    pub frequency_penalty: f32,
    /// Penalty for tokens that occur in the prompt or output. A positive logit is divided by the
    /// penalty, and a negative logit is multiplied by it. In 0.01..=100, and 1 has no effect. An
    /// extension.
    pub repetition_penalty: f32,
    /// DRY penalty, for tokens that continue a repeated sequence. Its fields have the same names as
    /// in llama.cpp. An extension.
    pub dry: Dry,
    /// XTC sampling, as `(probability, threshold)`, both in 0..=1. XTC excludes likely tokens, to
    /// make outputs more varied. It is applied to a position with the given probability. Then it
    /// excludes all tokens whose probability reaches the threshold, except the least likely of
    /// them. An extension.
    pub xtc: (f32, f32),
    /// Token ids with numbers in -100..=100 that are added to the logits of these tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of the random numbers. If `None`, the server chooses a seed.
    pub seed: Option<u64>,
    /// Strings that end the output. No string is empty.
    pub stop: Vec<String>,
    /// Ids of tokens that end the output. An extension.
    pub stop_token_ids: Vec<u32>,
    /// True if a constrained output is cut off at the token limit (`on_budget` is `length`). False
    /// if it is closed early, so that it is complete within the limit. An extension.
    pub cut_off: bool,
    /// Maximum number of reasoning tokens. If `None`, reasoning has no limit of its own. An
    /// extension.
    pub reasoning_budget: Option<usize>,
}

/// DRY penalty: applies to tokens that would continue a sequence which has occurred before.
#[derive(Clone, PartialEq, Debug)]
pub struct Dry {
    /// Strength of the penalty. 0 disables the penalty.
    pub multiplier: f32,
    /// Factor by which the penalty grows with each further token of the repeated sequence.
    pub base: f32,
    /// Length up to which a repeated sequence gets no penalty, in tokens.
    pub allowed_length: usize,
    /// Number of last tokens in which repeated sequences are searched. If `None`, all tokens are
    /// searched.
    pub penalty_last_n: Option<usize>,
    /// Strings at which repeated sequences end. If `None`, the engine's default strings are used.
    pub sequence_breakers: Option<Vec<String>>,
}

/// Limit on the number of output tokens, with the name of the request field that set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenLimit {
    /// Number of tokens, at least 1. Completions that only echo their prompts have 0.
    pub tokens: usize,
    /// Name of the request field: `max_completion_tokens`, its older name `max_tokens`, or
    /// `max_output_tokens`.
    pub field: &'static str,
}

/// Options of a streamed response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamOptions {
    /// True if an additional last chunk must report the token counts.
    pub include_usage: bool,
}

/// Parses `seed`, or `random_seed`, which is Mistral's name.
fn read_seed(fields: &mut Fields) -> Result<Option<u64>, RequestError> {
    let seed = fields.read("seed", Place::seed)?;
    let Some(other) = fields.take("random_seed") else { return Ok(seed) };
    if seed.is_some() {
        return Err(other.error(Problem::Conflict { other: "seed" }));
    }
    other.seed().map(Some)
}

impl Parameters {
    pub(crate) fn read(fields: &mut Fields) -> Result<Self, RequestError> {
        let unit = |at: Place| at.number(0.0..=1.0, "0..=1");
        let last_n = fields.take("repeat_last_n");
        let unlimited = ["max_tokens", "max_completion_tokens"]
            .iter()
            .any(|name| fields.get(name).is_some_and(|given| given.as_f64() == Some(-1.0)));
        let max_tokens = read_max_tokens(fields)?;
        let parameters = Self {
            unlimited,
            max_tokens,
            min_tokens: read_min_tokens(fields, max_tokens)?,
            ignore_eos: fields.read("ignore_eos", Place::bool)?.unwrap_or(false),
            n: fields.read("n", |at| at.at_most(MAX_CHOICES, "1..=128"))?.unwrap_or(1),
            temperature: fields.read("temperature", |at| at.number(0.0..=10.0, "0..=10"))?,
            top_p: fields.read("top_p", unit)?,
            top_k: fields.read("top_k", |at| read_top_k(&at))?,
            min_p: fields.read("min_p", unit)?,
            typical_p: fields.read("typical_p", unit)?,
            presence_penalty: read_penalty(fields, "presence_penalty")?,
            frequency_penalty: read_penalty(fields, "frequency_penalty")?,
            repetition_penalty: read_repetition_penalty(fields)?,
            dry: Dry::read(fields)?,
            xtc: (
                fields.read("xtc_probability", unit)?.unwrap_or(0.0),
                fields.read("xtc_threshold", unit)?.unwrap_or(0.1),
            ),
            logit_bias: fields.read("logit_bias", read_logit_bias)?.unwrap_or_default(),
            seed: read_seed(fields)?,
            stop: fields.read("stop", read_stop)?.unwrap_or_default(),
            stop_token_ids: fields.read("stop_token_ids", read_stop_tokens)?.unwrap_or_default(),
            cut_off: fields.read("on_budget", |at| at.one_of(cut_off, "close and length"))?.unwrap_or(false),
            reasoning_budget: read_reasoning_budget(fields)?,
        };
        if let Some(at) = last_n {
            check_last_n(at, &parameters)?;
        }
        Ok(parameters)
    }
}

impl Dry {
    fn read(fields: &mut Fields) -> Result<Self, RequestError> {
        let breakers = |at: Place| {
            let places = within(at, "an array of strings", MAX_BREAKERS)?;
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

/// Parses `stream` and `stream_options`. Returns `None` if the response is not streamed.
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
    // Obfuscation pads a stream against observers who measure packet sizes, which are none here. Usage
    // comes once, at the end.
    for name in ["include_obfuscation", "continuous_usage_stats", "chunk_include_usage"] {
        options.ignore(name);
    }
    options.finish()?;
    Ok(Some(StreamOptions { include_usage }))
}

/// Parses `logprobs` and `top_logprobs` of a chat request. Returns the number of likely tokens to
/// report, or `None` if no log-probabilities are requested.
pub(crate) fn read_logprobs(fields: &mut Fields) -> Result<Option<usize>, RequestError> {
    let asked = fields.read("logprobs", Place::bool)?.unwrap_or(false);
    let Some(at) = fields.take("top_logprobs") else { return Ok(asked.then_some(0)) };
    let top = read_top_logprobs(&at)?;
    if top > 0 && !asked {
        return Err(at.error(Problem::Needs { other: "logprobs" }));
    }
    Ok(asked.then_some(top))
}

/// Parses `top_logprobs`: a number of likely tokens for each position.
pub(crate) fn read_top_logprobs(at: &Place) -> Result<usize, RequestError> {
    let top = at.integer(0, "0..=20")? as usize;
    if top > MAX_TOP_LOGPROBS {
        return Err(at.error(Problem::Range { given: top.to_string(), range: "0..=20" }));
    }
    Ok(top)
}

/// Parses the token limit of a chat request, whose field has two names. Some clients send both,
/// which is accepted if the values are equal.
fn read_max_tokens(fields: &mut Fields) -> Result<Option<TokenLimit>, RequestError> {
    let mut read = |field| -> Result<_, RequestError> {
        // Some clients send -1 for no limit.
        let given = fields.read(field, |at| match at.integer(-1, "at least 1")? {
            -1 => Ok(None),
            _ => at.positive().map(Some),
        })?;
        Ok(given.flatten().map(|tokens| TokenLimit { tokens, field }))
    };
    match (read("max_completion_tokens")?, read("max_tokens")?) {
        (Some(new), Some(old)) if new.tokens != old.tokens => {
            let (given, other, limit) = (old.tokens, new.field, new.tokens);
            Err(RequestError::field(old.field, Problem::Disagreement { given, other, limit }))
        }
        (new, old) => Ok(new.or(old)),
    }
}

/// Parses `min_tokens`. The default is 0.
fn read_min_tokens(fields: &mut Fields, most: Option<TokenLimit>) -> Result<usize, RequestError> {
    let Some(at) = fields.take("min_tokens") else { return Ok(0) };
    let given = at.integer(0, "at least 0")? as usize;
    match most {
        Some(TokenLimit { tokens, field }) if given > tokens => {
            Err(at.error(Problem::AboveLimit { given, other: field, limit: tokens }))
        }
        _ => Ok(given),
    }
}

/// Parses `reasoning_budget`. vLLM's name for the field, `thinking_token_budget`, is accepted too.
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

/// Parses `repetition_penalty`, or llama.cpp's and Ollama's name for it, `repeat_penalty`.
fn read_repetition_penalty(fields: &mut Fields) -> Result<f32, RequestError> {
    let given = fields.take("repetition_penalty");
    let other = fields.take("repeat_penalty");
    if let (Some(_), Some(other)) = (&given, &other) {
        return Err(other.error(Problem::Conflict { other: "repetition_penalty" }));
    }
    let penalty = given.or(other).map(|at| at.number(0.01..=100.0, "0.01..=100"));
    Ok(penalty.transpose()?.unwrap_or(1.0))
}

/// Checks `repeat_last_n`, the number of tokens that penalties see. Here they see all tokens, so another
/// number is an error if there is a penalty.
#[allow(clippy::float_cmp, reason = "exactly these values turn the penalties off")]
fn check_last_n(at: Place, parameters: &Parameters) -> Result<(), RequestError> {
    let has_penalty = parameters.repetition_penalty != 1.0
        || parameters.presence_penalty != 0.0
        || parameters.frequency_penalty != 0.0;
    if at.integer(-1, "at least -1")? == -1 {
        return Ok(());
    }
    if has_penalty {
        return Err(at.error(Problem::NotNeutral { accepted: "-1", hint: "penalties see all tokens" }));
    }
    at.ignore();
    Ok(())
}

fn read_penalty(fields: &mut Fields, name: &str) -> Result<f32, RequestError> {
    Ok(fields.read(name, |at| at.number(-100.0..=100.0, "-100..=100"))?.unwrap_or(0.0))
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

/// Parses `top_k`. Some clients send -1 to keep all tokens, so -1 becomes 0.
fn read_top_k(at: &Place) -> Result<usize, RequestError> {
    let given = at.integer(-1, "at least -1")?;
    Ok(usize::try_from(given).unwrap_or(0))
}

/// Parses stop strings: one, or an array of them.
pub(crate) fn read_stop(at: Place) -> Result<Vec<String>, RequestError> {
    let places =
        if at.is_string() { vec![at] } else { within(at, "a string or an array of strings", MAX_STOPS)? };
    let mut stops = Vec::with_capacity(places.len());
    for place in places {
        // An empty string would end each output before its first token: it is in no one's interest.
        if place.value() == "" {
            place.ignore();
        } else {
            stops.push(place.string()?);
        }
    }
    Ok(stops)
}

fn read_stop_tokens(at: Place) -> Result<Vec<u32>, RequestError> {
    within(at, "an array of token ids", MAX_STOPS)?.iter().map(Place::token).collect()
}

/// Parses an array of at most `limit` elements. `expected` describes the field for the error message.
fn within(at: Place, expected: &'static str, limit: usize) -> Result<Vec<Place>, RequestError> {
    let place = at.clone();
    let places = at.list(expected)?;
    if places.len() <= limit {
        return Ok(places);
    }
    Err(place.error(Problem::TooMany { given: places.len(), limit }))
}
