//! Servers with scripted models and byte tokens.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use formwork_engine::{Engine, EngineHandle, EngineOptions};
use formwork_lm::{
    Batch, ChatInput, ChatTemplate, LanguageModel, Logits, ModelError, ScriptedModel, SequenceId,
    TemplateError,
};
use formwork_server::{App, ServedModel, ServerOptions, router};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
use serde_json::Value;
use tower::ServiceExt;

/// The end-of-sequence token. The tokens below it are the bytes.
pub(crate) const END: usize = 256;
pub(crate) const CONTEXT: usize = 400;

pub(crate) fn tokenizer() -> Arc<Tokenizer> {
    let byte = |byte| Token { bytes: vec![byte], kind: TokenKind::Text };
    let end = Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control };
    let tokens = (0..=255).map(byte).chain([end]).collect();
    Arc::new(Tokenizer::greedy(Vocabulary::new(tokens, vec![TokenId(END as u32)]).unwrap()))
}

/// Renders variables and `role: content` lines, and remembers the last prompt.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) last: Mutex<String>,
}

impl ChatTemplate for Lines {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let mut lines: Vec<String> =
            input.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        for message in &input.messages {
            if message.text() == "raise" {
                return Err(TemplateError { message: "roles must alternate".to_owned(), line: Some(3) });
            }
            lines.push(format!("{}: {}", message.role, message.text()));
        }
        lines.push("assistant:".to_owned());
        let text = lines.join("\n");
        text.clone_into(&mut self.last.lock().unwrap());
        Ok(text)
    }
}

/// A template that supports tools, calls, results and thoughts.
pub(crate) struct Native;

impl ChatTemplate for Native {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let mut parts = Vec::new();
        if let Some(tools) = input.variables.get("tools") {
            parts.push(format!("tools:{tools}\n"));
        }
        for message in &input.messages {
            parts.push(format!("{}:", message.role));
            if let Some(thought) = message.fields.get("reasoning_content").and_then(Value::as_str) {
                parts.push(format!("<think>\n{thought}\n</think>\n\n"));
            }
            parts.push(message.text().to_owned());
            for call in message.fields.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                let (name, arguments) = (&call["function"]["name"], &call["function"]["arguments"]);
                let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
                parts.push(format!(
                    "<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>"
                ));
            }
            parts.push("\n".to_owned());
        }
        if input.add_generation_prompt {
            parts.push("assistant:".to_owned());
        }
        Ok(parts.concat())
    }
}

/// Creates a model that answers every prompt with `text` and then ends.
pub(crate) fn says(text: &'static str) -> ScriptedModel {
    says_in(CONTEXT, text)
}

/// Creates a model like [`says`] with the given context length.
pub(crate) fn says_in(context_len: usize, text: &'static str) -> ScriptedModel {
    ScriptedModel::new(END + 1, context_len, move |tokens, row| {
        let said: Vec<u8> = tokens.iter().map(|token| token.0 as u8).collect();
        let marker = b"assistant:";
        let start = said.windows(marker.len()).rposition(|window| window == marker).unwrap() + marker.len();
        let next = text.as_bytes().get(said.len() - start).map_or(END, |&byte| byte.into());
        row[next] = 1000.0;
    })
}

/// Creates a model that likes all tokens equally, so that the seed decides.
pub(crate) fn babbles(context_len: usize) -> ScriptedModel {
    ScriptedModel::new(END + 1, context_len, |_, _| {})
}

/// Creates a model whose logits depend on every earlier token, without a pattern.
pub(crate) fn varied(context_len: usize) -> ScriptedModel {
    ScriptedModel::new(END + 1, context_len, |tokens, row| {
        let mix = |state: u64, x: u64| (state ^ x).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let state = tokens.iter().fold(7, |state, token| mix(state, token.0.into()));
        for (token, logit) in row.iter_mut().enumerate() {
            *logit = (mix(mix(state, token as u64), 1) >> 40) as f32 / (1 << 22) as f32;
        }
    })
}

/// A model whose forward pass fails after `left` successful calls.
pub(crate) struct FailsAfter {
    pub(crate) inner: ScriptedModel,
    pub(crate) left: usize,
}

impl LanguageModel for FailsAfter {
    fn vocab_size(&self) -> usize {
        self.inner.vocab_size()
    }

    fn context_len(&self) -> usize {
        self.inner.context_len()
    }

    fn open(&mut self) -> SequenceId {
        self.inner.open()
    }

    fn close(&mut self, sequence: SequenceId) {
        self.inner.close(sequence);
    }

    fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<(), ModelError> {
        self.inner.truncate(sequence, len)
    }

    fn forward(&mut self, batch: &Batch<'_>) -> Result<Logits, ModelError> {
        if self.left == 0 {
            return Err(ModelError::backend("out of memory"));
        }
        self.left -= 1;
        self.inner.forward(batch)
    }
}

pub(crate) fn start(model: impl LanguageModel + 'static) -> EngineHandle {
    Engine::start(Box::new(model), tokenizer(), EngineOptions::default())
}

pub(crate) fn served(id: &str, engine: EngineHandle) -> ServedModel {
    ServedModel {
        id: id.to_owned(),
        aliases: vec![],
        created: 7,
        engine,
        template: Arc::new(Lines::default()),
    }
}

pub(crate) fn app(model: impl LanguageModel + 'static) -> App {
    App::new(vec![served("m", start(model))], ServerOptions::default()).unwrap()
}

/// A complete HTTP response.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        formwork_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Returns the body as indented JSON, with values that vary between calls removed.
    pub(crate) fn pretty(&self) -> String {
        let mut value = self.json();
        redact(&mut value);
        serde_json::to_string_pretty(&value).unwrap()
    }

    /// Returns the content of a chat answer.
    pub(crate) fn content(&self) -> String {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text);
        self.json()["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    }
}

/// Checks and removes values that vary between calls.
pub(crate) fn redact(value: &mut Value) {
    if value.get("id").is_some() {
        let id = value["id"].as_str().unwrap();
        assert!(id.starts_with("chatcmpl-") && id.len() == 41, "{id}");
        assert!(value["created"].as_u64().unwrap() > 1_700_000_000);
        value["id"] = "ID".into();
        value["created"] = 0.into();
    }
    redact_fingerprint(value);
}

/// Checks and removes the fingerprint, which names the version of the package.
pub(crate) fn redact_fingerprint(value: &mut Value) {
    if let Some(fingerprint) = value.get_mut("system_fingerprint") {
        assert_eq!(*fingerprint, concat!("formwork-", env!("CARGO_PKG_VERSION")));
        *fingerprint = "FINGERPRINT".into();
    }
}

pub(crate) async fn send(app: &App, request: Request<Body>) -> Answer {
    send_to(router(app.clone()), request).await
}

pub(crate) async fn send_to(router: Router, request: Request<Body>) -> Answer {
    let (parts, body) = router.oneshot(request).await.unwrap().into_parts();
    let text = String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap();
    Answer { status: parts.status, headers: parts.headers, text }
}

pub(crate) fn request(method: Method, path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::builder().method(method).uri(path).body(body.into()).unwrap()
}

pub(crate) async fn get(app: &App, path: &str) -> Answer {
    send(app, request(Method::GET, path, "")).await
}

/// Creates the body of a short chat request to model `m`, with additional `fields`.
pub(crate) fn ask(fields: &Value) -> Value {
    let mut body = serde_json::json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

pub(crate) async fn chat(app: &App, fields: &Value) -> Answer {
    send(app, request(Method::POST, "/v1/chat/completions", ask(fields).to_string())).await
}
