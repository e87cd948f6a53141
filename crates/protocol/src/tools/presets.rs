//! Named sets of options that can be merged.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::{Kind, ToolsError};
use super::options::{RESERVED, ToolCallingOptions};
use crate::catalogue::{self, Workaround};
use crate::{Body, merge};

/// Values for some fields of [`ToolCallingOptions`], for example for one provider or model. Presets
/// can be merged. Fields that are not set get their default.
///
/// ```
/// use formwork_protocol::tools::Preset;
/// let preset = Preset::for_model("openrouter", "deepseek/deepseek-v3.2:nitro");
/// let mine = Preset::new(serde_json::json!({
///     "tool_use_mode": "enforced",
///     "request_overrides": {"temperature": 1.0},
/// }))?;
/// let options = preset.merge(&mine).options()?;
/// assert_eq!(options.request_overrides["parallel_tool_calls"], false);
/// assert_eq!(options.request_overrides["temperature"], 1.0);
/// # Ok::<(), formwork_protocol::tools::ToolsError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct Preset(Body);

impl Preset {
    /// Names accepted by [`Preset::named`].
    pub const NAMES: [&str; 7] = [
        "default_tool_calling",
        "openai",
        "openrouter",
        "deepseek_openrouter_compat",
        "gemini_openrouter_compat",
        "content_tag_tool_call_fallback",
        "tool_use_disabled",
    ];

    /// Creates a custom preset from `fields`, a JSON object with any fields of
    /// [`ToolCallingOptions`].
    ///
    /// # Errors
    /// Returns an error if `fields` is not an object, has an unknown field, or has a value of the
    /// wrong type, or if `request_overrides` has a field in [`RESERVED`].
    pub fn new(fields: Value) -> Result<Self, ToolsError> {
        let fault = |error: serde_json::Error| Kind::Preset { reason: error.to_string() };
        let overrides = fields.get("request_overrides").and_then(Value::as_object);
        if let Some(name) = RESERVED.iter().find(|name| overrides.is_some_and(|of| of.contains_key(**name))) {
            let reason = format!("`request_overrides.{name}`: the loop sets this field");
            return Err(Kind::Preset { reason }.into());
        }
        serde_json::from_value::<ToolCallingOptions>(fields.clone()).map_err(fault)?;
        Ok(Self(serde_json::from_value(fields).map_err(fault)?))
    }

    /// Returns the preset recommended for any model.
    ///
    /// It allows one call per message and limits arguments and results to 200,000 bytes each. After
    /// an empty final message, it asks the model once more.
    pub fn default_tool_calling() -> Self {
        Self::of(json!({
            "max_tool_args_bytes": 200_000,
            "max_tool_output_bytes": 200_000,
            "max_tool_calls_per_turn": 1,
            "fix_empty_final": true,
            "fix_empty_final_disable_tools": true,
            "request_overrides": { "parallel_tool_calls": false },
        }))
    }

    /// Returns the preset for `provider`. For `openai` and `openrouter`, it sets
    /// `parallel_tool_calls: false` in requests. For any other provider, it is empty.
    pub fn provider_defaults(provider: &str) -> Self {
        Self::of(match provider {
            // OpenRouter forwards the field to the providers that know it.
            // `provider.require_parameters`, which would skip the other providers, is not set:
            // OpenRouter often lists fewer parameters than a provider accepts.
            "openai" | "openrouter" => json!({ "request_overrides": { "parallel_tool_calls": false } }),
            _ => json!({}),
        })
    }

    /// Returns the preset for `DeepSeek` models via `OpenRouter`.
    ///
    /// These models reject a history if a message with tool calls lacks `reasoning_content` or has
    /// a null `content`. The preset adds a missing `reasoning_content`, copied from `reasoning` or
    /// empty, and replaces a null `content` by the empty string.
    pub fn deepseek_openrouter_compat() -> Self {
        Self::of(json!({ "message_transforms": [
            "assistant_tool_calls_reasoning_content_empty_if_missing", "assistant_tool_calls_content_empty_if_null",
        ] }))
    }

    /// Returns the preset for Gemini via `OpenRouter`.
    ///
    /// Gemini requires that calls in the history carry the signature of the thoughts before them.
    /// If a signature is missing, the preset adds Google's placeholder that disables this check.
    /// Gemini may also put a namespace before a tool's name, such as `default_api:`. The preset
    /// removes the namespace.
    pub fn gemini_openrouter_compat() -> Self {
        Self::of(json!({
            "message_transforms": ["assistant_tool_calls_signature_skip_validator_if_missing"],
            "tool_call_transforms": ["tool_call_name_without_namespace"],
        }))
    }

