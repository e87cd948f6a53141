//! Tool loops with scripted answers, against an HTTP server with provider quirks, and with process
//! and MCP tools.

mod guards;
mod http;
#[cfg(feature = "mcp")]
mod mcp;
mod modes;
mod quirks;
mod replays;
mod requests;
mod text_formats;
mod transcripts;

use std::sync::Arc;

use formwork_protocol::tools::{
    Closure, Problem, ToolCallingOptions, ToolDefinition, ToolLoopRunner, ToolRegistry, ToolRun, ToolSource,
};
use formwork_protocol::{BackendError, Body, PromptRunner, ScriptedBackend};
use serde_json::{Value, json};

/// Returns three tools: one that works, one that fails on request, and one that accepts any
/// arguments.
fn registry() -> ToolRegistry {
    let mut registry = ToolRegistry::new();
    let city =
        json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] });
    let weather = Closure::new(|given: &Body| json!({ "city": given["city"], "sky": "clear" }));
    registry
        .add(ToolDefinition::new("get_weather", "The weather in a city.", city), weather)
        .expect("a tool");
    let fail = json!({ "type": "object", "properties": { "fail": { "type": "boolean" } } });
    let maybe = Closure::new(|given: &Body| {
        if given.get("fail") == Some(&json!(true)) {
            Err(Problem::new("REFUSED", "no"))
        } else {
            Ok(json!("done"))
        }
    });
    registry.add(ToolDefinition::new("maybe", "Fails when told to.", fail), maybe).expect("a tool");
    let echo = Closure::new(|given: &Body| Value::Object(given.clone()));
    registry
        .add(ToolDefinition::new("echo", "Gives back what it is given.", json!({})), echo)
        .expect("a tool");
    registry
}

fn options(given: Value) -> ToolCallingOptions {
    serde_json::from_value(given).expect("options")
}

fn question() -> Vec<Value> {
    vec![json!({ "role": "user", "content": "What is the weather in Paris?" })]
}

fn says(text: &str) -> Value {
    ScriptedBackend::says(text)
}

fn calls(id: &str, name: &str, arguments: &str) -> Value {
    ScriptedBackend::calls(id, name, arguments)
}

/// Returns a message with calls, given as ID, name and arguments.
fn calls_all(calls: &[(&str, &str, &str)]) -> Value {
    let call = |(id, name, arguments): &(&str, &str, &str)| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
    let calls: Vec<Value> = calls.iter().map(call).collect();
    ScriptedBackend::message(json!({ "role": "assistant", "content": null, "tool_calls": calls }))
}

/// Marks an answer as cut off by the token limit.
fn cut(mut answer: Value) -> Value {
    answer["choices"][0]["finish_reason"] = json!("length");
    answer
}

/// Runs a script. Returns the run and its requests.
async fn run_with(
    tools: Arc<dyn ToolSource>,
    given: Value,
    script: Vec<Result<Value, BackendError>>,
) -> (ToolRun, Vec<Body>) {
    let backend = Arc::new(ScriptedBackend::new(script));
    let prompt = PromptRunner::new(backend.clone(), "m");
    let runner = ToolLoopRunner::new(prompt, tools, options(given)).expect("a runner");
    let run = runner.run(question()).await.expect("not cancelled");
    (run, backend.asked())
}

async fn run(given: Value, script: impl IntoIterator<Item = Value>) -> (ToolRun, Vec<Body>) {
    run_with(Arc::new(registry()), given, script.into_iter().map(Ok).collect()).await
}

/// Returns the codes of the run's errors.
fn errors(run: &ToolRun) -> Vec<&str> {
    run.errors.iter().map(|error| error.code.as_str()).collect()
}

/// Returns the codes of a turn's warnings.
fn warnings(run: &ToolRun, turn: usize) -> Vec<&str> {
    run.turns[turn].warnings.iter().map(|warning| warning.code.as_str()).collect()
}

/// Returns the code of a call's first error, or `None` if the call succeeded.
fn code(run: &ToolRun, turn: usize, call: usize) -> Option<&str> {
    run.turns[turn].calls[call].result.errors.first().map(|error| error.code.as_str())
}
