use serde::{Deserialize, Serialize};

use super::{EvalMode, Harness, Strategy, TrialKey};
use formwork_backend::Body;
use formwork_protocol::catalogue::Workaround;
use formwork_protocol::sampling::Sampling;

/// Version of the scenarios and of the written files. An evaluation cannot be resumed by a program
/// with another version.
pub const EVAL_VERSION: u32 = 2;

/// Settings that define the trials of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalSettings {
    /// Version of the settings. Must be [`EVAL_VERSION`].
    pub version: u32,
    /// Protocol to evaluate.
    pub harness: Harness,
    /// Models to evaluate.
    pub models: Vec<EvalModel>,
    /// Names of the scenarios to run.
    pub scenarios: Vec<String>,
    /// Modes in which directives are requested. Ignored for tools.
    pub modes: Vec<EvalMode>,
    /// Strategies to compare, with or without the workarounds of models.
    pub strategies: Vec<Strategy>,
    /// Number of trials for each combination of scenario, model, profile, strategy and mode. These
    /// trials differ only in their seeds.
    pub trials: u32,
    /// Base seed, from which the seed of each trial is derived. If `None`, requests have no seed.
    pub seed: Option<u64>,
    /// Maximum number of tokens in an answer. If `None`, requests have no such limit.
    pub max_tokens: Option<u32>,
    /// Fields that are added to all requests. They override the defaults of a model.
    pub defaults: Body,
    /// Sampling values that replace the values of every profile.
    pub overrides: Sampling,
    /// True if the model is asked to repair an envelope whose directives do not match the request.
    pub semantic_repair: bool,
    /// True if the request requires exactly one directive, of the type that the scenario asks for. A
    /// backend that enforces schemas then always writes the directive.
    #[serde(default)]
    pub require: bool,
}

/// Model to evaluate, with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalModel {
    /// Name of the model in results. Must be unique.
    pub name: String,
    /// Name of the model in requests.
    pub id: String,
    /// Label of the backend, shown in the report.
    pub backend: String,
    /// Provider whose default settings apply. If `None`, no provider's settings apply.
    pub provider: Option<String>,
    /// Known workarounds for the model, which only [`Strategy::Production`] applies.
    pub workarounds: Vec<Workaround>,
    /// Fields that are added to all requests to this model.
    pub defaults: Body,
    /// Sampling profiles to evaluate.
    pub profiles: Vec<EvalProfile>,
}

/// A named set of sampling values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalProfile {
    /// Name of the profile.
    pub name: String,
    /// Sampling values of the profile.
    pub sampling: Sampling,
}

impl EvalModel {
    /// Creates a model without provider, workarounds and default fields. `id` is its name in
    /// results too.
    pub fn new(id: impl Into<String>, backend: impl Into<String>, profiles: Vec<EvalProfile>) -> Self {
        let id = id.into();
        Self {
            name: id.clone(),
            id,
            backend: backend.into(),
            provider: None,
            workarounds: Vec::new(),
            defaults: Body::new(),
            profiles,
        }
    }
}

impl EvalSettings {
    /// Creates settings without models and scenarios. The strategy is [`Strategy::Production`], and
    /// each combination has a single trial.
    pub fn new(harness: Harness) -> Self {
        Self {
            version: EVAL_VERSION,
            harness,
            models: Vec::new(),
            scenarios: Vec::new(),
            modes: if harness == Harness::Directives { vec![EvalMode::Ladder] } else { Vec::new() },
            strategies: vec![Strategy::Production],
            trials: 1,
            seed: Some(0),
            max_tokens: None,
            defaults: Body::new(),
            overrides: Sampling::default(),
            semantic_repair: false,
            require: false,
        }
    }

    /// Reports whether baseline and production are the same for `model` in `mode`, although both are
    /// evaluated: no workaround of the model applies. Such trials run once, with the strategy
    /// [`Strategy::Production`], and count for both strategies.
    pub fn is_shared(&self, model: &EvalModel, mode: Option<EvalMode>) -> bool {
        let is_both =
            [Strategy::Baseline, Strategy::Production].iter().all(|of| self.strategies.contains(of));
        let applies = |workaround: &Workaround| match self.harness {
            Harness::Directives => *workaround == Workaround::PromptOnly && mode == Some(EvalMode::Ladder),
            Harness::Tools => *workaround != Workaround::PromptOnly,
        };
        is_both && !model.workarounds.iter().any(applies)
    }

    /// Reports whether a trial counts for `strategy`.
    pub(super) fn counts_for(&self, key: &TrialKey, strategy: Strategy) -> bool {
        let model = || self.models.iter().find(|model| model.name == key.model);
        key.strategy == strategy || model().is_some_and(|model| self.is_shared(model, key.mode))
    }

    /// Returns the modes of all trials: a single `None` for tools.
    pub(super) fn all_modes(&self) -> Vec<Option<EvalMode>> {
        match self.harness {
            Harness::Directives => self.modes.iter().copied().map(Some).collect(),
            Harness::Tools => vec![None],
        }
    }

