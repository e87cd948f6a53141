//! Typed questions about a conversation, which a model answers with probabilities.

use std::time::{Duration, Instant};

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
    /// Confidence by the formula of the backend, from 0 to 1. `None` if the backend reports none.
    pub confidence: Option<f64>,
    /// Tokens and time of the decision.
    pub cost: DecisionCost,
}

/// Probability that a statement is true.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// The probability, from 0 to 1.
    pub probability: f64,
    /// Tokens and time of the decision.
    pub cost: DecisionCost,
}

/// Tokens and time of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DecisionCost {
    /// Number of tokens that the model read, as reported by the backend; 0 if not reported.
    pub prompt_tokens: u64,
    /// Time until the answer.
    pub latency: Duration,
}

/// Maximum number of characters of an option's description in a question. Longer ones are cut.
const DESCRIPTION: usize = 1000;

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
                choice["description"] = shortened(&option.description).into();
            }
            choice
        });
        let choices: Vec<Value> = choices.collect();
        let question = json!({ "type": "choice", "instructions": instructions, "choices": choices });
        let (answer, cost) = self.ask(messages, question).await?;
        let known = answer["probabilities"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of = |option: &DecisionOption| {
            let found = known.iter().find(|known| known["value"] == option.value.as_str());
            found.and_then(|found| probability(&found["probability"]))
        };
        let probabilities = options.iter().map(of).collect::<Option<Vec<f64>>>();
        let probabilities = probabilities.ok_or_else(|| no_decision("an option has no probability"))?;
        let index = options.iter().position(|option| answer["choice"] == option.value.as_str());
        let index = index.ok_or_else(|| no_decision("`choice` is not an option"))?;
        Ok(Chosen { index, probabilities, confidence: probability(&answer["confidence"]), cost })
    }

    /// Asks whether the statement or question `instructions` is true after the chat messages
    /// `messages`.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`choose`](Self::choose).
    pub async fn predict(&self, messages: &[Value], instructions: &str) -> Result<Predicted, BackendError> {
        let question = json!({ "type": "predicate", "instructions": instructions });
        let (answer, cost) = self.ask(messages, question).await?;
        let probability = probability(&answer["probability"]);
        let probability =
            probability.ok_or_else(|| no_decision("`probability` is not a number from 0 to 1"))?;
        Ok(Predicted { probability, cost })
    }

    /// Asks one question. Returns its answer and its cost.
    async fn ask(&self, messages: &[Value], question: Value) -> Result<(Value, DecisionCost), BackendError> {
        let mut body = Body::new();
        body.insert("model".to_owned(), self.model().into());
        body.insert("input".to_owned(), input(messages).into());
        body.insert("questions".to_owned(), vec![question].into());
        let started = Instant::now();
        let mut response = self.backend().decide(&body).await?;
        let prompt_tokens = response["usage"]["input_tokens"].as_u64().unwrap_or_default();
        let cost = DecisionCost { prompt_tokens, latency: started.elapsed() };
        let answer = response.pointer_mut("/answers/0").map(Value::take);
        let answer = answer.ok_or_else(|| no_decision("`answers` is missing or empty"))?;
        if answer["type"] == "refusal" {
            return Err(no_decision("the model refused to answer"));
        }
        Ok((answer, cost))
    }
}

/// Returns `text`, cut after [`DESCRIPTION`] characters.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(DESCRIPTION) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn probability(value: &Value) -> Option<f64> {
    value.as_f64().filter(|probability| (0.0..=1.0).contains(probability))
}

/// Converts chat messages to the input of a decision.
fn input(messages: &[Value]) -> Vec<Value> {
    let mut items = Vec::new();
    // Ids of the calls of custom tools.
    let mut custom = Vec::new();
    for message in messages {
        let content = content(&message["content"]);
        if message["role"] == "tool" {
            let id = &message["tool_call_id"];
            let is_custom = custom.contains(id);
            let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
            items.push(json!({ "type": kind, "call_id": id, "output": content }));
            continue;
        }
        let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        if calls.is_empty() || content.as_str().is_none_or(|text| !text.is_empty()) {
            items.push(json!({ "role": message["role"], "content": content }));
        }
        for call in calls {
            items.push(if call["custom"].is_object() {
                custom.push(call["id"].clone());
                let (name, input) = (&call["custom"]["name"], &call["custom"]["input"]);
                json!({ "type": "custom_tool_call", "call_id": call["id"], "name": name, "input": input })
            } else {
                let name = &call["function"]["name"];
                // Some backends return arguments as an object.
                let arguments = match &call["function"]["arguments"] {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                json!({ "type": "function_call", "call_id": call["id"], "name": name, "arguments": arguments })
            });
        }
    }
    items
}

/// Converts the content of a chat message. A decision reads text only, so a text stands for each part of
/// another type.
fn content(content: &Value) -> Value {
    match content {
        Value::Array(parts) => {
            let part = |part: &Value| {
                let text = part["text"].as_str().map(str::to_owned);
                let kind = part["type"].as_str().unwrap_or("unknown type");
                let text = text.unwrap_or_else(|| format!("({kind}: not shown)"));
                json!({ "type": "input_text", "text": text })
            };
            parts.iter().map(part).collect()
        }
        Value::Null => "".into(),
        other => other.clone(),
    }
}

fn no_decision(reason: &'static str) -> BackendError {
    Kind::MalformedDecision { reason }.into()
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
        let call = json!({ "id": "c1", "type": "function", "function": { "name": "f", "arguments": {} } });
        let custom = json!({ "id": "c2", "type": "custom", "custom": { "name": "sh", "input": "ls" } });
        let image = json!({ "type": "image_url", "image_url": { "url": "data:," } });
        let messages = [
            json!({ "role": "system", "content": [{ "type": "text", "text": "Be brief." }] }),
            json!({ "role": "user", "content": [{ "type": "text", "text": "Go." }, image] }),
            json!({ "role": "assistant", "content": null, "tool_calls": [call, custom] }),
            json!({ "role": "tool", "tool_call_id": "c1", "content": "done" }),
            json!({ "role": "tool", "tool_call_id": "c2", "content": "a" }),
        ];
        let predicted = prompts.predict(&messages, "Is it done?").await.expect("an answer");
        assert_eq!(Some(predicted.probability), Some(0.75));
        let expected = json!({
            "model": "m",
            "input": [
                { "role": "system", "content": [{ "type": "input_text", "text": "Be brief." }] },
                { "role": "user", "content": [
                    { "type": "input_text", "text": "Go." }, { "type": "input_text", "text": "(image_url: not shown)" },
                ] },
                { "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}" },
                { "type": "custom_tool_call", "call_id": "c2", "name": "sh", "input": "ls" },
                { "type": "function_call_output", "call_id": "c1", "output": "done" },
                { "type": "custom_tool_call_output", "call_id": "c2", "output": "a" },
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
        assert_eq!((chosen.index, chosen.confidence), (1, Some(0.8)));
        assert_eq!(chosen.probabilities, [0.1, 0.9]);
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
                json!({ "choice": "a", "probabilities": [{ "value": "a", "probability": 7 }, { "value": "b", "probability": 1 }] }),
                "an option has no probability",
            ),
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
