//! `/v1/grammar/*`: questions about a constraint, given as in a chat request.

use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::request::{Fields, Place, read_format, read_undeclared};
use crate::{Format, RequestError, Undeclared};

/// The most bytes of a text that is read against a grammar.
const MAX_TEXT: usize = 64 << 10;
/// The most outputs that are drawn at once.
const MAX_OUTPUTS: usize = 64;
/// The most bytes that one of them may be asked to have.
const MAX_OUTPUT_BYTES: usize = 16 << 10;

/// A question about a constraint.
#[derive(Clone, PartialEq, Debug)]
pub struct GrammarRequest {
    /// The model whose tokens count, by a name under which it is served; the only one where none is named.
    pub model: Option<String>,
    /// The constraint.
    pub format: Format,
    /// Whether generated objects have members that their schema says nothing about. An extension.
    pub undeclared: Undeclared,
    /// What is asked.
    pub task: GrammarTask,
}

/// What is asked about a constraint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GrammarTask {
    /// Whether it can be enforced, and what it comes to.
    Check,
    /// What may come after a text.
    Explain {
        /// The text so far.
        text: String,
    },
    /// Random outputs.
    Sample {
        /// How many, at least 1.
        count: usize,
        /// What they follow from.
        seed: Option<u64>,
        /// The most bytes of one, at least 1.
        max_bytes: Option<usize>,
    },
}

impl GrammarRequest {
    /// Reads the body of a request to check.
    ///
    /// # Errors
    /// When the body is not JSON, has no constraint, or asks for what is not known.
    pub fn check(body: &[u8]) -> Result<Self, RequestError> {
        Self::read(body, |_| Ok(GrammarTask::Check))
    }

    /// Reads the body of a request to explain.
    ///
    /// # Errors
    /// As [`GrammarRequest::check`], and when `text` is no text of at most 64 KiB.
    pub fn explain(body: &[u8]) -> Result<Self, RequestError> {
        Self::read(body, |fields| {
            let text = fields.read("text", |at| at.string_within(MAX_TEXT))?;
            Ok(GrammarTask::Explain { text: text.unwrap_or_default() })
        })
    }

    /// Reads the body of a request for samples.
    ///
    /// # Errors
    /// As [`GrammarRequest::check`], and when `n` is not in 1..=64, `seed` no integer or `max_bytes` not in 1..=16384.
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

/// Whether a constraint can be enforced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarCheck {
    /// Whether it can.
    pub ok: bool,
    /// Why not.
    pub error: Option<GrammarProblem>,
    /// What of it has no effect.
    pub warnings: Vec<GrammarNote>,
    /// How large the compiled form is.
    pub states: Option<usize>,
    /// A shortest output.
    pub shortest: Option<String>,
    /// The bytes of it.
    pub minimum_bytes: Option<usize>,
    /// The least budget that is sure to hold an output; `null` without a model, and where its tokens cannot spell one.
    pub minimum_tokens: Option<usize>,
}

/// Why a constraint cannot be enforced.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarProblem {
    /// The request's field that is at fault.
    pub param: String,
    /// One line for a person, with the place.
    pub message: String,
    /// The same without the place.
    pub problem: String,
    /// The JSON pointer into a schema.
    pub pointer: Option<String>,
    /// The keyword of a schema.
    pub keyword: Option<String>,
    /// The line in GBNF, from 1.
    pub line: Option<usize>,
    /// The column in GBNF, from 1.
    pub column: Option<usize>,
    /// The line of GBNF with a caret under the place.
    pub excerpt: Option<String>,
}

/// Something in a constraint that has no effect.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarNote {
    /// One line for a person.
    pub message: String,
    /// The JSON pointer into a schema.
    pub pointer: Option<String>,
    /// The keyword of a schema.
    pub keyword: Option<String>,
    /// The rule in GBNF.
    pub rule: Option<String>,
    /// The line in GBNF, from 1.
    pub line: Option<usize>,
}

/// What may come after a text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarExplanation {
    /// Whether the text is the beginning of an output.
    pub matches: bool,
    /// The bytes of it that match.
    pub at: usize,
    /// What may come there, one line for each way on; empty where only the bytes are known.
    pub expected: Vec<String>,
    /// The bytes that may come there, in words.
    pub bytes: String,
    /// How many tokens may come there; `null` without a model, and where the text does not match.
    pub tokens: Option<usize>,
    /// Whether the output may end there.
    pub may_end: bool,
}

/// Random outputs of a constraint.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GrammarSamples {
    /// What they follow from.
    pub seed: u64,
    /// The outputs.
    pub outputs: Vec<String>,
}
