//! `/v1/grammar/*`: checks, explanations and samples of a constraint, which is given as in a chat
//! request.

use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::request::{Fields, Place, read_format, read_undeclared};
use crate::{Format, RequestError, Undeclared};

/// Maximum size of the text to explain, in bytes.
const MAX_TEXT: usize = 64 << 10;
/// Maximum number of outputs to sample in one request.
const MAX_OUTPUTS: usize = 64;
/// Maximum value of `max_bytes`.
const MAX_OUTPUT_BYTES: usize = 16 << 10;

/// A request to check, explain or sample a constraint.
#[derive(Clone, PartialEq, Debug)]
pub struct GrammarRequest {
    /// Served name of the model whose vocabulary is used. If absent, the only served model is used.
    pub model: Option<String>,
    /// The constraint.
    pub format: Format,
    /// Undeclared members in generated objects. An extension.
    pub undeclared: Undeclared,
    /// The task.
    pub task: GrammarTask,
}

/// A task for a constraint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GrammarTask {
    /// Check whether the constraint can be enforced, and report its size and shortest output.
    Check,
    /// Report the possible continuations of a text.
    Explain {
        /// The text so far.
        text: String,
    },
    /// Sample random outputs.
    Sample {
        /// Number of outputs, at least 1.
        count: usize,
        /// Seed of the samples.
        seed: Option<u64>,
        /// Maximum size of one output in bytes, at least 1.
        max_bytes: Option<usize>,
    },
}

impl GrammarRequest {
    /// Parses the body of a check request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a constraint, or has an unknown field or
    /// value.
    pub fn check(body: &[u8]) -> Result<Self, RequestError> {
        Self::read(body, |_| Ok(GrammarTask::Check))
    }

    /// Parses the body of an explain request.
    ///
    /// # Errors
    /// Returns the errors of [`GrammarRequest::check`], and an error if `text` is not a string of
    /// at most 64 KiB.
    pub fn explain(body: &[u8]) -> Result<Self, RequestError> {
        Self::read(body, |fields| {
            let text = fields.read("text", |at| at.string_within(MAX_TEXT))?;
            Ok(GrammarTask::Explain { text: text.unwrap_or_default() })
        })
    }

    /// Parses the body of a sample request.
    ///
    /// # Errors
    /// Returns the errors of [`GrammarRequest::check`], and an error if `n` is not in 1..=64,
    /// `seed` is not an integer, or `max_bytes` is not in 1..=16384.
    pub fn sample(body: &[u8]) -> Result<Self, RequestError> {
        Self::read(body, |fields| {
            let count = fields.read("n", |at| at.at_most(MAX_OUTPUTS, "1..=64"))?.unwrap_or(1);
            let seed = fields.read("seed", Place::seed)?;
            let max_bytes = fields.read("max_bytes", |at| at.at_most(MAX_OUTPUT_BYTES, "1..=16384"))?;
            Ok(GrammarTask::Sample { count, seed, max_bytes })
        })
    }

    fn read(
        body: &[u8],
        task: impl FnOnce(&mut Fields) -> Result<GrammarTask, RequestError>,
    ) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?;
        let model = fields.read("model", Place::string)?;
        let format = read_format(&mut fields)?;
        let undeclared = read_undeclared(&mut fields)?;
        let task = task(&mut fields)?;
        fields.finish()?;
        let format = format.ok_or_else(|| RequestError::field("response_format", Problem::NoFormat))?;
        Ok(Self { model, format, undeclared, task })
    }
}

/// Result of checking a constraint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarCheck {
    /// True if the constraint can be enforced.
    pub ok: bool,
    /// The reason why the constraint cannot be enforced.
    pub error: Option<GrammarProblem>,
    /// Parts of the constraint that have no effect.
    pub warnings: Vec<GrammarNote>,
    /// Number of states of the compiled grammar.
    pub states: Option<usize>,
    /// One of the shortest outputs.
    pub shortest: Option<String>,
    /// Size of the shortest output in bytes.
    pub minimum_bytes: Option<usize>,
    /// Token budget that always suffices for an output. `null` without a model, or if the model's
    /// vocabulary cannot spell an output.
    pub minimum_tokens: Option<usize>,
}

/// The reason why a constraint cannot be enforced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarProblem {
    /// Request field with the constraint.
    pub param: String,
    /// Human-readable message of one line, with the location.
    pub message: String,
    /// The message without the location.
    pub problem: String,
    /// JSON Pointer into the schema.
    pub pointer: Option<String>,
    /// Keyword of the schema.
    pub keyword: Option<String>,
    /// Line of the GBNF source, from 1.
    pub line: Option<usize>,
    /// Column of the GBNF source, from 1.
    pub column: Option<usize>,
    /// The line of the GBNF source, with a caret below the error.
    pub excerpt: Option<String>,
}

/// A part of a constraint that has no effect.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarNote {
    /// Human-readable message of one line.
    pub message: String,
    /// JSON Pointer into the schema.
    pub pointer: Option<String>,
    /// Keyword of the schema.
    pub keyword: Option<String>,
    /// Rule of the GBNF grammar.
    pub rule: Option<String>,
    /// Line of the GBNF source, from 1.
    pub line: Option<usize>,
}

/// The possible continuations of a text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarExplanation {
    /// True if the text is a prefix of an output.
    pub matches: bool,
    /// Number of leading bytes of the text that match.
    pub at: usize,
    /// Descriptions of the possible continuations at that position, one per alternative. Empty if
    /// only the bytes are known.
    pub expected: Vec<String>,
    /// Description of the bytes that may follow.
    pub bytes: String,
    /// Number of tokens that may follow. `null` without a model, or if the text does not match.
    pub tokens: Option<usize>,
    /// True if the output may end at that position.
    pub may_end: bool,
}

/// Random outputs of a constraint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarSamples {
    /// Seed of the samples.
    pub seed: u64,
    /// The outputs.
    pub outputs: Vec<String>,
}
