use super::{ModelPattern, Sampling, SamplingProfile};

/// Name of the predefined profile that sets no sampling values and is meant for all models.
pub const DEFAULT_PROFILE: &str = "default";

/// Sampling parameters that set no value.
const NONE: Sampling = Sampling { temperature: None, top_p: None, top_k: None, min_p: None };

const fn temperature(temperature: f64) -> Sampling {
    Sampling { temperature: Some(temperature), ..NONE }
}

const fn top_p(temperature: f64, top_p: f64) -> Sampling {
    Sampling { temperature: Some(temperature), top_p: Some(top_p), ..NONE }
}

const fn top_k(sampling: Sampling, top_k: u32) -> Sampling {
    Sampling { top_k: Some(top_k), ..sampling }
}

const fn min_p(sampling: Sampling, min_p: f64) -> Sampling {
    Sampling { min_p: Some(min_p), ..sampling }
}

/// Name, groups, model patterns and sampling values of a profile.
struct Predefined(&'static str, &'static [&'static str], &'static [&'static str], Sampling);

/// The predefined profiles.
///
/// The values for conversation and creative writing are those of `DeepSeek`'s API documentation
/// (<https://api-docs.deepseek.com/quick_start/parameter_settings>), and those of
/// `glm_4_7_recommended` are those of its model card (<https://huggingface.co/zai-org/GLM-4.7>).
/// They were written from memory and not compared with these pages.
///
/// The values of the last two profiles come from the model cards
/// (<https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct>,
/// <https://huggingface.co/google/gemma-3-270m>).
const PREDEFINED: &[Predefined] = &[
    Predefined(DEFAULT_PROFILE, &[DEFAULT_PROFILE], &[], NONE),
    Predefined(
        "deepseek_v3_2_local_recommended",
        &["recommended"],
        &["deepseek/deepseek-v3.2*"],
        top_p(1.0, 0.95),
    ),
    Predefined(
        "deepseek_v3_2_general_conversation",
        &["conversation"],
        &["deepseek/deepseek-v3.2*"],
        temperature(1.3),
    ),
    Predefined(
        "deepseek_v3_2_creative_writing",
        &["creative"],
        &["deepseek/deepseek-v3.2*"],
        temperature(1.5),
    ),
    Predefined("gemini_2_5_flash_creative", &["creative"], &["google/gemini-2.5-flash"], temperature(1.5)),
    Predefined("glm_4_7_recommended", &["recommended"], &["z-ai/glm-4.7"], top_p(1.0, 0.95)),
    Predefined("glm_4_7_flash_tool_calling", &["tool_calling"], &["z-ai/glm-4.7-flash"], top_p(0.7, 1.0)),
    Predefined("grok_default", &["recommended"], &["x-ai/grok-*"], temperature(0.3)),
    Predefined("kimi_k2_5_instant", &["recommended"], &["moonshotai/kimi-k2.5"], top_p(0.6, 0.95)),
    Predefined(
        "minimax_m2_1_recommended",
        &["recommended"],
        &["minimax/minimax-m2.1"],
        top_k(top_p(1.0, 0.95), 40),
    ),
    Predefined(
        "qwen_recommended",
        &["recommended"],
        &["qwen/qwen3*"],
        min_p(top_k(top_p(0.7, 0.8), 20), 0.0),
    ),
    Predefined("smollm2_recommended", &["recommended"], &["*smollm2*"], top_p(0.2, 0.9)),
    Predefined(
        "gemma_3_recommended",
        &["recommended"],
        &["*gemma-3*", "*gemma3*"],
        top_k(top_p(1.0, 0.95), 64),
    ),
];

pub(super) fn profiles() -> Vec<SamplingProfile> {
    let profile = |&Predefined(name, groups, models, sampling): &Predefined| SamplingProfile {
        name: name.to_owned(),
        groups: groups.iter().map(|&group| group.to_owned()).collect(),
        models: models.iter().map(|&model| ModelPattern::from(model)).collect(),
        sampling,
    };
    PREDEFINED.iter().map(profile).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Profiles;

    #[test]
    fn predefined_profiles_keep_their_values() {
        let values: Vec<_> = Profiles::predefined()
            .iter()
            .map(|profile| {
                assert!(profile.sampling.check().is_ok());
                format!("{}: {}", profile.name, profile.sampling)
            })
            .collect();
        assert_eq!(
            values,
            [
                "default: no overrides",
                "deepseek_v3_2_local_recommended: t=1 top_p=0.95",
                "deepseek_v3_2_general_conversation: t=1.3",
                "deepseek_v3_2_creative_writing: t=1.5",
                "gemini_2_5_flash_creative: t=1.5",
                "glm_4_7_recommended: t=1 top_p=0.95",
                "glm_4_7_flash_tool_calling: t=0.7 top_p=1",
                "grok_default: t=0.3",
                "kimi_k2_5_instant: t=0.6 top_p=0.95",
                "minimax_m2_1_recommended: t=1 top_p=0.95 top_k=40",
                "qwen_recommended: t=0.7 top_p=0.8 top_k=20 min_p=0",
                "smollm2_recommended: t=0.2 top_p=0.9",
                "gemma_3_recommended: t=1 top_p=0.95 top_k=64",
            ]
        );
    }

    #[test]
    fn profiles_apply_only_to_their_models() {
        let profiles = Profiles::predefined();
        let applies = |profile, model| profiles.get(profile).expect("predefined").applies_to(model);
        for (profile, model) in [
            ("default", "anything"),
            ("deepseek_v3_2_local_recommended", "deepseek/deepseek-v3.2:nitro"),
            ("deepseek_v3_2_general_conversation", "deepseek/deepseek-v3.2:nitro"),
            ("deepseek_v3_2_creative_writing", "deepseek/deepseek-v3.2"),
            ("glm_4_7_recommended", "z-ai/glm-4.7:nitro"),
            ("gemini_2_5_flash_creative", "google/gemini-2.5-flash:nitro"),
            ("glm_4_7_flash_tool_calling", "z-ai/glm-4.7-flash:nitro"),
            ("grok_default", "x-ai/grok-4.1-fast"),
            ("kimi_k2_5_instant", "moonshotai/kimi-k2.5:nitro"),
            ("minimax_m2_1_recommended", "minimax/minimax-m2.1:nitro"),
            ("qwen_recommended", "qwen/qwen3-next-80b-a3b-instruct:nitro"),
            ("smollm2_recommended", "smollm2-135m-instruct"),
            ("gemma_3_recommended", "gemma3-270m"),
        ] {
            assert!(applies(profile, model), "{profile} {model}");
        }
        for (profile, model) in [
            ("deepseek_v3_2_local_recommended", "deepseek/deepseek-chat-v3-0324:nitro"),
            ("gemini_2_5_flash_creative", "google/gemini-3-flash-preview:nitro"),
            ("glm_4_7_flash_tool_calling", "z-ai/glm-4.7:nitro"),
            ("glm_4_7_recommended", "z-ai/glm-4.7-flash"),
            ("minimax_m2_1_recommended", "minimax/minimax-m2-her"),
            ("qwen_recommended", "smollm2-135m-instruct"),
        ] {
            assert!(!applies(profile, model), "{profile} {model}");
        }
    }
}
