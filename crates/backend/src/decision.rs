//! Typed questions about a conversation, which a model answers with probabilities.

use serde_json::{Value, json};

use crate::error::Kind;
use crate::{BackendError, Body, PromptRunner};

/// An option of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionOption {
    /// Name of the option, different from those of all other options.
    pub value: String,
    /// Description of the option for the model; may be empty.
    pub description: String,
}

/// A choice among options.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Index of the likeliest option.
    pub index: usize,
    /// Probability of each option, in the order of the options.
    pub probabilities: Vec<f64>,
    /// Confidence by the formula of the backend, from 0 to 1.
    pub confidence: f64,
}

impl PromptRunner {
    /// Asks which of `options` is right after the chat messages `messages`. Sends one request to
    /// `/v1/decisions`, without the default fields of the runner.
    ///
    /// # Errors
    /// Returns an error if the backend answers no decisions, refuses the question or fails.
    pub async fn choose(
        &self,
        messages: &[Value],
        instructions: &str,
        options: &[DecisionOption],
    ) -> Result<Chosen, BackendError> {
        let choices = options.iter().map(|option| {
            let mut choice = json!({ "value": option.value });
            if !option.description.is_empty() {
                choice["description"] = option.description.as_str().into();
            }
            choice
        });
        let choices: Vec<Value> = choices.collect();
        let question = json!({ "type": "choice", "instructions": instructions, "choices": choices });
        let answer = self.ask(messages, question).await?;
        let known = answer["probabilities"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of = |option: &DecisionOption| {
            let found = known.iter().find(|known| known["value"] == option.value.as_str());
            found.and_then(|found| found["probability"].as_f64())
        };
        let probabilities = options.iter().map(of).collect::<Option<Vec<f64>>>();
        let probabilities = probabilities.ok_or_else(|| no_decision("an option has no probability"))?;
        let index = options.iter().position(|option| answer["choice"] == option.value.as_str());
        let index = index.ok_or_else(|| no_decision("`choice` is not an option"))?;
        Ok(Chosen { index, probabilities, confidence: answer["confidence"].as_f64().unwrap_or_default() })
    }

    /// Asks whether the statement or question `instructions` is true after the chat messages
    /// `messages`. Returns its probability.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`choose`](Self::choose).
    pub async fn probability(&self, messages: &[Value], instructions: &str) -> Result<f64, BackendError> {
        let question = json!({ "type": "predicate", "instructions": instructions });
        let answer = self.ask(messages, question).await?;
        answer["probability"].as_f64().ok_or_else(|| no_decision("`probability` is not a number"))
    }

    /// Asks one question and returns its answer.
    async fn ask(&self, messages: &[Value], question: Value) -> Result<Value, BackendError> {
        let mut body = Body::new();
        body.insert("model".to_owned(), self.model().into());
        body.insert("input".to_owned(), input(messages).into());
        body.insert("questions".to_owned(), vec![question].into());
        let mut response = self.backend().decide(&body).await?;
        let answer = response.pointer_mut("/answers/0").map(Value::take);
        let answer = answer.ok_or_else(|| no_decision("`answers` is missing or empty"))?;
        if answer["type"] == "refusal" { Err(no_decision("the model refused to answer")) } else { Ok(answer) }
    }
}

/// Converts chat messages to the input of a decision.
fn input(messages: &[Value]) -> Vec<Value> {
    let mut items = Vec::new();
    for message in messages {
        let content = content(&message["content"]);
        if message["role"] == "tool" {
            let id = &message["tool_call_id"];
            items.push(json!({ "type": "function_call_output", "call_id": id, "output": content }));
            continue;
        }
        let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        if calls.is_empty() || content.as_str().is_none_or(|text| !text.is_empty()) {
            items.push(json!({ "role": message["role"], "content": content }));
        }
        items.extend(calls.iter().map(|call| {
            let function = &call["function"];
            let (name, arguments) = (&function["name"], &function["arguments"]);
            json!({ "type": "function_call", "call_id": call["id"], "name": name, "arguments": arguments })
        }));
    }
    items
}

/// Converts the content of a chat message. Parts other than text keep their form, so that the
/// backend can refuse them by name.
fn content(content: &Value) -> Value {
    match content {
        Value::Array(parts) => {
            let part = |part: &Value| match part["text"].as_str() {
                Some(text) => json!({ "type": "input_text", "text": text }),
                None => part.clone(),
            };
            parts.iter().map(part).collect()
        }
        Value::Null => "".into(),
        other => other.clone(),
    }
}

fn no_decision(reason: &'static str) -> BackendError {
    Kind::NoDecision { reason }.into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ScriptedBackend;

    fn option(value: &str, description: &str) -> DecisionOption {
        DecisionOption { value: value.to_owned(), description: description.to_owned() }
    }

    fn script(answers: Vec<Value>) -> (Arc<ScriptedBackend>, PromptRunner) {
        let answers = answers.into_iter().map(|answer| Ok(json!({ "answers": [answer] })));
        let backend = Arc::new(ScriptedBackend::new(answers));
        (Arc::clone(&backend), PromptRunner::new(backend, "m"))
    }

    #[tokio::test]
    async fn a_conversation_with_tools_becomes_items() {
        let (backend, prompts) = script(vec![json!({ "type": "predicate", "probability": 0.75 })]);
        let call = json!({ "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{}" } });
        let messages = [
            json!({ "role": "system", "content": [{ "type": "text", "text": "Be brief." }] }),
            json!({ "role": "user", "content": "Go." }),
            json!({ "role": "assistant", "content": null, "tool_calls": [call] }),
            json!({ "role": "tool", "tool_call_id": "c1", "content": "done" }),
        ];
        assert_eq!(prompts.probability(&messages, "Is it done?").await.ok(), Some(0.75));
        let expected = json!({
            "model": "m",
            "input": [
                { "role": "system", "content": [{ "type": "input_text", "text": "Be brief." }] },
                { "role": "user", "content": "Go." },
                { "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}" },
                { "type": "function_call_output", "call_id": "c1", "output": "done" },
            ],
            "questions": [{ "type": "predicate", "instructions": "Is it done?" }],
        });
        assert_eq!(Value::from(backend.asked().remove(0)), expected);
    }

