//! Trace events of a step.

use serde_json::{Value, json};

use super::constraint::hash;
use super::cost::Cost;
use super::{Output, Settings};
use crate::Body;
use crate::adapt::repair::{first_errors, truncated};
use crate::adapt::{Adaptation, Outcome, Stage, StageReport};
use crate::precheck::{PrecheckReport, Verdict};
use crate::repair::Attempt;
use crate::trace::{Correction, Event, Span};

/// Version of the coercion rules, recorded in the correction ledger.
const POLICY: &str = "1";
/// Maximum number of characters of a kept text.
const KEPT: usize = 20_000;

/// Records the result of a precheck.
pub(super) fn precheck(span: &Span, report: &PrecheckReport) {
    let (event, result) = match report.verdict {
        Verdict::Pass => (Event::PrecheckPass, "pass"),
        Verdict::Fail => (Event::PrecheckFail, "fail"),
        Verdict::Skipped => (Event::PrecheckSkipped, "skipped"),
    };
    if report.is_judged {
        span.event(
            Event::ReasoningValidation,
            given([("result", json!(result)), ("score", json!(report.score))]),
        );
    }
    let consensus = report.consensus.map(|consensus| {
        json!({ "samples": consensus.samples, "agreement": consensus.agreement, "agreed": consensus.is_agreed })
    });
    let attributes = [
        ("reason", json!(report.reason)),
        ("score", json!(report.score)),
        ("feedback", json!(report.feedback)),
        ("consensus", json!(consensus)),
    ];
    span.event(event, given(attributes));
}

/// Records what an adaptation did. Records nothing if no stage had anything to do.
///
/// `cost` is the cost of the text. Another request would have cost about as much.
pub(super) fn adaptation(
    span: &Span,
    adaptation: &Adaptation,
    output: &Output,
    (settings, cost): (&Settings, &Cost),
) {
    let ledger = settings.correction_ledger.then_some(output.hash.as_str());
    told(span, adaptation, ledger.map(|hash| (hash, Some(cost.milliseconds()))));
}

