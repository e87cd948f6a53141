//! `POST /v1/directives`: runs directives on a served model or on a provider's model, with their
//! types in the request. `POST /v1/directives/parse` reads the text of an answer from elsewhere.

mod prepare;
mod stream;
mod watched;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use formwork_openai::{DirectivesParseRequest, DirectivesRequest};
use formwork_protocol::directives::{DirectiveResult, RunEvent, RunRequest, Runner, read};
use formwork_protocol::{ChatBackend, PromptRunner};

use crate::app::App;
use crate::body::JsonBody;
use crate::error::{ApiError, Kind};
use watched::Watched;

/// `POST /v1/directives`.
///
/// An unusable answer of the model is a normal result. A request that cannot be answered fails like
/// a chat request.
pub(crate) async fn create(State(app): State<App>, JsonBody(body): JsonBody) -> Result<Response, ApiError> {
    let request = DirectivesRequest::from_json(&body)?;
    let is_streamed = request.stream;
    let prepared = Prepared::new(app, request).await?;
    if is_streamed {
        return Ok(stream::respond(prepared));
    }
    Ok(Json(prepared.run(None).await?).into_response())
}

/// `POST /v1/directives/parse`. Needs no model.
pub(crate) async fn parse(
    State(app): State<App>,
    JsonBody(body): JsonBody,
) -> Result<Json<DirectiveResult>, ApiError> {
    let DirectivesParseRequest { text, rules } = DirectivesParseRequest::from_json(&body)?;
    app.offload(move || Ok(Json(read(&text, &prepare::options(rules)?)))).await
}

/// Runs the request `body` of `POST /v1/directives` on a model of the caller, and returns the result.
///
/// # Errors
/// Returns an error if the request is malformed or if its schemas cannot be enforced. An unusable answer is a
/// normal result, as over HTTP.
pub async fn run_directives(
    app: &App,
    backend: Arc<dyn ChatBackend>,
    body: &[u8],
) -> Result<DirectiveResult, ApiError> {
    let request = DirectivesRequest::from_json(body)?;
    let model = request.chat.model.clone();
    let options = app.options().clone();
    let prepare = move |compiling| prepare::prepare(request.clone(), None, &options, compiling);
    let (preset, request) = app.compile(prepare).await?;
    let runner = Runner::build(PromptRunner::new(backend, model), preset);
    runner.run(&request).await.map_err(|_| Kind::Panicked.into())
}

/// A run that can start.
struct Prepared {
    app: App,
    backend: Arc<Watched>,
    runner: Runner,
    request: RunRequest,
    /// True if the response lists the chat requests that were sent.
    plans: bool,
}

/// Receiver of the events of a run.
type Events<'a> = &'a (dyn Fn(RunEvent) + Send + Sync);

impl Prepared {
    async fn new(app: App, request: DirectivesRequest) -> Result<Self, ApiError> {
        let plans = request.include_plans;
        let provider = app.provider(request.provider.as_deref())?.cloned();
        // Reports an unknown model before any other error.
        let model = match &provider {
            Some(_) => request.chat.model.clone(),
            None => app.model(&request.chat.model).await?.model.id.clone(),
        };
        let (options, known) = (app.options().clone(), provider.clone());
        let prepare = move |compiling| prepare::prepare(request.clone(), known.as_ref(), &options, compiling);
        let (preset, request) = app.compile(prepare).await?;
        let backend = Arc::new(Watched::new(&app, provider.as_ref()));
        let prompts = PromptRunner::new(Arc::clone(&backend) as Arc<dyn ChatBackend>, model);
        let defaults = provider.map(|provider| provider.settings.llm_options_defaults);
        let runner = Runner::build(prompts.with_defaults(defaults.unwrap_or_default()), preset);
        Ok(Self { app, backend, runner, request, plans })
    }

    /// Runs the request. With a receiver of events, the answers are streamed.
    async fn run(self, events: Option<Events<'_>>) -> Result<DirectiveResult, ApiError> {
        let run = async {
            match events {
                Some(events) => self.runner.run_streamed(&self.request, events).await,
                None => self.runner.run(&self.request).await,
            }
        };
        // A model of this server has the limit itself, and each of its generations ends by it.
        let result = match self.app.options().request_timeout.filter(|_| self.backend.is_remote()) {
            Some(limit) => tokio::time::timeout(limit, run).await.map_err(|_| Kind::RunOverdue { limit })?,
            None => run.await,
        };
        let unanswered = result
            .as_ref()
            .map_or(true, |result| result.attempts.iter().all(|attempt| attempt.content.is_none()));
        match (self.backend.take(), result) {
            (Some(error), _) if unanswered => Err(error.about_registry()),
            (_, Ok(mut result)) => {
                for attempt in result.attempts.iter_mut().filter(|_| !self.plans) {
                    attempt.plan = None;
                }
                Ok(result)
            }
            // A run is only cancelled by dropping it.
            (_, Err(_)) => Err(Kind::Panicked.into()),
        }
    }
}
