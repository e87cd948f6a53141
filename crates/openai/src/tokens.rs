//! `/tokenize`, `/detokenize` and `/apply-template`, compatible with llama.cpp's and vLLM's
//! servers.
//!
//! The two servers have different names for some fields. Both names are accepted: `content` or
//! `prompt` for the text, and `add_special` or `add_special_tokens`. If their defaults differ, the
//! name of the text field decides: with `content`, llama.cpp's default applies, and with `prompt`,
//! vLLM's.

use serde::{Deserialize, Serialize};

use crate::error::Problem;
use crate::request::{Fields, Place};
use crate::{ChatRequest, RequestError};

/// Maximum number of tokens in a request to `/detokenize`.
const MAX_TOKENS: usize = 1 << 20;

/// Request to encode a text or a conversation to tokens.
#[derive(Clone, PartialEq, Debug)]
pub struct TokenizeRequest {
    /// Name under which the server offers the model. If `None`, the only model of the server is
    /// used.
    pub model: Option<String>,
    /// Text or conversation to encode.
    pub input: TokenizeInput,
    /// True if spellings of control tokens in a text are encoded as control tokens.
    pub parse_special: bool,
    /// True if the response contains the text of each token next to its id. llama.cpp has the same
    /// field.
    pub with_pieces: bool,
    /// True if the response contains a separate list of token texts. The field's name in requests
    /// is vLLM's `return_token_strs`.
    pub token_strings: bool,
}

/// Text or conversation to encode.
#[derive(Clone, PartialEq, Debug)]
pub enum TokenizeInput {
    /// A text without a chat template.
    Text {
        /// Text to encode.
        text: String,
        /// Name of the request field with the text: `content` or `prompt`.
        field: &'static str,
        /// True to put the beginning-of-sequence token first, if the model has one.
        add_special: bool,
    },
    /// A conversation, which is rendered with the chat template and then encoded.
    Chat {
        /// Request that contains the conversation.
        request: Box<TemplateRequest>,
        /// True to put the beginning-of-sequence token first, if the model expects this token and
        /// the chat template has not written it.
        add_special: bool,
    },
}

impl TokenizeRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown field or
    /// value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
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

/// Response to a request to encode.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tokenized {
    /// Number of tokens.
    pub count: usize,
    /// Context length of the model: the maximum number of tokens of a prompt and its output
    /// together.
    pub max_model_len: usize,
    /// Tokens in order.
    pub tokens: TokenizedIds,
    /// Text of each token. Bytes that are not valid UTF-8 on their own are replaced by U+FFFD.
    /// `null` unless requested.
    pub token_strs: Option<Vec<String>>,
}

/// Tokens as ids, or as ids with their texts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum TokenizedIds {
    /// Token ids.
    Ids(Vec<u32>),
    /// Token ids with the texts of the tokens.
    Pieces(Vec<TokenPiece>),
}

/// Token with its text.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenPiece {
    /// Id of the token.
    pub id: u32,
    /// Text of the token.
    pub piece: Piece,
}

/// Text of a token.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Piece {
    /// Text of a token whose bytes are valid UTF-8.
    Text(String),
    /// Bytes of a token that are not valid UTF-8 on their own, such as a part of a character.
    Bytes(Vec<u8>),
}

impl TokenPiece {
    /// Creates the entry of the token `id` with the given bytes.
    pub fn new(id: u32, bytes: &[u8]) -> Self {
        let piece = match str::from_utf8(bytes) {
            Ok(text) => Piece::Text(text.to_owned()),
            Err(_) => Piece::Bytes(bytes.to_vec()),
        };
        Self { id, piece }
    }
}

/// Description of a tokenizer, for clients that encode texts by themselves.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TokenizerInfo {
    /// Class in Hugging Face's library that has the same interface.
    pub tokenizer_class: String,
    /// Context length of the model in tokens.
    pub model_max_length: usize,
    /// True if a prompt starts with the beginning-of-sequence token.
    pub add_bos_token: bool,
    /// Spelling of the beginning-of-sequence token. `null` if the model has none.
    pub bos_token: Option<String>,
    /// Spelling of the end-of-sequence token.
    pub eos_token: Option<String>,
    /// Spelling of the token for padding: the end-of-sequence token.
    pub pad_token: Option<String>,
    /// Jinja template of chats. `null` if the model has none or if its template is built in.
    pub chat_template: Option<String>,
}

/// Request to decode tokens to text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DetokenizeRequest {
    /// Name under which the server offers the model. If `None`, the only model of the server is
    /// used.
    pub model: Option<String>,
    /// Token ids to decode.
    pub tokens: Vec<u32>,
}

impl DetokenizeRequest {
    /// Parses the body of a request.
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

/// Response to a request to decode. Contains the text twice, because llama.cpp and vLLM have
/// different names for the field.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Detokenized {
    /// Text of the tokens, in llama.cpp's field. Invalid UTF-8 is replaced by U+FFFD.
    pub content: String,
    /// Same text, in vLLM's field.
    pub prompt: String,
}

/// Request to render a conversation as a prompt. The request has the fields of a chat request.
/// Fields that do not affect the prompt are checked, but have no effect.
#[derive(Clone, PartialEq, Debug)]
pub struct TemplateRequest {
    /// Name under which the server offers the model. If `None`, the only model of the server is
    /// used.
    pub model: Option<String>,
    /// Request as a chat request. If the request does not name a model, the field `model` is empty.
    pub chat: ChatRequest,
    /// True if the prompt must end with the header of an assistant message, so that the model
    /// writes the message.
    pub add_generation_prompt: bool,
}

impl TemplateRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`ChatRequest::from_json`], except that `model` is
    /// optional.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        Self::read(Fields::from_json(body)?.ignoring())
    }

    fn read(mut fields: Fields) -> Result<Self, RequestError> {
        let model = fields.read("model", Place::string)?;
        let add_generation_prompt = fields.read("add_generation_prompt", Place::bool)?.unwrap_or(true);
        let chat = ChatRequest::read(model.clone().unwrap_or_default(), fields)?;
        Ok(Self { model, chat, add_generation_prompt })
    }
}

/// Response to a request to render a conversation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RenderedTemplate {
    /// Text of the prompt. Spellings of special tokens in this text must be encoded as special
    /// tokens.
    pub prompt: String,
}
