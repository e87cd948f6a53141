use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::scenarios::CONTROL;
use super::{Checks, EvalMode, EvalSettings, Exchange, Groups, Harness, Rate, Stats, Strategy, Trial};

/// Results for one combination of model, profile, strategy and mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Name of the model.
    pub model: String,
    /// Name of the sampling profile.
    pub profile: String,
    /// Strategy of the trials.
    pub strategy: Strategy,
    /// Mode in which directives are requested. `None` for tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<EvalMode>,
    /// Statistics of all trials except the control's.
    #[serde(flatten)]
    pub stats: Stats,
    /// True if the trials count for the other strategy as well, because no workaround applies.
    pub is_shared: bool,
    /// Statistics by name of the scenario, with the control.
    pub scenarios: Groups,
    /// Success rate of the control scenario, which has no tools. `None` if there are no such
    /// trials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<Rate>,
    /// Most frequent failures with their numbers: first up to three scenarios, then up to three
    /// categories of failures.
    pub top_failures: Vec<(String, usize)>,
}

/// Results of an evaluation, which may be incomplete.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Settings of the evaluation.
    pub settings: EvalSettings,
    /// Number of planned trials, completed or not.
    pub planned: usize,
    /// Statistics of all completed trials.
    pub overall: Stats,
    /// Statistics of all trials except the control's. `None` for directives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_scenarios: Option<Stats>,
    /// Statistics by name of the scenario.
    pub by_scenario: Groups,
    /// Statistics by the mode that was asked for, for directives only. The checks include the answers
    /// to all requests of the trials.
    #[serde(skip_serializing_if = "Groups::is_empty")]
    pub by_mode: Groups,
    /// Statistics by the mode of the answer, for directives in the mode [`EvalMode::Ladder`] only.
    ///
    /// A trial belongs to the mode of the answer that counted. Trials without an answer belong to
    /// `none`. The number of requests and the checks include all requests in the mode.
    #[serde(skip_serializing_if = "Groups::is_empty")]
    pub by_answered_mode: Groups,
    /// Statistics by name of the strategy. Trials that are the same with both strategies count for
    /// both.
    pub by_strategy: Groups,
    /// Models whose trials ran once for both strategies, because no workaround applies. With several
    /// modes, each entry has the mode as well.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub run_once: Vec<String>,
    /// Statistics by name of the sampling profile.
    pub by_profile: Groups,
    /// Statistics by name of the model.
    pub by_model: Groups,
    /// Results for each combination of model, profile, strategy and mode that has trials.
    pub matrix: Vec<Row>,
}

/// Maximum number of scenarios, and of categories, in a list of top failures.
const TOP: usize = 3;

impl Summary {
    /// Computes the results of completed trials. The order of `trials` does not matter.
    pub fn of(settings: &EvalSettings, trials: &[Trial]) -> Self {
        // Sorting by key makes the result independent of the order in which trials ended.
        let mut sorted: Vec<&Trial> = trials.iter().collect();
        sorted.sort_by(|one, other| one.key.cmp(&other.key));
        let names = |names: Vec<&str>| -> Vec<String> {
            let mut unique = Vec::new();
            for name in names.into_iter().map(str::to_owned) {
                if !unique.contains(&name) {
                    unique.push(name);
                }
            }
            unique
        };
        let profiles = settings.models.iter().flat_map(|model| &model.profiles);
        let profiles = names(profiles.map(|profile| profile.name.as_str()).collect());
        let models = names(settings.models.iter().map(|model| model.name.as_str()).collect());
        let modes = names(settings.modes.iter().map(|mode| mode.name()).collect());
        let strategies = names(settings.strategies.iter().map(|strategy| strategy.name()).collect());
        let counts = |trial: &Trial, name: &str| {
            let strategy = settings.strategies.iter().find(|strategy| strategy.name() == name);
            strategy.is_some_and(|&strategy| settings.counts_for(&trial.key, strategy))
        };
        let is_tools = settings.harness == Harness::Tools;
        let tools = || Stats::of(sorted.iter().copied().filter(|trial| trial.key.scenario != CONTROL));
        Self {
            settings: settings.clone(),
            planned: settings.plan().len(),
            overall: Stats::of(sorted.iter().copied()),
            tool_scenarios: is_tools.then(tools),
            by_scenario: by_scenario(settings, &sorted),
            by_mode: Groups::of(&sorted, &modes, |trial, name| {
                trial.key.mode.is_some_and(|mode| mode.name() == name)
            }),
            by_answered_mode: by_answered_mode(&sorted),
            by_strategy: Groups::of(&sorted, &strategies, counts),
            run_once: run_once(settings),
            by_profile: Groups::of(&sorted, &profiles, |trial, name| trial.key.profile == name),
            by_model: Groups::of(&sorted, &models, |trial, name| trial.key.model == name),
            matrix: matrix(settings, &sorted),
        }
    }

