//! Runs a tool loop on a model in this process: the model calls a Rust closure, and then answers.
//!
//! ```sh
//! cargo run --release -p formwork-examples --bin tools -- MODEL "How many apples are in stock?"
//! ```

#![expect(clippy::print_stdout, reason = "the answer goes to standard output")]

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use formwork_engine::{Engine, EngineOptions};
use formwork_model::{Model, OpenOptions};
use formwork_protocol::tools::{
    Closure, ToolCallingOptions, ToolDefinition, ToolEvent, ToolLoopRunner, ToolRegistry,
};
use formwork_protocol::{Body, PromptRunner};
use formwork_server::{App, LocalBackend, ServedModel, ServerOptions};
use serde_json::json;

/// Name of the model in requests.
const MODEL: &str = "local";

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("usage: tools MODEL [PROMPT]")?;
    let question = arguments.next().unwrap_or_else(|| "How many apples are in stock?".to_owned());

    // The engine generates only calls whose arguments match this schema.
    let item = json!({ "enum": ["apples", "pears"] });
    let parameters = json!({ "type": "object", "properties": { "item": item }, "required": ["item"] });
    let count_stock = Closure::new(|arguments: &Body| match arguments["item"].as_str() {
        Some("apples") => Ok(json!({ "count": 12 })),
        Some("pears") => Ok(json!({ "count": 5 })),
        _ => Err("unknown item; expected apples or pears"),
    });
    let mut tools = ToolRegistry::new();
    tools.add(ToolDefinition::new("count_stock", "Counts the items in stock.", parameters), count_stock)?;

    let model = Model::open(path, OpenOptions::default())?;
    let tokenizer = Arc::new(model.tokenizer()?);
    let template = model.compile_template(&tokenizer, None)?;
    let engine = Engine::start(model.language_model(), tokenizer, EngineOptions::default());
    let served = ServedModel { id: MODEL.to_owned(), aliases: Vec::new(), created: 0, engine, template };
    let backend = LocalBackend::new(App::new(vec![served], ServerOptions::default())?);
    let prompt = PromptRunner::new(Arc::new(backend), MODEL);
    // `enforced` requires a call before the answer.
    let options: ToolCallingOptions = serde_json::from_value(json!({
        "tool_use_mode": "enforced",
        "request_overrides": { "temperature": 0, "max_tokens": 100 },
    }))?;
    let runner = ToolLoopRunner::new(prompt, Arc::new(tools), options)?.on_event(|event| {
        if let ToolEvent::Called { record, .. } = event {
            println!("{}({}) = {}", record.call.name, record.call.arguments, record.result.data);
        }
    });

    let run = runner.run(vec![json!({ "role": "user", "content": question })]).await?;
    match run.text {
        Some(text) if run.ok => println!("{text}"),
        _ => bail!("no answer: {:?}", run.errors),
    }
    Ok(())
}
