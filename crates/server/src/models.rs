use axum::Json;
use axum::extract::{Path, State};
use formwork_openai::{Model, ModelList};
use serde_json::{Value, json};

use crate::app::{App, ServedModel};
use crate::error::ApiError;

/// `GET /v1/models`: every name that a request may give.
pub(crate) async fn list(State(app): State<App>) -> Json<ModelList> {
    let named = |model: &ServedModel| -> Vec<Model> {
        model.names().map(|name| Model::new(name, model.created)).collect()
    };
    Json(ModelList::new(app.models().flat_map(named).collect()))
}

/// `GET /v1/models/{id}`. Ids may have slashes.
pub(crate) async fn get(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Model>, ApiError> {
    let served = app.model(&id)?;
    Ok(Json(Model::new(id, served.model.created)))
}

/// `GET /health`.
pub(crate) async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}
