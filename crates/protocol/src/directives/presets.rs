//! How directives are asked for, kept with the configuration of a provider or a model: the quirks of these are data.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{Body, Capabilities, Feature, merge as merge_bodies};

/// The fields of a request that belong to the runner, or to another protocol: presets and callers cannot set them.
pub const RESERVED: [&str; 10] = [
    "function_call",
    "functions",
    "messages",
    "model",
    "parallel_tool_calls",
    "response_format",
    "stream",
    "stream_options",
    "tool_choice",
    "tools",
];

/// How a model is held to the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// By `response_format` of type `json_schema`.
    JsonSchema,
    /// By `response_format` of type `json_object`, and the prompt.
    JsonObject,
    /// By the prompt alone.
    PromptOnly,
}

/// There is no such mode.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{given}` is no mode; there are json_schema, json_object and prompt_only")]
pub struct NoSuchMode {
    given: String,
}

impl Mode {
    /// All of them, the strictest first.
    pub const ALL: [Self; 3] = [Self::JsonSchema, Self::JsonObject, Self::PromptOnly];

    /// Its name in presets and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::JsonObject => "json_object",
            Self::PromptOnly => "prompt_only",
        }
    }

    /// Whether requests say it in `response_format`.
    pub const fn is_structured(self) -> bool {
        !matches!(self, Self::PromptOnly)
    }

    /// Whether a backend can hold a model to it.
    pub(crate) const fn is_within(self, capabilities: Capabilities) -> bool {
        match self {
            Self::JsonSchema => capabilities.has(Feature::JsonSchema),
            Self::JsonObject => capabilities.has(Feature::JsonObject),
            Self::PromptOnly => true,
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = NoSuchMode;

    fn from_str(text: &str) -> Result<Self, NoSuchMode> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| NoSuchMode { given: text.to_owned() })
    }
}

/// Whether the schema of a request says what payloads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayloadSchemas {
    /// Where the backend is known to hold a model to any grammar, as the engine in this process does.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never: payloads are any objects there, and are checked when they have come.
    Never,
}

/// How directives are asked for. What is absent is as in [`default_directives`]; [`merge`] puts one over another.
///
/// ```
/// use formwork_protocol::directives::{Mode, presets};
/// let preset = presets::merge([
///     presets::default_directives(),
///     presets::provider_defaults("openrouter"),
///     presets::directives([Mode::PromptOnly]),
/// ]);
/// assert_eq!(preset.modes, Some(vec![Mode::PromptOnly]));
/// assert_eq!(preset.prompt_only_request_overrides["provider"]["require_parameters"], false);
/// ```
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Preset {
    /// The modes to try, in this order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<Mode>>,
    /// How often, in each mode, the model is told what is wrong with its answer and asked again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair_retries: Option<u32>,
    /// Whether the backend is asked first what it can do, and other modes are skipped. A remote server is probed for that, once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_capabilities: Option<bool>,
    /// Whether a request that is refused ends the run, rather than the mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_on_refusal: Option<bool>,
    /// Whether the schema says what payloads are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_schemas: Option<PayloadSchemas>,
    /// What the schema's `strict` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Fields of all requests.
    #[serde(skip_serializing_if = "Body::is_empty")]
    pub request_overrides: Body,
    /// Fields of requests with a `response_format`, whatever else is said of them.
    #[serde(skip_serializing_if = "Body::is_empty")]
    pub structured_request_overrides: Body,
    /// Fields of requests without one, whatever else is said of them.
    #[serde(skip_serializing_if = "Body::is_empty")]
    pub prompt_only_request_overrides: Body,
}

/// All modes, one repair in each; the backend is not asked what it can do, and a refusal leads to the next mode.
pub fn default_directives() -> Preset {
    Preset {
        modes: Some(Mode::ALL.to_vec()),
        repair_retries: Some(1),
        check_capabilities: Some(false),
        stop_on_refusal: Some(false),
        payload_schemas: Some(PayloadSchemas::Auto),
        strict: Some(true),
        ..Preset::default()
    }
}

/// Only these modes.
pub fn directives(modes: impl IntoIterator<Item = Mode>) -> Preset {
    Preset { modes: Some(modes.into_iter().collect()), ..Preset::default() }
}

/// The names that [`provider_defaults`] knows.
pub const PROVIDERS: [&str; 3] = ["openrouter", "openai", "local"];

/// What is known of a provider, by its name; nothing for others.
///
/// - `openrouter` sends a request only to servers that know all of its fields if `provider.require_parameters` is true, so in
///   structured modes it is. Without a `response_format` it is false, since its list of who knows what has gaps.
/// - `openai` takes schemas as `strict` only if they close all objects, which payloads do not.
/// - `local`, the engine in this process, holds models to anything, so payload schemas are in the request.
pub fn provider_defaults(provider: &str) -> Preset {
    let routing = |require: bool| body(json!({ "provider": { "require_parameters": require } }));
    match provider.trim().to_lowercase().as_str() {
        "openrouter" => Preset {
            structured_request_overrides: routing(true),
            prompt_only_request_overrides: routing(false),
            ..Preset::default()
        },
        "openai" => Preset { strict: Some(false), ..Preset::default() },
        "local" => Preset { payload_schemas: Some(PayloadSchemas::Always), ..Preset::default() },
        _ => Preset::default(),
    }
}

