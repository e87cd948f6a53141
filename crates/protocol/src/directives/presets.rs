//! Presets: settings that control how a runner asks for directives. Presets can be serialized, so a
//! configuration file can hold the settings that a provider or model needs.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;

use crate::{Body, Feature, merge as merge_bodies};

/// Request fields that presets and callers cannot set; their values are ignored. The runner sets
/// `messages`, `model` and `response_format`, and the other fields belong to tool calls and
/// streams.
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

/// Method of asking a model for an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// `response_format` of type `json_schema`, plus short instructions in the system message.
    JsonSchema,
    /// `response_format` of type `json_object`, plus full instructions in the system message.
    JsonObject,
    /// Full instructions in the system message, without a `response_format`.
    PromptOnly,
}

/// Error for an unknown mode name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown mode `{given}`; expected one of json_schema, json_object, prompt_only")]
pub struct NoSuchMode {
    given: String,
}

impl Mode {
    /// All modes, strictest first.
    pub const ALL: [Self; 3] = [Self::JsonSchema, Self::JsonObject, Self::PromptOnly];

    /// Returns the mode's name in presets and records, such as `json_schema`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::JsonObject => "json_object",
            Self::PromptOnly => "prompt_only",
        }
    }

    /// Reports whether this mode has a `response_format`.
    pub const fn is_structured(self) -> bool {
        !matches!(self, Self::PromptOnly)
    }

    /// Returns the feature of a backend that this mode needs.
    pub(crate) const fn feature(self) -> Option<Feature> {
        match self {
            Self::JsonSchema => Some(Feature::JsonSchema),
            Self::JsonObject => Some(Feature::JsonObject),
            Self::PromptOnly => None,
        }
    }
}

/// Returns the first mode that a list has twice.
pub fn repeated(modes: &[Mode]) -> Option<Mode> {
    modes.iter().enumerate().find(|(at, mode)| modes[..*at].contains(mode)).map(|(_, mode)| *mode)
}

impl std::str::FromStr for Mode {
    type Err = NoSuchMode;

    fn from_str(text: &str) -> Result<Self, NoSuchMode> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| NoSuchMode { given: text.to_owned() })
    }
}

/// Setting that decides whether the schema in a request describes payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PayloadSchemas {
    /// Describe payloads only if the backend is already known to support GBNF grammars, as the
    /// engine in this process does.
    #[default]
    Auto,
    /// Always describe payloads.
    Always,
    /// Accept any object as a payload in the schema. The validator still checks payloads in the
    /// answer.
    Never,
}

/// Settings for requesting directives. A runner replaces each `None` by the value of
/// [`default_directives`]. [`merge`] combines several presets.
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
    /// Modes to try, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Vec<Mode>>,
    /// Maximum number of repair requests in each mode. A repair request shows the model its
    /// previous answer and the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair_retries: Option<u32>,
    /// Maximum number of HTTP requests of a run in all modes together: first requests, repairs, the
    /// decision about the type, retries after errors, and probes of capabilities. If `None`, only the
    /// modes, `repair_retries` and the retries of the backend bound the number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests: Option<u32>,
    /// True if the runner asks whether the backend supports a mode before it tries the mode, and
    /// skips unsupported modes. For a remote server, the first check of a mode for each model sends
    /// a probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_capabilities: Option<bool>,
    /// True if the run ends when the backend refuses a request. If false, the runner tries the next
    /// mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_on_refusal: Option<bool>,
    /// Setting that decides whether the schema in a request describes payloads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_schemas: Option<PayloadSchemas>,
    /// Value of `json_schema.strict` in requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// True to ask first which allowed type fits, as a decision with probabilities, and to allow only
    /// the likeliest type in the answer. If the backend answers no decisions, all types stay allowed.
    ///
    /// Nothing is asked if fewer than two types are allowed, if types are required, if the request has a
    /// [`result_validator`](super::RunRequest::result_validator), or if `max_requests` is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub type_by_decision: Option<bool>,
    /// Fields that are added to all requests. The caller's fields
    /// ([`RunRequest::overrides`](super::RunRequest::overrides)) override them.
    #[serde(skip_serializing_if = "Body::is_empty")]
    pub request_overrides: Body,
    /// Fields that are added to requests in modes with a `response_format`. They override
    /// `request_overrides` and the caller's fields.
    #[serde(skip_serializing_if = "Body::is_empty")]
    pub structured_request_overrides: Body,
    /// Fields that are added to requests in prompt-only mode. They override `request_overrides` and
    /// the caller's fields.
    #[serde(skip_serializing_if = "Body::is_empty")]
    pub prompt_only_request_overrides: Body,
}

