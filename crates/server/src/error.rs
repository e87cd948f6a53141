use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use formwork_chat::decision::AskError;
use formwork_engine::{DecisionError, GenerationError, RequestError};
use formwork_grammar::GrammarError;
use formwork_lm::TemplateError;
use formwork_openai::anthropic::THREADS;
use formwork_openai::{Failure, FailureBody};
use formwork_protocol::directives::RegistryError;
use formwork_protocol::{BackendError, Category};
use formwork_vocab::VocabError;
use thiserror::Error;

use crate::dialect::ErrorDetails;
use crate::responses::StoreError;

/// Error of a model that failed to load.
pub type LoadError = Box<dyn std::error::Error + Send + Sync>;

/// Error for an [`App`](crate::App) that cannot be served.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct AppError(#[from] pub(crate) AppKind);

#[derive(Debug, Error)]
pub(crate) enum AppKind {
    #[error("no models to serve")]
    NoModels,
    #[error("duplicate model name `{name}`")]
    SameName { name: String },
    #[error(
        "model `{name}` does not fit: {needed} bytes, including the models that stay loaded, exceed the limit of {limit}"
    )]
    DoesNotFit { name: String, needed: u64, limit: u64 },
    #[error("the limit on loaded models leaves no room for model `{model}`")]
    NoRoom { model: String },
    #[error("cannot load model `{model}`: {source}")]
    Load { model: String, source: Arc<LoadError> },
}

/// Error of a request. The response has the shape of OpenAI's errors.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct ApiError(#[from] Box<Kind>);

