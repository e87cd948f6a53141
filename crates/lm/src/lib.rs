//! The interface between the engine and a language model.
//!
//! The engine uses a model only through the trait [`LanguageModel`]. It opens and closes sequences,
//! appends tokens with a [`Batch`] and receives [`Logits`]. A [`ChatTemplate`] formats a
//! conversation as the model's prompt. The crates above this one build without a tensor library;
//! their tests use [`ScriptedModel`] instead of a real model.

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
