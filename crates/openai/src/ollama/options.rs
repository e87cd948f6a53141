//! Field `options`: the generation parameters, and settings that have no effect here.

use crate::RequestError;
use crate::error::Problem;
use crate::request::{Fields, Parameters, Place, TokenLimit, check_of_others, take_without_effect};

/// Ollama's defaults, which differ from those of OpenAI's API.
const TEMPERATURE: f32 = 0.8;
const TOP_K: usize = 40;
const TOP_P: f32 = 0.9;

/// Options without effect here: settings of memory and speed. `num_ctx` is among the fields that have no
/// effect in any request.
const WITHOUT_EFFECT: [&str; 15] = [
    "num_keep",
    "num_batch",
    "num_gpu",
    "num_gqa",
    "main_gpu",
    "num_thread",
    "use_mmap",
    "use_mlock",
    "numa",
    "low_vram",
    "f16_kv",
    "vocab_only",
    "logits_all",
    "penalize_newline",
    "draft_num_predict",
];

/// Options that some clients write beside `options`, and their names there.
const BESIDE: [(&str, &str); 9] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("top_k", "top_k"),
    ("seed", "seed"),
    ("stop", "stop"),
    ("presence_penalty", "presence_penalty"),
    ("frequency_penalty", "frequency_penalty"),
    ("max_tokens", "num_predict"),
    ("max_output_tokens", "num_predict"),
];

/// Parses the field `options`, and options beside it. Those within it count if both are given.
pub(super) fn read(fields: &mut Fields) -> Result<Parameters, RequestError> {
    let options = fields.read("options", Place::fields)?;
    let mut options = options.unwrap_or_else(|| fields.inner("options"));
    for (name, inner) in BESIDE {
        let Some(at) = fields.take(name) else { continue };
        if options.get(inner).is_some() || options.get(name).is_some() {
            at.ignore();
        } else {
            options.put(inner, at);
        }
    }
    // -1 asks for a random seed.
    if options.get("seed").is_some_and(|seed| *seed == -1) {
        options.take("seed");
    }
    if let Some(at) = options.take("n").filter(|at| *at.value() != 1) {
        return Err(at.error(Problem::NotNeutral { accepted: "1", hint: "" }));
    }
    let limit = options.take("num_predict");
    let mut parameters = Parameters::read(&mut options)?;
    if let Some(at) = limit {
        if let Some(other) = parameters.max_tokens {
            return Err(at.error(Problem::Conflict { other: other.field }));
        }
        parameters.max_tokens = read_limit(&at)?;
    }
    parameters.unlimited = parameters.max_tokens.is_none();
    parameters.temperature = parameters.temperature.or(Some(TEMPERATURE));
    parameters.top_k = parameters.top_k.or(Some(TOP_K));
    parameters.top_p = parameters.top_p.or(Some(TOP_P));
    for name in WITHOUT_EFFECT {
        options.ignore(name);
    }
    take_without_effect(&mut options);
    check_of_others(&mut options)?;
    options.finish()?;
    Ok(parameters)
}

/// Parses `num_predict`. The values -1 and -2 mean no limit.
fn read_limit(at: &Place) -> Result<Option<TokenLimit>, RequestError> {
    const RANGE: &str = "-2, -1 or at least 1";
    match at.integer(-2, RANGE)? {
        0 => Err(at.error(Problem::Range { given: "0".to_owned(), range: RANGE })),
        given if given < 0 => Ok(None),
        given => Ok(Some(TokenLimit { tokens: given as usize, field: "options.num_predict" })),
    }
}
