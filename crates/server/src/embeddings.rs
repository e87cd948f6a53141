//! `POST /v1/embeddings`.

use axum::Json;
use axum::extract::State;
use formwork_engine::{EmbedError, Pooling};
use formwork_openai::{EmbeddingInput, EmbeddingList, EmbeddingPooling, EmbeddingRequest};
use formwork_vocab::TokenId;
use formwork_vocab::tokenizer::EncodeOptions;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::app::{App, Served};
use crate::body::JsonBody;
use crate::error::{ApiError, Kind};
use crate::tokens::check_tokens;

/// Maximum number of texts of one request in the engine's queue.
const TOGETHER: usize = 8;

pub(crate) async fn create(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Json<EmbeddingList>, ApiError> {
    let request = EmbeddingRequest::from_json(&body)?;
    let served = app.model(&request.model).await?;
    let (input, of) = (request.input, served.clone());
    let texts = app.offload(move || input.iter().map(|input| of.tokens(input)).collect()).await;
    let texts: Vec<Vec<TokenId>> = texts?;
    let used = texts.iter().map(Vec::len).sum();
    let pooling = match request.pooling {
        EmbeddingPooling::Mean => Pooling::Mean,
        EmbeddingPooling::Last => Pooling::Last,
    };
    let embed = |tokens| served.model.engine.embed(tokens, pooling);
    let vectors = stream::iter(texts).map(embed).buffered(TOGETHER).try_collect::<Vec<_>>().await;
    let mut vectors = vectors.map_err(|error| failed(error, &served.model.id))?;
    for vector in &mut vectors {
        check_width(vector, request.dimensions)?;
        normalize(vector);
    }
    Ok(Json(EmbeddingList::new(served.model.id.clone(), vectors, request.format, used)))
}

impl Served {
    fn tokens(&self, input: &EmbeddingInput) -> Result<Vec<TokenId>, ApiError> {
        let tokenizer = self.model.engine.tokenizer();
        match input {
            EmbeddingInput::Tokens(ids) => check_tokens(ids, tokenizer, "input"),
            EmbeddingInput::Text(text) => {
                let options = EncodeOptions { special: false, bos: tokenizer.add_bos() };
                let tokens = tokenizer.encode(text, options);
                tokens.map_err(|source| Kind::Text { field: "input", source }.into())
            }
        }
    }
}

fn check_width(vector: &[f32], wanted: Option<usize>) -> Result<(), ApiError> {
    match wanted {
        Some(given) if given != vector.len() => Err(Kind::Dimensions { given, width: vector.len() }.into()),
        _ => Ok(()),
    }
}

/// Scales a vector to length 1, as in OpenAI's API. A zero vector stays unchanged.
fn normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        for value in vector {
            *value = (f64::from(*value) / length) as f32;
        }
    }
}

fn failed(error: EmbedError, model: &str) -> ApiError {
    match error {
        EmbedError::Refused(source) if source.is_busy() => Kind::Busy(source),
        EmbedError::Refused(source) if source.is_stopped() => Kind::Stopped(source),
        EmbedError::Refused(source) => Kind::Refused { field: Some("input"), source },
        EmbedError::Failed(source) if source.is_unsupported() => {
            Kind::NoEmbeddings { model: model.to_owned() }
        }
        EmbedError::Failed(source) => Kind::Generation(source),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp, reason = "these lengths have no rounding")]
    fn vectors_have_length_one() {
        let mut vector = [3.0, -4.0];
        normalize(&mut vector);
        assert_eq!(vector, [0.6, -0.8]);
        let mut nothing = [0.0, 0.0];
        normalize(&mut nothing);
        assert_eq!(nothing, [0.0, 0.0]);
        // The squares of these values overflow `f32`.
        let scale = 2f32.powi(100);
        let mut large = [3.0 * scale, 4.0 * scale];
        normalize(&mut large);
        assert_eq!(large, [0.6, 0.8]);
    }

    #[test]
    fn accepts_only_the_own_width() {
        assert!(check_width(&[0.0; 4], None).is_ok() && check_width(&[0.0; 4], Some(4)).is_ok());
        let error = check_width(&[0.0; 4], Some(2)).unwrap_err();
        assert_eq!(error.to_string(), "`dimensions` is 2; this model supports only 4");
    }
}
