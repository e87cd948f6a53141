//! `/infill`: fills in text between a prefix and a suffix, in the form of llama.cpp's server.

use formwork_grammar::Undeclared;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::request::{
    Fields, Parameters, Place, TokenLimit, check_of_others, read_format, read_model, read_undeclared,
    take_without_effect,
};
use crate::{Format, IgnoredFields, RequestError};

/// Maximum number of files that a model reads before the text.
const MAX_FILES: usize = 256;

/// Request to fill in text.
#[derive(Clone, PartialEq, Debug)]
pub struct InfillRequest {
    /// Name under which the server offers the model. Empty if the request has none.
    pub model: String,
    /// Text before the gap.
    pub prefix: String,
    /// Text after the gap.
    pub suffix: String,
    /// Beginning of the text in the gap.
    pub begun: String,
    /// Files that the model reads before the text.
    pub files: Vec<InfillFile>,
    /// True if the response is streamed.
    pub stream: bool,
    /// Generation parameters.
    pub parameters: Parameters,
    /// Format that the text in the gap must match. `None` if any text is allowed.
    pub format: Option<Format>,
    /// Treatment of undeclared members in generated objects. An extension.
    pub undeclared: Undeclared,
    /// Fields of the request that have no effect.
    pub ignored: IgnoredFields,
}

/// A file that a model reads before the text to fill in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InfillFile {
    /// Name of the file.
    pub name: String,
    /// Text of the file.
    pub text: String,
}

impl InfillRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, or has an unknown or unsupported field or value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let limit = fields.read("n_predict", |at| match at.integer(-1, "at least 1")? {
            -1 => Ok(None),
            _ => at.positive().map(Some),
        })?;
        let mut text = |name| fields.read(name, Place::string).map(Option::unwrap_or_default);
        let (prefix, suffix, begun) = (text("input_prefix")?, text("input_suffix")?, text("prompt")?);
        let mut request = Self {
            model: read_model(&mut fields)?,
            prefix,
            suffix,
            begun,
            files: fields.read("input_extra", |at| read_files(&at))?.unwrap_or_default(),
            stream: fields.read("stream", Place::bool)?.unwrap_or(false),
            parameters: Parameters::read(&mut fields)?,
            format: read_format(&mut fields)?,
            undeclared: read_undeclared(&mut fields)?,
            ignored: IgnoredFields::default(),
        };
        let limit = limit.flatten().map(|tokens| TokenLimit { tokens, field: "n_predict" });
        request.parameters.max_tokens = limit.or(request.parameters.max_tokens);
        // Editors send these: an order of samplers, limits of time, and fields of the response.
        for name in ["samplers", "t_max_prompt_ms", "t_max_predict_ms", "n_indent", "response_fields"] {
            fields.ignore(name);
        }
        take_without_effect(&mut fields);
        check_of_others(&mut fields)?;
        request.ignored = fields.finish_request()?;
        if request.parameters.reasoning_budget.is_some() {
            let problem = Problem::NotNeutral { accepted: "null", hint: "" };
            return Err(RequestError::field("reasoning_budget", problem));
        }
        if request.parameters.n != 1 {
            return Err(RequestError::field("n", Problem::NotNeutral { accepted: "1", hint: "" }));
        }
        Ok(request)
    }
}

fn read_files(at: &Place) -> Result<Vec<InfillFile>, RequestError> {
    let places = at.clone().list("an array of files")?;
    if places.len() > MAX_FILES {
        return Err(at.error(Problem::TooMany { given: places.len(), limit: MAX_FILES }));
    }
    let file = |place: Place| {
        let mut fields = place.fields()?;
        let name = fields.read("filename", Place::string)?.unwrap_or_default();
        let text = fields.required("text")?.string()?;
        fields.finish()?;
        Ok(InfillFile { name, text })
    };
    places.into_iter().map(file).collect()
}

/// Response to a request to fill in text, or one event of a streamed response.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Infill {
    /// Text in the gap. In a stream, only the new part of the text.
    pub content: String,
    /// True in the last event, and in a response that is not streamed.
    pub stop: bool,
    /// Summary of the generation. Only in the last event.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub summary: Option<InfillSummary>,
}

/// Summary of a generation, in the form of llama.cpp's server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct InfillSummary {
    /// Name under which the server offers the model.
    pub model: String,
    /// Reason why the text ended: `eos`, `word` or `limit`.
    pub stop_type: String,
    /// Stop string that ended the text, or an empty string.
    pub stopping_word: String,
    /// Always false: a prompt that does not fit is an error.
    pub truncated: bool,
    /// Number of tokens in the gap.
    pub tokens_predicted: usize,
    /// Number of tokens of the prompt.
    pub tokens_evaluated: usize,
    /// Number of tokens of the prompt that were taken from the prefix cache.
    pub tokens_cached: usize,
    /// Times of the generation.
    pub timings: InfillTimings,
}

/// Times of a generation, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct InfillTimings {
    /// Number of prompt tokens that were computed.
    pub prompt_n: usize,
    /// Time until the prompt was read.
    pub prompt_ms: f64,
    /// Prompt tokens per second.
    pub prompt_per_second: f64,
    /// Number of generated tokens.
    pub predicted_n: usize,
    /// Time of the generation after the prompt.
    pub predicted_ms: f64,
    /// Generated tokens per second.
    pub predicted_per_second: f64,
}
