//! Rules that derive recommendations from the counts of a report.
//!
//! The thresholds are low, because a person reads the recommendations next to the counts.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Bucket, Health, Named, Tally};

/// Minimum number of coercions for a recommendation about a stage, and minimum increase of
/// coercions for one about a trend.
const FEW: u64 = 3;
/// Minimum number of coercions per 100 runs for recommending constraints.
const OFTEN: f64 = 10.0;
/// Minimum share of failures for a recommendation about failures, from 0 to 1.
const FAILING: f64 = 0.2;
/// Minimum share of a stage among all coercions for a recommendation about the stage, from 0 to 1.
const MUCH: f64 = 0.3;
/// Minimum ratio of the later to the earlier rate for a recommendation about a trend.
const RISING: f64 = 1.25;

/// Basis of a recommendation, from which its step, model or stage follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// Counts over all selected records.
    Basic,
    /// Counts of the step or model that needs the most corrections.
    Targeted,
    /// Counts of the stages that make the most corrections.
    Stage,
    /// Rising rate of corrections of a step, model or stage.
    Trend,
}

/// Recommended action with its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recommendation {
    /// Basis of the recommendation.
    pub kind: Advice,
    /// Name of the step that the recommendation concerns. `None` if it does not concern a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Name of the model that the recommendation concerns. `None` if it does not concern a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Name of the stage that the recommendation concerns. `None` if it does not concern a stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// Recommended action and its reason, in English.
    pub text: String,
}

impl Recommendation {
    fn new(kind: Advice, text: String) -> Self {
        Self { kind, step: None, model: None, stage: None, text }
    }

    fn of_step(self, step: &str) -> Self {
        Self { step: Some(step.to_owned()), ..self }
    }

    fn of_model(self, model: &str) -> Self {
        Self { model: Some(model.to_owned()), ..self }
    }

    fn of_stage(self, stage: &str) -> Self {
        Self { stage: Some(stage.to_owned()), ..self }
    }
}

/// Returns the recommendations for a report. There is always at least one.
pub(super) fn recommend(health: &Health) -> Vec<Recommendation> {
    let mut all = basic(health);
    all.extend(targeted(health));
    all.extend(stages(&health.overall));
    all.extend(trends(&health.trends, &health.overall));
    if all.is_empty() {
        let text = if health.overall == Tally::default() {
            "no records match: use a longer window, or fewer filters for steps and models"
        } else {
            "nothing to do"
        };
        all.push(Recommendation::new(Advice::Basic, text.to_owned()));
    }
    all
}

fn basic(health: &Health) -> Vec<Recommendation> {
    let (overall, mut all) = (&health.overall, Vec::new());
    let mut say = |text| all.push(Recommendation::new(Advice::Basic, text));
    if let Some(rate) = overall.per_100_runs().filter(|&rate| rate >= OFTEN) {
        say(format!(
            "{rate:.0} corrections per 100 runs: constrain outputs during decoding (`structured_output: auto`), \
             or describe their form in prompts"
        ));
    }
    let tried = overall.coercions.successes + overall.coercions.failures;
    if share(overall.coercions.failures, tried) >= FAILING {
        say(format!(
            "{} of {tried} attempts to correct outputs failed: check `error_preview` of `output.coercion.fail`, \
             and add a custom processor or adjust prompts",
            overall.coercions.failures
        ));
    }
    if share(overall.failed_runs, overall.runs) >= FAILING {
        say(format!(
            "{} of {} runs failed: check `errors` of `step.fail`, allow more retries or repairs, and keep the texts \
             with `step run --keep-failures`",
            overall.failed_runs, overall.runs
        ));
    }
    if overall.soe.skipped > 0 {
        say(format!(
            "structured output was skipped {}: use models and servers that support it, or the local engine",
            times(overall.soe.skipped)
        ));
    }
    if overall.precheck.failure_rate().is_some_and(|rate| rate >= FAILING) {
        let checks = overall.precheck.pass + overall.precheck.fail;
        say(format!(
            "{} of {checks} prechecks failed: add the missing information to contexts and prompts, or lower the threshold",
            overall.precheck.fail
        ));
    }
    all
}

fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn targeted(health: &Health) -> Vec<Recommendation> {
    let mut all = Vec::new();
    if let Some(Named { name, tally }) = health.steps.first().filter(|step| needs_help(step)) {
        let text = format!(
            "step `{name}` needs the most corrections, {}: set `structured_output` for it, or add a custom processor",
            rate(tally)
        );
        all.push(Recommendation::new(Advice::Targeted, text).of_step(name));
    }
    if let Some(Named { name, tally }) = health.models.first().filter(|model| needs_help(model)) {
        let text = format!(
            "model `{name}` needs the most corrections, {}: constrain its outputs, or use another model",
            rate(tally)
        );
        all.push(Recommendation::new(Advice::Targeted, text).of_model(name));
    }
    if let Some(skips) = health.soe_skips.iter().find(|skips| !skips.name.is_empty()) {
        let text = format!(
            "structured output of model `{}` was skipped {}: its server does not support it, or the support is unknown",
            skips.name,
            times(skips.count)
        );
        all.push(Recommendation::new(Advice::Targeted, text).of_model(&skips.name));
    }
    let checked = |step: &&Named| step.tally.precheck.failure_rate().is_some_and(|rate| rate >= FAILING);
    let worst = health.steps.iter().filter(checked).max_by_key(|step| step.tally.precheck.fail);
    if let Some(Named { name, tally }) = worst {
        let text = format!(
            "step `{name}` fails {:.0}% of its prechecks: check which information their feedback requests",
            tally.precheck.failure_rate().unwrap_or_default() * 100.0
        );
        all.push(Recommendation::new(Advice::Targeted, text).of_step(name));
    }
    all
}