    /// Returns the preset for models whose servers return calls in the text of the message, as
    /// `<tool_call>{…}</tool_call>`, instead of in `tool_calls`.
    pub fn content_tag_tool_call_fallback() -> Self {
        Self::of(json!({ "response_transforms": ["assistant_content_tool_call_tags_to_tool_calls"] }))
    }

    /// Returns the preset for models that cannot call tools.
    pub fn tool_use_disabled() -> Self {
        Self::of(json!({ "tool_use_mode": "disabled" }))
    }

    /// Returns the preset with this name, or `None` if [`Preset::NAMES`] does not contain `name`.
    /// The names `openai` and `openrouter` return [`Preset::provider_defaults`] of that provider.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "default_tool_calling" => Self::default_tool_calling(),
            "openai" | "openrouter" => Self::provider_defaults(name),
            "deepseek_openrouter_compat" => Self::deepseek_openrouter_compat(),
            "gemini_openrouter_compat" => Self::gemini_openrouter_compat(),
            "content_tag_tool_call_fallback" => Self::content_tag_tool_call_fallback(),
            "tool_use_disabled" => Self::tool_use_disabled(),
            _ => return None,
        })
    }

    /// Returns the recommended preset for a model of a provider, such as `deepseek/deepseek-v3.2`
    /// of `openrouter`.
    ///
    /// It merges, in this order, [`Preset::default_tool_calling`], [`Preset::provider_defaults`]
    /// and the preset that works around known problems of the model, as the
    /// [catalogue] lists them. Only models of `openrouter` have such a preset.
    pub fn for_model(provider: &str, model: &str) -> Self {
        let base = Self::default_tool_calling().merge(&Self::provider_defaults(provider));
        match provider {
            "openrouter" => base.merge(&Self::openrouter_workaround(model)),
            _ => base,
        }
    }

    /// Returns the workarounds of the catalogue's entry for `model`. Without an entry, those of its
    /// family.
    fn openrouter_workaround(model: &str) -> Self {
        if let Some(entry) = catalogue::find(model) {
            return Self::of_workarounds(entry.workarounds);
        }
        // The part after the colon is the route, such as `:nitro`, not the model.
        let name = model.split(':').next().unwrap_or(model);
        let tagged = ["qwen/qwen3-235b-a22b", "z-ai/glm-4.7", "minimax/minimax-m2.1"];
        if name.starts_with("deepseek/") {
            Self::deepseek_openrouter_compat()
        } else if name.starts_with("google/gemini-") {
            Self::gemini_openrouter_compat()
        } else if tagged.iter().any(|known| name.starts_with(known)) {
            Self::content_tag_tool_call_fallback()
        } else {
            Self::default()
        }
    }

    /// Returns the preset that applies `workarounds`. Those about directives have no effect on tools.
    pub fn of_workarounds(workarounds: &[Workaround]) -> Self {
        let presets = workarounds.iter().filter_map(|workaround| Self::named(workaround.name()));
        presets.fold(Self::default(), |merged, preset| merged.merge(&preset))
    }

    /// Returns the preset that sets the request fields `fields`, such as sampling parameters.
    pub fn of_overrides(fields: Body) -> Self {
        Self([("request_overrides".to_owned(), fields.into())].into_iter().collect())
    }

    /// Reports whether the preset sets no field.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns this preset with the fields of `above` merged over it.
    ///
    /// Objects are merged recursively, and lists of transforms are concatenated without duplicates.
    /// Any other field of `above` replaces the field of this preset.
    #[must_use]
    pub fn merge(&self, above: &Self) -> Self {
        let mut merged = merge(&self.0, &above.0);
        for (name, below) in &self.0 {
            if let (true, Some(below), Some(Value::Array(both))) =
                (name.ends_with("_transforms"), below.as_array(), merged.get_mut(name))
            {
                let above = std::mem::replace(both, below.clone());
                both.extend(above.into_iter().filter(|name| !below.contains(name)));
            }
        }
        Self(merged)
    }

    /// Returns the options, with defaults for the fields that the preset does not set.
    ///
    /// # Errors
    /// Returns an error if a field has the wrong type. This cannot happen: fields are checked at
    /// construction, and `merge` does not change their types.
    pub fn options(&self) -> Result<ToolCallingOptions, ToolsError> {
        serde_json::from_value(self.0.clone().into())
            .map_err(|error| Kind::Preset { reason: error.to_string() }.into())
    }

    fn of(fields: Value) -> Self {
        match fields {
            Value::Object(fields) => Self(fields),
            _ => Self::default(),
        }
    }
}

