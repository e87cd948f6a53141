use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::Kind;
use super::subject::Subject;
use super::{BackendError, Body, ChatBackend};

/// A constraint that a backend can enforce on a model's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// `response_format` of type `json_schema`.
    JsonSchema,
    /// `response_format` of type `json_object`.
    JsonObject,
    /// Tool calls, requested by `tools`.
    Tools,
    /// A GBNF grammar, requested by `grammar`.
    Grammar,
}

impl Feature {
    /// All features, in the order in which they are probed.
    pub const ALL: [Self; 4] = [Self::JsonSchema, Self::JsonObject, Self::Tools, Self::Grammar];

    const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Returns the name used on the wire, such as `json_schema`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::JsonObject => "json_object",
            Self::Tools => "tools",
            Self::Grammar => "grammar",
        }
    }

    /// Sends one request to find out whether the backend enforces the feature for `model`.
    ///
    /// A feature counts as supported only if the answer satisfies the constraint, because many
    /// servers ignore fields that they do not know.
    ///
    /// A request that is refused because of the feature's field counts as an unsupported feature. If
    /// a refusal names no field, the same request is sent without the feature: if it is answered, the
    /// feature is unsupported.
    ///
    /// # Errors
    /// Returns an error if the probe shows nothing, because the request failed for another reason or
    /// the answer was cut off, filtered or empty.
    pub async fn probe(self, backend: &dyn ChatBackend, model: &str) -> Result<bool, BackendError> {
        let error = match backend.chat(&question(model, Some(self))).await {
            Ok(answer) => return judge(self, &answer.body).map_err(|reason| inconclusive(self, reason)),
            Err(error) => error,
        };
        match (error.status(), error.subject(Some(self))) {
            (Some(400 | 422 | 501), Subject::Constraint) => Ok(false),
            (Some(400 | 422 | 501), Subject::Unclear) => match backend.chat(&question(model, None)).await {
                Ok(_) => Ok(false),
                Err(stopped) if stopped.interruption().is_some() => Err(stopped),
                Err(_) => Err(error),
            },
            _ => Err(error),
        }
    }
}

fn inconclusive(feature: Feature, reason: String) -> BackendError {
    Kind::Inconclusive { feature, reason }.into()
}

/// A set of [`Feature`]s.
///
/// ```
/// use formwork_backend::{Capabilities, Feature};
/// let some: Capabilities = [Feature::JsonObject, Feature::Tools].into_iter().collect();
/// assert!(some.has(Feature::Tools) && !some.has(Feature::JsonSchema));
/// assert_eq!(some.to_string(), "json_object, tools");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Capabilities(u8);

impl Capabilities {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Returns the set of all features. The engine in this process supports all of them.
    pub fn all() -> Self {
        Feature::ALL.into_iter().collect()
    }

    /// Reports whether the set contains `feature`.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 & feature.bit() != 0
    }

    /// Probes `model` with one request for each feature and returns the features that it supports.
    ///
    /// # Errors
    /// Returns the error of [`Feature::probe`].
    pub async fn probe(backend: &dyn ChatBackend, model: &str) -> Result<Self, BackendError> {
        let mut found = Self::NONE;
        for feature in Feature::ALL {
            if feature.probe(backend, model).await? {
                found.0 |= feature.bit();
            }
        }
        Ok(found)
    }
}

impl FromIterator<Feature> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Feature>>(features: I) -> Self {
        Self(features.into_iter().fold(0, |bits, feature| bits | feature.bit()))
    }
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> =
            Feature::ALL.into_iter().filter(|&feature| self.has(feature)).map(Feature::name).collect();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

/// Limit of tokens of a probe. Answers are short, but some models reason before they answer.
const TOKENS: u32 = 1024;

/// Number that a model is very unlikely to write unless the constraint is enforced.
const SIGN: u64 = 7419;

/// Returns the request of a probe, or the same request without a constraint.
fn question(model: &str, feature: Option<Feature>) -> Body {
    let mut body = json!({
        "model": model,
        "messages": [{ "role": "user", "content": "Say hello, as a JSON object." }],
        "max_tokens": TOKENS,
        "temperature": 0,
    });
    match feature {
        Some(Feature::JsonSchema) => {
            let properties = json!({ "sign": { "type": "integer", "enum": [SIGN] } });
            let schema = json!({ "type": "object", "properties": properties, "required": ["sign"], "additionalProperties": false });
            let named = json!({ "name": "probe", "strict": true, "schema": schema });
            body["response_format"] = json!({ "type": "json_schema", "json_schema": named });
        }
        Some(Feature::JsonObject) => body["response_format"] = json!({ "type": "json_object" }),
        Some(Feature::Tools) => {
            let parameters = json!({ "type": "object", "properties": {}, "additionalProperties": false });
            let function = json!({ "name": "hello", "description": "Says hello.", "parameters": parameters });
            body["tools"] = json!([{ "type": "function", "function": function }]);
            body["tool_choice"] = json!("required");
        }
        Some(Feature::Grammar) => body["grammar"] = json!(format!("root ::= \"{SIGN}\"")),
        None => {}
    }
    match body {
        Value::Object(body) => body,
        _ => Body::new(),
    }
}

