//! Structured protocols over any chat model: directives, tool loops and steps. Their outputs are
//! adapted, repaired and traced.
//!
//! All protocols talk to a model through [`ChatBackend`], which takes the JSON body of a chat
//! request and returns the JSON body of the answer. A backend is the engine in this process, a
//! server that speaks OpenAI's protocol ([`RemoteBackend`]), or a scripted list of answers for
//! tests ([`ScriptedBackend`]). Given the backend's answers, everything else is deterministic.
//!
//! # Out of scope
//! The crate reads no environment variables and no configuration files; the command line does. The
//! only file that this crate opens is the trace database named by the caller
//! ([`trace::SqliteSink`], [`trace::health`]). The crate also does not constrain generation. A
//! request states the required format, and the backend reports which constraints it can enforce
//! ([`Capabilities`]).

pub mod catalogue;
pub mod config;
pub mod directives;
mod ending;
pub mod precheck;
mod process;
mod remembered;
pub mod repair;
pub mod sampling;
pub mod step;
pub mod tools;

pub use ending::Withheld;
pub use formwork_adapt as adapt;
pub use formwork_trace as trace;

pub use formwork_backend::{
    Adjustment, Answer, BackendError, Body, Capabilities, Category, ChatBackend, Chosen, Chunks,
    DecisionCost, DecisionOption, Dialect, Feature, Interruption, ModelSupport, Notice, Plan, Predicted,
    PromptRunner, RemoteBackend, Reply, RequestBudget, Retry, RetryCause, RetryPolicy, ScriptedBackend,
    StreamEvent, StreamReceiver, SupportMemory, TokenLimitField, collect_stream, merge, quota,
};