#[derive(Debug, Error)]
pub(crate) enum Kind {
    // Starts with OpenAI's wording, which some clients look for.
    #[error("Incorrect API key provided; expected the header `authorization: Bearer KEY`")]
    Key,
    #[error("unknown path {path}")]
    Route { path: String },
    #[error("method {method} is not allowed for {path}")]
    Method { path: String, method: Method },
    #[error("content-type must be application/json")]
    ContentType,
    #[error("the body is larger than the limit of {limit} bytes")]
    BodyTooLarge { limit: usize },
    #[error("cannot read the body")]
    BodyUnreadable(#[source] axum::Error),
    #[error(transparent)]
    Body(formwork_openai::RequestError),
    #[error("unknown model `{given}`; {}", expected(served))]
    Model { given: String, served: String },
    #[error("`model` is required because {}", if served.is_empty() { String::new() } else { "several models are served; ".to_owned() } + &expected(served))]
    NoModel { served: String },
    #[error("unknown provider `{given}`; expected one of {known}")]
    Provider { given: String, known: String },
    #[error("provider `{name}` has no API key; the server's environment variable {variable} is not set")]
    ProviderKey { name: String, variable: String },
    #[error("provider `{name}`: {source}")]
    Upstream { name: String, source: BackendError },
    #[error("request timeout: the run did not end within {} seconds", limit.as_secs_f64())]
    RunOverdue { limit: Duration },
    #[error("`{place}`: {reason}")]
    ToolRun { place: String, reason: String },
    #[error("cannot connect to the MCP server `{name}`; see the server's log")]
    McpServer { name: String },
    #[error("too many tool runs at the same time; try again later")]
    TooManyRuns,
    #[error("not enough room to load model `{model}` while others are in use; try again later")]
    NoRoom { model: String },
    #[error("cannot load model `{model}`; see the server's log")]
    Load { model: String },
    #[error("request timeout: the request did not arrive within {} seconds", limit.as_secs_f64())]
    Slow { limit: Duration },
    #[error("{source}")]
    Text { field: &'static str, source: VocabError },
    #[error("`{param}`: token {given} is out of range (vocabulary size {limit})")]
    TokenOutside { param: String, given: u32, limit: usize },
    #[error("`dimensions` is {given}; the vectors of this model have {width} dimensions")]
    Dimensions { given: usize, width: usize },
    #[error("model `{model}` {purpose}, and cannot {task}")]
    Unable { model: String, purpose: &'static str, task: &'static str },
    #[error("unknown prompt `{given}`; the prompts of this model: {known}")]
    Prompts { param: &'static str, given: String, known: String },
    #[error("{source}")]
    RefusedText { param: String, source: RequestError },
    #[error("`{param}`: {source}")]
    Asked { param: String, source: AskError },
    #[error("`{param}`: {source}")]
    Option { param: String, source: DecisionError },
    #[error(
        "this model's maximum context length is {limit} tokens; the prompt of `{param}` has {given} tokens, and its longest option needs up to {room}"
    )]
    QuestionTooLong { param: String, given: usize, room: usize, limit: usize },
    #[error("`questions`: {given} prompts exceed the limit of {limit}; ask fewer questions or orders")]
    TooManyPrompts { given: usize, limit: usize },
    #[error("`questions`: more than {limit} tokens of all prompts together; ask fewer questions or orders")]
    TooManyPromptTokens { given: usize, limit: usize },
    #[error("`{param}`: the model gives every option the probability 0")]
    NoProbability { param: String },
    #[error(
        "`{param}`: the error is {error}, more than the tolerance of {tolerance}; allow more `max_nodes`"
    )]
    Inexact { param: String, error: f64, tolerance: f64 },
    #[error("model `{model}` does not support embeddings")]
    NoEmbeddings { model: String },
    #[error("`max_bytes` is {given}, but the shortest output has {shortest} bytes")]
    SampleTooShort { given: usize, shortest: usize },
    #[error("{source}")]
    Constraint { field: &'static str, source: GrammarError },
    #[error("tool `{name}`: {source}")]
    Tool { name: String, place: String, source: GrammarError },
    #[error("`{place}`: {}", source.problem())]
    Registry { place: String, source: RegistryError },
    #[error("`{place}`: {source}")]
    Payload { place: String, source: GrammarError },
    #[error(transparent)]
    Store(StoreError),
    #[error("`{field}`: this field does not hold for thoughts that the last message has begun")]
    BegunThoughts { field: &'static str },
    #[error("{given} log-probabilities exceed the limit of {limit}; the prompts have {tokens} tokens")]
    TooManyLogprobs { given: usize, limit: usize, tokens: usize },
    #[error("`{field}`: this model's vocabulary has no tokens for filling in text")]
    NoInfill { field: &'static str },
    #[error(
        "an answer cannot continue this message: it has the start of a call, or this model's chat format does not allow it"
    )]
    NoContinuation,
    #[error(transparent)]
    Template(TemplateError),
    #[error("the prompt cannot be encoded: {0}")]
    Prompt(#[source] VocabError),
    #[error("{source}")]
    Refused { field: Option<&'static str>, source: RequestError },
    #[error("{0}")]
    TooLong(#[source] RequestError),
    #[error(
        "{source}; the description of the response format takes {tokens} prompt tokens; set \
         `schema_in_prompt: false` to omit it"
    )]
    DescriptionTooLong { source: RequestError, tokens: usize },
    #[error("{0}")]
    PromptTooLong(#[source] RequestError),
    #[error("{0}; try again later")]
    Busy(#[source] RequestError),
    #[error("{0}")]
    Stopped(#[source] RequestError),
    #[error("request timeout: {0}")]
    Overdue(#[source] GenerationError),
    #[error("the generation failed: {0}")]
    Generation(#[source] GenerationError),
    #[error("the request could not be prepared")]
    Panicked,
    /// The constraint is not cached and may not be compiled here.
    #[error("the constraint is not compiled yet")]
    Uncompiled,
}

/// OpenAI's error type for a faulty request.
const REQUEST: &str = "invalid_request_error";
/// OpenAI's error type for a failure of the server.
const SERVER: &str = "server_error";

/// HTTP status of an error, with OpenAI's type and code.
struct Row {
    status: StatusCode,
    class: &'static str,
    code: Option<&'static str>,
}

impl Row {
    /// Creates the row of a faulty request.
    const fn request(status: StatusCode, code: Option<&'static str>) -> Self {
        Self { status, class: REQUEST, code }
    }

    /// Creates the row of a failure of the server.
    const fn server(status: StatusCode, code: Option<&'static str>) -> Self {
        Self { status, class: SERVER, code }
    }
}

/// Returns the status of an error of a remote server. The server's own status is not passed on,
/// except for a refused request and a rate limit: a wrong key, for example, is not a fault of the
/// client.
fn upstream(source: &BackendError) -> Row {
    match source.category() {
        Category::InvalidRequest => Row::request(StatusCode::BAD_REQUEST, Some("provider_refused")),
        Category::ContentFilter => Row::request(StatusCode::BAD_REQUEST, Some("content_filter")),
        Category::RateLimited => Row::server(StatusCode::TOO_MANY_REQUESTS, Some("rate_limited")),
        Category::Timeout => Row::server(StatusCode::GATEWAY_TIMEOUT, Some("timeout")),
        _ => Row::server(StatusCode::BAD_GATEWAY, Some("provider_failed")),
    }
}

/// Returns the end of an error about a name that is not in `served`, a list of names.
fn expected(served: &str) -> String {
    match served {
        "" => "this server has no models, so requests must name a `provider`".to_owned(),
        served => format!("expected one of {served}"),
    }
}

impl Kind {
    /// Table of HTTP statuses, with OpenAI's type and code of each error.
    fn row(&self) -> Row {
        match self {
            Self::Refused { source, .. } if source.minimum_tokens().is_some() => {
                Row::request(StatusCode::BAD_REQUEST, Some("budget_too_small"))
            }
            Self::Body(error) => match error.code() {
                code @ Some("conversation_not_found") => Row::request(StatusCode::NOT_FOUND, code),
                code => Row::request(StatusCode::BAD_REQUEST, code),
            },
            Self::Store(error) if error.status().is_server_error() => {
                Row::server(error.status(), error.code())
            }
            Self::Store(error) => Row::request(error.status(), error.code()),
            Self::ContentType
            | Self::BodyUnreadable(_)
            | Self::Constraint { .. }
            | Self::Tool { .. }
            | Self::Registry { .. }
            | Self::Payload { .. }
            | Self::ToolRun { .. }
            | Self::BegunThoughts { .. }
            | Self::NoContinuation
            | Self::NoInfill { .. }
            | Self::TooManyLogprobs { .. }
            | Self::Template(_)
            | Self::Prompt(_)
            | Self::NoModel { .. }
            | Self::Text { .. }
            | Self::TokenOutside { .. }
            | Self::Dimensions { .. }
            | Self::NoEmbeddings { .. }
            | Self::Unable { .. }
            | Self::Prompts { .. }
            | Self::SampleTooShort { .. }
            | Self::Asked { .. }
            | Self::Option { .. }
            | Self::NoProbability { .. }
            | Self::TooManyPrompts { .. }
            | Self::TooManyPromptTokens { .. }
            | Self::Inexact { .. }
            | Self::Refused { .. } => Row::request(StatusCode::BAD_REQUEST, None),
            Self::RefusedText { source, .. } => {
                let code = source.is_too_long().then_some("context_length_exceeded");
                Row::request(StatusCode::BAD_REQUEST, code)
            }
            Self::TooLong(_)
            | Self::PromptTooLong(_)
            | Self::DescriptionTooLong { .. }
            | Self::QuestionTooLong { .. } => {
                Row::request(StatusCode::BAD_REQUEST, Some("context_length_exceeded"))
            }
            Self::Provider { .. } => Row::request(StatusCode::NOT_FOUND, Some("provider_not_found")),
            Self::ProviderKey { .. } => {
                Row::server(StatusCode::SERVICE_UNAVAILABLE, Some("provider_unavailable"))
            }
            Self::Upstream { source, .. } => upstream(source),
            Self::Key => Row::request(StatusCode::UNAUTHORIZED, Some("invalid_api_key")),
            Self::Model { .. } => Row::request(StatusCode::NOT_FOUND, Some("model_not_found")),
            Self::Route { .. } => Row::request(StatusCode::NOT_FOUND, Some("unknown_url")),
            Self::Method { .. } => Row::request(StatusCode::METHOD_NOT_ALLOWED, Some("method_not_allowed")),
            Self::Slow { .. } => Row::request(StatusCode::REQUEST_TIMEOUT, Some("request_timeout")),
            Self::BodyTooLarge { .. } => {
                Row::request(StatusCode::PAYLOAD_TOO_LARGE, Some("request_too_large"))
            }
            Self::Generation(_) | Self::Panicked | Self::Uncompiled => {
                Row::server(StatusCode::INTERNAL_SERVER_ERROR, None)
            }
            Self::Load { .. } => Row::server(StatusCode::INTERNAL_SERVER_ERROR, Some("model_load_failed")),
            Self::McpServer { .. } => Row::server(StatusCode::BAD_GATEWAY, Some("mcp_server_failed")),
            Self::Busy(_) | Self::NoRoom { .. } | Self::TooManyRuns => {
                Row::server(StatusCode::SERVICE_UNAVAILABLE, Some("overloaded"))
            }
            Self::Overdue(_) | Self::RunOverdue { .. } => {
                Row::server(StatusCode::GATEWAY_TIMEOUT, Some("timeout"))
            }
            Self::Stopped(_) => Row::server(StatusCode::SERVICE_UNAVAILABLE, Some("stopped")),
        }
    }

    fn param(&self) -> Option<&str> {
        match self {
            Self::Body(error) => error.param(),
            Self::Store(error) => error.param(),
            Self::Model { .. } | Self::NoModel { .. } | Self::NoEmbeddings { .. } | Self::Unable { .. } => {
                Some("model")
            }
            Self::Prompts { param, .. } => Some(param),
            Self::Provider { .. } | Self::ProviderKey { .. } => Some("provider"),
            Self::Dimensions { .. } => Some("dimensions"),
            Self::TooManyPrompts { .. } | Self::TooManyPromptTokens { .. } => Some("questions"),
            Self::TooManyLogprobs { .. } => Some("logprobs"),
            Self::SampleTooShort { .. } => Some("max_bytes"),
            Self::RefusedText { param, .. }
            | Self::TokenOutside { param, .. }
            | Self::Asked { param, .. }
            | Self::Option { param, .. }
            | Self::QuestionTooLong { param, .. }
            | Self::NoProbability { param }
            | Self::Inexact { param, .. } => Some(param),
            Self::Tool { place, .. }
            | Self::Registry { place, .. }
            | Self::Payload { place, .. }
            | Self::ToolRun { place, .. } => Some(place),
            Self::McpServer { .. } => Some("mcp"),
            Self::PromptTooLong(_) => Some("prompt"),
            Self::Constraint { field, .. }
            | Self::Text { field, .. }
            | Self::BegunThoughts { field }
            | Self::NoInfill { field } => Some(field),
            Self::NoContinuation
            | Self::Template(_)
            | Self::Prompt(_)
            | Self::TooLong(_)
            | Self::DescriptionTooLong { .. } => Some("messages"),
            Self::Refused { field, .. } => *field,
            _ => None,
        }
    }
}

impl ApiError {
    /// Returns the HTTP status of the response.
    pub fn status(&self) -> StatusCode {
        self.0.row().status
    }

    /// Makes an error about `messages` name the field `prompt`, for requests with a plain prompt.
    pub(crate) fn about_prompt(self) -> Self {
        match *self.0 {
            Kind::TooLong(source) => Kind::PromptTooLong(source).into(),
            Kind::Refused { field: Some("messages"), source } => {
                Kind::Refused { field: Some("prompt"), source }.into()
            }
            other => other.into(),
        }
    }

    /// Adapts the error to a response format that was generated from a registry.
    pub(crate) fn about_registry(self) -> Self {
        match *self.0 {
            Kind::Constraint { source, .. } => Kind::Constraint { field: "registry", source }.into(),
            Kind::Refused { field: Some("response_format"), source } => {
                Kind::Refused { field: Some("registry"), source }.into()
            }
            other => other.into(),
        }
    }

    /// Adds the token count of the response format's description to a prompt that is too long.
    pub(crate) fn about_description(self, described: impl FnOnce() -> Option<usize>) -> Self {
        match *self.0 {
            Kind::TooLong(source) => match described() {
                Some(tokens) => Kind::DescriptionTooLong { source, tokens }.into(),
                None => Kind::TooLong(source).into(),
            },
            other => other.into(),
        }
    }

    /// Returns the number of tokens of a prompt that does not fit the context, and the context length.
    fn overlong_prompt(&self) -> Option<(usize, usize)> {
        match &*self.0 {
            Kind::TooLong(source) | Kind::PromptTooLong(source) | Kind::DescriptionTooLong { source, .. } => {
                source.overlong_prompt()
            }
            _ => None,
        }
    }

    /// Returns the name of a field that a client should leave out when it tries again.
    fn unsupported(&self) -> Option<&str> {
        match &*self.0 {
            Kind::Body(error) if error.code() == Some(THREADS) => error.param(),
            _ => None,
        }
    }

    /// Returns true if no model has the requested name.
    pub(crate) fn is_unknown_model(&self) -> bool {
        matches!(*self.0, Kind::Model { .. })
    }

    /// Returns true if a constraint has to be compiled first.
    pub(crate) fn is_uncompiled(&self) -> bool {
        matches!(*self.0, Kind::Uncompiled)
    }

    /// Returns true if a constraint exceeds its limits.
    pub(crate) fn is_over_limit(&self) -> bool {
        match &*self.0 {
            Kind::Constraint { source, .. } | Kind::Tool { source, .. } | Kind::Payload { source, .. } => {
                source.is_over_limit()
            }
            _ => false,
        }
    }

    /// Returns true if the schema of a tool is at fault.
    pub(crate) fn is_of_tool(&self) -> bool {
        matches!(*self.0, Kind::Tool { .. })
    }

    /// Returns the response body, which is also the data of an error event.
    pub(crate) fn body(&self) -> FailureBody {
        let Row { class, code, .. } = self.0.row();
        let error = Failure {
            message: self.to_string(),
            class: class.to_owned(),
            param: self.0.param().map(str::to_owned),
            code: code.map(str::to_owned),
        };
        FailureBody { error }
    }
}

impl From<Kind> for ApiError {
    fn from(kind: Kind) -> Self {
        Self(Box::new(kind))
    }
}

impl From<formwork_openai::RequestError> for ApiError {
    fn from(error: formwork_openai::RequestError) -> Self {
        Kind::Body(error).into()
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        Kind::Store(error).into()
    }
}

impl From<GenerationError> for ApiError {
    fn from(error: GenerationError) -> Self {
        if error.is_deadline() { Kind::Overdue(error).into() } else { Kind::Generation(error).into() }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if self.status().is_server_error() {
            tracing::warn!(error = %self, "request failed");
        } else {
            tracing::debug!(error = %self, "request rejected");
        }
        let mut response = (self.status(), axum::Json(self.body())).into_response();
        response.extensions_mut().insert(ErrorDetails {
            message: self.to_string(),
            field: self.0.param().filter(|field| *field != "model").map(str::to_owned),
            overlong_prompt: self.overlong_prompt(),
            unsupported: self.unsupported().map(str::to_owned),
        });
        let header = match &*self.0 {
            Kind::Busy(_) | Kind::NoRoom { .. } | Kind::TooManyRuns => {
                Some((RETRY_AFTER, HeaderValue::from_static("1")))
            }
            Kind::Key => Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            Kind::Upstream { source, .. } => source
                .retry_after()
                .map(|pause| (RETRY_AFTER, HeaderValue::from(pause.as_secs_f64().ceil() as u64))),
            _ => None,
        };
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
