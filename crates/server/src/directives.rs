//! `POST /v1/directives`: runs directives on a served model, with their types in the request.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::State;
use formwork_grammar::{Grammar, SchemaOptions};
use formwork_openai::{DirectiveDefinition, DirectiveMode, DirectivesRequest};
use formwork_protocol::directives::{
    Definition, DirectiveResult, Mode, Preset, Registry, RegistryError, RunRequest, Runner,
    StructuredOutputOptions, presets, require_types,
};
use formwork_protocol::{Answer, BackendError, Body, Capabilities, ChatBackend, Chunks, PromptRunner};
use futures_util::future::{BoxFuture, FutureExt};

use crate::app::{App, ServerOptions};
use crate::body::JsonBody;
use crate::constraints::Compiling;
use crate::error::{ApiError, Kind};
use crate::local::{LocalBackend, refusal};

/// `POST /v1/directives`.
///
/// An unusable answer of the model is a normal result. A request that cannot be answered fails like
/// a chat request.
pub(crate) async fn create(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Json<DirectiveResult>, ApiError> {
    let request = DirectivesRequest::from_json(&body)?;
    // Reports an unknown model before any other error.
    let model = app.model(&request.chat.model).await?.model.id.clone();
    let plans = request.include_plans;
    let options = app.options().clone();
    let prepare = move |compiling| prepare(request.clone(), &options, compiling);
    let (preset, run) = app.compile(prepare).await?;
    let backend = Arc::new(Watched { inner: LocalBackend::new(app), failed: Mutex::default() });
    let runner =
        Runner::build(PromptRunner::new(Arc::clone(&backend) as Arc<dyn ChatBackend>, model), preset);
    let result = runner.run(&run).await;
    let unanswered = result
        .as_ref()
        .map_or(true, |result| result.attempts.iter().all(|attempt| attempt.content.is_none()));
    match (backend.take(), result) {
        (Some(error), _) if unanswered => Err(error.about_registry()),
        (_, Ok(mut result)) => {
            for attempt in result.attempts.iter_mut().filter(|_| !plans) {
                attempt.plan = None;
            }
            Ok(Json(result))
        }
        // A run is only cancelled by dropping it.
        (_, Err(_)) => Err(Kind::Panicked.into()),
    }
}

/// Builds the preset and the run request.
fn prepare(
    request: DirectivesRequest,
    server: &ServerOptions,
    compiling: Compiling,
) -> Result<(Preset, RunRequest), ApiError> {
    let modes: Option<Vec<Mode>> = request.modes.map(|modes| modes.into_iter().map(mode).collect());
    if modes.as_ref().is_none_or(|modes| modes.contains(&Mode::JsonSchema)) {
        check_payloads(&request.definitions, server, compiling)?;
    }
    let definitions = request.definitions.into_iter().map(definition).collect();
    let mut registry = Registry::new(definitions).map_err(|source| bad_registry("registry.", source))?;
    if let Some(instructions) = request.instructions {
        registry = registry.with_instructions(instructions);
    }
    let mut options = StructuredOutputOptions::new(registry);
    let bad = |source| bad_registry("", source);
    if let Some(types) = request.allowed_types {
        options = options.with_allowed_types(types).map_err(bad)?;
    }
    options = options.with_type_aliases(request.type_aliases).map_err(bad)?;
    if let Some(name) = request.schema_name {
        options = options.with_schema_name(name).map_err(bad)?;
    }
    options.max_bytes = request.max_bytes.unwrap_or(options.max_bytes);
    options.output_instructions = request.output_instructions;
    options.inject_response_format = request.inject_response_format;
    let required = options.known_types("require", request.require).map_err(bad)?;
    let mut run = RunRequest::of_history(request.messages, options);
    run.overrides = request.fields;
    run.modes = modes;
    if !required.is_empty() {
        run = run.with_result_validator(require_types(required));
    }
    let repair_retries = request.repair_retries.map(|given| given as u32);
    // The engine supports all modes, so a refusal is never about a mode.
    let own = Preset { stop_on_refusal: Some(true), repair_retries, ..Preset::default() };
    Ok((presets::merge([presets::provider_defaults("local"), own]), run))
}

/// Checks that each payload schema can be enforced.
fn check_payloads(
    definitions: &[DirectiveDefinition],
    server: &ServerOptions,
    compiling: Compiling,
) -> Result<(), ApiError> {
    for (at, definition) in definitions.iter().enumerate() {
        let Some(schema) = &definition.payload_schema else { continue };
        let (options, limits) = (SchemaOptions::default(), &compiling.limits(&server.grammar_limits));
        let compiled = Grammar::json_schema_with_remotes(schema, &server.schemas, &options, limits);
        compiled.map_err(|source| {
            let place = format!("registry.definitions[{at}].payload_schema");
            Kind::Payload { place, source }
        })?;
    }
    Ok(())
}

fn bad_registry(prefix: &str, source: RegistryError) -> ApiError {
    Kind::Registry { place: format!("{prefix}{}", source.place()), source }.into()
}

fn definition(given: DirectiveDefinition) -> Definition {
    Definition {
        kind: given.kind,
        description: given.description,
        aliases: given.aliases,
        payload_schema: given.payload_schema,
        instructions: given.instructions,
        patch: given.patch,
    }
}

const fn mode(given: DirectiveMode) -> Mode {
    match given {
        DirectiveMode::JsonSchema => Mode::JsonSchema,
        DirectiveMode::JsonObject => Mode::JsonObject,
        DirectiveMode::PromptOnly => Mode::PromptOnly,
    }
}

/// Wraps the backend and keeps its last error, so that the response can report the full error.
struct Watched {
    inner: LocalBackend,
    failed: Mutex<Option<ApiError>>,
}

impl Watched {
    fn take(&self) -> Option<ApiError> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ChatBackend for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        async move {
            match self.inner.answer(body).await {
                Ok(body) => Ok(Answer { body, attempts: 1, retried: Vec::new() }),
                Err(error) => {
                    let told = refusal(&error);
                    *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    Err(told)
                }
            }
        }
        .boxed()
    }

    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        self.inner.stream(body)
    }

    fn capabilities<'a>(&'a self, model: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        self.inner.capabilities(model)
    }

    fn known_capabilities(&self, model: &str) -> Option<Capabilities> {
        self.inner.known_capabilities(model)
    }
}
