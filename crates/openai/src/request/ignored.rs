//! Fields without effect, and names that must have an effect.
//!
//! Clients send fields that only other servers know. Most of them cannot change the output: notes,
//! accounts, caches. A field that would change the output must not be ignored, so unknown fields with
//! names like those of constraints or of parameters are errors. Names are compared word by word, so
//! `information` has no `format`.

use serde_json::Value;

use super::neutral::asks_nothing;
use crate::RequestError;
use crate::error::Problem;

/// Maximum number of paths in each list of [`IgnoredFields`].
const MOST: usize = 32;
/// Maximum number of unknown fields of a request, apart from those in messages and items.
const MOST_UNKNOWN: usize = 256;
/// Maximum number of values in an unknown field that are searched for constraints.
const MOST_NESTED: usize = 1000;

/// Fields of a request that have no effect on the response, by their paths. Each list has at most 32
/// different paths, the first ones. Paths in messages and in items have no indices, such as
/// `messages[].id`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IgnoredFields {
    /// Fields that are known to have no effect here, such as `user`, and tools that this server cannot
    /// offer to a model.
    pub known: Vec<String>,
    /// Fields that this server does not know.
    pub unknown: Vec<String>,
    /// Number of unknown fields whose names were compared with others.
    compared: usize,
}

impl IgnoredFields {
    pub(super) fn add_known(&mut self, path: &str) {
        add(&mut self.known, path);
    }

    /// Adds the unknown field `name` at `path`.
    ///
    /// # Errors
    /// Returns the problem if the field may change the output.
    pub(super) fn add_unknown(&mut self, path: &str, name: &str, value: &Value) -> Result<(), Problem> {
        if !is_in_conversation(path) {
            self.compared += 1;
            if self.compared > MOST_UNKNOWN {
                return Err(Problem::TooManyUnknown { limit: MOST_UNKNOWN });
            }
            // A name as common as `fields` is a constraint only at the top of a request.
            if path == "fields" && !asks_nothing(value) {
                return Err(Problem::LikeConstraint);
            }
            if path.contains("tools[") && is_like(name, &TOOL_FIELDS) {
                return Err(Problem::LikeConstraint);
            }
            check(name, value)?;
        }
        add(&mut self.unknown, path);
        Ok(())
    }

    /// Refuses unknown fields.
    ///
    /// # Errors
    /// Returns an error that names the first one, if there is one.
    pub fn check_known(&self) -> Result<(), RequestError> {
        match self.unknown.first() {
            Some(path) => Err(RequestError::field(path.clone(), Problem::Unrecognized)),
            None => Ok(()),
        }
    }

    /// Returns the paths of all fields.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.known.iter().chain(&self.unknown).map(String::as_str)
    }
}

/// Reports whether a path is in a message, an item or a document. Fields there are notes of clients, and
/// no constraints or parameters. The tools of an item are like those of the request.
fn is_in_conversation(path: &str) -> bool {
    ["messages[", "input[", "documents["].iter().any(|start| path.starts_with(start))
        && !path.contains("].tools[")
}

fn add(paths: &mut Vec<String>, path: &str) {
    if paths.len() >= MOST {
        return;
    }
    let path = if is_in_conversation(path) { without_indices(path) } else { path.to_owned() };
    if !paths.contains(&path) {
        paths.push(path);
    }
}

fn without_indices(path: &str) -> String {
    let mut depth = 0;
    let mut kept = String::with_capacity(path.len());
    for c in path.chars() {
        depth -= i32::from(c == ']');
        if depth <= 0 || !c.is_ascii_digit() {
            kept.push(c);
        }
        depth += i32::from(c == '[');
    }
    kept
}

/// Checks that an unknown field cannot change the output.
fn check(name: &str, value: &Value) -> Result<(), Problem> {
    if (is_like_constraint(name) || is_misspelt_constraint(name)) && !asks_nothing(value) {
        return Err(Problem::LikeConstraint);
    }
    // The value 0 or false turns a penalty off. For other parameters it is a choice.
    let is_choice = value.is_boolean() || value.is_number();
    let is_harmless = asks_nothing(value) && (!is_choice || is_penalty(name));
    if is_misspelt(name, value) || is_like_parameter(name) && !is_harmless {
        return Err(Problem::LikeParameter);
    }
    check_nested(value)
}

