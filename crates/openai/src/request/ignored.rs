//! Fields without effect, and names that must have an effect.
//!
//! Clients send fields that only other servers know. Most of them cannot change the output: notes,
//! accounts, caches. A field that would change the output must not be ignored, so names that are like
//! the names of constraints or of parameters stay errors.

use crate::RequestError;
use crate::error::Problem;

/// Fields of a request that have no effect on the response, by their paths. Each list has at most 32
/// paths, the first ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IgnoredFields {
    /// Fields that are known to have no effect here, such as `user`, and tools that this server cannot
    /// offer to a model.
    pub known: Vec<String>,
    /// Fields that are not known.
    pub unknown: Vec<String>,
}

/// Maximum number of paths in each list of [`IgnoredFields`]. A request may have any number of such
/// fields.
const MOST: usize = 32;

impl IgnoredFields {
    pub(super) fn add_known(&mut self, path: String) {
        add(&mut self.known, path);
    }

    pub(super) fn add_unknown(&mut self, path: String) {
        add(&mut self.unknown, path);
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

fn add(paths: &mut Vec<String>, path: String) {
    if paths.len() < MOST {
        paths.push(path);
    }
}

/// Reports whether a constraint on the output may have this name. Contains the names that other servers
/// give to constraints, and parts of names for those to come.
pub(super) fn is_like_constraint(name: &str) -> bool {
    const PARTS: [&str; 20] = [
        "schema",
        "grammar",
        "regex",
        "guided",
        "guidance",
        "constrain",
        "structured",
        "structural",
        "ebnf",
        "gbnf",
        "lark",
        "pattern",
        "format",
        "json",
        "automat",
        "choice",
        "allowed",
        "banned",
        "forced",
        "enum",
    ];
    const STARTS: [&str; 3] = ["response", "output", "expect"];
    let name = plain(name);
    PARTS.iter().any(|part| name.contains(part)) || STARTS.iter().any(|start| name.starts_with(start))
}

/// Names of fields that change the output. A misspelt one must not be ignored.
const KNOWN: [&str; 18] = [
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "messages",
    "stream",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "reasoning_effort",
    "reasoning_budget",
    "chat_template_kwargs",
    "undeclared",
    "dimensions",
];

/// Reports whether a parameter of sampling, of the prompt or of the length of outputs may have this
/// name, or whether it is a misspelt name of a parameter.
pub(super) fn is_like_parameter(name: &str) -> bool {
    const PARTS: [&str; 36] = [
        "penalty",
        "bias",
        "temperature",
        "sampl",
        "mirostat",
        "beam",
        "topp",
        "topk",
        "topa",
        "topn",
        "minp",
        "typical",
        "cutoff",
        "entropy",
        "smoothing",
        "xtc",
        "tfs",
        "sigma",
        "repeat",
        "repetition",
        "badwords",
        "stop",
        "seed",
        "ngram",
        "cfg",
        "negative",
        "maxtoken",
        "mintoken",
        "maxlength",
        "minlength",
        "newtokens",
        "predict",
        "truncat",
        "logit",
        "logprob",
        "template",
    ];
    const STARTS: [&str; 5] = ["dry", "prompt", "system", "adapter", "lora"];
    // These are no parameters of sampling, though their names are like some.
    const OTHERS: [&str; 2] = ["promptcache", "promptid"];
    // Short names are like many others, and no typing error makes a name long.
    let mistakes = match name.len() {
        5..8 => 1,
        8..40 => 2,
        _ => 0,
    };
    if mistakes > 0 && KNOWN.iter().any(|known| strsim::osa_distance(name, known) <= mistakes) {
        return true;
    }
    let name = plain(name);
    let is_other = OTHERS.iter().any(|other| name.starts_with(other));
    let is_start = STARTS.iter().any(|start| name.starts_with(start));
    !is_other && (is_start || PARTS.iter().any(|part| name.contains(part)))
}

/// Returns the letters and digits of a name, in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}
