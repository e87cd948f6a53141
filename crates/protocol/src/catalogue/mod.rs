//! Catalogue of models: the sampling profiles that suit a model, the workarounds that the model
//! needs, and a verdict on using the model for tool calls.
//!
//! Each verdict is based on a single measurement, which the entry's notes describe. A model without
//! an entry gets the default profile and no workarounds.

mod models;

use serde::{Deserialize, Serialize};

use crate::sampling::{DEFAULT_PROFILE, ModelPattern};

/// Remedy for an unusual behaviour of a model, or of the router through which requests reach the
/// model. Except [`Workaround::PromptOnly`], each variant has the name of the
/// [`tools::Preset`](crate::tools::Preset) that applies the workaround.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workaround {
    /// For tool calls of `DeepSeek` models behind `OpenRouter`: adds empty fields that the models
    /// require in the messages of a request.
    DeepseekOpenrouterCompat,
    /// For tool calls of Gemini models behind `OpenRouter`: adds placeholders for missing thought
    /// signatures to requests, and removes namespaces from the names in the model's calls.
    GeminiOpenrouterCompat,
    /// For tool calls: also reads calls from `<tool_call>` tags in the text of an answer.
    ContentTagToolCallFallback,
    /// For models that cannot call tools: sends no tools.
    ToolUseDisabled,
    /// For directives: requests them in prompt-only mode, because the server does not enforce a
    /// `response_format`.
    PromptOnly,
}

impl Workaround {
    /// All workarounds.
    pub const ALL: [Self; 5] = [
        Self::DeepseekOpenrouterCompat,
        Self::GeminiOpenrouterCompat,
        Self::ContentTagToolCallFallback,
        Self::ToolUseDisabled,
        Self::PromptOnly,
    ];

    /// Returns the name in configuration files, such as `tool_use_disabled`. Presets use the same
    /// names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeepseekOpenrouterCompat => "deepseek_openrouter_compat",
            Self::GeminiOpenrouterCompat => "gemini_openrouter_compat",
            Self::ContentTagToolCallFallback => "content_tag_tool_call_fallback",
            Self::ToolUseDisabled => "tool_use_disabled",
            Self::PromptOnly => "prompt_only",
        }
    }
}

/// Recommendation about using a model for tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The model is recommended for tools.
    Yes,
    /// The model can be used for tools, with a weakness that [`CatalogueEntry::notes`] describes.
    Conditional,
    /// The model is not recommended for tools.
    No,
}

impl Verdict {
    /// Returns the name of the verdict in tables, such as `Yes`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "Yes",
            Self::Conditional => "Conditional",
            Self::No => "No",
        }
    }
}

/// Catalogue entry of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// Name of the model in requests, such as `z-ai/glm-4.7:nitro`.
    pub model: &'static str,
    /// Names of suitable sampling profiles, best first.
    pub profiles: &'static [&'static str],
    /// Workarounds that the model needs.
    pub workarounds: &'static [Workaround],
    /// Recommendation about using the model for tools.
    pub verdict: Verdict,
    /// Basis of the verdict, such as `97.5% of tool scenarios.`
    pub notes: &'static str,
}

/// Returns all entries of the catalogue.
pub const fn entries() -> &'static [CatalogueEntry] {
    models::ENTRIES
}

/// Returns the entry for the model named `model`, or `None` if the catalogue lacks the model. Case
/// and a router's variant suffix, such as `:nitro`, are ignored.
///
/// ```
/// use formwork_protocol::catalogue::{self, Verdict, Workaround};
/// let known = catalogue::find("deepseek/deepseek-v3.2").expect("an entry");
/// assert_eq!(known.workarounds, [Workaround::DeepseekOpenrouterCompat]);
/// assert_eq!((known.verdict, known.profile()), (Verdict::Conditional, "deepseek_v3_2_local_recommended"));
/// assert!(catalogue::find("unheard-of").is_none());
/// ```
pub fn find(model: &str) -> Option<&'static CatalogueEntry> {
    entries().iter().find(|entry| ModelPattern::from(entry.without_variant()).matches(model))
}

/// Returns the name of the provider with this base URL, such as `openrouter`, or `None` for other
/// servers.
///
/// ```
/// use formwork_protocol::catalogue::provider_of_url;
/// assert_eq!(provider_of_url("https://openrouter.ai/api/v1"), Some("openrouter"));
/// assert_eq!(provider_of_url("http://127.0.0.1:8080/openrouter.ai"), None);
/// ```
pub fn provider_of_url(base_url: &str) -> Option<&'static str> {
    let rest = base_url.split_once("://")?.1;
    let host = rest.split(['/', '?', '#']).next()?.rsplit('@').next()?.split(':').next()?;
    match host.to_ascii_lowercase().as_str() {
        "openrouter.ai" => Some("openrouter"),
        "api.openai.com" => Some("openai"),
        _ => None,
    }
}

