use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use formwork_openai::{Model, ModelList, anthropic};
use serde_json::{Value, json};

use crate::app::App;
use crate::dialect::Dialect;
use crate::error::ApiError;

/// `GET /v1/models`: lists all model names, aliases and adapters, loaded or not.
///
/// OpenAI's and Anthropic's APIs share this path.
pub(crate) async fn list(State(app): State<App>, headers: HeaderMap) -> Response {
    let models = app.registry().models();
    match Dialect::of_models(&headers) {
        Dialect::Anthropic => {
            Json(anthropic::ModelList::new(models.map(of_anthropic).collect())).into_response()
        }
        _ => Json(ModelList::new(models.collect())).into_response(),
    }
}

/// `GET /v1/models/{id}`. Ids may contain slashes.
pub(crate) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let model = app.registry().model(&id)?;
    Ok(match Dialect::of_models(&headers) {
        Dialect::Anthropic => Json(of_anthropic(model)).into_response(),
        _ => Json(model).into_response(),
    })
}

fn of_anthropic(model: Model) -> anthropic::Model {
    anthropic::Model::new(model.id, model.created)
}

/// `GET /health`: reports whether all models that are loaded at startup are ready.
pub(crate) async fn health(State(app): State<App>) -> (StatusCode, Json<Value>) {
    let (status, word) = if app.registry().ready() {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "loading")
    };
    (status, Json(json!({ "status": word })))
}
