//! What to do, by rules on the counts. Thresholds are low: this is advice for a person, who sees the figures beside it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Bucket, Health, Named, Tally};

/// Fewer cases than this are no reason for advice on a stage or a trend.
const FEW: u64 = 3;
/// Coercions in 100 runs from which on outputs should be constrained.
const OFTEN: f64 = 10.0;
/// The share of failures from which on they are worth a look.
const FAILING: f64 = 0.2;
/// The share of a stage among all coercions from which on there is advice for it.
const MUCH: f64 = 0.3;
/// A rate that has grown by this factor rises.
const RISING: f64 = 1.25;

/// What advice rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Advice {
    /// All that was looked at.
    Basic,
    /// The step or the model that needs most help.
    Targeted,
    /// The stages that help most.
    Stage,
    /// What has come to need more help.
    Trend,
}

/// What to do, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recommendation {
    /// What it rests on.
    pub kind: Advice,
    /// The step that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The model that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The stage that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stage: Option<String>,
    /// The advice in words.
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

/// What the counts suggest; never nothing.
pub(super) fn recommend(health: &Health) -> Vec<Recommendation> {
    let mut all = basic(health);
    all.extend(targeted(health));
    all.extend(stages(&health.overall));
    all.extend(trends(&health.trends, &health.overall));
    if all.is_empty() {
        let text = if health.overall == Tally::default() {
            "nothing was traced here: look at a longer time, or at more than these steps and models"
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
            "outputs needed help {rate:.0} times in 100 runs: constrain them while they are written \
             (`structured_output: auto`), or say more of their form in prompts"
        ));
    }
    let tried = overall.coercions.successes + overall.coercions.failures;
    if share(overall.coercions.failures, tried) >= FAILING {
        say(format!(
            "{} of {tried} tries to mend outputs failed: look at `error_preview` of `output.coercion.fail`, and \
             add a processor of your own, or adjust prompts",
            overall.coercions.failures
        ));
    }
    if overall.soe.skipped > 0 {
        say(format!(
            "structured output was skipped {} times: use models and servers that have it, or the engine in this process",
            overall.soe.skipped
        ));
    }
    if overall.precheck.failure_rate().is_some_and(|rate| rate >= FAILING) {
        let checks = overall.precheck.pass + overall.precheck.fail;
        say(format!(
            "{} of {checks} prechecks failed: put what they miss into contexts and prompts, or lower their threshold",
            overall.precheck.fail
        ));
    }
    all
}

