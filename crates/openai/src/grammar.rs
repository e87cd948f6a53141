//! `/v1/grammar/*`: checks or explains a constraint, or samples outputs that match it. The
//! constraint is given by the same fields as in a chat request.

use formwork_grammar::Undeclared;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::request::{Fields, Place, read_format, read_undeclared};
use crate::{Format, RequestError};

/// Maximum size of the text to explain, in bytes.
const MAX_TEXT: usize = 64 << 10;
/// Maximum number of outputs to sample in one request.
const MAX_OUTPUTS: usize = 64;
/// Maximum value of `max_bytes`.
const MAX_OUTPUT_BYTES: usize = 16 << 10;

/// Request to check or explain a constraint, or to sample outputs.
#[derive(Clone, PartialEq, Debug)]
pub struct GrammarRequest {
    /// Name of the model whose vocabulary is used. If `None`, the only model of the server is used.
    /// If there are several, no vocabulary is used.
    pub model: Option<String>,
    /// Constraint to examine.
    pub format: Format,
    /// Treatment of undeclared members in generated objects. An extension.
    pub undeclared: Undeclared,
    /// Task of the request, which depends on the route.
    pub task: GrammarTask,
}

/// Task of a grammar request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GrammarTask {
    /// Checks whether the constraint can be enforced. Reports its size and its shortest output.
    Check,
    /// Reports the possible continuations of a text.
    Explain {
        /// Start of an output. Empty by default.
        text: String,
    },
    /// Returns random outputs that match the constraint.
    Sample {
        /// Number of outputs, from 1 to 64.
        count: usize,
        /// Seed of the random numbers. If `None`, the server chooses a seed.
        seed: Option<u64>,
        /// Maximum length of one output in bytes, at least 1. If `None`, the default applies.
        max_bytes: Option<usize>,
    },
}

impl GrammarRequest {
    /// Parses the body of a request to check a constraint.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a constraint, or has an unknown field or
    /// value.
    pub fn check(body: &[u8]) -> Result<Self, RequestError> {
        Self::read(body, |_| Ok(GrammarTask::Check))
    }

    /// Parses the body of a request to explain the continuations of a text.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`GrammarRequest::check`], or if `text` is not a
    /// string of at most 64 KiB.
    pub fn explain(body: &[u8]) -> Result<Self, RequestError> {
        Self::read(body, |fields| {
            let text = fields.read("text", |at| at.string_within(MAX_TEXT))?;
            Ok(GrammarTask::Explain { text: text.unwrap_or_default() })
        })
    }

    /// Parses the body of a request to sample outputs.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`GrammarRequest::check`]. Also returns an error if
    /// `n` is not in 1..=64, `seed` is not a 64-bit integer, or `max_bytes` is not in 1..=16384.
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

/// Response to a request to check a constraint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarCheck {
    /// True if the constraint can be enforced.
    pub ok: bool,
    /// Reason why the constraint cannot be enforced. `null` if it can be enforced.
    pub error: Option<GrammarProblem>,
    /// Parts of the constraint that have no effect.
    pub warnings: Vec<GrammarNote>,
    /// Number of states of the compiled grammar. `null` if the constraint cannot be enforced.
    pub states: Option<usize>,
    /// One of the shortest outputs that match. `null` if the constraint cannot be enforced.
    pub shortest: Option<String>,
    /// Length of the shortest output in bytes. `null` if the constraint cannot be enforced.
    pub minimum_bytes: Option<usize>,
    /// Token limit with which every request gets a complete output. `null` if there is no model, if
    /// its vocabulary cannot spell an output, or if the constraint cannot be enforced.
    pub minimum_tokens: Option<usize>,
}

/// Reason why a constraint cannot be enforced. Locations that do not apply are `null`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarProblem {
    /// Path of the request field that contains the constraint.
    pub param: String,
    /// Message for a person in one line, with the location of the problem.
    pub message: String,
    /// Description of the problem, without its location.
    pub problem: String,
    /// JSON Pointer to the problem, in a JSON Schema.
    pub pointer: Option<String>,
    /// Keyword that causes the problem, in a JSON Schema.
    pub keyword: Option<String>,
    /// Offset in bytes of the problem, in a regular expression.
    pub offset: Option<usize>,
    /// Line of the problem, starting at 1, in a GBNF or Lark grammar or in the text of a definition.
    pub line: Option<usize>,
    /// Column of the problem, starting at 1, in a GBNF or Lark grammar or in the text of a definition.
    pub column: Option<usize>,
    /// Line of the GBNF or Lark grammar that contains the problem, followed by a line with a caret below
    /// the problem.
    pub excerpt: Option<String>,
}

/// Part of a constraint that has no effect. Locations that do not apply are `null`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarNote {
    /// Message for a person, in one line.
    pub message: String,
    /// JSON Pointer to the part, in a JSON Schema.
    pub pointer: Option<String>,
    /// Keyword without effect, in a JSON Schema.
    pub keyword: Option<String>,
    /// Name of the rule that contains the part, in a GBNF or Lark grammar.
    pub rule: Option<String>,
    /// Line of the part, starting at 1, in a GBNF or Lark grammar.
    pub line: Option<usize>,
}

/// Response to a request to explain the continuations of a text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarExplanation {
    /// True if the whole text is the start of an output.
    pub matches: bool,
    /// Number of leading bytes of the text that are the start of an output. The other fields
    /// describe this position.
    pub at: usize,
    /// Descriptions of the possible continuations, one for each alternative. Empty if the
    /// constraint only determines the possible bytes.
    pub expected: Vec<String>,
    /// Description of the bytes that may follow.
    pub bytes: String,
    /// Number of tokens that may follow. `null` if there is no model or `matches` is false.
    pub tokens: Option<usize>,
    /// True if the output may end here.
    pub may_end: bool,
}

/// Response to a request to sample outputs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarSamples {
    /// Seed with which the request can be repeated.
    pub seed: u64,
    /// Random outputs that match the constraint.
    pub outputs: Vec<String>,
}
