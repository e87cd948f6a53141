//! The OpenAI-compatible HTTP server.
//!
//! An [`App`] holds the models that are served, each an engine and a chat template under a name. [`router`] makes it a
//! service for tests and for embedding; [`serve`] runs it on a socket until it is told to stop.
//!
//! The way of a request: `auth` checks the key, `chat` reads the body and prepares the generation off the async threads
//! (the constraint is compiled or found in the model's cache, the prompt rendered and encoded), and the answer is either
//! collected or streamed by `stream`. Whatever goes wrong becomes an [`ApiError`], whose table in `error` is the only
//! place that knows HTTP statuses. A client that goes away drops the response, the response drops the generation, and
//! the engine stops working on it.
//!
//! # Routes
//! `POST /v1/chat/completions`, `/v1/directives`, `/v1/embeddings`, `/v1/grammar/check`, `/v1/grammar/explain`, `/v1/grammar/sample`, `/tokenize`,
//! `/detokenize` and `/apply-template`; `GET /v1/models`, `/v1/models/{id}`, `/health`, `/metrics` and
//! `/openapi.json`.
//!
//! # What is not here
//! No TLS, and no way for a request to name a file: models are those that the [`App`] was given. Some of them may be loaded only
//! when they are asked for, and make way for others ([`ModelSource`]).

mod answer;
mod app;
mod auth;
mod body;
mod chat;
mod choice;
mod completions;
mod constraints;
mod cors;
mod directives;
mod embeddings;
mod error;
mod grammar;
mod listen;
mod local;
mod log;
mod metrics;
mod models;
mod openapi;
mod prepare;
mod random;
mod registry;
mod responses;
mod serve;
mod stream;
mod tokens;

pub use app::{App, ServedModel, ServerOptions};
pub use error::{ApiError, AppError};
pub use local::LocalBackend;
pub use registry::{LoadError, LoadedModel, Loader, ModelSource};
pub use serve::{router, serve};