fn targeted(health: &Health) -> Vec<Recommendation> {
    let mut all = Vec::new();
    if let Some(Named { name, tally }) = health.steps.first().filter(|step| needs_help(step)) {
        let text = format!(
            "step `{name}` needs most help, {}: set `structured_output` for it, or add a processor of your own",
            rate(tally)
        );
        all.push(Recommendation::new(Advice::Targeted, text).of_step(name));
    }
    if let Some(Named { name, tally }) = health.models.first().filter(|model| needs_help(model)) {
        let text = format!(
            "model `{name}` needs most help, {}: constrain it, or use another where it counts",
            rate(tally)
        );
        all.push(Recommendation::new(Advice::Targeted, text).of_model(name));
    }
    if let Some(skips) = health.soe_skips.iter().find(|skips| !skips.name.is_empty()) {
        let text = format!(
            "model `{}` had its structured output skipped {} times: its server does not have it, or is not known to",
            skips.name, skips.count
        );
        all.push(Recommendation::new(Advice::Targeted, text).of_model(&skips.name));
    }
    let checked = |step: &&Named| step.tally.precheck.failure_rate().is_some_and(|rate| rate >= FAILING);
    let worst = health.steps.iter().filter(checked).max_by_key(|step| step.tally.precheck.fail);
    if let Some(Named { name, tally }) = worst {
        let text = format!(
            "step `{name}` fails {:.0}% of its prechecks: look at what they say is missing",
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
        Some(rate) => format!("{rate:.0} coercions in 100 runs"),
        None => format!("{} coercions", tally.coercions.successes),
    }
}

/// Advice for the stages that do much of the work.
fn stages(overall: &Tally) -> Vec<Recommendation> {
    let all = overall.stages.values().map(|coercions| coercions.successes).sum();
    let much = overall
        .stages
        .iter()
        .filter(|(_, coercions)| coercions.successes >= FEW && share(coercions.successes, all) >= MUCH);
    much.map(|(stage, coercions)| {
        let advice = match stage.as_str() {
            "extract" => {
                "text or fences stand around JSON: ask for JSON alone, or constrain outputs while they are written"
            }
            "tolerant" => {
                "outputs are almost JSON (comments, single quotes, trailing commas): give an example in strict JSON, \
                 or constrain outputs"
            }
            "syntactic" => "outputs are broken JSON: constrain them, and see whether they are cut off",
            "semantic" => {
                "values have other types than the schema says: name types in prompts, or enforce the schema while \
                 outputs are written"
            }
            _ => "a processor of your own does much of the work: see whether the prompt can ask for what it makes",
        };
        let text = format!("{} of {all} coercions are of stage `{stage}`: {advice}", coercions.successes);
        Recommendation::new(Advice::Stage, text).of_stage(stage)
    })
    .collect()
}

/// What rises most from the first half of the buckets to the last.
fn trends(buckets: &[Bucket], overall: &Tally) -> Vec<Recommendation> {
    let stages = || overall.stages.keys();
    let half = buckets.len() / 2;
    let (early, late) = (&buckets[..half], &buckets[buckets.len() - half..]);
    let mut all = Vec::new();
    if let Some((step, rise)) =
        steepest(&of_names(early, |bucket| &bucket.steps), &of_names(late, |bucket| &bucket.steps))
    {
        let text = format!("step `{step}` needs more and more help, {rise}: see what has changed in it");
        all.push(Recommendation::new(Advice::Trend, text).of_step(&step));
    }
    if let Some((model, rise)) =
        steepest(&of_names(early, |bucket| &bucket.models), &of_names(late, |bucket| &bucket.models))
    {
        let text =
            format!("model `{model}` needs more and more help, {rise}: see whether another serves better");
        all.push(Recommendation::new(Advice::Trend, text).of_model(&model));
    }
    if let Some((stage, rise)) = steepest(&of_stages(early, stages()), &of_stages(late, stages())) {
        let text = format!("stage `{stage}` helps more and more, {rise}: see what has changed in outputs");
        all.push(Recommendation::new(Advice::Trend, text).of_stage(&stage));
    }
    all
}

/// Coercions and runs.
type Rates = BTreeMap<String, (u64, u64)>;

fn of_names(buckets: &[Bucket], names: impl Fn(&Bucket) -> &BTreeMap<String, Tally>) -> Rates {
    let mut rates = Rates::new();
    for (name, tally) in buckets.iter().flat_map(&names) {
        let rate = rates.entry(name.clone()).or_default();
        *rate = (rate.0 + tally.coercions.successes, rate.1 + tally.runs);
    }
    rates
}

/// All stages have the runs of all steps.
fn of_stages<'a>(buckets: &[Bucket], stages: impl Iterator<Item = &'a String>) -> Rates {
    let runs = buckets.iter().map(|bucket| bucket.tally.runs).sum();
    let of = |stage: &String| {
        let coercions = buckets.iter().filter_map(|bucket| bucket.tally.stages.get(stage));
        coercions.map(|coercions| coercions.successes).sum()
    };
    stages.map(|stage| (stage.clone(), (of(stage), runs))).collect()
}

/// What rises most in coercions per run, and how. What did not run before has not risen.
fn steepest(early: &Rates, late: &Rates) -> Option<(String, String)> {
    let rises = late.iter().filter_map(|(name, &(after, late_runs))| {
        let &(before, runs) = early.get(name)?;
        let per_100 = |count: u64, runs: u64| count as f64 * 100.0 / runs as f64;
        let (was, is) = (per_100(before, runs), per_100(after, late_runs));
        let rises = runs > 0 && late_runs > 0 && after >= before + FEW && is >= was * RISING;
        rises.then(|| (is - was, name, format!("from {was:.0} to {is:.0} coercions in 100 runs")))
    });
    let (_, name, rise) = rises.max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some((name.clone(), rise))
}

/// Some of all; 0 of none.
fn share(some: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { some as f64 / all as f64 }
}
