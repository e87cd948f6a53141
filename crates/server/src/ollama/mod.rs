//! Ollama's API, for clients that know local models only under `/api`.
//!
//! Chats, prompts and texts are prepared and generated as in OpenAI's API. Only the forms of requests and
//! replies differ.

mod embed;
mod generate;
mod lines;
mod models;
mod replies;

pub(crate) use embed::{embed, embed_prompt};
pub(crate) use generate::{chat, generate};
pub(crate) use models::{ps, show, tags, version};
