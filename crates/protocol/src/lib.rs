//! Structured protocols over any chat model: directives, tool loops and steps, whose outputs are adapted, repaired and traced.
//!
//! Everything here works on one seam, [`ChatBackend`]: the body of a chat request in, the body of its answer out, as JSON. What
//! stands behind it is the engine in this process, any server that speaks OpenAI's protocol ([`RemoteBackend`]), or a script of answers
//! for tests ([`ScriptedBackend`]). Given a backend's answers all else is deterministic.
//!
//! # What is not here
//! No environment and no configuration files: only the command line reads those. The one file that is opened here is the database of
//! traces that a caller names ([`trace::SqliteSink`], [`trace::health`]). No way to constrain what a model writes, either: a request says
//! what is wanted, and the backend is asked what it can enforce ([`Capabilities`]).

pub mod adapt;
pub mod backend;
pub mod catalogue;
pub mod config;
pub mod directives;
pub mod eval;
pub mod precheck;
mod prompt;
pub mod quota;
pub mod repair;
pub mod sampling;
pub mod step;
mod subschemas;
pub mod tools;
pub mod trace;

pub use backend::{
    Answer, BackendError, Body, Capabilities, Category, ChatBackend, Chunks, Feature, Interruption,
    RemoteBackend, Retry, RetryCause, RetryPolicy, ScriptedBackend,
};
pub use prompt::{Plan, PromptRunner, Reply, merge};
