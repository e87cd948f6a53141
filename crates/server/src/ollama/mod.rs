//! Ollama's API, for clients that know local models only under `/api`.
//!
//! Chats, prompts and texts take the same way as those of OpenAI's API; only the requests and the replies
//! have other forms.

mod embed;
mod generate;
mod lines;
mod models;
mod replies;

pub(crate) use embed::{embed, embed_prompt};
pub(crate) use generate::{chat, generate};
pub(crate) use models::{ps, show, tags, version};
