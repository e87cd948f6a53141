//! `POST /api/embed`, and the older `POST /api/embeddings` for one text.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use formwork_openai::ollama::{EmbedReply, EmbedRequest, PromptEmbedding};

use super::replies::nanos;
use crate::app::App;
use crate::body::JsonBody;
use crate::embeddings;
use crate::error::ApiError;
use crate::ignored::with_ignored;

pub(crate) async fn embed(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let begun = Instant::now();
    let request = EmbedRequest::from_json(&body)?;
    let ignored = request.ignored().clone();
    let Embedded { model, vectors, tokens, load } = embed_texts(&app, request).await?;
    let reply = EmbedReply {
        model,
        embeddings: vectors,
        total_duration: nanos(begun.elapsed()),
        load_duration: nanos(load),
        prompt_eval_count: tokens,
    };
    Ok(with_ignored(Json(reply), &ignored))
}

pub(crate) async fn embed_prompt(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let request = EmbedRequest::from_json_with_prompt(&body)?;
    let ignored = request.ignored().clone();
    let Embedded { mut vectors, .. } = embed_texts(&app, request).await?;
    let reply = PromptEmbedding { embedding: vectors.pop().unwrap_or_default() };
    Ok(with_ignored(Json(reply), &ignored))
}

/// Vectors of the texts of a request.
struct Embedded {
    model: String,
    /// Empty if the request has no texts.
    vectors: Vec<Vec<f32>>,
    /// Number of tokens of all texts.
    tokens: usize,
    /// Time until the model was loaded.
    load: Duration,
}

async fn embed_texts(app: &App, request: EmbedRequest) -> Result<Embedded, ApiError> {
    let begun = Instant::now();
    app.check_ignored(request.ignored())?;
    let served = app.model(request.model()).await?;
    let load = begun.elapsed();
    let (vectors, tokens) = match request {
        EmbedRequest::Load(_) => (Vec::new(), 0),
        EmbedRequest::Embed(request) => embeddings::embed(app, &served, request).await?,
    };
    Ok(Embedded { model: served.model.id.clone(), vectors, tokens, load })
}