impl CatalogueEntry {
    /// Returns the name of the most suitable sampling profile.
    pub fn profile(&self) -> &'static str {
        self.profiles.first().copied().unwrap_or(DEFAULT_PROFILE)
    }

    /// Returns the model's name without a router's variant, such as `:nitro`.
    fn without_variant(&self) -> &'static str {
        self.model.split_once(':').map_or(self.model, |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Profiles;

    #[test]
    fn each_model_has_one_entry_with_applicable_profiles() {
        let profiles = Profiles::predefined();
        for entry in entries() {
            assert_eq!(find(entry.model), Some(entry), "{}", entry.model);
            assert_eq!(find(entry.without_variant()), Some(entry), "{}", entry.model);
            assert!(!entry.profiles.is_empty() && !entry.notes.is_empty(), "{}", entry.model);
            for &name in entry.profiles {
                let profile = profiles.get(name).expect(name);
                assert!(profile.applies_to(entry.model), "{name} {}", entry.model);
            }
        }
    }

    #[test]
    fn verdicts_and_workarounds_match_the_table() {
        let with = |verdict| entries().iter().filter(|entry| entry.verdict == verdict).count();
        assert_eq!([Verdict::Yes, Verdict::Conditional, Verdict::No].map(with), [9, 3, 7]);
        let fallback = Workaround::ContentTagToolCallFallback;
        let with_fallback = entries().iter().filter(|entry| entry.workarounds.contains(&fallback));
        let names: Vec<_> = with_fallback.map(|entry| entry.model).collect();
        assert_eq!(
            names,
            [
                "qwen/qwen3-235b-a22b-2507:nitro",
                "z-ai/glm-4.7:nitro",
                "z-ai/glm-4.7-flash:nitro",
                "minimax/minimax-m2.1:nitro"
            ]
        );
    }

    #[test]
    fn each_model_of_the_table_has_its_profile_and_verdict() {
        use Verdict::{Conditional, No, Yes};
        for (model, profile, verdict) in [
            ("anthropic/claude-opus-4.6:nitro", "default", Yes),
            ("deepseek/deepseek-chat-v3-0324:nitro", "default", No),
            ("deepseek/deepseek-v3.2:nitro", "deepseek_v3_2_local_recommended", Conditional),
            ("google/gemini-2.5-flash:nitro", "gemini_2_5_flash_creative", Yes),
            ("google/gemini-3-flash-preview:nitro", "default", Conditional),
            ("google/gemini-3-pro-preview:nitro", "default", No),
            ("moonshotai/kimi-k2.5:nitro", "kimi_k2_5_instant", Yes),
            ("openai/gpt-5.2:nitro", "default", Yes),
            ("openai/gpt-5.2-chat:nitro", "default", Yes),
            ("qwen/qwen3-235b-a22b-2507:nitro", "default", Yes),
            ("qwen/qwen3-30b-a3b-instruct-2507:nitro", "qwen_recommended", Yes),
            ("qwen/qwen3-next-80b-a3b-instruct:nitro", "qwen_recommended", Yes),
            ("x-ai/grok-4.1-fast", "grok_default", Conditional),
            ("z-ai/glm-4.7:nitro", "default", Yes),
            ("z-ai/glm-4.7-flash:nitro", "glm_4_7_flash_tool_calling", No),
            ("minimax/minimax-m2.1:nitro", "minimax_m2_1_recommended", No),
            ("minimax/minimax-m2-her", "default", No),
        ] {
            let entry = find(model).expect(model);
            assert_eq!((entry.model, entry.profile(), entry.verdict), (model, profile, verdict));
        }
    }

    #[test]
    fn minimax_models_get_directives_in_prompt_only_mode() {
        for model in ["minimax/minimax-m2-her", "minimax/minimax-m2.1:nitro"] {
            let entry = find(model).expect(model);
            assert!(entry.workarounds.contains(&Workaround::PromptOnly), "{model}");
        }
        let others = entries().iter().filter(|entry| !entry.model.starts_with("minimax/"));
        assert!(others.into_iter().all(|entry| !entry.workarounds.contains(&Workaround::PromptOnly)));
    }

    #[test]
    fn names_match_their_serialized_form() {
        for workaround in Workaround::ALL {
            assert_eq!(serde_json::to_value(workaround).expect("a name"), workaround.name());
        }
    }
}
