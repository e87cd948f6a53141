use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{BackendError, Body, Category, ChatBackend};

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
    /// # Errors
    /// Returns an error if the request fails for a reason unrelated to the feature, such as a
    /// timeout. A request rejected as invalid counts as an unsupported feature.
    pub async fn probe(self, backend: &dyn ChatBackend, model: &str) -> Result<bool, BackendError> {
        match backend.chat(&question(model, self)).await {
            Ok(answer) => Ok(is_held(self, &answer.body)),
            Err(error) if error.category() == Category::InvalidRequest && !error.is_of_model() => Ok(false),
            Err(error) => Err(error),
        }
    }
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

fn question(model: &str, feature: Feature) -> Body {
    let mut body = json!({
        "model": model,
        "messages": [{ "role": "user", "content": "Say hello, as a JSON object." }],
        "max_tokens": TOKENS,
        "temperature": 0,
    });
    match feature {
        Feature::JsonSchema => {
            let properties = json!({ "sign": { "type": "integer", "enum": [SIGN] } });
            let schema = json!({ "type": "object", "properties": properties, "required": ["sign"], "additionalProperties": false });
            let named = json!({ "name": "probe", "strict": true, "schema": schema });
            body["response_format"] = json!({ "type": "json_schema", "json_schema": named });
        }
        Feature::JsonObject => body["response_format"] = json!({ "type": "json_object" }),
        Feature::Tools => {
            let parameters = json!({ "type": "object", "properties": {}, "additionalProperties": false });
            let function = json!({ "name": "hello", "description": "Says hello.", "parameters": parameters });
            body["tools"] = json!([{ "type": "function", "function": function }]);
            body["tool_choice"] = json!("required");
        }
        Feature::Grammar => body["grammar"] = json!(format!("root ::= \"{SIGN}\"")),
    }
    match body {
        Value::Object(body) => body,
        _ => Body::new(),
    }
}

fn is_held(feature: Feature, answer: &Value) -> bool {
    let message = &answer["choices"][0]["message"];
    let content = message["content"].as_str().unwrap_or_default();
    // Some servers leave a model's thoughts in the text.
    let content = content.rsplit_once("</think>").map_or(content, |(_, answer)| answer).trim();
    let parsed = serde_json::from_str::<Value>(content).unwrap_or_default();
    match feature {
        Feature::JsonSchema => parsed == json!({ "sign": SIGN }),
        // An answer cut off by the token limit counts if its beginning is correct.
        Feature::JsonObject => parsed.is_object() || (content.starts_with('{') && is_cut(answer)),
        Feature::Tools => {
            message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
                || message["tool_calls"].is_object()
                || message["function_call"].is_object()
        }
        Feature::Grammar => content == SIGN.to_string(),
    }
}

fn is_cut(answer: &Value) -> bool {
    answer["choices"][0]["finish_reason"] == "length"
}
