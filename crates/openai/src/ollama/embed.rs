use serde::{Deserialize, Serialize};

use super::LoadRequest;
use crate::embeddings::read_input;
use crate::request::{Fields, Place, check_neutral_embedding, read_model, take_without_effect};
use crate::{
    EmbeddingFormat, EmbeddingInput, EmbeddingPrompt, EmbeddingRequest, IgnoredFields, RequestError,
    Truncation,
};

/// Request to `/api/embed` or `/api/embeddings`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EmbedRequest {
    /// A request without a text.
    Load(LoadRequest),
    /// Texts, in the request that `/v1/embeddings` has for them.
    Embed(EmbeddingRequest),
}

impl EmbedRequest {
    /// Parses the body of a request to `/api/embed`.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, or has an unknown field or value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let input = fields.take("input").filter(|at| !is_empty(at)).map(read_input).transpose()?;
        let truncates = fields.read("truncate", Place::bool)?.unwrap_or(true);
        let truncation = if truncates { Truncation::ToContext } else { Truncation::Refuse };
        Self::read(fields, input, truncation)
    }

    /// Parses the body of a request to `/api/embeddings`, which has one text.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`EmbedRequest::from_json`].
    pub fn from_json_with_prompt(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let prompt = fields.read("prompt", Place::string)?.filter(|text| !text.is_empty());
        let input = prompt.map(|text| vec![EmbeddingInput::Text(text)]);
        Self::read(fields, input, Truncation::ToContext)
    }

    fn read(
        mut fields: Fields,
        input: Option<Vec<EmbeddingInput>>,
        truncation: Truncation,
    ) -> Result<Self, RequestError> {
        let model = read_model(&mut fields)?;
        let dimensions = fields.read("dimensions", Place::positive)?;
        // Options are about the generation of text and about memory.
        fields.ignore("options");
        take_without_effect(&mut fields);
        check_neutral_embedding(&mut fields)?;
        let ignored = fields.finish_request()?;
        Ok(match input {
            None => Self::Load(LoadRequest { model, unload: false, ignored }),
            Some(input) => Self::Embed(EmbeddingRequest {
                model,
                input,
                format: EmbeddingFormat::Float,
                dimensions,
                pooling: None,
                normalize: Some(true),
                prompt: EmbeddingPrompt::Default,
                truncation,
                ignored,
            }),
        })
    }

    /// Returns the name of the model. Empty if the request has none.
    pub fn model(&self) -> &str {
        match self {
            Self::Load(request) => &request.model,
            Self::Embed(request) => &request.model,
        }
    }

    /// Returns the fields of the request that have no effect.
    pub const fn ignored(&self) -> &IgnoredFields {
        match self {
            Self::Load(request) => &request.ignored,
            Self::Embed(request) => &request.ignored,
        }
    }
}

fn is_empty(at: &Place) -> bool {
    at.value() == "" || at.value().as_array().is_some_and(Vec::is_empty)
}

/// Reply to `/api/embed`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EmbedReply {
    /// Name under which the server offers the model.
    pub model: String,
    /// One vector for each text, of length 1, in the order of the request.
    pub embeddings: Vec<Vec<f32>>,
    /// Time from the request to the reply, in nanoseconds.
    pub total_duration: u64,
    /// Time until the model was loaded, in nanoseconds.
    pub load_duration: u64,
    /// Number of tokens of all texts.
    pub prompt_eval_count: usize,
}

/// Reply to `/api/embeddings`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PromptEmbedding {
    /// Vector of the text. Empty if the request has no text.
    pub embedding: Vec<f32>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test without its request has failed")]

    use super::*;

    #[test]
    fn texts_are_cut_to_the_context_by_default() {
        let read = |body: &str| EmbedRequest::from_json(body.as_bytes()).unwrap();
        for (body, truncation) in [
            (r#"{"input": "a"}"#, Truncation::ToContext),
            (r#"{"input": ["a"], "truncate": false, "options": {"num_ctx": 8}}"#, Truncation::Refuse),
        ] {
            let EmbedRequest::Embed(request) = read(body) else { panic!("{body}") };
            assert_eq!((request.truncation, request.normalize), (truncation, Some(true)));
            assert_eq!(request.input, [EmbeddingInput::Text("a".to_owned())]);
        }
        for body in ["{}", r#"{"input": ""}"#, r#"{"input": [], "keep_alive": "5m"}"#] {
            assert!(matches!(read(body), EmbedRequest::Load(_)), "{body}");
        }
        let error = EmbedRequest::from_json(br#"{"input": ["a", ""]}"#).unwrap_err();
        assert_eq!(error.param(), Some("input[1]"));
    }
}
