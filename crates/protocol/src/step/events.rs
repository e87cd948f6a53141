//! What happens in a step, as the trace tells it.

use serde_json::{Value, json};

use super::{Output, Settings};
use crate::Body;
use crate::adapt::{Adaptation, Outcome, Stage, StageReport};
use crate::precheck::{PrecheckReport, Verdict};
use crate::trace::{Correction, Event, Span};

/// The version of the rules of coercion, for the ledger.
const POLICY: &str = "1";

/// What a check before a generation came to.
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

/// What an adaptation did. Where nothing was to do there is nothing to tell.
pub(super) fn adaptation(span: &Span, adaptation: &Adaptation, output: &Output, settings: &Settings) {
    let reports = adaptation.observed();
    if reports.iter().all(|report| report.outcome == Outcome::Skip) {
        return;
    }
    let is_shadow = adaptation.shadow().is_some();
    for (depth, report) in reports.iter().enumerate() {
        stage(span, report, is_shadow);
        if settings.correction_ledger && report.outcome == Outcome::Success && !is_shadow {
            span.correction(Correction {
                schema_hash: Some(output.hash.clone()),
                coercion_policy_version: Some(POLICY.to_owned()),
                stage: report.stage.name().to_owned(),
                repair_depth: depth as u32,
                transforms_applied: report.transforms.clone(),
                latency_ms_saved: None,
            });
        }
    }
    let transforms: Vec<&String> = reports.iter().flat_map(|report| &report.transforms).collect();
    if !transforms.is_empty() {
        span.set("aros.transforms", json!(transforms));
    }
}

fn stage(span: &Span, report: &StageReport, is_shadow: bool) {
    let shadow = || ("shadow", if is_shadow { json!(true) } else { Value::Null });
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
            let what = [name(), ("error_preview", json!(report.error_preview)), shadow()];
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

/// Attributes, without those that do not apply.
fn given(attributes: impl IntoIterator<Item = (&'static str, Value)>) -> Body {
    let known = attributes.into_iter().filter(|(_, value)| !value.is_null());
    known.map(|(name, value)| (name.to_owned(), value)).collect()
}
