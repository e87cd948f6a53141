//! `/v1/embeddings`: computes a vector for each of several texts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::request::{Fields, Place, check_neutral_embedding, read_model, take_without_effect};
use crate::{IgnoredFields, RequestError};

/// Maximum number of texts in a request. OpenAI has the same limit.
const MAX_INPUTS: usize = 2048;

/// Request for the embeddings of texts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EmbeddingRequest {
    /// Name under which the server offers the model.
    pub model: String,
    /// Texts to embed, at least one. No text is empty.
    pub input: Vec<EmbeddingInput>,
    /// Encoding of the vectors in the response.
    pub format: EmbeddingFormat,
    /// Number of first elements of the vectors to return. The default is all.
    pub dimensions: Option<usize>,
    /// Method that combines the hidden states of a text to one vector. The default is that of the
    /// model. An extension.
    pub pooling: Option<EmbeddingPooling>,
    /// True if vectors are scaled to length 1. The default is that of the model. An extension.
    pub normalize: Option<bool>,
    /// Text that the model expects before the inputs. An extension.
    pub prompt: EmbeddingPrompt,
    /// Treatment of texts that are longer than the context. An extension.
    pub truncation: Truncation,
    /// Fields of the request that have no effect.
    pub ignored: IgnoredFields,
}

/// Choice of the text to put before the inputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EmbeddingPrompt {
    /// The default of the model.
    Default,
    /// The prompt with this name in the model's configuration: `prompt_name`.
    Named(String),
    /// The prompt for inputs of this kind, if the model has one: `input_type`.
    Kind(String),
}

/// Treatment of texts that are longer than the context.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Truncation {
    /// The request is refused.
    #[default]
    Refuse,
    /// The end of the text is cut off.
    ToContext,
    /// All tokens after this number are cut off.
    To(usize),
}

impl Truncation {
    /// Reads `truncate_prompt_tokens`, as vLLM has it, or `truncate`, as text-embeddings-inference and
    /// Cohere have it.
    pub(crate) fn read(fields: &mut Fields) -> Result<Self, RequestError> {
        if let Some(at) = fields.take("truncate_prompt_tokens") {
            if let Some(other) = fields.take("truncate") {
                return Err(other.error(Problem::Conflict { other: "truncate_prompt_tokens" }));
            }
            return match at.integer(-1, "-1, or at least 1")? {
                -1 => Ok(Self::ToContext),
                0 => Err(at.error(Problem::Range { given: "0".to_owned(), range: "-1, or at least 1" })),
                count => Ok(Self::To(count as usize)),
            };
        }
        let Some(at) = fields.take("truncate") else { return Ok(Self::Refuse) };
        if at.is_string() {
            let known = |name: &str| match name {
                "NONE" => Some(Self::Refuse),
                "END" => Some(Self::ToContext),
                _ => None,
            };
            return at.one_of(known, "true, false, NONE and END");
        }
        Ok(if at.bool()? { Self::ToContext } else { Self::Refuse })
    }
}

/// Text to embed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EmbeddingInput {
    /// Text that is encoded to tokens.
    Text(String),
    /// Token ids of a text.
    Tokens(Vec<u32>),
}

/// Encoding of the vectors in the response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmbeddingFormat {
    /// Array of numbers.
    Float,
    /// Base64 text of little-endian 32-bit floats.
    Base64,
}

/// Method that combines the hidden states of a text's tokens to one vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmbeddingPooling {
    /// Mean of the hidden states of all tokens.
    Mean,
    /// Hidden state of the first token.
    First,
    /// Hidden state of the last token.
    Last,
}

impl EmbeddingRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown field or
    /// value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let format = |name: &str| match name {
            "float" => Some(EmbeddingFormat::Float),
            "base64" => Some(EmbeddingFormat::Base64),
            _ => None,
        };
        let pooling = |name: &str| match name {
            "mean" => Some(EmbeddingPooling::Mean),
            "cls" => Some(EmbeddingPooling::First),
            "last" => Some(EmbeddingPooling::Last),
            _ => None,
        };
        let mut request = Self {
            model: read_model(&mut fields)?,
            input: read_input(fields.required("input")?)?,
            format: fields
                .read("encoding_format", |at| at.one_of(format, "float and base64"))?
                .unwrap_or(EmbeddingFormat::Float),
            dimensions: fields.read("dimensions", Place::positive)?,
            pooling: fields.read("pooling", |at| at.one_of(pooling, "mean, cls and last"))?,
            normalize: fields.read("normalize", Place::bool)?,
            prompt: read_prompt(&mut fields)?,
            truncation: Truncation::read(&mut fields)?,
            ignored: IgnoredFields::default(),
        };
        // Tokens are read as they are, so a prompt cannot go before them.
        let is_tokens = |input: &EmbeddingInput| matches!(input, EmbeddingInput::Tokens(_));
        let other = match request.prompt {
            EmbeddingPrompt::Default => None,
            EmbeddingPrompt::Named(_) => Some("prompt_name"),
            EmbeddingPrompt::Kind(_) => Some("input_type"),
        };
        if let Some(other) = other.filter(|_| request.input.iter().any(is_tokens)) {
            return Err(RequestError::field("input", Problem::Conflict { other }));
        }
        take_without_effect(&mut fields);
        check_neutral_embedding(&mut fields)?;
        request.ignored = fields.finish_request()?;
        Ok(request)
    }
}