fn needs_help(named: &Named) -> bool {
    named.tally.coercions.successes > 0
}

fn rate(tally: &Tally) -> String {
    match tally.per_100_runs() {
        Some(rate) => format!("{rate:.0} coercions per 100 runs"),
        None => format!("{} coercions", tally.coercions.successes),
    }
}

/// Returns a recommendation for each stage that makes a large share of all coercions.
fn stages(overall: &Tally) -> Vec<Recommendation> {
    let all = overall.stages.values().map(|coercions| coercions.successes).sum();
    let much = overall
        .stages
        .iter()
        .filter(|(_, coercions)| coercions.successes >= FEW && share(coercions.successes, all) >= MUCH);
    much.map(|(stage, coercions)| {
        let advice = match stage.as_str() {
            "extract" => {
                "text or fences surround the JSON: request JSON alone, or constrain outputs during decoding"
            }
            "tolerant" => {
                "outputs are almost JSON (comments, single quotes, trailing commas): give an example in strict JSON, \
                 or constrain outputs"
            }
            "syntactic" => "outputs are broken JSON: constrain them, and check whether they are cut off",
            "semantic" => {
                "values have other types than the schema requires: name the types in prompts, or enforce the schema \
                 during decoding"
            }
            _ => "a custom processor does much of the work: check whether the prompt can request its result",
        };
        let text = format!("{} of {all} coercions happen in stage `{stage}`: {advice}", coercions.successes);
        Recommendation::new(Advice::Stage, text).of_stage(stage)
    })
    .collect()
}

/// Returns recommendations for the step, the model and the stage whose rates of coercions rise most.
/// The rates of the first half of the buckets are compared with those of the second half.
fn trends(buckets: &[Bucket], overall: &Tally) -> Vec<Recommendation> {
    let stages = || overall.stages.keys();
    let half = buckets.len() / 2;
    let (early, late) = (&buckets[..half], &buckets[buckets.len() - half..]);
    let mut all = Vec::new();
    if let Some((step, rise)) =
        steepest(&of_names(early, |bucket| &bucket.steps), &of_names(late, |bucket| &bucket.steps))
    {
        let text =
            format!("step `{step}` needs more corrections over time, {rise}: check what changed in it");
        all.push(Recommendation::new(Advice::Trend, text).of_step(&step));
    }
    if let Some((model, rise)) =
        steepest(&of_names(early, |bucket| &bucket.models), &of_names(late, |bucket| &bucket.models))
    {
        let text = format!(
            "model `{model}` needs more corrections over time, {rise}: check whether another model does better"
        );
        all.push(Recommendation::new(Advice::Trend, text).of_model(&model));
    }
    if let Some((stage, rise)) = steepest(&of_stages(early, stages()), &of_stages(late, stages())) {
        let text = format!(
            "stage `{stage}` makes more corrections over time, {rise}: check what changed in outputs"
        );
        all.push(Recommendation::new(Advice::Trend, text).of_stage(&stage));
    }
    all
}

/// Number of coercions and number of runs, by name.
type Rates = BTreeMap<String, (u64, u64)>;

fn of_names(buckets: &[Bucket], names: impl Fn(&Bucket) -> &BTreeMap<String, Tally>) -> Rates {
    let mut rates = Rates::new();
    for (name, tally) in buckets.iter().flat_map(&names) {
        let rate = rates.entry(name.clone()).or_default();
        *rate = (rate.0 + tally.coercions.successes, rate.1 + tally.runs);
    }
    rates
}

/// Returns the rates of stages. Stages have no runs of their own, so the number of runs is that of
/// all steps.
fn of_stages<'a>(buckets: &[Bucket], stages: impl Iterator<Item = &'a String>) -> Rates {
    let runs = buckets.iter().map(|bucket| bucket.tally.runs).sum();
    let of = |stage: &String| {
        let coercions = buckets.iter().filter_map(|bucket| bucket.tally.stages.get(stage));
        coercions.map(|coercions| coercions.successes).sum()
    };
    stages.map(|stage| (stage.clone(), (of(stage), runs))).collect()
}

/// Returns the name with the largest rise in coercions per run, and a text that describes the rise.
/// Returns `None` if no rate rises enough. Names without runs in `early` are skipped.
fn steepest(early: &Rates, late: &Rates) -> Option<(String, String)> {
    let rises = late.iter().filter_map(|(name, &(after, late_runs))| {
        let &(before, runs) = early.get(name)?;
        let per_100 = |count: u64, runs: u64| count as f64 * 100.0 / runs as f64;
        let (was, is) = (per_100(before, runs), per_100(after, late_runs));
        let rises = runs > 0 && late_runs > 0 && after >= before + FEW && is >= was * RISING;
        rises.then(|| (is - was, name, format!("from {was:.0} to {is:.0} coercions per 100 runs")))
    });
    let (_, name, rise) = rises.max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some((name.clone(), rise))
}

/// Returns `some / all`, or 0 if `all` is 0.
fn share(some: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { some as f64 / all as f64 }
}
