//! `/v1/embeddings`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::RequestError;
use crate::error::Problem;
use crate::request::{Fields, Place};

/// The most texts of a request, as OpenAI has it.
const MAX_INPUTS: usize = 2048;

/// A request for the embeddings of texts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EmbeddingRequest {
    /// The model, by a name under which it is served.
    pub model: String,
    /// The texts, at least one, none of them empty.
    pub input: Vec<EmbeddingInput>,
    /// How vectors are written.
    pub format: EmbeddingFormat,
    /// How long vectors are to be.
    pub dimensions: Option<usize>,
    /// How hidden states become one vector. An extension; the mean unless the request says otherwise.
    pub pooling: EmbeddingPooling,
}

/// A text, or the tokens of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EmbeddingInput {
    /// A text.
    Text(String),
    /// Its tokens.
    Tokens(Vec<u32>),
}

/// How vectors are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmbeddingFormat {
    /// As numbers.
    Float,
    /// As base64 of the little-endian bytes of 32-bit floats.
    Base64,
}

/// How the hidden states of a text's tokens become one vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmbeddingPooling {
    /// Their mean.
    Mean,
    /// That of the last token.
    Last,
}

impl EmbeddingRequest {
    /// Reads a request's body.
    ///
    /// # Errors
    /// When the body is not JSON, lacks what is required, or asks for what is not known.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?;
        let format = |name: &str| match name {
            "float" => Some(EmbeddingFormat::Float),
            "base64" => Some(EmbeddingFormat::Base64),
            _ => None,
        };
        let pooling = |name: &str| match name {
            "mean" => Some(EmbeddingPooling::Mean),
            "last" => Some(EmbeddingPooling::Last),
            _ => None,
        };
        let request = Self {
            model: fields.required("model")?.string()?,
            input: read_input(fields.required("input")?)?,
            format: fields
                .read("encoding_format", |at| at.one_of(format, "float and base64"))?
                .unwrap_or(EmbeddingFormat::Float),
            dimensions: fields.read("dimensions", Place::positive)?,
            pooling: fields
                .read("pooling", |at| at.one_of(pooling, "mean and last"))?
                .unwrap_or(EmbeddingPooling::Mean),
        };
        // About an account elsewhere.
        fields.take("user");
        fields.finish()?;
        Ok(request)
    }
}

/// A text, tokens, or a list of either.
fn read_input(at: Place) -> Result<Vec<EmbeddingInput>, RequestError> {
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

/// The embeddings of a request's texts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EmbeddingList {
    /// Always `list`.
    pub object: String,
    /// One for each text, in order.
    pub data: Vec<Embedding>,
    /// The model that made them, by the name under which it is served.
    pub model: String,
    /// Tokens that were used.
    pub usage: EmbeddingUsage,
}

/// The embedding of one text.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Embedding {
    /// Always `embedding`.
    pub object: String,
    /// Its place among the texts.
    pub index: usize,
    /// The vector.
    pub embedding: EmbeddingVector,
}

/// A vector as it was asked for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EmbeddingVector {
    /// Numbers.
    Float(Vec<f32>),
    /// Base64 of the little-endian bytes of 32-bit floats.
    Base64(String),
}

/// Tokens that a request for embeddings used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EmbeddingUsage {
    /// Tokens of all texts.
    pub prompt_tokens: usize,
    /// The same.
    pub total_tokens: usize,
}

impl EmbeddingList {
    /// The embeddings `vectors` by `model`, made from so many tokens.
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
