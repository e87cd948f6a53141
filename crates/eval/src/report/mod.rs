//! The report of an evaluation, as a self-contained HTML file.
//!
//! The output of models is shown as text only. The template engine escapes it, and the content
//! security policy of the page forbids scripts and external resources.

mod structured;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment};
use serde::Serialize;
use serde_json::{Value, json};

use super::error::Kind;
use super::{Checks, EvalError, Exchange, Groups, Rate, Row, Stats, Summary, Trial};

pub use structured::structured_report;

const TEMPLATE: &str = include_str!("report.html");
const MACROS: &str = include_str!("macros.html");
const STYLE: &str = include_str!("page.css");
/// Maximum number of failed trials that are shown in detail. Further failed trials are only
/// counted.
const SHOWN: usize = 200;
/// Number of bars in a histogram.
const BARS: usize = 32;

/// Renders the report of an evaluation as HTML. The evaluation may be incomplete.
///
/// # Errors
/// Returns an error if the template fails. No summary is known to cause this.
pub fn report(summary: &Summary, trials: &[Trial]) -> Result<String, EvalError> {
    let mut sorted: Vec<&Trial> = trials.iter().collect();
    sorted.sort_by(|one, other| one.key.cmp(&other.key));
    let failed: Vec<&Trial> = sorted.iter().copied().filter(|trial| trial.failure.is_some()).collect();
    let first = |scenario: &String, wanted: fn(&Trial) -> bool| {
        let mut trials = sorted.iter().filter(|trial| trial.key.scenario == *scenario);
        trials.find(|trial| wanted(trial)).map(|&trial| transcript(trial))
    };
    let scenarios = &summary.settings.scenarios;
    let passed: Vec<_> = scenarios.iter().filter_map(|of| first(of, |trial| trial.ok)).collect();
    let unexercised: Vec<_> =
        scenarios.iter().filter_map(|of| first(of, |trial| trial.not_exercised.is_some())).collect();
    let matrix: Vec<_> = summary.matrix.iter().map(|row| matrix_row(summary, row)).collect();
    let context = json!({
        "harness": summary.settings.harness.name(),
        "version": env!("CARGO_PKG_VERSION"),
        "settings": settings(summary),
        "runs": share(summary.overall.runs),
        "made": summary.overall.trials(),
        "not_exercised": summary.overall.not_exercised,
        "planned": summary.planned,
        "tools": summary.tool_scenarios.as_ref().map(|stats| share(stats.runs)),
        "latency": summary.overall.latency,
        "checks": checks(&summary.overall.checks),
        "scenarios": groups(&summary.by_scenario),
        "modes": modes(&summary.by_mode),
        "answered_modes": groups(&summary.by_answered_mode),
        "run_once": summary.run_once,
        "columns": summary.by_scenario.0.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "passed": passed,
        "unexercised": unexercised,
        "strategies": groups(&summary.by_strategy),
        "profiles": groups(&summary.by_profile),
        "models": groups(&summary.by_model),
        "latencies": distributions(summary, trials),
        "has_control": summary.matrix.iter().any(|row| row.control.is_some()),
        "has_modes": summary.settings.modes.len() > 1,
        "has_strategies": summary.settings.strategies.len() > 1,
        "matrix": matrix,
        "categories": summary.overall.failures.iter().collect::<Vec<_>>(),
        "failed": failed.len(),
        "failures": failed.iter().take(SHOWN).map(|trial| transcript(trial)).collect::<Vec<_>>(),
    });
    render(TEMPLATE, context)
}

/// Renders a page from a template, which may import the shared macros and styles.
pub(super) fn render(template: &str, context: Value) -> Result<String, EvalError> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.add_filter("percent", percent);
    environment.add_filter("time", time);
    let fault = |error: minijinja::Error| Kind::Report { reason: format!("{error:#}") };
    environment.add_template("page.css", STYLE).map_err(fault)?;
    environment.add_template("macros.html", MACROS).map_err(fault)?;
    environment.render_str(template, Serde(context)).map_err(|error| fault(error).into())
}

