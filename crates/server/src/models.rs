use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use formwork_openai::{Model, ModelList};
use serde_json::{Value, json};

use crate::app::App;
use crate::error::ApiError;

/// `GET /v1/models`: lists all model names, aliases and adapters, loaded or not.
pub(crate) async fn list(State(app): State<App>) -> Json<ModelList> {
    Json(ModelList::new(app.registry().models().collect()))
}

/// `GET /v1/models/{id}`. Ids may contain slashes.
pub(crate) async fn get(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Model>, ApiError> {
    Ok(Json(app.registry().model(&id)?))
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