/// The presets over one another, the last on top: lists are replaced, and fields of requests merged deeply.
pub fn merge(presets: impl IntoIterator<Item = Preset>) -> Preset {
    presets.into_iter().fold(Preset::default(), |below, above| Preset {
        modes: above.modes.or(below.modes),
        repair_retries: above.repair_retries.or(below.repair_retries),
        check_capabilities: above.check_capabilities.or(below.check_capabilities),
        stop_on_refusal: above.stop_on_refusal.or(below.stop_on_refusal),
        payload_schemas: above.payload_schemas.or(below.payload_schemas),
        strict: above.strict.or(below.strict),
        request_overrides: merge_bodies(&below.request_overrides, &above.request_overrides),
        structured_request_overrides: merge_bodies(
            &below.structured_request_overrides,
            &above.structured_request_overrides,
        ),
        prompt_only_request_overrides: merge_bodies(
            &below.prompt_only_request_overrides,
            &above.prompt_only_request_overrides,
        ),
    })
}

impl Preset {
    /// The fields of a request in `mode` besides those that are reserved, with a caller's `overrides`.
    pub(super) fn fields(&self, mode: Mode, overrides: &Body) -> Body {
        let of_mode = if mode.is_structured() {
            &self.structured_request_overrides
        } else {
            &self.prompt_only_request_overrides
        };
        let mut fields = merge_bodies(&merge_bodies(&self.request_overrides, overrides), of_mode);
        fields.retain(|name, _| !RESERVED.contains(&name.as_str()));
        fields
    }
}

fn body(value: Value) -> Body {
    match value {
        Value::Object(body) => body,
        _ => Body::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preset(value: Value) -> Preset {
        serde_json::from_value(value).expect("a preset")
    }

    #[test]
    fn the_last_is_on_top() {
        let below = preset(json!({
            "modes": ["json_schema", "prompt_only"], "repair_retries": 2, "strict": false,
            "request_overrides": { "temperature": 0.7, "provider": { "order": ["a"], "sort": "price" } },
        }));
        let above = preset(json!({
            "modes": ["json_object"], "check_capabilities": true,
            "request_overrides": { "provider": { "order": ["b"] } },
        }));
        let expected = preset(json!({
            "modes": ["json_object"], "repair_retries": 2, "check_capabilities": true, "strict": false,
            "request_overrides": { "temperature": 0.7, "provider": { "order": ["b"], "sort": "price" } },
        }));
        assert_eq!(merge([below, above]), expected);
        assert_eq!(merge([]), Preset::default());
        assert_eq!(merge([default_directives(), Preset::default()]), default_directives());
    }

    #[test]
    fn openrouter_must_know_all_fields_in_structured_modes_only() {
        let preset = provider_defaults("OpenRouter");
        let insisting =
            body(json!({ "provider": { "require_parameters": true, "sort": "price" }, "top_k": 20 }));
        for mode in Mode::ALL {
            let expected = json!({ "provider": { "require_parameters": mode.is_structured(), "sort": "price" }, "top_k": 20 });
            assert_eq!(Value::from(preset.fields(mode, &insisting)), expected);
        }
        assert_eq!(provider_defaults("somebody"), Preset::default());
        assert_eq!(provider_defaults("openai").strict, Some(false));
    }

    #[test]
    fn reserved_fields_are_nobodys() {
        let all: Body = RESERVED.iter().map(|&name| (name.to_owned(), json!(1))).collect();
        let preset = Preset {
            request_overrides: all.clone(),
            structured_request_overrides: all.clone(),
            prompt_only_request_overrides: all.clone(),
            ..Preset::default()
        };
        let mut overrides = all;
        overrides.insert("min_p".to_owned(), json!(0.1));
        for mode in Mode::ALL {
            assert_eq!(Value::from(preset.fields(mode, &overrides)), json!({ "min_p": 0.1 }));
        }
    }

    #[test]
    fn as_data_unknown_fields_are_refused() {
        assert!(serde_json::from_value::<Preset>(json!({ "mode": [] })).is_err());
        assert!(serde_json::from_value::<Preset>(json!({ "modes": ["json"] })).is_err());
        let data = json!({ "modes": ["prompt_only"], "payload_schemas": "never" });
        assert_eq!(serde_json::to_value(preset(data.clone())).expect("data"), data);
        assert_eq!("json_object".parse(), Ok(Mode::JsonObject));
        assert_eq!(
            "json".parse::<Mode>().expect_err("none").to_string(),
            "`json` is no mode; there are json_schema, json_object and prompt_only"
        );
    }
}