impl TryFrom<Value> for Preset {
    type Error = ToolsError;

    fn try_from(fields: Value) -> Result<Self, ToolsError> {
        Self::new(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{ToolUseMode, Transforms};

    fn preset(fields: Value) -> Preset {
        Preset::new(fields).expect("a preset")
    }

    #[test]
    fn named_presets_use_known_transforms() {
        for name in Preset::NAMES {
            let preset = Preset::named(name).expect(name);
            let options = preset.options().expect(name);
            Transforms::default().resolve(&options).expect(name);
            assert_eq!(Preset::new(preset.0.clone().into()).expect(name), preset);
        }
        assert_eq!(Preset::named("nothing"), None);
        assert_eq!(
            Preset::tool_use_disabled().options().expect("options").tool_use_mode,
            ToolUseMode::Disabled
        );
    }

    #[test]
    fn rejects_invalid_fields() {
        let fault = |fields| Preset::new(fields).expect_err("refused").to_string();
        assert!(fault(json!({ "max_turn": 1 })).starts_with("invalid tool preset: unknown field `max_turn`"));
        assert!(fault(json!({ "max_turns": "x" })).starts_with("invalid tool preset: invalid type"));
        for name in RESERVED {
            let told = fault(json!({ "request_overrides": { "temperature": 0, name: "x" } }));
            let expected =
                format!("invalid tool preset: `request_overrides.{name}`: the loop sets this field");
            assert_eq!(told, expected);
        }
        let read: Result<Preset, _> = serde_json::from_str(r#"{"max_turn": 1}"#);
        assert!(read.expect_err("refused").to_string().contains("`max_turn`"));
    }

    #[test]
    fn merges_presets_deeply() {
        let below = preset(json!({
            "max_turns": 3, "message_transforms": ["a", "b"], "request_overrides": { "provider": { "x": 1, "y": 1 } },
        }));
        let above = preset(json!({
            "max_turns": 4, "message_transforms": ["b", "c"], "request_overrides": { "provider": { "y": 2 }, "seed": 1 },
        }));
        let merged = preset(json!({
            "max_turns": 4, "message_transforms": ["a", "b", "c"],
            "request_overrides": { "provider": { "x": 1, "y": 2 }, "seed": 1 },
        }));
        assert_eq!(below.merge(&above), merged);
        assert_eq!(below.merge(&Preset::default()), below);
        assert_eq!(Preset::default().merge(&above), above);
    }

    #[test]
    fn models_get_their_workarounds() {
        let nothing = Preset::default();
        for (model, workaround) in [
            ("anthropic/claude-opus-4.6:nitro", nothing.clone()),
            ("deepseek/deepseek-chat-v3-0324:nitro", Preset::deepseek_openrouter_compat()),
            ("deepseek/deepseek-v3.2:nitro", Preset::deepseek_openrouter_compat()),
            ("google/gemini-2.5-flash:nitro", Preset::gemini_openrouter_compat()),
            ("google/gemini-3-flash-preview:nitro", Preset::gemini_openrouter_compat()),
            ("google/gemini-3-pro-preview:nitro", Preset::gemini_openrouter_compat()),
            ("moonshotai/kimi-k2.5:nitro", nothing.clone()),
            ("openai/gpt-5.2:nitro", nothing.clone()),
            ("openai/gpt-5.2-chat:nitro", nothing.clone()),
            ("qwen/qwen3-235b-a22b-2507:nitro", Preset::content_tag_tool_call_fallback()),
            ("qwen/qwen3-30b-a3b-instruct-2507:nitro", nothing.clone()),
            ("qwen/qwen3-next-80b-a3b-instruct:nitro", nothing.clone()),
            ("x-ai/grok-4.1-fast", nothing),
            ("z-ai/glm-4.7:nitro", Preset::content_tag_tool_call_fallback()),
            ("z-ai/glm-4.7-flash:nitro", Preset::content_tag_tool_call_fallback()),
            ("minimax/minimax-m2.1:nitro", Preset::content_tag_tool_call_fallback()),
            ("minimax/minimax-m2-her", Preset::tool_use_disabled()),
        ] {
            assert_eq!(Preset::openrouter_workaround(model), workaround, "{model}");
            let base = Preset::default_tool_calling().merge(&Preset::provider_defaults("openrouter"));
            assert_eq!(Preset::for_model("openrouter", model), base.merge(&workaround), "{model}");
        }
        assert_eq!(Preset::for_model("local", "deepseek/x"), Preset::default_tool_calling());
    }
}
