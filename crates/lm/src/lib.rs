//! The interface between the engine and a language model.
//!
//! The engine uses a model only through the trait [`LanguageModel`]: it opens and closes sequences,
//! appends tokens with a [`Batch`] and receives [`Logits`]. A [`ChatTemplate`] formats a
//! conversation as a prompt for the model.
//!
//! The crates that depend on this one build without a tensor library. Their tests use
//! [`ScriptedModel`] instead of a real model.

mod abilities;
mod chat;
mod error;
mod model;
mod scripted;

pub use abilities::{Abilities, EmbeddingProfile, EncodedText, Pooling, Ranking};
pub use chat::{ChatInput, ChatTemplate, Message, TemplateError};
pub use error::ModelError;
pub use model::{
    AdapterId, Batch, DraftRun, LanguageModel, Logits, Role, Run, RunLogits, SequenceId, TopLogits,
    TopRequest, Wanted, masked,
};
pub use scripted::ScriptedModel;

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