/// A rate, with its share and the ends of its interval, from 0 to 1.
#[derive(Serialize)]
pub(super) struct Share {
    ok: usize,
    of: usize,
    /// Share of successes: `ok` divided by `of`.
    of_all: f64,
    low: f64,
    high: f64,
}

pub(super) fn share(rate: Rate) -> Share {
    let (low, high) = rate.interval().unwrap_or((0.0, 1.0));
    Share { ok: rate.ok, of: rate.of, of_all: rate.share().unwrap_or_default(), low, high }
}

#[derive(Serialize)]
struct Bar {
    name: String,
    share: Share,
    /// Number of trials that do not count.
    not_exercised: usize,
}

fn checks(checks: &Checks) -> Vec<Bar> {
    checks
        .named()
        .map(|(name, rate)| Bar { name: name.to_owned(), share: share(rate), not_exercised: 0 })
        .collect()
}

fn groups(groups: &Groups) -> Vec<Bar> {
    let bar = |(name, stats): &(String, Stats)| {
        let not_exercised = stats.not_exercised;
        Bar { name: name.clone(), share: share(stats.runs), not_exercised }
    };
    groups.0.iter().map(bar).collect()
}

/// Returns panels that compare the modes of directives: one panel for the success of trials and one
/// for each check. A panel has one bar for each mode.
fn modes(groups: &Groups) -> Vec<Value> {
    let groups = &groups.0;
    let rates = |stats: &Stats| {
        let mut rates = vec![("success", stats.runs)];
        rates.extend(stats.checks.named());
        rates
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in groups.iter().flat_map(|(_, stats)| rates(stats)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let panel = |name: &&str| {
        let bar = |(mode, stats): &(String, Stats)| {
            let (_, rate) = rates(stats).into_iter().find(|(other, _)| other == name)?;
            (rate.of > 0).then(|| Bar { name: mode.clone(), share: share(rate), not_exercised: 0 })
        };
        let bars: Vec<_> = groups.iter().filter_map(bar).collect();
        json!({ "name": name, "bars": bars })
    };
    names.iter().map(panel).collect()
}

/// Histogram of the durations of one model's trials.
#[derive(Serialize)]
struct Distribution {
    name: String,
    p50: f64,
    p95: f64,
    /// End of the axis, in milliseconds: the maximum over all models.
    end: f64,
    /// Heights of the bars, from 0 to 1. The highest bar stands for `most` trials.
    bars: Vec<f64>,
    most: usize,
}

fn distributions(summary: &Summary, trials: &[Trial]) -> Vec<Distribution> {
    let end = summary.overall.latency.max.max(f64::MIN_POSITIVE);
    let of = |(name, stats): &(String, Stats)| {
        let mut counts = [0_usize; BARS];
        for trial in trials.iter().filter(|trial| trial.key.model == *name) {
            let at = (trial.latency_ms / end * BARS as f64) as usize;
            counts[at.min(BARS - 1)] += 1;
        }
        let most = counts.into_iter().max().unwrap_or_default().max(1);
        let bars = counts.iter().map(|&count| count as f64 / most as f64).collect();
        Distribution { name: name.clone(), p50: stats.latency.p50, p95: stats.latency.p95, end, bars, most }
    };
    summary.by_model.0.iter().map(of).collect()
}

fn matrix_row(summary: &Summary, row: &Row) -> Value {
    let model = summary.settings.models.iter().find(|model| model.name == row.model);
    let profile = model.and_then(|model| model.profiles.iter().find(|profile| profile.name == row.profile));
    json!({
        "model": row.model,
        "profile": row.profile,
        "sampling": profile.map(|profile| profile.sampling.overridden_by(summary.settings.overrides).to_string()),
        "strategy": if row.is_shared { "both, run once" } else { row.strategy.name() },
        "mode": row.mode,
        "scenarios": summary.by_scenario.0.iter().map(|(name, _)| {
            let cell = row.scenarios.0.iter().find(|(other, _)| other == name);
            cell.map(|(_, stats)| json!({ "share": share(stats.runs), "not_exercised": stats.not_exercised }))
        }).collect::<Vec<_>>(),
        "not_exercised": row.stats.not_exercised,
        "runs": share(row.stats.runs),
        "control": row.control.map(share),
        "p50": row.stats.latency.p50,
        "p95": row.stats.latency.p95,
        "checks": checks(&row.stats.checks),
        "top": row.top_failures,
    })
}

fn settings(summary: &Summary) -> Vec<(&'static str, String)> {
    let settings = &summary.settings;
    let joined = |names: Vec<&str>| names.join(", ");
    let mut told = vec![
        ("scenarios", settings.scenarios.join(", ")),
        ("strategies", joined(settings.strategies.iter().map(|strategy| strategy.name()).collect())),
        ("trials per combination", settings.trials.to_string()),
        ("seed", settings.seed.map_or_else(|| "not sent".to_owned(), |seed| seed.to_string())),
    ];
    if !settings.modes.is_empty() {
        told.insert(1, ("modes", joined(settings.modes.iter().map(|mode| mode.name()).collect())));
        let yes_or_no = |is_on| if is_on { "yes" } else { "no" }.to_owned();
        told.push(("semantic repair", yes_or_no(settings.semantic_repair)));
        told.push(("directives required by the schema", yes_or_no(settings.require)));
    }
    if let Some(limit) = settings.max_tokens {
        told.push(("maximum tokens per answer", limit.to_string()));
    }
    if settings.overrides != formwork_protocol::sampling::Sampling::default() {
        told.push(("sampling overrides", settings.overrides.to_string()));
    }
    if !settings.defaults.is_empty() {
        told.push(("request defaults", Value::from(settings.defaults.clone()).to_string()));
    }
    let model = |model: &super::EvalModel| format!("{} ({} at {})", model.name, model.id, model.backend);
    told.push(("models", settings.models.iter().map(model).collect::<Vec<_>>().join(", ")));
    told
}

fn transcript(trial: &Trial) -> Value {
    let failure = trial.failure.as_ref();
    json!({
        "key": trial.key.to_string(),
        "seed": trial.seed,
        "category": failure.map(|failure| &failure.category),
        "message": failure.map(|failure| &failure.message).or(trial.not_exercised.as_ref()),
        "latency": trial.latency_ms,
        "exchanges": trial.exchanges.iter().map(exchange).collect::<Vec<_>>(),
    })
}

fn exchange(exchange: &Exchange) -> Value {
    let messages: Vec<_> = exchange.messages.iter().map(message).collect();
    json!({
        "mode": exchange.mode,
        "continued": exchange.continued,
        "messages": messages,
        "answer": exchange.answer.as_ref().map(message),
        "finish_reason": exchange.finish_reason,
        "error": exchange.error,
        "latency": exchange.latency_ms,
    })
}

/// Returns the role, text, tool calls and reasoning of a message, in the form that the template
/// shows.
pub(super) fn message(message: &Value) -> Value {
    let content = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let call = |call: &Value| {
        let function = if call["function"].is_object() { &call["function"] } else { call };
        let arguments = &function["arguments"];
        let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        format!("{}({arguments})", function["name"].as_str().unwrap_or("?"))
    };
    let calls: Vec<_> = match &message["tool_calls"] {
        Value::Array(calls) => calls.iter().map(call).collect(),
        Value::Null => {
            message.get("function_call").filter(|of| of.is_object()).map(call).into_iter().collect()
        }
        other => vec![call(other)],
    };
    let role = message["role"].as_str().unwrap_or("?");
    let thoughts = message["reasoning_content"].as_str();
    json!({ "role": role, "content": content, "calls": calls, "thoughts": thoughts })
}

/// Formats a share from 0 to 1 as a percentage with at most one decimal.
fn percent(share: f64) -> String {
    let rounded = (share * 1000.0).round() / 10.0;
    format!("{rounded}%")
}

fn time(milliseconds: f64) -> String {
    if milliseconds < 1000.0 {
        format!("{milliseconds:.0} ms")
    } else {
        format!("{:.1} s", milliseconds / 1000.0)
    }
}
