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
//! `POST /v1/chat/completions`, `GET /v1/models`, `GET /v1/models/{id}`, `GET /health`.
//!
//! # What is not here
//! No TLS, no cross-origin headers, and no way for a request to name a file: models are those that the [`App`] was given.

mod answer;
mod app;
mod auth;
mod chat;
mod constraints;
mod error;
mod log;
mod models;
mod prepare;
mod random;
mod serve;
mod stream;

pub use app::{App, ServedModel, ServerOptions};
pub use error::{ApiError, AppError};
pub use serve::{router, serve};