/// Records that an attempt gave no usable output and that attempt `next` follows. `text` is the
/// output, if texts are kept.
pub(super) fn retried(
    span: &Span,
    next: u32,
    (reason, errors): (&'static str, &[String]),
    cost: &Cost,
    text: Option<&str>,
) {
    let mut attributes = given([("attempt", json!(next))]);
    attributes.extend(of_failure((reason, errors), cost, text));
    span.event(Event::StepRetry, attributes);
}

/// Records that a step has no usable output. `text` is the last output, if texts are kept.
pub(super) fn failed(
    span: &Span,
    (reason, errors): (&'static str, &[String]),
    cost: &Cost,
    text: Option<&str>,
) {
    span.event(Event::StepFail, of_failure((reason, errors), cost, text));
}

fn of_failure((reason, errors): (&'static str, &[String]), cost: &Cost, text: Option<&str>) -> Body {
    let mut attributes = given([
        ("reason", json!(reason)),
        ("errors", json!(first_errors(errors))),
        ("text", json!(text.map(|text| truncated(text, KEPT)))),
    ]);
    cost.describe(&mut attributes);
    attributes
}

/// Records a repair and returns its cost.
pub(super) fn repaired(span: &Span, attempt: &Attempt, number: u32) -> Cost {
    let result = match attempt {
        Attempt { text: None, .. } => "unanswered",
        Attempt { is_discarded: true, .. } => "discarded",
        Attempt { errors, .. } if errors.is_empty() => "valid",
        Attempt { .. } => "invalid",
    };
    let mut cost = Cost::of_usage(attempt.usage.as_ref(), attempt.latency);
    if attempt.text.is_none() {
        cost.requests = 0;
    }
    let errors = Some(first_errors(&attempt.errors)).filter(|errors| !errors.is_empty());
    let mut attributes =
        given([("attempt", json!(number)), ("result", json!(result)), ("errors", json!(errors))]);
    cost.describe(&mut attributes);
    span.event(Event::StepRepair, attributes);
    cost
}

/// Records `adaptation` in `span` with the same events as a step. Use this function for adaptations
/// outside a step.
///
/// `ledger` is the schema of the output. If it is given, each successful stage is also recorded in
/// the correction ledger, a separate table of the trace.
///
/// ```
/// use formwork_protocol::adapt::{AdaptOptions, Adapter};
/// use formwork_protocol::step::trace_adaptation;
/// use formwork_protocol::trace::{MemorySink, Tracer};
/// use serde_json::json;
///
/// let schema = json!({"type": "array"});
/// let memory = MemorySink::default();
/// let step = Tracer::default().with_sink(memory.clone()).run("adapt").step("list");
/// let adaptation = Adapter::new(&schema, AdaptOptions::minimal())?.adapt("```\n[1]\n```");
/// trace_adaptation(&step, &adaptation, Some(&schema));
/// assert!(memory.events().iter().any(|event| event.name == "output.coercion.success"));
/// assert_eq!(memory.corrections().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn trace_adaptation(span: &Span, adaptation: &Adaptation, ledger: Option<&Value>) {
    told(span, adaptation, ledger.map(hash).as_deref().map(|hash| (hash, None)));
}

/// Records an adaptation. `ledger` has the hash of the schema and the time of a request, in
/// milliseconds.
fn told(span: &Span, adaptation: &Adaptation, ledger: Option<(&str, Option<f64>)>) {
    let reports = adaptation.observed();
    if reports.iter().all(|report| report.outcome == Outcome::Skip) {
        return;
    }
    let is_shadow = adaptation.shadow().is_some();
    let is_valid = adaptation.shadow().unwrap_or(adaptation).is_valid();
    for (depth, report) in reports.iter().enumerate() {
        let is_recovered = is_recovered(report, &reports[depth + 1..], is_valid);
        stage(span, report, (is_shadow, is_recovered));
        if let Some((hash, latency)) = ledger
            && report.outcome == Outcome::Success
            && !is_shadow
        {
            // All stages together save one request, which counts for the last one.
            let is_last = reports[depth + 1..].iter().all(|later| later.outcome != Outcome::Success);
            span.correction(Correction {
                schema_hash: Some(hash.to_owned()),
                coercion_policy_version: Some(POLICY.to_owned()),
                stage: report.stage.name().to_owned(),
                repair_depth: depth as u32,
                transforms_applied: report.transforms.clone(),
                latency_ms_saved: latency.filter(|_| is_last && is_valid),
            });
        }
    }
    let transforms: Vec<&String> = reports.iter().flat_map(|report| &report.transforms).collect();
    if !transforms.is_empty() {
        span.set("aros.transforms", json!(transforms));
    }
}

/// Reports whether a later stage made up for this failure, by parsing the text or making the value
/// valid.
fn is_recovered(report: &StageReport, later: &[StageReport], is_valid: bool) -> bool {
    let reads = matches!(report.stage, Stage::Extract | Stage::Tolerant | Stage::Syntactic);
    let is_mended = later.iter().any(|later| later.outcome == Outcome::Success);
    report.outcome == Outcome::Fail && is_mended && (reads || is_valid)
}

fn stage(span: &Span, report: &StageReport, (is_shadow, is_recovered): (bool, bool)) {
    let flag = |name, is_so| (name, if is_so { json!(true) } else { Value::Null });
    let shadow = || flag("shadow", is_shadow);
    let name = || ("stage", json!(report.stage.name()));
    let reason = || ("reason", json!(report.reason));
    let branch = || {
        [
            ("branch_index", json!(report.branch_index)),
            ("branch_choices", json!(Some(&report.branch_choices).filter(|choices| !choices.is_empty()))),
        ]
    };
    if report.outcome != Outcome::Skip {
        let types =
            [("expected_type", json!(report.expected_type)), ("actual_type", json!(report.actual_type))];
        span.event(Event::OutputAttempt, given([name(), reason(), shadow()].into_iter().chain(types)));
    }
    match report.outcome {
        Outcome::Success => {
            let what = [
                name(),
                ("transforms", json!(report.transforms)),
                ("patch_preview", json!(report.patch)),
                shadow(),
            ];
            span.event(Event::OutputSuccess, given(what.into_iter().chain(branch())));
        }
        Outcome::Fail => {
            let recovered = flag("recovered", is_recovered);
            let what = [name(), ("error_preview", json!(report.error_preview)), recovered, shadow()];
            span.event(Event::OutputFail, given(what));
        }
        Outcome::Skip => {}
    }
    let event = match (report.stage, report.outcome) {
        (Stage::Syntactic, Outcome::Success) => Event::SyntacticSuccess,
        (Stage::Syntactic, Outcome::Skip) => Event::SyntacticSkip,
        (Stage::Syntactic, Outcome::Fail) => Event::SyntacticFail,
        (Stage::Semantic, Outcome::Success) => Event::CoercionSuccess,
        (Stage::Semantic, Outcome::Skip) => Event::CoercionSkip,
        (Stage::Semantic, Outcome::Fail) => Event::CoercionFail,
        _ => return,
    };
    let transforms = json!(Some(&report.transforms).filter(|transforms| !transforms.is_empty()));
    let what =
        [reason(), ("transforms", transforms), ("error_preview", json!(report.error_preview)), shadow()];
    let branch = branch().into_iter().filter(|_| report.stage == Stage::Semantic);
    span.event(event, given(what.into_iter().chain(branch)));
}

/// Collects the attributes that are not null.
fn given(attributes: impl IntoIterator<Item = (&'static str, Value)>) -> Body {
    let known = attributes.into_iter().filter(|(_, value)| !value.is_null());
    known.map(|(name, value)| (name.to_owned(), value)).collect()
}
