//! Unsupported fields with their neutral values. A neutral value requests only the default
//! behavior.
//!
//! Clients send many fields with their default values, so neutral values are accepted. Any other
//! value is an error, because ignoring it would silently change the output.

use serde_json::Value;

use super::fields::Fields;
use crate::RequestError;
use crate::error::Problem;

/// Unsupported field of a request.
///
/// `asks_nothing` reports whether a value is neutral. `accepted` describes the neutral values, and
/// `hint` names an alternative, both for the error message.
pub(super) struct Unsupported {
    name: &'static str,
    asks_nothing: fn(&Value) -> bool,
    accepted: &'static str,
    hint: &'static str,
}

const fn field(name: &'static str, asks_nothing: fn(&Value) -> bool, accepted: &'static str) -> Unsupported {
    Unsupported { name, asks_nothing, accepted, hint: "" }
}

const fn hinted(
    name: &'static str,
    asks_nothing: fn(&Value) -> bool,
    accepted: &'static str,
    hint: &'static str,
) -> Unsupported {
    Unsupported { hint, ..field(name, asks_nothing, accepted) }
}

/// Unsupported fields of other servers, for chats and completions. Their neutral values mean what this
/// server does.
pub(super) const OF_OTHERS: [Unsupported; 53] = [
    field("modalities", |value| *value == serde_json::json!(["text"]), "[\"text\"]"),
    field("chat_template", never, "null"),
    field("documents", is_empty, "[]"),
    hinted("images", is_empty, "[]", "this server reads no images"),
    // llama.cpp and servers like it.
    hinted("n_predict", is_minus_one, "-1", "use `max_tokens`"),
    hinted("num_predict", is_minus_one, "-1", "use `max_tokens`"),
    hinted("n_probs", is_zero, "0", "use `logprobs`"),
    field("mirostat", is_zero, "0"),
    field("tfs_z", is_one, "1"),
    field("tfs", is_one, "1"),
    field("top_a", is_zero, "0"),
    field("top_n_sigma", |value| value.as_f64().is_some_and(|sigma| sigma <= 0.0), "-1"),
    field("dynatemp_range", is_zero, "0"),
    field("smoothing_factor", is_zero, "0"),
    field("samplers", never, "null"),
    field("lora", is_empty, "[]"),
    hinted("rep_pen", is_one, "1", "use `repetition_penalty`"),
    hinted("typical", is_one, "1", "use `typical_p`"),
    hinted("typ_p", is_one, "1", "use `typical_p`"),
    field("min_keep", is_zero, "0"),
    // Objects in which some clients put fields.
    hinted("extra_body", is_empty, "{}", "send its fields beside `model`"),
    hinted("options", is_empty, "{}", "send its fields beside `model`"),
    hinted("parameters", is_empty, "{}", "send its fields beside `model`"),
    hinted("generation_config", is_empty, "{}", "send its fields beside `model`"),
    hinted("model_kwargs", is_empty, "{}", "send its fields beside `model`"),
    hinted("nvext", is_empty, "{}", "send its fields beside `model`"),
    field("plugins", is_empty, "[]"),
    // transformers and vLLM.
    field("do_sample", is_true, "true"),
    field("add_special_tokens", is_true, "true"),
    field("return_token_ids", is_false, "false"),
    field("return_tokens_as_token_ids", is_false, "false"),
    field("safe_prompt", is_false, "false"),
    hinted("max_new_tokens", never, "null", "use `max_tokens`"),
    hinted("repetition_context_size", never, "null", "penalties see all tokens"),
    field("min_length", is_zero, "0"),
    field("length_penalty", is_one, "1"),
    field("early_stopping", is_false, "false"),
    field("num_beams", is_one, "1"),
    field("no_repeat_ngram_size", is_zero, "0"),
    field("encoder_repetition_penalty", is_one, "1"),
    field("penalty_alpha", is_zero, "0"),
    field("epsilon_cutoff", is_zero, "0"),
    field("eta_cutoff", is_zero, "0"),
    field("guidance_scale", is_one, "1"),
    field("negative_prompt", is_empty, "\"\""),
    field("bad_words", is_empty, "[]"),
    field("allowed_token_ids", never, "null"),
    field("logits_processors", is_empty, "[]"),
    field("prompt_logprobs", is_false, "null"),
    field("truncate_prompt_tokens", never, "null"),
    // Options for the text of outputs.
    field("include_stop_str_in_output", is_false, "false"),
    field("skip_special_tokens", is_true, "true"),
    field("spaces_between_special_tokens", is_true, "true"),
];

/// Fields of other servers without effect here: settings of caches, of what a model takes in memory and
/// of measurements, and details of parameters that have no effect.
pub(super) const WITHOUT_EFFECT: [&str; 30] = [
    // A text that the output probably repeats. It only saves time.
    "prediction",
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "client_metadata",
    "cache_prompt",
    "cache_salt",
    "id_slot",
    "num_ctx",
    "keep_alive",
    "priority",
    "session_id",
    "request_id",
    "timings_per_token",
    "guided_decoding_backend",
    "mirostat_tau",
    "mirostat_eta",
    "dynatemp_exponent",
    "smoothing_curve",
    "n_keep",
    "provider",
    "usage",
    "route",
    "models",
    "transforms",
];

