//! What is known of models: which sampling profile suits them, what must be worked around, whether to use them for tools.
//!
//! A recommendation is an opinion that somebody measured once, so each entry says what it rests on. A model that is not here is a model
//! of which nothing is known: it gets the default profile and no workaround.

mod models;

use serde::{Deserialize, Serialize};

use crate::sampling::{DEFAULT_PROFILE, ModelPattern};

/// A quirk of a model or its route that has a remedy; each is the name of a preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workaround {
    /// Tools: what `DeepSeek` behind `OpenRouter` wants besides.
    DeepseekOpenrouterCompat,
    /// Tools: what Gemini behind `OpenRouter` wants besides.
    GeminiOpenrouterCompat,
    /// Tools: calls are read from tags in the content as well.
    ContentTagToolCallFallback,
    /// Tools: none are sent.
    ToolUseDisabled,
    /// Directives: asked for in the prompt alone, since the route holds its model to no format.
    PromptOnly,
}

impl Workaround {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::DeepseekOpenrouterCompat,
        Self::GeminiOpenrouterCompat,
        Self::ContentTagToolCallFallback,
        Self::ToolUseDisabled,
        Self::PromptOnly,
    ];

    /// Its name, which is that of the preset.
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

/// Whether to use a model for tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Do.
    Yes,
    /// Know its weakness.
    Conditional,
    /// Don't.
    No,
}

impl Verdict {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Yes => "Yes",
            Self::Conditional => "Conditional",
            Self::No => "No",
        }
    }
}

/// What is known of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// Its name, as it is asked for.
    pub model: &'static str,
    /// The sampling profiles that suit it, the best first.
    pub profiles: &'static [&'static str],
    /// What is worked around.
    pub workarounds: &'static [Workaround],
    /// Whether to use it for tools.
    pub verdict: Verdict,
    /// What the verdict rests on.
    pub notes: &'static str,
}

/// All entries.
pub const fn entries() -> &'static [CatalogueEntry] {
    models::ENTRIES
}

/// What is known of `model`; the variant of a router, as in `:nitro`, does not matter.
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
    /// The profile that suits it best.
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
    fn each_model_has_one_entry_with_profiles_that_apply() {
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
    fn verdicts_and_workarounds_are_those_of_the_table() {
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
    fn names_are_those_that_are_written() {
        for workaround in Workaround::ALL {
            assert_eq!(serde_json::to_value(workaround).expect("a name"), workaround.name());
        }
    }
}
