//! Catalogue of models: the sampling profiles that suit each model, the workarounds that it needs,
//! and whether it can use tools.
//!
//! A recommendation is based on a single measurement, so each entry states its basis. A model
//! without an entry gets the default profile and no workarounds.

mod models;

use serde::{Deserialize, Serialize};

use crate::sampling::{DEFAULT_PROFILE, ModelPattern};

/// Remedy for a quirk of a model or its route. Each variant is named after a preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workaround {
    /// Tools: adapts messages to `DeepSeek` behind `OpenRouter`. Adds the empty fields that the
    /// model requires.
    DeepseekOpenrouterCompat,
    /// Tools: adapts messages to Gemini behind `OpenRouter`. Adds placeholders for missing thought
    /// signatures and removes namespaces from call names.
    GeminiOpenrouterCompat,
    /// Tools: also reads calls from tags in the content.
    ContentTagToolCallFallback,
    /// Tools: sends no tools.
    ToolUseDisabled,
    /// Directives: requests them in the prompt only, because the route does not enforce any format.
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

    /// Returns the name, which is also the name of the preset.
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
    /// Recommended.
    Yes,
    /// Usable, with the weakness in the notes.
    Conditional,
    /// Not recommended.
    No,
}

impl Verdict {
    /// Returns the verdict as written in tables.
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
    /// Name of the model in requests.
    pub model: &'static str,
    /// Suitable sampling profiles, best first.
    pub profiles: &'static [&'static str],
    /// Workarounds that the model needs.
    pub workarounds: &'static [Workaround],
    /// Recommendation about tools.
    pub verdict: Verdict,
    /// Basis of the verdict.
    pub notes: &'static str,
}

/// Returns all entries.
pub const fn entries() -> &'static [CatalogueEntry] {
    models::ENTRIES
}

/// Returns the entry for `model`. A router's variant suffix, such as `:nitro`, is ignored.
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

impl CatalogueEntry {
    /// Returns the most suitable profile.
    pub fn profile(&self) -> &'static str {
        self.profiles.first().copied().unwrap_or(DEFAULT_PROFILE)
    }

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
    fn names_match_their_serialized_form() {
        for workaround in Workaround::ALL {
            assert_eq!(serde_json::to_value(workaround).expect("a name"), workaround.name());
        }
    }
}