/// Unsupported fields of a chat request.
pub(super) const CHAT: [Unsupported; 9] = [
    field("best_of", is_one, "1"),
    field("echo", is_false, "false"),
    field("use_beam_search", is_false, "false"),
    field("audio", never, "null"),
    field("web_search_options", never, "null"),
    hinted("prompt", never, "null", "use `messages`"),
    hinted("input", never, "null", "use `messages`"),
    hinted("instructions", never, "null", "use a message of the role `system`"),
    hinted("system", never, "null", "use a message of the role `system`"),
];

/// Unsupported fields of a completions request.
pub(super) const COMPLETION: [Unsupported; 8] = [
    hinted("messages", never, "null", "send it to `/v1/chat/completions`"),
    hinted("tools", is_empty, "[]", "send it to `/v1/chat/completions`"),
    hinted("tool_choice", is_no_choice, "\"none\" or \"auto\"", "send it to `/v1/chat/completions`"),
    hinted("functions", is_empty, "[]", "send it to `/v1/chat/completions`"),
    hinted("function_call", is_no_choice, "\"none\" or \"auto\"", "send it to `/v1/chat/completions`"),
    hinted("continue_final_message", is_false, "false", "send it to `/v1/chat/completions`"),
    hinted("reasoning_effort", never, "null", "send it to `/v1/chat/completions`"),
    field("use_beam_search", is_false, "false"),
];

/// Unsupported fields of a request for a response.
pub(super) const RESPONSE: [Unsupported; 4] = [
    hinted("messages", never, "null", "use `input`"),
    hinted("functions", is_empty, "[]", "use `tools`"),
    hinted("function_call", is_no_choice, "\"none\" or \"auto\"", "use `tool_choice`"),
    field("continue_final_message", is_false, "false"),
];

/// Unsupported fields of a request to Anthropic's API.
pub(super) const ANTHROPIC: [Unsupported; 2] = [
    hinted("functions", is_empty, "[]", "use `tools`"),
    hinted("function_call", is_no_choice, "\"none\" or \"auto\"", "use `tool_choice`"),
];

/// Unsupported fields of a request to Ollama's `/api/generate`.
pub(super) const GENERATE: [Unsupported; 4] = [
    hinted("template", is_empty, "\"\"", "the model's own template is used"),
    hinted("context", is_empty, "[]", "send the conversation to `/api/chat`"),
    hinted("messages", is_empty, "[]", "send it to `/api/chat`"),
    hinted("tools", is_empty, "[]", "send it to `/api/chat`"),
];

/// Unsupported fields of a request for embeddings, which would change the vectors.
pub(super) const EMBEDDING: [Unsupported; 5] = [
    hinted("task", never, "null", "use `prompt_name` or `input_type`"),
    hinted("instruction", never, "null", "use `prompt_name`"),
    field("late_chunking", is_false, "false"),
    hinted("output_dimension", never, "null", "use `dimensions`"),
    hinted("embedding_types", never, "null", "use `encoding_format`"),
];

/// Unsupported fields of a message, which would change what the model reads or how it answers.
pub(super) const MESSAGE: [Unsupported; 4] = [
    hinted("images", is_empty, "[]", "this server reads no images"),
    hinted("image_url", never, "null", "this server reads no images"),
    hinted("files", is_empty, "[]", "this server reads no files"),
    hinted("videos", is_empty, "[]", "this server reads no videos"),
];

/// Unsupported fields of an assistant message. Clients send such messages back as they received
/// them.
pub(super) const ASSISTANT: [Unsupported; 1] = [field("audio", never, "null")];

/// Marks the fields in `table` as read.
///
/// # Errors
/// Returns an error if the value of one of these fields is not neutral.
pub(super) fn check(fields: &mut Fields, table: &[Unsupported]) -> Result<(), RequestError> {
    for known in table {
        if let Some(at) = fields.take(known.name)
            && !(known.asks_nothing)(at.value())
        {
            return Err(at.error(Problem::NotNeutral { accepted: known.accepted, hint: known.hint }));
        }
    }
    Ok(())
}

fn is_false(value: &Value) -> bool {
    *value == false
}

fn is_true(value: &Value) -> bool {
    *value == true
}

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn is_minus_one(value: &Value) -> bool {
    value.as_f64() == Some(-1.0)
}

fn is_one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Reports whether a value asks for nothing, whatever the field means: nothing, none or empty.
pub(super) fn asks_nothing(value: &Value) -> bool {
    value.is_null() || is_false(value) || is_zero(value) || is_empty(value)
}

fn is_no_choice(value: &Value) -> bool {
    value == "none" || value == "auto"
}

fn never(_: &Value) -> bool {
    false
}
