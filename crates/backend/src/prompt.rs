//! Sending a single request and reading its reply.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::quota::{Metered, Quota};
use crate::{Answer, BackendError, Body, Category, ChatBackend, StreamReceiver};

/// One request of a [`PromptRunner`], without the runner's model and default fields.
///
/// Records store the plan, so that a run can be replayed.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// Messages of the conversation, exactly as sent.
    pub messages: Vec<Value>,
    /// All other request fields, such as tools, response format and sampling parameters.
    #[serde(default)]
    pub options: Body,
}

/// Reply to one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// Message of the answer's first choice, unmodified. Empty if the answer has no message.
    pub message: Body,
    /// Reason why the generation ended, as reported by the backend, such as `stop`. `None` if not
    /// reported.
    pub finish_reason: Option<String>,
    /// Complete body of the answer.
    pub body: Value,
    /// Number of times the request was sent, including the first.
    pub attempts: u32,
    /// Category of the error that caused each retry, in order.
    pub retried: Vec<Category>,
    /// Total time, including all attempts and the pauses between them.
    pub latency: Duration,
}

/// Sends requests to one model and fills in default fields.
#[derive(Clone)]
pub struct PromptRunner {
    backend: Arc<dyn ChatBackend>,
    model: String,
    defaults: Body,
}

impl PromptRunner {
    /// Creates a runner without defaults.
    pub fn new(backend: Arc<dyn ChatBackend>, model: impl Into<String>) -> Self {
        Self { backend, model: model.into(), defaults: Body::new() }
    }

    /// Sets default fields, such as `temperature`. A request's own fields override them.
    #[must_use]
    pub fn with_defaults(mut self, defaults: Body) -> Self {
        self.defaults = defaults;
        self
    }

    /// Removes the defaults with these names, for example fields that belong to another protocol.
    #[must_use]
    pub fn without_defaults(mut self, names: &[&str]) -> Self {
        self.defaults.retain(|name, _| !names.contains(&name.as_str()));
        self
    }

    /// Returns the name of the model.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the default fields, which a request's own fields override.
    pub const fn defaults(&self) -> &Body {
        &self.defaults
    }

    /// Returns the backend that answers the requests.
    pub fn backend(&self) -> &dyn ChatBackend {
        &*self.backend
    }

    /// Charges every request to `quota`. See [`Metered`] for the rules.
    #[must_use]
    pub fn with_quota(mut self, quota: Quota) -> Self {
        self.backend = Arc::new(Metered::new(self.backend, quota));
        self
    }

    /// Returns the request body for `plan`.
    ///
    /// The plan's options override the defaults. The runner's model and the plan's messages
    /// override both.
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
    /// Returns an error if the backend does not answer.
    pub async fn run(&self, plan: &Plan) -> Result<Reply, BackendError> {
        let started = Instant::now();
        let answer = self.backend.chat(&self.body(plan)).await?;
        Ok(Reply::new(answer, started.elapsed()))
    }

    /// Sends one request and reports the answer while it arrives. Returns the whole answer.
    ///
    /// # Errors
    /// Returns an error if the backend does not answer.
    pub async fn run_streamed(
        &self,
        plan: &Plan,
        receiver: StreamReceiver<'_>,
    ) -> Result<Reply, BackendError> {
        let started = Instant::now();
        let answer = self.backend.chat_streamed(&self.body(plan), receiver).await?;
        Ok(Reply::new(answer, started.elapsed()))
    }
}

impl Reply {
    fn new(answer: Answer, latency: Duration) -> Self {
        let choice = answer.body.get("choices").and_then(|choices| choices.get(0));
        let message = choice.and_then(|choice| choice.get("message")).and_then(Value::as_object);
        let finish_reason = choice.and_then(|choice| choice.get("finish_reason")).and_then(Value::as_str);
        Self {
            message: message.cloned().unwrap_or_default(),
            finish_reason: finish_reason.map(str::to_owned),
            attempts: answer.attempts,
            retried: answer.retried,
            latency,
            body: answer.body,
        }
    }

    /// Returns the text of the message, or an empty string if there is none.
    ///
    /// Some providers send the content as a list of parts; the texts of the parts are concatenated.
    pub fn content(&self) -> String {
        match self.message.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect()
            }
            _ => String::new(),
        }
    }

    /// Reports whether the reply is no answer to the request: the model refused, called a tool or a
    /// function, or a content filter withheld the answer.
    pub fn is_withheld(&self) -> bool {
        let is_refused =
            self.message.get("refusal").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        let calls =
            self.message.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty());
        let has_called = calls || self.message.get("function_call").is_some_and(Value::is_object);
        let reason = self.finish_reason.as_deref();
        is_refused || has_called || matches!(reason, Some("content_filter" | "tool_calls" | "function_call"))
    }

    /// Reports whether the token limit cut off the reply: `finish_reason` is `length`.
    pub fn is_truncated(&self) -> bool {
        self.finish_reason.as_deref() == Some("length")
    }
}

/// Merges two objects recursively. For all other values, `above` overrides `below`.
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
    async fn requests_override_defaults_but_not_the_model() {
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
    async fn reads_malformed_answers_as_empty() {
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
    fn merges_objects_deeply() {
        let below = body(json!({ "provider": { "a": 1, "b": 2 }, "x": [1] }));
        let above = body(json!({ "provider": { "b": 3 }, "x": [2], "y": 1 }));
        assert_eq!(
            Value::from(merge(&below, &above)),
            json!({ "provider": { "a": 1, "b": 3 }, "x": [2], "y": 1 })
        );
    }
}
