//! Stored responses: `/v1/responses/{id}` and the paths below it.

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use formwork_openai::{Deleted, ItemList};
use serde_json::Value;

use super::error::StoreError;
use super::page::{Page, parameters, parsed};
use crate::app::App;
use crate::error::ApiError;

fn unknown(id: String) -> StoreError {
    StoreError::Unknown { what: "response", id }
}

/// `GET /v1/responses/{id}`.
pub(crate) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    if parameters(query.as_deref()).any(|(name, value)| name == "stream" && value == "true") {
        let problem = "only false is supported here; a stored response is not streamed".to_owned();
        return Err(StoreError::Query { name: "stream", problem }.into());
    }
    let stored = app.store().response(&id).ok_or_else(|| unknown(id))?;
    let mut response: Value = parsed(&stored.body)?;
    let output = stored.turn.items[stored.inputs..].iter().map(|item| parsed::<Value>(&item.json));
    response["output"] = output.collect::<Result<_, _>>()?;
    Ok(Json(response))
}

/// `DELETE /v1/responses/{id}`. Responses that continue the deleted one keep its items.
pub(crate) async fn delete(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Deleted>, ApiError> {
    if !app.store().delete_response(&id) {
        return Err(unknown(id).into());
    }
    Ok(Json(Deleted { id, object: "response".to_owned(), deleted: true }))
}

/// `POST /v1/responses/{id}/cancel`. A stored response is complete, so there is nothing to cancel.
pub(crate) async fn cancel(State(app): State<App>, Path(id): Path<String>) -> Result<Json<Value>, ApiError> {
    match app.store().response(&id) {
        Some(_) => Err(StoreError::NotInBackground { id }.into()),
        None => Err(unknown(id).into()),
    }
}

/// `GET /v1/responses/{id}/input_items`: lists the items that precede the output, with those of earlier
/// responses.
pub(crate) async fn input_items(
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<ItemList>, ApiError> {
    let page = Page::parse(query.as_deref())?;
    let stored = app.store().response(&id).ok_or_else(|| unknown(id))?;
    let mut items = stored.turn.all();
    items.truncate(items.len() - (stored.turn.items.len() - stored.inputs));
    Ok(Json(page.list(items)?))
}
