//! `/v1/conversations`.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use formwork_openai::{Conversation, ConversationRequest, Deleted, ItemList};
use serde_json::{Map, Value, json};

use super::error::StoreError;
use super::keep::Lookup;
use super::page::{Page, list, parsed};
use super::store::StoredConversation;
use super::turn::Turn;
use crate::answer::{new_id, now};
use crate::app::App;
use crate::body::JsonBody;
use crate::error::ApiError;
use crate::ignored::with_ignored;

type Items = Vec<Map<String, Value>>;

fn unknown(id: String) -> StoreError {
    StoreError::Unknown { what: "conversation", id }
}

/// Returns a conversation as clients see it.
fn shown(id: String, stored: &StoredConversation) -> Result<Json<Conversation>, StoreError> {
    let metadata = parsed(&stored.metadata)?;
    Ok(Json(Conversation { id, object: "conversation".to_owned(), created_at: stored.created, metadata }))
}

/// Returns a turn with new items.
fn turn(app: &App, items: Items) -> Arc<Turn> {
    Arc::new(Turn::new(items.into_iter().map(|item| app.store().item_of_client(item)).collect(), None))
}

/// Returns metadata as JSON.
fn text(metadata: &Map<String, Value>) -> Arc<str> {
    json!(metadata).to_string().into()
}

/// Returns a function from the size of a conversation to an error of a field of the request.
fn too_long(app: &App, field: &'static str) -> impl Fn(usize) -> StoreError {
    let limit = app.options().responses_store.bytes;
    move |given| StoreError::TooLong { field, given, limit }
}

/// `POST /v1/conversations`.
pub(crate) async fn create(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    if !app.store().is_on() {
        return Err(StoreError::Off.into());
    }
    let mut lookup = Lookup::new(&app);
    let request = app.offload(move || Ok(ConversationRequest::create(&body, &mut lookup)?)).await?;
    app.check_ignored(&request.ignored)?;
    let metadata = text(&request.metadata);
    let turn = (!request.items.is_empty()).then(|| turn(&app, request.items));
    let larger =
        if turn.as_ref().is_some_and(|turn| turn.bytes() > metadata.len()) { "items" } else { "metadata" };
    let conversation = StoredConversation { created: now(), metadata, turn };
    let id = new_id("conv_");
    app.store().add_conversation(&id, conversation.clone()).map_err(too_long(&app, larger))?;
    Ok(with_ignored(shown(id, &conversation)?, &request.ignored))
}

/// `GET /v1/conversations/{id}`.
pub(crate) async fn get(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Conversation>, ApiError> {
    let found = app.store().conversation(&id);
    Ok(shown(id.clone(), &found.ok_or_else(|| unknown(id))?)?)
}

/// `POST /v1/conversations/{id}`: replaces the metadata.
pub(crate) async fn update(
    State(app): State<App>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let request = ConversationRequest::update(&body)?;
    app.check_ignored(&request.ignored)?;
    let changed = app.store().set_metadata(&id, text(&request.metadata));
    let changed = changed.ok_or_else(|| unknown(id.clone()))?.map_err(too_long(&app, "metadata"))?;
    Ok(with_ignored(shown(id, &changed)?, &request.ignored))
}

/// `DELETE /v1/conversations/{id}`.
pub(crate) async fn delete(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Deleted>, ApiError> {
    if !app.store().delete_conversation(&id) {
        return Err(unknown(id).into());
    }
    Ok(Json(Deleted { id, object: "conversation.deleted".to_owned(), deleted: true }))
}

/// `GET /v1/conversations/{id}/items`.
pub(crate) async fn items(
    State(app): State<App>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<ItemList>, ApiError> {
    let page = Page::parse(query.as_deref())?;
    let stored = app.store().conversation(&id).ok_or_else(|| unknown(id))?;
    Ok(Json(page.list(stored.turn.map(|turn| turn.all()).unwrap_or_default())?))
}

/// `POST /v1/conversations/{id}/items`: adds items, and lists them.
pub(crate) async fn add_items(
    State(app): State<App>,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Response, ApiError> {
    let mut lookup = Lookup::new(&app);
    let request = app.offload(move || Ok(ConversationRequest::add(&body, &mut lookup)?)).await?;
    app.check_ignored(&request.ignored)?;
    let turn = turn(&app, request.items);
    match app.store().append(&id, &turn) {
        Some(Ok(())) => Ok(with_ignored(Json(list(&turn.items, false)?), &request.ignored)),
        Some(Err(bytes)) => Err(too_long(&app, "items")(bytes).into()),
        None => Err(unknown(id).into()),
    }
}

/// `GET /v1/conversations/{id}/items/{item_id}`.
pub(crate) async fn get_item(
    State(app): State<App>,
    Path((id, item)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let stored = app.store().conversation(&id).ok_or_else(|| unknown(id))?;
    let items = stored.turn.map(|turn| turn.all()).unwrap_or_default();
    match items.iter().find(|known| *known.id == *item) {
        Some(found) => Ok(Json(parsed(&found.json)?)),
        None => Err(StoreError::Unknown { what: "item", id: item }.into()),
    }
}

/// `DELETE /v1/conversations/{id}/items/{item_id}`: removes an item, and returns the conversation.
pub(crate) async fn delete_item(
    State(app): State<App>,
    Path((id, item)): Path<(String, String)>,
) -> Result<Json<Conversation>, ApiError> {
    if app.store().conversation(&id).is_none() {
        return Err(unknown(id).into());
    }
    match app.store().delete_item(&id, &item) {
        Some(changed) => Ok(shown(id, &changed)?),
        None => Err(StoreError::Unknown { what: "item", id: item }.into()),
    }
}
