//! Tool loops: the model calls tools and the application executes them, until the model answers
//! without a call.
//!
//! A [`ToolLoopRunner`] sends a conversation with the tools of a [`ToolSource`]. It parses the
//! calls in the answer, in any of the JSON shapes that providers use, and executes them. It then
//! sends the results to the model, and repeats this until a message has no calls.
//!
//! The outcome is a [`ToolRun`]: a record of every request and result, which [`replay`] can run
//! again. Failures are part of the record and have a code ([`codes`]). Only interruptions, such as
//! a cancellation or an exhausted budget, are returned as errors.
//!
//! ```
//! use std::sync::Arc;
//! use formwork_protocol::tools::{
//!     Closure, ToolCallingOptions, ToolDefinition, ToolLoopRunner, ToolRegistry,
//! };
//! use formwork_protocol::{PromptRunner, ScriptedBackend};
//! use serde_json::json;
//!
//! let mut registry = ToolRegistry::new();
//! let parameters = json!({
//!     "type": "object",
//!     "properties": {"city": {"type": "string"}},
//!     "required": ["city"],
//! });
//! let definition = ToolDefinition::new("get_weather", "The weather in a city.", parameters);
//! let weather = Closure::new(|arguments| json!({"city": arguments["city"], "sky": "clear"}));
//! registry.add(definition, weather)?;
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
//! The sizes of arguments and results are limited, and so is the number of turns. The number of
//! calls of one message can be limited. A [`FilteredToolRegistry`] masks tools by name: a masked
//! tool is not sent to the model and does not run. [`ToolCallingOptions`] lists the limits and
//! their defaults.
//!
//! # Differences between providers
//! Common variations of the message shape are normalized for every model. Quirks of single
//! providers or models are handled by transforms ([`Transforms`]). Transforms are enabled by name,
//! usually by a [`Preset`].
//!
//! # Limits
//! The module has no tools of its own; the application brings them. The calls of one message run
//! one after the other, and answers are not streamed. This makes runs replayable.

mod arguments;
mod dispatcher;
mod envelope;
mod error;
mod executor;
mod members;
mod next_tool;
mod options;
mod plans;
mod presets;
mod record;
mod registry;
mod replay;
mod runner;
mod shapes;
mod thoughts;
mod transforms;
mod verdict;
mod world;

pub use dispatcher::ToolDispatcher;
pub use envelope::{IntoToolResult, Problem, ToolResult, codes};
pub use error::ToolsError;
pub use executor::{AsyncClosure, Closure, CommandTool, Environment, HttpTool, ToolExecutor, UrlPrefix};
#[cfg(feature = "mcp")]
pub use executor::{McpClient, McpOptions};
pub use options::{NextTool, RESERVED, RepeatedCalls, ToolCallingOptions, ToolFailurePolicy, ToolUseMode};
pub use plans::PlanDelta;
pub use presets::Preset;
pub use record::{CallRecord, RunSetup, RunStats, ToolDecision, ToolEvent, ToolProbability, ToolRun, Turn};
pub use registry::{FilteredToolRegistry, Lookup, Tool, ToolDefinition, ToolRegistry, ToolSource};
pub use replay::replay;
pub use runner::ToolLoopRunner;
pub use shapes::ToolCall;
pub use transforms::{Pipeline, TextCallFormat, Transforms};
