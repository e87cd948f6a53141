//! Serves a model that writes given answers: the first one, then one after each result of a tool. Tests
//! programs that call tools, whose prompts are too long for a small model.
//!
//! `cargo run -p formwork-server --example scripted -- 127.0.0.1:8080 answers.json`
//!
//! The file has an array of texts. A call of a tool has the form
//! `<tool_call>\n{"name": "NAME", "arguments": {…}}\n</tool_call>`. Constraints hold as for any model.

use std::sync::Arc;

use formwork_engine::{Engine, EngineOptions};
use formwork_lm::{ChatInput, ChatTemplate, ScriptedModel, TemplateError};
use formwork_server::{App, ServedModel, ServerOptions, serve};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
use serde_json::Value;

/// Context in tokens, which are bytes.
const CONTEXT: usize = 1 << 20;
const END: usize = 256;
/// Tokens of the template, at the start of an answer and of a result.
const ASSISTANT: usize = 257;
const RESULT: usize = 258;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(path)) = (arguments.next(), arguments.next()) else {
        return Err("usage: scripted ADDRESS ANSWERS.json".into());
    };
    let answers: Vec<String> = serde_json::from_str(&std::fs::read_to_string(path)?)?;
    let byte = |byte| Token { bytes: vec![byte], kind: TokenKind::Text };
    let end = Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control };
    let marks = ["<|assistant|>", "<|result|>"];
    let marks = marks.map(|text| Token { bytes: text.into(), kind: TokenKind::Text });
    let tokens = (0..=255).map(byte).chain([end]).chain(marks).collect();
    let vocabulary = Vocabulary::new(tokens, vec![TokenId(END as u32)])?;
    let model = ScriptedModel::new(259, CONTEXT, move |tokens, row| {
        let results = tokens.iter().filter(|token| token.index() == RESULT).count();
        let answer = answers.get(results).map_or("", String::as_str).as_bytes();
        let start = tokens.iter().rposition(|token| token.index() == ASSISTANT).map_or(0, |at| at + 1);
        let next = answer.get(tokens.len() - start).map_or(END, |&byte| byte.into());
        row[next] = 1000.0;
    });
    let tokenizer = Arc::new(Tokenizer::greedy(vocabulary));
    let engine = Engine::start(Box::new(model), tokenizer, EngineOptions::default());
    let model = ServedModel {
        id: "scripted".to_owned(),
        aliases: Vec::new(),
        created: 0,
        engine,
        template: Arc::new(Template),
    };
    let app = App::new(vec![model], ServerOptions::default())?;
    let listener = tokio::net::TcpListener::bind(&address).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    serve(listener, app, std::future::pending()).await?;
    Ok(())
}

/// Renders messages with their calls and results, and the tools.
struct Template;

impl ChatTemplate for Template {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let mut text =
            input.variables.get("tools").map(|tools| format!("tools:{tools}\n")).unwrap_or_default();
        for message in &input.messages {
            text += match message.role.as_str() {
                "assistant" => "<|assistant|>",
                "tool" => "<|result|>",
                role => role,
            };
            text += message.text();
            for call in message.fields.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                let (name, arguments) = (&call["function"]["name"], &call["function"]["arguments"]);
                let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
                let call = format!("{{\"name\": {name}, \"arguments\": {arguments}}}");
                text.extend(["<tool_call>\n", &call, "\n</tool_call>"]);
            }
            text.push('\n');
        }
        if input.add_generation_prompt {
            text += "<|assistant|>";
        }
        Ok(text)
    }
}
