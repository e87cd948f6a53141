//! The report of an evaluation of structured outputs.

use serde_json::{Value, json};

use super::{message, render, share};
use crate::{
    Case, CaseRow, EvalError, EvalModel, KeywordRow, KeywordVerdict, Rate, StructuredStats,
    StructuredSummary, StructuredTrial, Verdict,
};

const TEMPLATE: &str = include_str!("structured.html");
/// Maximum number of trials that are shown in detail. Further trials are only counted.
const SHOWN: usize = 200;

/// Renders the report of an evaluation of structured outputs as HTML. The evaluation may be
/// incomplete.
///
/// # Errors
/// Returns an error if the template fails. No summary is known to cause this.
pub fn structured_report(
    summary: &StructuredSummary,
    trials: &[StructuredTrial],
) -> Result<String, EvalError> {
    let mut sorted: Vec<&StructuredTrial> = trials.iter().collect();
    sorted.sort_by(|one, other| one.key.cmp(&other.key));
    let (passed, failed): (Vec<&StructuredTrial>, Vec<_>) = sorted.into_iter().partition(|trial| trial.ok);
    let models: Vec<&String> = summary.by_model.0.iter().map(|(name, _)| name).collect();
    let cell = |trial: &&StructuredTrial| transcript(summary, trial);
    let mut keywords: Vec<&str> = summary.keywords.iter().map(|row| row.keyword.as_str()).collect();
    keywords.dedup();
    let rows = keywords.iter().map(|keyword| keyword_row(summary, &models, keyword));
    let count =
        |verdict: KeywordVerdict| summary.keywords.iter().filter(|row| row.verdict == verdict).count();
    let counts: Vec<_> = [
        KeywordVerdict::Enforced,
        KeywordVerdict::Refused,
        KeywordVerdict::Ignored,
        KeywordVerdict::Kept,
        KeywordVerdict::Inconclusive,
    ]
    .into_iter()
    .map(|verdict| (verdict.name(), count(verdict)))
    .collect();
    let context = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "made": summary.overall.ok.of,
        "planned": summary.planned,
        "overall": stats(&summary.overall),
        "models": models,
        "by_model": summary.by_model.0.iter().map(|(name, of)| json!({ "name": name, "stats": stats(of) })).collect::<Vec<_>>(),
        "keywords": rows.collect::<Vec<_>>(),
        "counts": counts,
        "cases": summary.cases.iter().map(|row| case_row(summary, row)).collect::<Vec<_>>(),
        "categories": summary.overall.failures.iter().collect::<Vec<_>>(),
        "passed": passed.first().map(cell),
        "failed": failed.len(),
        "failures": failed.iter().take(SHOWN).map(cell).collect::<Vec<_>>(),
        "settings": settings(summary),
    });
    render(TEMPLATE, context)
}

fn stats(of: &StructuredStats) -> Value {
    let judgements: Vec<_> = of
        .judgements()
        .into_iter()
        .filter(|(_, rate)| rate.of > 0)
        .map(|(name, rate)| json!({ "name": name, "share": share(rate) }))
        .collect();
    json!({
        "ok": share(of.ok),
        "judgements": judgements,
        "refused": of.refused,
        "latency": of.latency,
        "prompt_tokens": of.prompt_tokens,
        "completion_tokens": of.completion_tokens,
    })
}

fn keyword_row(summary: &StructuredSummary, models: &[&String], keyword: &str) -> Value {
    let of_model = |model: &&String| {
        let row = summary.keywords.iter().find(|row| row.keyword == keyword && row.model == **model)?;
        Some(json!({ "verdict": row.verdict.name(), "counts": counted(row) }))
    };
    json!({ "name": keyword, "cells": models.iter().map(of_model).collect::<Vec<_>>() })
}

/// Describes the counts of a row, such as `2 enforced, 1 refused`.
fn counted(row: &KeywordRow) -> String {
    let counts = [
        (row.enforced, "enforced"),
        (row.ignored, "ignored"),
        (row.refused, "refused"),
        (row.kept, "kept"),
        (row.inconclusive, "inconclusive"),
        (row.not_closed, "not closed"),
    ];
    let parts: Vec<_> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
    parts.join(", ")
}

fn case_row(summary: &StructuredSummary, row: &CaseRow) -> Value {
    let case = find(summary, &row.case);
    let rate = |rate: Rate| if rate.of == 0 { "–".to_owned() } else { format!("{}/{}", rate.ok, rate.of) };
    let verdicts: Vec<_> = row.verdicts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    json!({
        "case": row.case,
        "model": row.model,
        "probes": case.and_then(|case| case.violates.as_ref()),
        "ok": rate(row.stats.ok),
        "is_ok": row.stats.ok.ok == row.stats.ok.of,
        "judgements": row.stats.judgements().map(|(_, of)| rate(of)),
        "refused": row.stats.refused,
        "verdicts": verdicts.join(", "),
        "tokens": row.stats.completion_tokens,
        "p50": row.stats.latency.p50,
    })
}

fn find<'a>(summary: &'a StructuredSummary, id: &str) -> Option<&'a Case> {
    summary.settings.cases.iter().find(|case| case.id == id)
}

fn transcript(summary: &StructuredSummary, trial: &StructuredTrial) -> Value {
    let case = find(summary, &trial.key.case);
    let class = match (trial.ok, trial.verdict) {
        (true, _) => "ok",
        (false, Some(Verdict::Refused | Verdict::Inconclusive)) => "dim",
        (false, _) => "",
    };
    let category = trial.failure.as_ref().map_or("ok", |failure| failure.category.as_str());
    let label = match trial.verdict {
        Some(verdict) if verdict.name() != "enforced" => format!("{}: {category}", verdict.name()),
        Some(verdict) => verdict.name().to_owned(),
        None => category.to_owned(),
    };
    json!({
        "key": trial.key.to_string(),
        "class": class,
        "label": label,
        "message": trial.failure.as_ref().map(|failure| &failure.message),
        "violations": trial.violations,
        "seed": trial.seed,
        "latency": trial.latency_ms,
        "finish_reason": trial.finish_reason,
        "tokens": trial.completion_tokens,
        "schema": case.and_then(|case| serde_json::to_string_pretty(&case.schema).ok()),
        "expected": case.and_then(|case| case.expected.as_ref()).map(Value::to_string),
        "prompt": case.map(|case| message(&json!({ "role": "user", "content": case.prompt }))),
        "answer": trial.answer.as_ref().map(message),
    })
}

fn settings(summary: &StructuredSummary) -> Vec<(&'static str, String)> {
    let settings = &summary.settings;
    let model = |model: &EvalModel| format!("{} ({} at {})", model.name, model.id, model.backend);
    let mut told = vec![
        ("models", settings.models.iter().map(model).collect::<Vec<_>>().join(", ")),
        ("cases", settings.cases.len().to_string()),
        ("trials per case", settings.trials.to_string()),
        ("seed", settings.seed.map_or_else(|| "not sent".to_owned(), |seed| seed.to_string())),
        ("strict", settings.strict.map_or_else(|| "not sent".to_owned(), |strict| strict.to_string())),
        ("time limit of a trial", format!("{} s", settings.timeout_seconds)),
    ];
    if let Some(limit) = settings.max_tokens {
        told.push(("maximum tokens per answer", limit.to_string()));
    }
    if settings.overrides != formwork_protocol::sampling::Sampling::default() {
        told.push(("sampling overrides", settings.overrides.to_string()));
    }
    if !settings.defaults.is_empty() {
        told.push(("request defaults", Value::from(settings.defaults.clone()).to_string()));
    }
    told
}