/// Reports whether the answer to a probe satisfies the constraint. Returns the reason if the answer
/// does not show that.
fn judge(feature: Feature, answer: &Value) -> Result<bool, String> {
    let choice = &answer["choices"][0];
    let message = &choice["message"];
    let text = message["content"].as_str().unwrap_or_default();
    // Some servers leave a model's thoughts in the text.
    let content = text.rsplit_once("</think>").map_or(text, |(_, answer)| answer).trim();
    let parsed = serde_json::from_str::<Value>(content).unwrap_or_default();
    let is_cut = choice["finish_reason"] == "length";
    let is_held = match feature {
        Feature::JsonSchema => parsed == json!({ "sign": SIGN }),
        // An answer cut off by the token limit counts if its beginning is correct.
        Feature::JsonObject => parsed.is_object() || (content.starts_with('{') && is_cut),
        Feature::Tools => {
            message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
                || message["tool_calls"].is_object()
                || message["function_call"].is_object()
        }
        Feature::Grammar => content == SIGN.to_string(),
    };
    if is_held {
        return Ok(true);
    }
    let is_open_thought = content.starts_with("<think>");
    let may_go_on = feature == Feature::Tools || content.starts_with('{') || is_open_thought;
    let reason = if choice["finish_reason"] == "content_filter" {
        "a content filter withheld the answer"
    } else if message["refusal"].as_str().is_some_and(|refusal| !refusal.is_empty()) {
        "the model refused to answer"
    } else if is_cut && (content.is_empty() || may_go_on) {
        "the answer was cut off at its length limit"
    } else if content.is_empty() {
        "the answer has no content"
    } else {
        return Ok(false);
    };
    Err(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScriptedBackend;

    fn answer(content: &str, finish_reason: &str) -> Value {
        let mut answer = ScriptedBackend::says(content);
        answer["choices"][0]["finish_reason"] = finish_reason.into();
        answer
    }

    fn status(status: u16, message: &str) -> BackendError {
        BackendError::from_status(status, &json!({ "error": { "message": message } }).to_string())
    }

    #[tokio::test]
    async fn only_an_answer_or_a_refusal_of_the_field_decides() {
        let refusal = ScriptedBackend::message(json!({ "content": "no", "refusal": "no" }));
        let schema = Feature::JsonSchema;
        for (feature, answers, expected) in [
            (schema, vec![Ok(answer(r#"{"sign": 7419}"#, "stop"))], Some(true)),
            (schema, vec![Ok(answer("Hello", "stop"))], Some(false)),
            (schema, vec![Ok(answer("Hello", "length"))], Some(false)),
            (schema, vec![Ok(answer("", "length"))], None),
            (schema, vec![Ok(answer("", "content_filter"))], None),
            (schema, vec![Ok(answer("I cannot", "content_filter"))], None),
            (schema, vec![Ok(answer("", "stop"))], None),
            (schema, vec![Ok(answer("<think>so", "length"))], None),
            (schema, vec![Ok(answer("{\"sign\":   ", "length"))], None),
            (schema, vec![Ok(refusal)], None),
            (schema, vec![Ok(json!({ "choices": [] }))], None),
            (Feature::JsonObject, vec![Ok(answer("{\"a\":", "length"))], Some(true)),
            (Feature::Tools, vec![Ok(answer("Let me", "length"))], None),
            (schema, vec![Err(status(400, "response_format is not supported"))], Some(false)),
            (schema, vec![Err(status(422, "body.response_format: extra"))], Some(false)),
            (schema, vec![Err(status(501, "json_schema is not implemented"))], Some(false)),
            (schema, vec![Err(status(400, "no")), Ok(answer("Hello", "stop"))], Some(false)),
            (schema, vec![Err(status(400, "no")), Err(status(400, "no"))], None),
            (schema, vec![Err(status(400, "prompt is too long"))], None),
            (schema, vec![Err(status(400, "the model `m` does not exist"))], None),
            (schema, vec![Err(status(402, "insufficient credits"))], None),
            (schema, vec![Err(status(404, "model is loading"))], None),
            (schema, vec![Err(status(404, "<html>not found</html>"))], None),
            (schema, vec![Err(status(500, "response_format"))], None),
        ] {
            let (count, told) = (answers.len(), format!("{feature:?} {answers:?}"));
            let script = ScriptedBackend::new(answers);
            assert_eq!(feature.probe(&script, "m").await.ok(), expected, "{told}");
            assert_eq!(script.asked().len(), count, "{told}");
        }
    }
}
