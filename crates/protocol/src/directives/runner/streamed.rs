//! Streams an answer and collects it.

use std::time::Instant;

use futures_util::StreamExt;
use serde_json::{Value, json};

use super::DirectiveRun;
use crate::directives::RunEvent;
use crate::directives::stream::EnvelopeReader;
use crate::{BackendError, Body, Feature, Plan, Reply};

impl DirectiveRun<'_> {
    /// Sends a request and reports the answer while it arrives. Returns the whole answer. An answer
    /// that is too large is cut off.
    pub(super) async fn streamed(
        &self,
        plan: &Plan,
        events: &(dyn Fn(RunEvent) + Send + Sync),
    ) -> Result<Reply, BackendError> {
        let prompts = &self.runner.prompts;
        let started = Instant::now();
        let mut body = prompts.body(plan);
        let known = prompts.backend().known_capabilities(prompts.model());
        if known.is_some_and(|known| known.has(Feature::Grammar)) {
            // Some remote servers refuse the option, so only the engine here is asked for its usage.
            body.insert("stream".to_owned(), true.into());
            body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
        }
        let mut chunks = prompts.backend().stream(&body).await?;
        let (mut answer, mut reader) = (Collected::default(), EnvelopeReader::default());
        while let Some(chunk) = chunks.next().await {
            let from = answer.content.len();
            answer.take(&chunk?);
            for event in reader.push(&answer.content[from..], &self.validator) {
                events(event);
            }
            if answer.content.len() > self.options().max_bytes {
                break;
            }
        }
        let body = answer.body();
        let message = body["choices"][0]["message"].as_object().cloned().unwrap_or_default();
        let latency = started.elapsed();
        Ok(Reply {
            message,
            finish_reason: answer.finish_reason,
            body,
            attempts: 1,
            retried: Vec::new(),
            latency,
        })
    }
}

/// The parts of an answer so far.
#[derive(Default)]
struct Collected {
    content: String,
    refusal: String,
    has_calls: bool,
    finish_reason: Option<String>,
    closed_by_budget: bool,
    usage: Option<Value>,
}

impl Collected {
    /// Adds a chunk of the first choice.
    fn take(&mut self, chunk: &Value) {
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(usage.clone());
        }
        let Some(choice) = chunk.pointer("/choices/0") else { return };
        let text = |name: &str| choice["delta"][name].as_str().unwrap_or_default();
        self.content += text("content");
        self.refusal += text("refusal");
        self.has_calls |= choice["delta"]["tool_calls"].is_array();
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish_reason = Some(reason.to_owned());
        }
        self.closed_by_budget |= choice["closed_by_budget"] == true;
    }

    /// Returns the answer in the form of an answer that was not streamed.
    fn body(&self) -> Value {
        let mut message = Body::new();
        message.insert("role".to_owned(), "assistant".into());
        message.insert("content".to_owned(), self.content.clone().into());
        if !self.refusal.is_empty() {
            message.insert("refusal".to_owned(), self.refusal.clone().into());
        }
        if self.has_calls {
            message.insert("tool_calls".to_owned(), json!([]));
        }
        let mut choice = json!({ "index": 0, "message": message, "finish_reason": self.finish_reason });
        if self.closed_by_budget {
            choice["closed_by_budget"] = true.into();
        }
        let mut body = json!({ "choices": [choice] });
        if let Some(usage) = &self.usage {
            body["usage"] = usage.clone();
        }
        body
    }
}
