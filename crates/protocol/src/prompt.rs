//! The boundary of a single request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{BackendError, Body, Category, ChatBackend};

/// One request, whole but for the model and its defaults: what a record keeps of it, so that a run can be replayed.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The conversation, as it is sent.
    pub messages: Vec<Value>,
    /// All other fields: tools, formats, sampling.
    #[serde(default)]
    pub options: Body,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The first choice's message, as it came; an empty object where there is none.
    pub message: Body,
    /// Why it ended, in the backend's word.
    pub finish_reason: Option<String>,
    /// The whole answer.
    pub body: Value,
    /// How often the request was sent.
    pub attempts: u32,
    /// Why it was sent again, each time.
    pub retried: Vec<Category>,
    /// How long it took, with all attempts.
    pub latency: Duration,
}

/// Sends requests to one model, with defaults for what they leave out.
#[derive(Clone)]
pub struct PromptRunner {
    backend: Arc<dyn ChatBackend>,
    model: String,
    defaults: Body,
}

impl PromptRunner {
    /// Without defaults.
    pub fn new(backend: Arc<dyn ChatBackend>, model: impl Into<String>) -> Self {
        Self { backend, model: model.into(), defaults: Body::new() }
    }

    /// With fields that requests have unless they say otherwise, such as `temperature`.
    #[must_use]
    pub fn with_defaults(mut self, defaults: Body) -> Self {
        self.defaults = defaults;
        self
    }

    /// Without defaults of these names: fields that are another protocol's.
    #[must_use]
    pub fn without_defaults(mut self, names: &[&str]) -> Self {
        self.defaults.retain(|name, _| !names.contains(&name.as_str()));
        self
    }

    /// The model that is asked.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The fields that requests have unless they say otherwise.
    pub const fn defaults(&self) -> &Body {
        &self.defaults
    }

    /// What answers.
    pub fn backend(&self) -> &dyn ChatBackend {
        &*self.backend
    }

    /// The body that is sent for `plan`.
    pub fn body(&self, plan: &Plan) -> Body {
        let mut body = self.defaults.clone();
        body.extend(plan.options.clone());
        body.insert("model".to_owned(), self.model.clone().into());
        body.insert("messages".to_owned(), plan.messages.clone().into());
        body
    }

    /// Sends one request.
    ///
    /// # Errors
    /// When the backend does not answer.
    pub async fn run(&self, plan: &Plan) -> Result<Reply, BackendError> {
        let body = self.body(plan);
        let started = Instant::now();
        let answer = self.backend.chat(&body).await?;
        let latency = started.elapsed();
        let choice = answer.body.get("choices").and_then(|choices| choices.get(0));
        let message = choice.and_then(|choice| choice.get("message")).and_then(Value::as_object);
        let finish_reason = choice.and_then(|choice| choice.get("finish_reason")).and_then(Value::as_str);
        Ok(Reply {
            message: message.cloned().unwrap_or_default(),
            finish_reason: finish_reason.map(str::to_owned),
            attempts: answer.attempts,
            retried: answer.retried,
            latency,
            body: answer.body,
        })
    }
}

impl Reply {
    /// The text of the message. Some providers give it in parts.
    pub fn content(&self) -> String {
        match self.message.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
            }
            _ => String::new(),
        }
    }

    /// Whether the token limit cut it off.
    pub fn is_truncated(&self) -> bool {
        self.finish_reason.as_deref() == Some("length")
    }
}

/// `below` with the fields of `above` over it; objects that both have are merged alike.
pub fn merge(below: &Body, above: &Body) -> Body {
    let mut merged: Map<String, Value> = below.clone();
    for (name, value) in above {
        let value = match (merged.get(name), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge(below, above).into(),
            _ => value.clone(),
        };
        merged.insert(name.clone(), value);
    }
    merged
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ScriptedBackend;

    fn body(value: Value) -> Body {
        serde_json::from_value(value).expect("an object")
    }

    #[tokio::test]
    async fn requests_win_over_defaults_and_nothing_over_the_model() {
        let backend = Arc::new(ScriptedBackend::new([Ok(ScriptedBackend::says("Hi"))]));
        let defaults = body(json!({ "temperature": 0.7, "seed": 1 }));
        let runner = PromptRunner::new(backend.clone(), "m").with_defaults(defaults);
        let messages = vec![json!({ "role": "user", "content": "Hello" })];
        let options = body(json!({ "temperature": 0, "model": "other" }));
        let reply = runner.run(&Plan { messages: messages.clone(), options }).await.expect("an answer");
        let sent = json!({ "temperature": 0, "seed": 1, "model": "m", "messages": messages });
        assert_eq!(backend.asked(), [body(sent)]);
        assert_eq!(reply.content(), "Hi");
        assert!(!reply.is_truncated());
    }

    #[tokio::test]
    async fn odd_answers_are_empty_ones() {
        for answer in
            [json!({ "choices": [] }), json!({ "choices": [{ "message": null }] }), json!({ "choices": [7] })]
        {
            let runner = PromptRunner::new(Arc::new(ScriptedBackend::new([Ok(answer)])), "m");
            let reply = runner.run(&Plan::default()).await.expect("an answer");
            assert_eq!((reply.content().as_str(), &reply.finish_reason), ("", &None));
        }
        let parts = json!({ "content": [{ "type": "text", "text": "a" }, { "type": "x" }, { "text": "b" }] });
        let runner =
            PromptRunner::new(Arc::new(ScriptedBackend::new([Ok(ScriptedBackend::message(parts))])), "m");
        assert_eq!(runner.run(&Plan::default()).await.expect("an answer").content(), "ab");
    }

    #[test]
    fn objects_are_merged_deeply() {
        let below = body(json!({ "provider": { "a": 1, "b": 2 }, "x": [1] }));
        let above = body(json!({ "provider": { "b": 3 }, "x": [2], "y": 1 }));
        assert_eq!(
            Value::from(merge(&below, &above)),
            json!({ "provider": { "a": 1, "b": 3 }, "x": [2], "y": 1 })
        );
    }
}