/// Returns the default settings: all modes, with one repair request in each. The runner does not
/// query capabilities, and tries the next mode if the backend refuses a request.
pub fn default_directives() -> Preset {
    Preset {
        modes: Some(Mode::ALL.to_vec()),
        repair_retries: Some(1),
        check_capabilities: Some(false),
        stop_on_refusal: Some(false),
        payload_schemas: Some(PayloadSchemas::Auto),
        strict: Some(true),
        type_by_decision: Some(false),
        ..Preset::default()
    }
}

/// Returns a preset that sets only `modes`.
pub fn directives(modes: impl IntoIterator<Item = Mode>) -> Preset {
    Preset { modes: Some(modes.into_iter().collect()), ..Preset::default() }
}

/// Names of the providers for which [`provider_defaults`] has settings.
pub const PROVIDERS: [&str; 5] = ["openrouter", "openai", "volcanoengine", "formwork", "local"];

/// Returns the settings that a provider needs. The name's case is ignored, and an unknown name
/// gives an empty preset.
///
/// - `openrouter`: if `provider.require_parameters` is true, the router selects only servers that
///   support every field of the request. The preset sets this field to true in modes with a
///   `response_format`. In prompt-only mode the field is false, because the router's lists of
///   supported fields are incomplete.
/// - `openai`: accepts `strict: true` only if no object in the schema allows additional properties.
///   The preset sets `strict` to false, because payloads may have any properties.
/// - `volcanoengine`: as for `openai`, `strict` is false. Only some models of the provider support
///   `json_schema`; the others refuse the request, and the next mode follows.
/// - `local`, and `formwork` for a Formwork server: the engine can enforce any schema, so requests
///   always describe payloads. The only mode is `json_schema`, and repairs stay in this mode, because
///   no other mode enforces as much.
pub fn provider_defaults(provider: &str) -> Preset {
    let routing = |require: bool| body(json!({ "provider": { "require_parameters": require } }));
    match provider.trim().to_lowercase().as_str() {
        "openrouter" => Preset {
            structured_request_overrides: routing(true),
            prompt_only_request_overrides: routing(false),
            ..Preset::default()
        },
        "openai" | "volcanoengine" => Preset { strict: Some(false), ..Preset::default() },
        "local" | "formwork" => Preset {
            modes: Some(vec![Mode::JsonSchema]),
            payload_schemas: Some(PayloadSchemas::Always),
            ..Preset::default()
        },
        _ => Preset::default(),
    }
}

/// Merges presets; later presets override earlier ones. `modes` is replaced as a whole, and objects
/// with request fields are merged recursively.
pub fn merge(presets: impl IntoIterator<Item = Preset>) -> Preset {
    presets.into_iter().fold(Preset::default(), |below, above| Preset {
        modes: above.modes.or(below.modes),
        repair_retries: above.repair_retries.or(below.repair_retries),
        max_requests: above.max_requests.or(below.max_requests),
        check_capabilities: above.check_capabilities.or(below.check_capabilities),
        stop_on_refusal: above.stop_on_refusal.or(below.stop_on_refusal),
        payload_schemas: above.payload_schemas.or(below.payload_schemas),
        strict: above.strict.or(below.strict),
        type_by_decision: above.type_by_decision.or(below.type_by_decision),
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
    /// Returns the fields that are added to a request in `mode`: the preset's fields merged with
    /// `overrides`, the caller's fields. Fields in [`RESERVED`] are removed.
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
    fn later_presets_take_precedence() {
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
    fn openrouter_requires_parameters_in_structured_modes_only() {
        let preset = provider_defaults("OpenRouter");
        let insisting =
            body(json!({ "provider": { "require_parameters": true, "sort": "price" }, "top_k": 20 }));
        for mode in Mode::ALL {
            let expected = json!({ "provider": { "require_parameters": mode.is_structured(), "sort": "price" }, "top_k": 20 });
            assert_eq!(Value::from(preset.fields(mode, &insisting)), expected);
        }
        assert_eq!(provider_defaults("somebody"), Preset::default());
        for provider in ["openai", "VolcanoEngine"] {
            assert_eq!(provider_defaults(provider).strict, Some(false));
        }
        assert!(PROVIDERS.iter().all(|name| provider_defaults(name) != Preset::default()));
    }

    #[test]
    fn no_preset_or_override_sets_reserved_fields() {
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
    fn rejects_unknown_fields_in_presets() {
        assert!(serde_json::from_value::<Preset>(json!({ "mode": [] })).is_err());
        assert!(serde_json::from_value::<Preset>(json!({ "modes": ["json"] })).is_err());
        let data = json!({ "modes": ["prompt_only"], "payload_schemas": "never" });
        assert_eq!(serde_json::to_value(preset(data.clone())).expect("data"), data);
        assert_eq!("json_object".parse(), Ok(Mode::JsonObject));
        assert_eq!(
            "json".parse::<Mode>().expect_err("none").to_string(),
            "unknown mode `json`; expected one of json_schema, json_object, prompt_only"
        );
    }
}