/// Parses `prompt_name` or `input_type`.
fn read_prompt(fields: &mut Fields) -> Result<EmbeddingPrompt, RequestError> {
    let name = fields.read("prompt_name", Place::string)?;
    match (name, fields.take("input_type")) {
        (Some(_), Some(kind)) => Err(kind.error(Problem::Conflict { other: "prompt_name" })),
        (Some(name), None) => Ok(EmbeddingPrompt::Named(name)),
        (None, Some(kind)) => Ok(EmbeddingPrompt::Kind(kind.string()?)),
        (None, None) => Ok(EmbeddingPrompt::Default),
    }
}

/// Parses `input`, which is a text, an array of token ids, or an array whose elements are texts or
/// arrays of token ids.
pub(crate) fn read_input(at: Place) -> Result<Vec<EmbeddingInput>, RequestError> {
    if at.is_string() {
        return Ok(vec![EmbeddingInput::Text(at.non_empty_string()?)]);
    }
    let empty = at.error(Problem::Empty);
    let items = at.list("a string or an array")?;
    if items.is_empty() {
        return Err(empty);
    }
    if items[0].value().is_number() {
        return Ok(vec![EmbeddingInput::Tokens(read_tokens(&items)?)]);
    }
    if items.len() > MAX_INPUTS {
        let problem = Problem::TooMany { given: items.len(), limit: MAX_INPUTS };
        return Err(RequestError::field("input", problem));
    }
    items.into_iter().map(read_item).collect()
}

fn read_item(at: Place) -> Result<EmbeddingInput, RequestError> {
    if at.is_string() {
        return Ok(EmbeddingInput::Text(at.non_empty_string()?));
    }
    let empty = at.error(Problem::Empty);
    let tokens = read_tokens(&at.list("a string or an array of token ids")?)?;
    if tokens.is_empty() { Err(empty) } else { Ok(EmbeddingInput::Tokens(tokens)) }
}

fn read_tokens(items: &[Place]) -> Result<Vec<u32>, RequestError> {
    items.iter().map(Place::token).collect()
}

/// Response to an embedding request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EmbeddingList {
    /// Always `list`.
    pub object: String,
    /// One embedding for each text, in the order of the request.
    pub data: Vec<Embedding>,
    /// Name under which the server offers the model.
    pub model: String,
    /// Token counts of all texts.
    pub usage: EmbeddingUsage,
}

/// Embedding of one text.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Embedding {
    /// Always `embedding`.
    pub object: String,
    /// Index of the text in the request, starting at 0.
    pub index: usize,
    /// Vector of the text, in the requested encoding.
    pub embedding: EmbeddingVector,
}

/// Vector in the requested encoding.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EmbeddingVector {
    /// Array of numbers.
    Float(Vec<f32>),
    /// Base64 text of little-endian 32-bit floats.
    Base64(String),
}

/// Token counts of an embedding request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EmbeddingUsage {
    /// Number of tokens of all texts.
    pub prompt_tokens: usize,
    /// Same number as `prompt_tokens`, because there is no output.
    pub total_tokens: usize,
}

impl EmbeddingList {
    /// Creates the response for `vectors`, one for each text in the order of the request. `tokens`
    /// is the number of tokens of all texts.
    pub fn new(model: String, vectors: Vec<Vec<f32>>, format: EmbeddingFormat, tokens: usize) -> Self {
        let embedding = |(index, vector): (usize, Vec<f32>)| Embedding {
            object: "embedding".to_owned(),
            index,
            embedding: EmbeddingVector::new(vector, format),
        };
        Self {
            object: "list".to_owned(),
            data: vectors.into_iter().enumerate().map(embedding).collect(),
            model,
            usage: EmbeddingUsage { prompt_tokens: tokens, total_tokens: tokens },
        }
    }
}

impl EmbeddingVector {
    fn new(vector: Vec<f32>, format: EmbeddingFormat) -> Self {
        match format {
            EmbeddingFormat::Float => Self::Float(vector),
            EmbeddingFormat::Base64 => {
                let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
                Self::Base64(STANDARD.encode(bytes))
            }
        }
    }
}