/// Checks that no name within a value is like that of a constraint. Clients of some servers put fields
/// into an object of their own.
fn check_nested(value: &Value) -> Result<(), Problem> {
    let mut todo = vec![value];
    let mut searched = 0;
    while let Some(value) = todo.pop() {
        searched += 1;
        if searched > MOST_NESTED {
            return Err(Problem::UnknownTooLarge { limit: MOST_NESTED });
        }
        match value {
            Value::Array(items) => todo.extend(items.iter().take(MOST_NESTED)),
            Value::Object(fields) => {
                for (name, value) in fields.iter().take(MOST_NESTED) {
                    if !asks_nothing(value) && (is_like_constraint(name) || KNOWN.contains(&name.as_str())) {
                        return Err(Problem::NestedConstraint { name: name.chars().take(40).collect() });
                    }
                    todo.push(value);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Reports whether a constraint on the output may have this name. Has the words that other servers use
/// for constraints.
fn is_like_constraint(name: &str) -> bool {
    const WORDS: [&str; 36] = [
        "schema",
        "schemas",
        "grammar",
        "grammars",
        "regex",
        "regexp",
        "guided",
        "guidance",
        "guide",
        "constrain",
        "constraint",
        "constraints",
        "constrained",
        "structured",
        "structural",
        "structure",
        "ebnf",
        "bnf",
        "gbnf",
        "lark",
        "cfg",
        "pattern",
        "patterns",
        "format",
        "json",
        "choices",
        "enum",
        "automaton",
        "fsm",
        "allowed",
        "banned",
        "forbidden",
        "forced",
        "outlines",
        "mime",
        "validator",
    ];
    const STARTS: [&str; 3] = ["response", "output", "expected"];
    let words = words(name);
    words.iter().any(|word| WORDS.contains(&word.as_str()))
        || words.first().is_some_and(|first| STARTS.contains(&first.as_str()))
}

/// Reports whether a word of a name is that of a constraint with one typing error, or after another word.
fn is_misspelt_constraint(name: &str) -> bool {
    const PLAIN: [&str; 6] = ["schema", "grammar", "regexp", "format", "structured", "constraint"];
    /// Words that are like these and mean something else.
    const OTHERS: [&str; 5] = ["scheme", "schemes", "formal", "formats", "forma"];
    words(name).iter().filter(|word| !OTHERS.contains(&word.as_str())).any(|word| {
        let is_close =
            |plain: &&str| word.len().abs_diff(plain.len()) <= 1 && strsim::osa_distance(word, plain) <= 1;
        PLAIN.iter().any(is_close) || PLAIN[..2].iter().any(|plain| word.ends_with(plain))
    })
}

/// Reports whether a parameter of sampling, of the prompt or of the length of outputs may have this
/// name.
fn is_like_parameter(name: &str) -> bool {
    const WORDS: [&str; 58] = [
        "penalty",
        "penalties",
        "penalize",
        "pen",
        "bias",
        "temperature",
        "temp",
        "sampler",
        "samplers",
        "sampling",
        "mirostat",
        "beam",
        "beams",
        "typical",
        "typ",
        "cutoff",
        "entropy",
        "smoothing",
        "xtc",
        "tfs",
        "sigma",
        "repeat",
        "repetition",
        "rep",
        "stop",
        "stops",
        "stopping",
        "seed",
        "ngram",
        "negative",
        "predict",
        "truncate",
        "truncation",
        "logit",
        "logits",
        "logprob",
        "logprobs",
        "lora",
        "adapter",
        "adapters",
        "template",
        "dry",
        "prompt",
        "prompts",
        "system",
        "instruction",
        "instructions",
        "think",
        "thinking",
        "reason",
        "reasoning",
        "eos",
        "bos",
        "image",
        "images",
        "multimodal",
        "greedy",
        "healing",
    ];
    /// Pairs of words that only together make a parameter.
    const LIMITS: [&str; 2] = ["max", "min"];
    const LENGTHS: [&str; 7] = ["token", "tokens", "len", "length", "new", "p", "words"];
    const TOPS: [&str; 5] = ["p", "k", "a", "n", "h"];
    /// Names that have such words and are no parameters.
    const OTHERS: [&str; 6] =
        ["prompt_cache", "prompt_id", "prompt_label", "prompt_version", "prompt_name", "system_fingerprint"];
    if OTHERS.iter().any(|other| name.starts_with(other)) {
        return false;
    }
    let words = words(name);
    let has = |all: &[&str]| words.iter().any(|word| all.contains(&word.as_str()));
    has(&WORDS) || has(&LIMITS) && has(&LENGTHS) || has(&["top"]) && has(&TOPS)
}

/// Reports whether a parameter with this name does nothing if its value is 0 or false.
fn is_penalty(name: &str) -> bool {
    const WORDS: [&str; 12] = [
        "penalty",
        "penalties",
        "penalize",
        "mirostat",
        "smoothing",
        "bias",
        "sigma",
        "ngram",
        "cutoff",
        "xtc",
        "dry",
        "beam",
    ];
    words(name).iter().any(|word| WORDS.contains(&word.as_str()))
}

/// Names of fields that change the output.
const KNOWN: [&str; 33] = [
    "num_predict",
    "repeat_penalty",
    "mask_view",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "min_tokens",
    "ignore_eos",
    "messages",
    "stream",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "reasoning_budget",
    "chat_template_kwargs",
    "undeclared",
    "dimensions",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "stop",
    "seed",
    "on_unsupported_schema",
    "guided_json",
    "response_format",
];

/// Names of fields of a tool that change the output.
const TOOL_FIELDS: [&str; 4] = ["parameters", "input_schema", "description", "strict"];

/// Reports whether a name is that of a known field with a few typing errors, or in another case.
fn is_misspelt(name: &str, value: &Value) -> bool {
    is_like(name, &KNOWN) || is_like_short(name, value)
}

fn is_like(name: &str, names: &[&str]) -> bool {
    // Short names are like many others, and no typing error makes a name long.
    let plain = words(name).concat();
    names.iter().any(|known| {
        let known = known.replace('_', "");
        let mistakes = match known.len().min(plain.len()) {
            4 => 0,
            5..8 => 1,
            8..40 => 2,
            _ => return false,
        };
        known.len().abs_diff(plain.len()) <= mistakes && strsim::osa_distance(&plain, &known) <= mistakes
    })
}

/// Reports whether a name of four letters is that of a field with one typing error.
/// The value must fit the field.
fn is_like_short(name: &str, value: &Value) -> bool {
    let plain = words(name).concat();
    if plain.len() != 4 {
        return false;
    }
    match value {
        Value::Number(_) => ["sead", "sede", "esed"].contains(&plain.as_str()),
        Value::Array(items) if items.first().is_some_and(Value::is_object) => {
            strsim::osa_distance(&plain, "tools") <= 1
        }
        // Many words are like `seed` or `stop`, for example `need` and `step`.
        Value::String(_) | Value::Array(_) => ["sotp", "stpo", "tsop"].contains(&plain.as_str()),
        Value::Null | Value::Bool(_) | Value::Object(_) => false,
    }
}

/// Splits a name such as `maxNewTokens` or `max-new-tokens` into its words, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut was_lower = false;
    // A longer name is not that of a field.
    for c in name.chars().take(64) {
        let starts = !c.is_ascii_alphanumeric() || c.is_ascii_uppercase() && was_lower;
        if starts && words.last().is_some_and(|last| !last.is_empty()) {
            words.push(String::new());
        }
        if let Some(last) = words.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            last.push(c.to_ascii_lowercase());
        }
        was_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    words.retain(|word| !word.is_empty());
    words
}