    /// Returns the keys of all trials, in the order in which they start.
    pub fn plan(&self) -> Vec<TrialKey> {
        let modes = self.all_modes();
        let mut plan = Vec::new();
        for (model, profile) in
            self.models.iter().flat_map(|model| model.profiles.iter().map(move |of| (model, of)))
        {
            let strategies = self.strategies.iter().flat_map(|of| modes.iter().map(move |mode| (of, mode)));
            for (&strategy, &mode) in strategies {
                if strategy == Strategy::Baseline && self.is_shared(model, mode) {
                    continue;
                }
                for scenario in &self.scenarios {
                    plan.extend((0..self.trials).map(|trial| TrialKey {
                        model: model.name.clone(),
                        profile: profile.name.clone(),
                        strategy,
                        mode,
                        scenario: scenario.clone(),
                        trial,
                    }));
                }
            }
        }
        plan
    }

    /// Returns the seed of a trial: a hash of the base seed, the scenario and the index of the trial.
    /// Models, profiles, strategies and modes are therefore compared with the same seeds, and the
    /// order of trials does not matter. The seed is below 2^31, which is the limit of some providers.
    pub fn seed_of(&self, key: &TrialKey) -> u64 {
        seed_of(self.seed.unwrap_or_default(), &key.scenario, key.trial)
    }

    /// Returns the name of the first field whose value differs in `other`. Returns `None` if the
    /// settings are equal.
    pub fn difference(&self, other: &Self) -> Option<String> {
        difference(self, other)
    }

    /// Returns the model and the profile that a key names. Returns `None` if the settings lack one
    /// of them.
    pub(super) fn subject(&self, key: &TrialKey) -> Option<(&EvalModel, &EvalProfile)> {
        let model = self.models.iter().find(|model| model.name == key.model)?;
        Some((model, model.profiles.iter().find(|profile| profile.name == key.profile)?))
    }

    /// Returns the fields that are added to the requests of a trial. They come from the following
    /// sources. If a field occurs more than once, the last one applies.
    ///
    /// 1. The defaults of the model.
    /// 2. The defaults of the settings.
    /// 3. The sampling values of the profile, then the overrides.
    /// 4. The token limit and the seed.
    pub(super) fn options(&self, model: &EvalModel, profile: &EvalProfile, key: &TrialKey) -> Body {
        let seed = self.seed.map(|_| self.seed_of(key));
        let numbers = [("max_tokens", self.max_tokens.map(u64::from)), ("seed", seed)];
        request_options(model, &self.defaults, profile, self.overrides, numbers)
    }
}

/// Returns the name of the first field whose value differs in two settings. Returns `None` if they
/// are equal.
pub(super) fn difference<S: Serialize>(one: &S, other: &S) -> Option<String> {
    let fields = |settings| match serde_json::to_value(settings) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => Body::new(),
    };
    let (ours, theirs) = (fields(one), fields(other));
    ours.into_iter().find(|(name, value)| theirs.get(name) != Some(value)).map(|(name, _)| name)
}

/// Returns the fields that are added to the requests of a trial, in the order of precedence that
/// [`EvalSettings::options`] describes. `numbers` are the token limit and the seed, as far as they are
/// sent.
pub(super) fn request_options(
    model: &EvalModel,
    defaults: &Body,
    profile: &EvalProfile,
    overrides: Sampling,
    numbers: [(&str, Option<u64>); 2],
) -> Body {
    let mut options = model.defaults.clone();
    options.extend(defaults.clone());
    options.extend(profile.sampling.overridden_by(overrides).options());
    let given = numbers
        .into_iter()
        .filter_map(|(name, number)| Some((name.to_owned(), serde_json::Value::from(number?))));
    options.extend(given);
    options
}

/// Hashes a base seed, a name and the index of a trial to a seed below 2^31.
pub(super) fn seed_of(base: u64, name: &str, trial: u32) -> u64 {
    // FNV-1a, then one round of splitmix64, so that similar names give very different seeds.
    let text = format!("{base} {name} #{trial}");
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(hash) & 0x7fff_ffff
}

