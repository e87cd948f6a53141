//! `/tokenize`, `/detokenize` and `/apply-template`, compatible with the servers of llama.cpp and
//! vLLM.
//!
//! The two servers name the same fields differently, and both names are accepted: `content` or
//! `prompt`, `add_special` or `add_special_tokens`. Where their defaults differ, the name of the
//! text field selects the default: llama.cpp's for `content`, vLLM's for `prompt`.

use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::request::{Fields, Place};
use crate::{ChatRequest, RequestError};

/// Maximum number of tokens in a detokenize request.
const MAX_TOKENS: usize = 1 << 20;

/// A request for the tokens of a text or of a conversation.
#[derive(Clone, PartialEq, Debug)]
pub struct TokenizeRequest {
    /// Served name of the model. If absent, the only served model is used.
    pub model: Option<String>,
    /// The input to encode.
    pub input: TokenizeInput,
    /// True if the text of control tokens is parsed as those tokens.
    pub parse_special: bool,
    /// True if the response lists each token's text with its id (llama.cpp's `with_pieces`).
    pub with_pieces: bool,
    /// True if the response has a separate list of token texts (vLLM's `return_token_strs`).
    pub token_strings: bool,
}

/// The input to encode.
#[derive(Clone, PartialEq, Debug)]
pub enum TokenizeInput {
    /// A text.
    Text {
        /// The text.
        text: String,
        /// Request field of the text: `content` or `prompt`.
        field: &'static str,
        /// True to put a beginning-of-sequence token first, if the model has one.
        add_special: bool,
    },
    /// A conversation, encoded like the prompt of a chat.
    Chat {
        /// The conversation.
        request: Box<TemplateRequest>,
        /// True to put a beginning-of-sequence token first, as in a chat: only if the model expects
        /// one and the template wrote none.
        add_special: bool,
    },
}

impl TokenizeRequest {
    /// Parses a request's body.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown field or
    /// value.
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
    /// Number of tokens.
    pub count: usize,
    /// Maximum number of tokens of a prompt and its output together.
    pub max_model_len: usize,
    /// The tokens.
    pub tokens: TokenizedIds,
    /// Text of each token, if requested; bytes that are not valid UTF-8 on their own are replaced.
    pub token_strs: Option<Vec<String>>,
}

/// Tokens, with or without their texts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TokenizedIds {
    /// Token ids only.
    Ids(Vec<u32>),
    /// Token ids with their texts.
    Pieces(Vec<TokenPiece>),
}

/// A token and its text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenPiece {
    /// Id of the token.
    pub id: u32,
    /// Text of the token.
    pub piece: Piece,
}

/// The text of a token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Piece {
    /// Valid UTF-8 text.
    Text(String),
    /// Bytes that are not valid UTF-8 on their own, such as a part of a character.
    Bytes(Vec<u8>),
}

impl TokenPiece {
    /// Creates a token piece from the token's bytes.
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
    /// Served name of the model. If absent, the only served model is used.
    pub model: Option<String>,
    /// Token ids.
    pub tokens: Vec<u32>,
}

impl DetokenizeRequest {
    /// Parses a request's body.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown field or
    /// value.
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

/// The text of tokens, under the field names of both servers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Detokenized {
    /// The text; invalid UTF-8 is replaced. llama.cpp's name of the field.
    pub content: String,
    /// The same text under vLLM's name of the field.
    pub prompt: String,
}

/// A request for the prompt of a conversation. Takes the fields of a chat request; only the fields
/// that affect the prompt matter.
#[derive(Clone, PartialEq, Debug)]
pub struct TemplateRequest {
    /// Served name of the model. If absent, the only served model is used.
    pub model: Option<String>,
    /// The chat request; its `model` is empty if the request names none.
    pub chat: ChatRequest,
    /// True if the prompt ends with the header of an assistant message.
    pub add_generation_prompt: bool,
}

impl TemplateRequest {
    /// Parses a request's body.
    ///
    /// # Errors
    /// Returns the errors of [`ChatRequest::from_json`].
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

/// The prompt of a conversation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RenderedTemplate {
    /// The prompt text; special tokens in it are parsed as such.
    pub prompt: String,
}
