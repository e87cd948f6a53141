//! The OpenAI-compatible HTTP server.
//!
//! An [`App`] holds the served models; each has a name, an engine and a chat template. [`router`]
//! turns the app into a service for tests and embedding. [`serve`] runs the app on a socket until
//! shutdown.
//!
//! For a chat request, `auth` checks the API key, and `chat` parses the body. The generation is
//! prepared off the async threads: the constraint is compiled or taken from the model's cache, and
//! the prompt is rendered and encoded. The answer is then collected, or streamed by `stream`. Every
//! failure becomes an [`ApiError`]; a table in `error` maps errors to HTTP statuses.
//!
//! If a client disconnects, its response and generation are dropped, and the engine stops working
//! on them.
//!
//! # Routes
//! - `POST /v1/chat/completions`, `/v1/completions`, `/v1/responses`, `/v1/messages`,
//!   `/v1/messages/count_tokens`, `/v1/directives`,
//!   `/v1/directives/parse`, `/v1/decisions`, `/v1/systemone`, `/v1/embeddings`, `/v1/rerank`, `/v1/score`, `/v1/tools/run`
//! - `POST /v1/responses/input_tokens`, `/v1/responses/{id}/cancel`, `GET` and `DELETE
//!   /v1/responses/{id}`, `GET /v1/responses/{id}/input_items`
//! - `POST /v1/conversations`, `GET`, `POST` and `DELETE /v1/conversations/{id}`, `GET` and `POST
//!   /v1/conversations/{id}/items`, `GET` and `DELETE /v1/conversations/{id}/items/{item_id}`
//! - `POST /v1/grammar/check`, `/v1/grammar/explain`, `/v1/grammar/sample`
//! - `POST /infill`, `/tokenize`, `/detokenize`, `/apply-template`
//! - Ollama's API: `POST /api/chat`, `/api/generate`, `/api/embed`, `/api/embeddings`, `/api/show`, and
//!   `GET /api/tags`, `/api/ps`, `/api/version`
//! - `GET /tokenizer_info`, `/v1/models`, `/v1/models/{id}`, `/health`, `/metrics`, `/openapi.json`
//! - `GET /` and `/page/{name}`, the page, if [`ServerOptions::page`] is set
//!
//! # Limitations
//! The server has no TLS. Requests cannot name files or URLs: the only models are those of the
//! [`App`], and the only remote servers are its [`Providers`]. A model may be loaded on its first
//! request, and unloaded to make room for others ([`ModelSource`]).

mod answer;
mod app;
mod auth;
mod body;
mod chat;
mod choice;
mod completions;
mod constraints;
mod cors;
mod custom_input;
mod decisions;
mod dialect;
mod directives;
mod embeddings;
mod error;
mod grammar;
mod ignored;
mod infill;
mod listen;
mod local;
mod log;
mod mask_view;
mod messages;
mod metrics;
mod models;
mod ollama;
mod openapi;
mod output_decisions;
mod page;
mod places;
mod prepare;
mod providers;
mod random;
mod registry;
mod rerank;
mod responses;
mod serve;
mod stream;
mod tokens;
mod tools;

pub use app::{App, ServedModel, ServerOptions};
pub use decisions::LocalDecisions;
pub use directives::run_directives;
pub use error::{ApiError, AppError, LoadError};
pub use local::LocalBackend;
pub use mask_view::MaskViews;
pub use output_decisions::{
    DECISION_BATCH, TOO_MANY, choice_reader, decision_request, output_decisions, questions,
};
pub use places::Places;
pub use providers::{ProviderError, Providers, RemoteProvider};
pub use registry::{LoadedModel, Loader, ModelSource};
pub use responses::StoreLimits;
pub use serve::{router, serve};
pub use tools::{CallbackHost, HostedTools, McpServer, McpTarget};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
