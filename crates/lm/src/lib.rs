//! The seam between the engine and a language model.
//!
//! The engine knows a model only as a [`LanguageModel`]: sequences that it opens, feeds through a [`Batch`] and closes,
//! and [`Logits`] that come back. How the model wants a conversation written down is a [`ChatTemplate`]. Everything above
//! this crate builds and tests without a tensor library; [`ScriptedModel`] stands in for a real model there.

mod chat;
mod error;
mod exp;
mod model;
mod scripted;

pub use chat::{ChatInput, ChatTemplate, Message, TemplateError};
pub use error::ModelError;
pub use exp::exp;
pub use model::{Batch, LanguageModel, Logits, Role, Run, SequenceId, Wanted, masked};
pub use scripted::ScriptedModel;
