//! Tool loops: a model calls, the application executes, until the model answers.
//!
//! A [`ToolLoopRunner`] sends a conversation with the tools of a [`ToolSource`], reads the calls that come back in whatever shape the
//! provider has, dispatches them, sends their results, and goes on until a message calls no more. What came of it is a [`ToolRun`]: a
//! record of every request and result, from which [`replay`] does the same again. What fails is in the record, by a code
//! ([`codes`]); only cancellation passes through.
//!
//! ```
//! use std::sync::Arc;
//! use formwork_protocol::tools::{Closure, ToolCallingOptions, ToolDefinition, ToolLoopRunner, ToolRegistry};
//! use formwork_protocol::{PromptRunner, ScriptedBackend};
//! use serde_json::json;
//!
//! let mut registry = ToolRegistry::new();
//! let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
//! let weather = Closure::new(|arguments| json!({"city": arguments["city"], "sky": "clear"}));
//! registry.add(ToolDefinition::new("get_weather", "The weather in a city.", parameters), weather)?;
//!
//! let backend = ScriptedBackend::new([
//!     Ok(ScriptedBackend::calls("call_1", "get_weather", r#"{"city": "Paris"}"#)),
//!     Ok(ScriptedBackend::says("The sky is clear.")),
//! ]);
//! let prompt = PromptRunner::new(Arc::new(backend), "model");
//! let runner = ToolLoopRunner::new(prompt, Arc::new(registry), ToolCallingOptions::default())?;
//! let question = json!({"role": "user", "content": "What is the weather in Paris?"});
//! # futures_util::FutureExt::now_or_never(async {
//! let run = runner.run(vec![question]).await?;
//! assert_eq!((run.ok, run.text.as_deref()), (true, Some("The sky is clear.")));
//! assert_eq!(run.turns[0].calls[0].result.data["sky"], "clear");
//! # Ok::<(), formwork_protocol::BackendError>(())
//! # }).expect("at once").expect("not cancelled");
//! # Ok::<(), formwork_protocol::tools::ToolsError>(())
//! ```
//!
//! # Guards
//! Sizes of arguments and results are bounded, as is the number of turns, and the calls of one message can be. Masks
//! ([`FilteredToolRegistry`]) are over what is sent and over what runs. The names and defaults are in [`ToolCallingOptions`].
//!
//! # What differs between providers
//! Shapes that drift are made one for every model. What only some providers or models need is a transform ([`Transforms`]), which is
//! asked for by name, mostly by a [`Preset`].
//!
//! # What is not here
//! No tools: the application brings them. Calls of one message run one after the other, and answers are not streamed: that makes runs
//! replay.

mod arguments;
mod dispatcher;
mod envelope;
mod error;
mod executor;
mod options;
mod presets;
mod record;
mod registry;
mod replay;
mod runner;
mod shapes;
mod transforms;

pub use dispatcher::ToolDispatcher;
pub use envelope::{IntoToolResult, Problem, ToolResult, codes};
pub use error::ToolsError;
pub use executor::{AsyncClosure, Closure, CommandTool, Environment, McpClient, McpOptions, ToolExecutor};
pub use options::{RESERVED, ToolCallingOptions, ToolFailurePolicy, ToolUseMode};
pub use presets::Preset;
pub use record::{CallRecord, RunSetup, RunStats, ToolEvent, ToolRun, Turn};
pub use registry::{FilteredToolRegistry, Lookup, Tool, ToolDefinition, ToolRegistry, ToolSource};
pub use replay::replay;
pub use runner::ToolLoopRunner;
pub use shapes::ToolCall;
pub use transforms::{Pipeline, Transforms};