/// Mixes the bits of a number by the output function of splitmix64.
pub(super) const fn mix(bits: u64) -> u64 {
    let mixed = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    fn settings() -> EvalSettings {
        let profile = |name: &str, temperature| EvalProfile {
            name: name.to_owned(),
            sampling: Sampling { temperature, top_k: Some(7), ..Sampling::default() },
        };
        let profiles = || vec![profile("default", None), profile("hot", Some(1.5))];
        let model = |name: &str| EvalModel {
            defaults: json!({ "temperature": 0.1, "user": "u" }).as_object().cloned().expect("an object"),
            ..EvalModel::new(name, "script", profiles())
        };
        EvalSettings {
            models: vec![model("a"), model("b")],
            scenarios: vec!["show_form".to_owned(), "toast".to_owned()],
            modes: vec![EvalMode::JsonSchema, EvalMode::PromptOnly],
            strategies: vec![Strategy::Baseline, Strategy::Production],
            trials: 3,
            seed: Some(1),
            ..EvalSettings::new(Harness::Directives)
        }
    }

    #[test]
    fn plans_each_trial_once() {
        let settings = settings();
        let plan = settings.plan();
        assert_eq!(plan.len(), 2 * 2 * 2 * 2 * 3, "no workaround applies to an explicit mode");
        assert_eq!(plan.iter().collect::<BTreeSet<_>>().len(), plan.len());
        assert!(plan.iter().all(|key| key.strategy == Strategy::Production));
        let tools = EvalSettings { harness: Harness::Tools, ..settings };
        assert_eq!(tools.plan().len(), plan.len() / 2, "tools have no modes");
    }

    #[test]
    fn only_a_model_with_workarounds_runs_with_both_strategies() {
        for (harness, mode, workaround, applies) in [
            (Harness::Tools, None, Workaround::ContentTagToolCallFallback, true),
            (Harness::Tools, None, Workaround::ToolUseDisabled, true),
            (Harness::Tools, None, Workaround::PromptOnly, false),
            (Harness::Directives, Some(EvalMode::Ladder), Workaround::PromptOnly, true),
            (Harness::Directives, Some(EvalMode::JsonSchema), Workaround::PromptOnly, false),
            (Harness::Directives, Some(EvalMode::Ladder), Workaround::ToolUseDisabled, false),
        ] {
            let mut settings = EvalSettings { harness, modes: mode.into_iter().collect(), ..settings() };
            settings.models[1].workarounds = vec![workaround];
            let count = |settings: &EvalSettings, model: &str, strategy: Strategy| {
                settings.plan().iter().filter(|key| key.model == model && key.strategy == strategy).count()
            };
            let both = |settings: &EvalSettings, model: &str| {
                (count(settings, model, Strategy::Baseline), count(settings, model, Strategy::Production))
            };
            assert_eq!(both(&settings, "a"), (0, 12), "{workaround:?}");
            assert_eq!(both(&settings, "b"), (if applies { 12 } else { 0 }, 12), "{workaround:?} {mode:?}");
            settings.strategies = vec![Strategy::Baseline];
            assert_eq!(both(&settings, "a"), (12, 0), "a single strategy is not shared");
        }
    }

    #[test]
    fn strategies_modes_profiles_and_models_share_the_seeds_of_a_scenario() {
        let mut settings = EvalSettings { modes: vec![EvalMode::Ladder, EvalMode::JsonSchema], ..settings() };
        settings.models[0].workarounds = vec![Workaround::PromptOnly];
        let mut seeds: std::collections::BTreeMap<_, BTreeSet<u64>> = std::collections::BTreeMap::new();
        for key in settings.plan() {
            seeds.entry((key.scenario.clone(), key.trial)).or_default().insert(settings.seed_of(&key));
        }
        assert_eq!(seeds.len(), 2 * 3);
        assert!(seeds.values().all(|of| of.len() == 1), "{seeds:?}");
        let all: BTreeSet<u64> = seeds.values().flatten().copied().collect();
        assert_eq!(all.len(), 2 * 3, "scenarios and trials differ");
        assert!(all.iter().all(|&seed| seed < 1 << 31));
        let other = EvalSettings { seed: Some(2), ..settings.clone() };
        assert!(settings.plan().iter().all(|key| settings.seed_of(key) != other.seed_of(key)));
    }

    #[test]
    fn more_specific_options_take_precedence() {
        let settings = EvalSettings {
            defaults: json!({ "user": "v", "top_k": 1 }).as_object().cloned().expect("an object"),
            overrides: Sampling { top_p: Some(0.5), ..Sampling::default() },
            max_tokens: Some(9),
            ..settings()
        };
        let plan = settings.plan();
        let key = plan.iter().find(|key| key.profile == "hot").expect("a key");
        let (model, profile) = settings.subject(key).expect("a subject");
        let seed = settings.seed_of(key);
        let options = settings.options(model, profile, key);
        let expected = json!({ "temperature": 1.5, "user": "v", "top_k": 7, "top_p": 0.5, "max_tokens": 9, "seed": seed });
        assert_eq!(serde_json::Value::from(options), expected);
        let (model, profile) = settings.subject(&plan[0]).expect("a subject");
        assert_eq!(settings.options(model, profile, &plan[0])["temperature"], 0.1);
    }

    #[test]
    fn names_the_first_difference() {
        let one = settings();
        assert_eq!(one.difference(&one.clone()), None);
        assert_eq!(one.difference(&EvalSettings { trials: 4, ..one.clone() }).as_deref(), Some("trials"));
        let mut other = one.clone();
        other.models[0].profiles[0].sampling.top_k = None;
        assert_eq!(one.difference(&other).as_deref(), Some("models"));
    }
}
