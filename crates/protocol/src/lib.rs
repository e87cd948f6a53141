//! Structured protocols over any chat model: directives and tool loops.
//!
//! Everything here works on one seam, [`ChatBackend`]: the body of a chat request in, the body of its answer out, as JSON. What
//! stands behind it is the engine in this process, any server that speaks OpenAI's protocol ([`RemoteBackend`]), or a script of answers
//! for tests ([`ScriptedBackend`]). Given a backend's answers all else is deterministic.
//!
//! # What is not here
//! No files and no environment: only the command line reads those. No way to constrain what a model writes, either: a request says
//! what is wanted, and the backend is asked what it can enforce ([`Capabilities`]).

pub mod backend;
pub mod catalogue;
pub mod config;
pub mod directives;
pub mod eval;
mod prompt;
pub mod sampling;
pub mod tools;

pub use backend::{
    Answer, BackendError, Body, Capabilities, Category, ChatBackend, Chunks, Feature, RemoteBackend, Retry,
    RetryPolicy, ScriptedBackend,
};
pub use prompt::{Plan, PromptRunner, Reply, merge};