    /// Returns statistics by scenario, as a JSON object. For each scenario, `overall` contains the
    /// statistics of all its trials. `rows` contains the statistics of each combination of model,
    /// profile, strategy and mode.
    pub fn by_scenario(settings: &EvalSettings, trials: &[Trial]) -> Value {
        let cells = settings.scenarios.iter().map(|scenario| {
            let of: Vec<&Trial> = trials.iter().filter(|trial| trial.key.scenario == *scenario).collect();
            let rows = rows(settings, &of);
            (scenario.clone(), json!({ "overall": Stats::of(of.iter().copied()), "rows": rows }))
        });
        cells.collect::<serde_json::Map<_, _>>().into()
    }

    /// Returns statistics by scenario and then by strategy, as nested JSON objects. Trials that are the
    /// same with both strategies count for both. Returns `None` if the settings have a single
    /// strategy.
    pub fn by_scenario_and_strategy(settings: &EvalSettings, trials: &[Trial]) -> Option<Value> {
        if settings.strategies.len() < 2 {
            return None;
        }
        let cells = settings.scenarios.iter().map(|scenario| {
            let of = |strategy: &Strategy| {
                let of = trials.iter().filter(|trial| {
                    trial.key.scenario == *scenario && settings.counts_for(&trial.key, *strategy)
                });
                (strategy.name().to_owned(), json!(Stats::of(of)))
            };
            let strategies: serde_json::Map<_, _> = settings.strategies.iter().map(of).collect();
            (scenario.clone(), Value::from(strategies))
        });
        Some(Value::from(cells.collect::<serde_json::Map<_, _>>()))
    }
}

fn by_scenario(settings: &EvalSettings, trials: &[&Trial]) -> Groups {
    Groups::of(trials, &settings.scenarios, |trial, name| trial.key.scenario == name)
}

fn run_once(settings: &EvalSettings) -> Vec<String> {
    let modes = settings.all_modes();
    let models = settings.models.iter().flat_map(|model| modes.iter().map(move |&mode| (model, mode)));
    let shared = models.filter(|&(model, mode)| settings.is_shared(model, mode));
    let named = shared.map(|(model, mode)| match mode.filter(|_| modes.len() > 1) {
        Some(mode) => format!("{} in {}", model.name, mode.name()),
        None => model.name.clone(),
    });
    named.collect()
}

