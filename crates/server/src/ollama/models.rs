//! `GET /api/tags`, `POST /api/show`, `GET /api/ps` and `GET /api/version`.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use formwork_openai::Model;
use formwork_openai::ollama::{
    ListedModel, ListedModels, LoadedModel, LoadedModels, ModelDetails, ShowReply, ShowRequest, VersionReply,
    timestamp,
};
use serde_json::{Map, json};

use crate::app::{App, Served};
use crate::body::JsonBody;
use crate::error::ApiError;
use crate::ignored::with_ignored;

/// Version of Ollama whose API the server has. Clients compare it with the versions in which Ollama's
/// features appeared.
const VERSION: &str = "0.13.5";

/// Time at which an idle model expires: never, written as a date that all clients can read.
const NEVER: &str = "2999-12-31T23:59:59.000000000Z";

/// Architecture of a model that is not loaded or whose architecture is not known. Clients read facts such as
/// `ARCHITECTURE.context_length`.
const ARCHITECTURE: &str = "formwork";

/// `GET /api/tags`: lists all model names, aliases and adapters, loaded or not.
pub(crate) async fn tags(State(app): State<App>) -> Json<ListedModels> {
    let models = app.registry().models().map(|model| ListedModel {
        size: app.registry().bytes(&model.id),
        modified_at: created(&model),
        details: details(&model),
        name: model.id.clone(),
        model: model.id,
        digest: String::new(),
    });
    Json(ListedModels { models: models.collect() })
}

/// `GET /api/ps`: lists the models in memory.
pub(crate) async fn ps(State(app): State<App>) -> Json<LoadedModels> {
    let model = |(name, served): (&str, Option<_>)| {
        let served: std::sync::Arc<Served> = served?;
        Some(LoadedModel {
            name: name.to_owned(),
            model: name.to_owned(),
            size: app.registry().bytes(name),
            digest: String::new(),
            details: app
                .registry()
                .model(name)
                .map_or_else(|_| ModelDetails::default(), |model| details(&model)),
            expires_at: NEVER.to_owned(),
            size_vram: 0,
            context_length: served.model.engine.context_len(),
        })
    };
    Json(LoadedModels { models: app.registry().loaded().into_iter().filter_map(model).collect() })
}

/// `POST /api/show`: describes a model. Does not load it, because clients ask for all models of a list.
pub(crate) async fn show(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let ShowRequest { model: name, ignored } = ShowRequest::from_json(&body)?;
    app.check_ignored(&ignored)?;
    let model = app.registry().model(&name)?;
    let capabilities = capabilities(app.registry().if_loaded(&name).as_deref());
    let mut model_info = Map::new();
    let meta = model.meta.as_ref();
    let architecture = meta.and_then(|meta| meta.architecture.as_deref()).unwrap_or(ARCHITECTURE);
    model_info.insert("general.architecture".to_owned(), json!(architecture));
    if let Some(tokens) = model.context_length {
        for name in ["general.context_length".to_owned(), format!("{architecture}.context_length")] {
            model_info.insert(name, json!(tokens));
        }
    }
    let reply = ShowReply {
        template: template(&capabilities).to_owned(),
        details: details(&model),
        model_info,
        modified_at: created(&model),
        capabilities: capabilities.into_iter().map(str::to_owned).collect(),
        ..ShowReply::default()
    };
    Ok(with_ignored(Json(reply), &ignored))
}

/// `GET /api/version`.
pub(crate) async fn version() -> Json<VersionReply> {
    Json(VersionReply { version: VERSION.to_owned() })
}

/// Returns the abilities of a model, under Ollama's names. A model that is not loaded gets the abilities of
/// most models.
///
/// Some clients use a model with `embedding` only for embeddings, so a model that generates text does not
/// report `embedding`.
fn capabilities(served: Option<&Served>) -> Vec<&'static str> {
    let Some(served) = served else { return vec!["completion", "tools"] };
    let abilities = served.model.engine.abilities();
    let mut names = Vec::new();
    if abilities.generates {
        names.extend(["completion", "tools"]);
        names.extend(served.format.thoughts_close().map(|_| "thinking"));
    } else if abilities.embedding.is_some() {
        names.push("embedding");
    }
    names
}

/// Returns a template in Ollama's language, with the variables that the model supports. The model's own
/// template has another language. Clients search the template for `tools` to find out whether a model
/// supports tools.
fn template(capabilities: &[&str]) -> &'static str {
    if capabilities.contains(&"tools") { "{{ .System }}{{ .Tools }}{{ .Messages }}" } else { "{{ .Prompt }}" }
}

fn created(model: &Model) -> String {
    timestamp(Duration::from_secs(model.created))
}

fn details(model: &Model) -> ModelDetails {
    let architecture = model.meta.as_ref().and_then(|meta| meta.architecture.clone());
    ModelDetails {
        parent_model: model.parent.clone().unwrap_or_default(),
        family: architecture.clone().unwrap_or_default(),
        families: architecture.into_iter().collect(),
        ..ModelDetails::default()
    }
}