    #[tokio::test]
    async fn a_choice_has_the_order_of_its_options() {
        let probabilities =
            json!([{ "value": "b", "probability": 0.9 }, { "value": "a", "probability": 0.1 }]);
        let answer =
            json!({ "type": "choice", "choice": "b", "confidence": 0.8, "probabilities": probabilities });
        let (backend, prompts) = script(vec![answer]);
        let messages = [json!({ "role": "user", "content": "Go." })];
        let options = [option("a", ""), option("b", "The second.")];
        let chosen = prompts.choose(&messages, "Which?", &options).await.expect("an answer");
        assert_eq!(chosen, Chosen { index: 1, probabilities: vec![0.1, 0.9], confidence: 0.8 });
        let choices = json!([{ "value": "a" }, { "value": "b", "description": "The second." }]);
        assert_eq!(backend.asked()[0]["questions"][0]["choices"], choices);
    }

    #[tokio::test]
    async fn answers_without_a_decision_are_errors() {
        let options = [option("a", ""), option("b", "")];
        for (answer, reason) in [
            (json!({ "type": "refusal" }), "the model refused to answer"),
            (json!({ "choice": "a", "probabilities": [] }), "an option has no probability"),
            (
                json!({ "choice": "c", "probabilities": [{ "value": "a", "probability": 0 }, { "value": "b", "probability": 1 }] }),
                "`choice` is not an option",
            ),
        ] {
            let error = script(vec![answer]).1.choose(&[], "Which?", &options).await.expect_err("no choice");
            assert_eq!(error.to_string(), format!("the backend's answer is not a decision: {reason}"));
        }
    }
}