fn by_answered_mode(trials: &[&Trial]) -> Groups {
    let trials: Vec<&Trial> =
        trials.iter().copied().filter(|trial| trial.key.mode == Some(EvalMode::Ladder)).collect();
    let modes = [EvalMode::JsonSchema, EvalMode::JsonObject, EvalMode::PromptOnly].map(Some);
    let group = |mode: Option<EvalMode>| {
        let of = trials.iter().copied().filter(|trial| trial.answered == mode);
        let mut stats = Stats::of(of);
        let in_mode = |exchange: &&Exchange| mode.is_some() && exchange.mode == mode;
        let exchanges: Vec<_> = trials.iter().flat_map(|trial| &trial.exchanges).filter(in_mode).collect();
        stats.requests = exchanges.len();
        stats.checks = Checks::default();
        for exchange in exchanges {
            stats.checks.merge(&exchange.checks);
        }
        (mode.map_or("none", EvalMode::name).to_owned(), stats)
    };
    let groups = modes.into_iter().chain([None]).map(group);
    Groups(groups.filter(|(_, stats)| stats.trials() + stats.requests > 0).collect())
}

/// Combination of model, profile, strategy and mode.
type Cell<'a> = (&'a str, &'a str, Strategy, Option<EvalMode>);

fn cell(trial: &Trial) -> Cell<'_> {
    (&trial.key.model, &trial.key.profile, trial.key.strategy, trial.key.mode)
}

/// Groups trials by combination, in the order of the plan. Combinations without trials are omitted.
fn cells<'a>(settings: &'a EvalSettings, trials: &[&'a Trial]) -> Vec<(Cell<'a>, Vec<&'a Trial>)> {
    let modes = settings.all_modes();
    let mut cells = Vec::new();
    for (model, profile) in
        settings.models.iter().flat_map(|model| model.profiles.iter().map(move |of| (model, of)))
    {
        for (&strategy, &mode) in
            settings.strategies.iter().flat_map(|of| modes.iter().map(move |mode| (of, mode)))
        {
            let wanted: Cell<'a> = (&model.name, &profile.name, strategy, mode);
            let of: Vec<_> = trials.iter().copied().filter(|trial| cell(trial) == wanted).collect();
            if !of.is_empty() {
                cells.push((wanted, of));
            }
        }
    }
    cells
}

fn matrix(settings: &EvalSettings, trials: &[&Trial]) -> Vec<Row> {
    let row = |((model, profile, strategy, mode), trials): (Cell<'_>, Vec<&Trial>)| {
        let scenarios = by_scenario(settings, &trials);
        let is_shared = trials.first().is_some_and(|trial| {
            settings.models.iter().any(|of| of.name == model && settings.is_shared(of, trial.key.mode))
        });
        let (control, others): (Vec<&Trial>, Vec<_>) =
            trials.into_iter().partition(|trial| trial.key.scenario == CONTROL);
        let stats = Stats::of(others.iter().copied());
        Row {
            model: model.to_owned(),
            profile: profile.to_owned(),
            strategy,
            mode,
            is_shared,
            scenarios,
            control: (!control.is_empty()).then(|| Stats::of(control).runs),
            top_failures: top_failures(&others),
            stats,
        }
    };
    cells(settings, trials).into_iter().map(row).collect()
}

fn rows(settings: &EvalSettings, trials: &[&Trial]) -> Vec<Value> {
    let row = |((model, profile, strategy, mode), trials): (Cell<'_>, Vec<&Trial>)| {
        let mut row = json!(Stats::of(trials));
        row["model"] = model.into();
        row["profile"] = profile.into();
        row["strategy"] = strategy.name().into();
        if let Some(mode) = mode {
            row["mode"] = mode.name().into();
        }
        row
    };
    cells(settings, trials).into_iter().map(row).collect()
}

/// Returns the scenarios with the most failures, followed by the categories with the most failures,
/// each with their numbers.
fn top_failures(trials: &[&Trial]) -> Vec<(String, usize)> {
    let most = |name: &dyn Fn(&Trial) -> Option<String>| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for name in trials.iter().filter_map(|trial| name(trial)) {
            *counts.entry(name).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts.truncate(TOP);
        counts
    };
    let mut top = most(&|trial| trial.failure.as_ref().map(|_| trial.key.scenario.clone()));
    top.extend(most(&|trial| trial.failure.as_ref().map(|failure| failure.category.clone())));
    top
}
