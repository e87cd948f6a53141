//! Runs a tool loop on a model in this process: the model calls a Rust closure, and then answers.
//!
//! ```sh
//! cargo run --release -p formwork-examples --bin tools -- MODEL "How many apples are in stock?"
//! ```

#![expect(clippy::print_stdout, reason = "the answer goes to standard output")]

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use formwork_engine::{Engine, EngineOptions};
use formwork_lm::ChatTemplate;
use formwork_model::template::{JinjaTemplate, PlainTemplate};
use formwork_model::{Model, OpenOptions};
use formwork_protocol::tools::{
    Closure, ToolCallingOptions, ToolDefinition, ToolEvent, ToolLoopRunner, ToolRegistry,
};
use formwork_protocol::{Body, PromptRunner};
use formwork_server::{App, LocalBackend, ServedModel, ServerOptions};
use serde_json::json;

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

    let model = open(&path)?;
    let id = model.id.clone();
    let backend = LocalBackend::new(App::new(vec![model], ServerOptions::default())?);
    let prompt = PromptRunner::new(Arc::new(backend), id);
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

/// Opens a model for the backend. A base model has no chat template of its own.
fn open(path: &str) -> Result<ServedModel> {
    let model = Model::open(path, OpenOptions::default())?;
    let tokenizer = Arc::new(model.tokenizer()?);
    let vocabulary = tokenizer.vocabulary();
    let text = |token| String::from_utf8_lossy(vocabulary.bytes(token)).into_owned();
    let bos = tokenizer.bos().map(text);
    let eos = vocabulary.ends().first().copied().map(text);
    let template: Arc<dyn ChatTemplate> = match model.chat_template() {
        Some(source) => Arc::new(JinjaTemplate::new(source, bos.as_deref(), eos.as_deref())?),
        None => Arc::new(PlainTemplate),
    };
    let engine = Engine::start(model.language_model(), tokenizer, EngineOptions::default());
    Ok(ServedModel { id: "local".to_owned(), aliases: Vec::new(), created: 0, engine, template })
}
