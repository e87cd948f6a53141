//! Starts the OpenAI-compatible server in this process, sends it one request, and stops it.
//!
//! ```sh
//! cargo run --release -p formwork-examples --bin serve -- MODEL "What is a harbour?"
//! ```

#![expect(clippy::print_stdout, reason = "the answer goes to standard output")]

use std::sync::Arc;

use anyhow::{Context, Result};
use formwork_engine::{Engine, EngineOptions};
use formwork_model::{Model, OpenOptions};
use formwork_protocol::{Plan, PromptRunner, RemoteBackend};
use formwork_server::{App, ServedModel, ServerOptions, serve};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Name of the model in requests.
const MODEL: &str = "local";

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("usage: serve MODEL [PROMPT]")?;
    let question = arguments.next().unwrap_or_else(|| "What is a harbour?".to_owned());

    let model = Model::open(path, OpenOptions::default())?;
    let tokenizer = Arc::new(model.tokenizer()?);
    let template = model.compile_template(&tokenizer, None)?;
    let engine = Engine::start(model.language_model(), tokenizer, EngineOptions::default());
    let served = ServedModel { id: MODEL.to_owned(), aliases: Vec::new(), created: 0, engine, template };
    let app = App::new(vec![served], ServerOptions::default())?;

    // Port 0 is any free port.
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    let (stop, stopped) = oneshot::channel();
    let shutdown = async {
        let _ = stopped.await;
    };
    let server = tokio::spawn(serve(listener, app, shutdown));
    eprintln!("listening on {url}");

    // The client is Formwork's own; any OpenAI client can take its place.
    let client = PromptRunner::new(Arc::new(RemoteBackend::new(&url)?), MODEL);
    let plan: Plan = serde_json::from_value(json!({
        "messages": [{ "role": "user", "content": question }],
        "options": { "temperature": 0, "max_tokens": 60 },
    }))?;
    let reply = client.run(&plan).await?;
    println!("{}", reply.content());

    // Sending fails only if the server has ended. Then the next line returns its error.
    let _ = stop.send(());
    server.await??;
    Ok(())
}
