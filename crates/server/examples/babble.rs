//! Serves a model that prefers all printable characters equally. Useful to try a client, and to see
//! that every output matches its constraint.
//!
//! `cargo run -p formwork-server --example babble -- 127.0.0.1:8080`

use std::sync::Arc;

use formwork_engine::{Engine, EngineOptions};
use formwork_lm::{ChatInput, ChatTemplate, ScriptedModel, TemplateError};
use formwork_server::{App, ServedModel, ServerOptions, serve};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};

const CONTEXT: usize = 4096;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let byte = |byte| Token { bytes: vec![byte], kind: TokenKind::Text };
    let end = Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control };
    let vocabulary = Vocabulary::new((0..=255).map(byte).chain([end]).collect(), vec![TokenId(256)])?;
    // Prefers printable characters and the end, so that free text is readable and ends.
    let model = ScriptedModel::new(257, CONTEXT, |_, row| {
        row[32..127].fill(6.0);
        row[256] = 8.0;
    });
    let tokenizer = Arc::new(Tokenizer::greedy(vocabulary));
    let engine = Engine::start(Box::new(model), tokenizer, EngineOptions::default());
    let model = ServedModel {
        id: "babble".to_owned(),
        aliases: vec!["default".to_owned()],
        created: 0,
        engine,
        template: Arc::new(Lines),
    };
    let app = App::new(vec![model], ServerOptions::default())?;
    let listener = tokio::net::TcpListener::bind(&address).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    serve(listener, app, std::future::pending()).await?;
    Ok(())
}

/// Renders messages as `role: content` lines.
struct Lines;

impl ChatTemplate for Lines {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let line = |message: &formwork_lm::Message| format!("{}: {}\n", message.role, message.text());
        let lines: String = input.messages.iter().map(line).collect();
        Ok(lines + "assistant:")
    }
}
