//! `/tokenize`, `/detokenize` and `/apply-template`, in the forms that llama.cpp's and vLLM's servers have.
//!
//! The two agree on what is asked and differ in names, so both are read: `content` or `prompt`, `add_special` or
//! `add_special_tokens`. Where they differ in a default, the name of the text decides whose it is.

use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::request::{Fields, Place};
use crate::{ChatRequest, RequestError};

/// The most tokens that are turned into text at once.
const MAX_TOKENS: usize = 1 << 20;

/// A request for the tokens of a text or of a conversation.
#[derive(Clone, PartialEq, Debug)]
pub struct TokenizeRequest {
    /// The model, by a name under which it is served; the only one where none is named.
    pub model: Option<String>,
    /// What to encode.
    pub input: TokenizeInput,
    /// Whether the spellings of control tokens are read as these.
    pub parse_special: bool,
    /// Whether the answer has each token's text beside its id (llama.cpp's `with_pieces`).
    pub with_pieces: bool,
    /// Whether the answer has a list of the tokens' texts (vLLM's `return_token_strs`).
    pub token_strings: bool,
}

/// What to encode.
#[derive(Clone, PartialEq, Debug)]
pub enum TokenizeInput {
    /// A text.
    Text {
        /// The text.
        text: String,
        /// The request's field that has it: `content` or `prompt`.
        field: &'static str,
        /// Whether a beginning-of-sequence token comes first, where the model has one.
        add_special: bool,
    },
    /// A conversation, as a chat would begin.
    Chat {
        /// The conversation.
        request: Box<TemplateRequest>,
        /// Whether a beginning-of-sequence token comes first where the model wants one and the template wrote none, as in a chat.
        add_special: bool,
    },
}

impl TokenizeRequest {
    /// Reads a request's body.
    ///
    /// # Errors
    /// When the body is not JSON, lacks what is required, or asks for what is not known.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?;
        let parse_special = fields.read("parse_special", Place::bool)?.unwrap_or(true);
        let with_pieces = fields.read("with_pieces", Place::bool)?.unwrap_or(false);
        let token_strings = fields.read("return_token_strs", Place::bool)?.unwrap_or(false);
        let asks = |model, input| Self { model, input, parse_special, with_pieces, token_strings };
        let (field, at) = match (fields.take("content"), fields.take("prompt")) {
            (Some(_), Some(prompt)) => return Err(prompt.error(Problem::Conflict { other: "content" })),
            (Some(content), None) => ("content", content),
            (None, Some(prompt)) => ("prompt", prompt),
            (None, None) => {
                let add_special = fields.read("add_special_tokens", Place::bool)?.unwrap_or(true);
                let request = Box::new(TemplateRequest::read(fields)?);
                return Ok(asks(request.model.clone(), TokenizeInput::Chat { request, add_special }));
            }
        };
        let text = at.string()?;
        let llama_cpp = fields.read("add_special", Place::bool)?;
        let vllm = fields.read("add_special_tokens", Place::bool)?;
        let add_special = llama_cpp.or(vllm).unwrap_or(field == "prompt");
        let model = fields.read("model", Place::string)?;
        fields.finish()?;
        Ok(asks(model, TokenizeInput::Text { text, field, add_special }))
    }
}

/// The tokens of a text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tokenized {
    /// How many there are.
    pub count: usize,
    /// How many tokens a prompt and its output may have together.
    pub max_model_len: usize,
    /// The tokens.
    pub tokens: TokenizedIds,
    /// The text of each, where that was asked for; what is no UTF-8 alone is replaced.
    pub token_strs: Option<Vec<String>>,
}

/// Tokens, with their texts or without.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TokenizedIds {
    /// Without.
    Ids(Vec<u32>),
    /// With.
    Pieces(Vec<TokenPiece>),
}

/// A token and what it spells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenPiece {
    /// The token.
    pub id: u32,
    /// Its text.
    pub piece: Piece,
}

/// What a token spells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Piece {
    /// Text.
    Text(String),
    /// Part of a character.
    Bytes(Vec<u8>),
}

impl TokenPiece {
    /// A token that spells `bytes`.
    pub fn new(id: u32, bytes: &[u8]) -> Self {
        let piece = match str::from_utf8(bytes) {
            Ok(text) => Piece::Text(text.to_owned()),
            Err(_) => Piece::Bytes(bytes.to_vec()),
        };
        Self { id, piece }
    }
}

/// A request for the text of tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DetokenizeRequest {
    /// The model, by a name under which it is served; the only one where none is named.
    pub model: Option<String>,
    /// The tokens.
    pub tokens: Vec<u32>,
}

impl DetokenizeRequest {
    /// Reads a request's body.
    ///
    /// # Errors
    /// When the body is not JSON, lacks what is required, or asks for what is not known.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?;
        let model = fields.read("model", Place::string)?;
        let tokens = fields.required("tokens")?.list("an array of token ids")?;
        if tokens.len() > MAX_TOKENS {
            let problem = Problem::TooMany { given: tokens.len(), limit: MAX_TOKENS };
            return Err(RequestError::field("tokens", problem));
        }
        let tokens = tokens.iter().map(Place::token).collect::<Result<_, _>>()?;
        fields.finish()?;
        Ok(Self { model, tokens })
    }
}

/// The text of tokens, under both servers' names for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Detokenized {
    /// The text; what is no UTF-8 is replaced.
    pub content: String,
    /// The same.
    pub prompt: String,
}

/// A request for the prompt that a conversation makes: a chat request, of which only what goes into the prompt matters.
#[derive(Clone, PartialEq, Debug)]
pub struct TemplateRequest {
    /// The model, by a name under which it is served; the only one where none is named.
    pub model: Option<String>,
    /// The rest of the request; its `model` is empty where none was named.
    pub chat: ChatRequest,
    /// Whether the prompt ends where the assistant is to speak.
    pub add_generation_prompt: bool,
}

impl TemplateRequest {
    /// Reads a request's body.
    ///
    /// # Errors
    /// As [`ChatRequest::from_json`].
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        Self::read(Fields::from_json(body)?)
    }

    fn read(mut fields: Fields) -> Result<Self, RequestError> {
        let model = fields.read("model", Place::string)?;
        let add_generation_prompt = fields.read("add_generation_prompt", Place::bool)?.unwrap_or(true);
        let chat = ChatRequest::read(model.clone().unwrap_or_default(), fields)?;
        Ok(Self { model, chat, add_generation_prompt })
    }
}

/// The prompt that a conversation makes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RenderedTemplate {
    /// What the model reads; special tokens in it are meant as such.
    pub prompt: String,
}
