use std::fmt::Write;

use super::{Count, Health, Named, Tally};

/// First three columns of a line.
#[derive(Clone, Copy)]
struct Place<'a> {
    part: &'a str,
    name: &'a str,
    bucket: &'a str,
}

/// Content of a cell. A text may need protection from being run as a formula.
#[derive(Clone, Copy)]
enum Cell<'a> {
    Number(&'a str),
    Text(&'a str),
}

pub(super) fn csv(health: &Health) -> String {
    let mut text = "part,name,bucket,stage,metric,value\r\n".to_owned();
    let overall = Place { part: "overall", name: "", bucket: "" };
    line(&mut text, overall, "", "traces", Cell::Number(&health.traces.to_string()));
    tally(&mut text, overall, &health.overall);
    let lists = [
        ("pipeline", &health.pipelines),
        ("step", &health.steps),
        ("agent", &health.agents),
        ("model", &health.models),
    ];
    for (part, list) in lists {
        for Named { name, tally: of } in list {
            tally(&mut text, Place { part, name, bucket: "" }, of);
        }
    }
    for (part, list) in [("transform", &health.transforms), ("soe_skip", &health.soe_skips)] {
        for Count { name, count } in list {
            line(&mut text, Place { part, name, bucket: "" }, "", "count", Cell::Number(&count.to_string()));
        }
    }
    for bucket in &health.trends {
        tally(&mut text, Place { part: "bucket", name: "", bucket: &bucket.from }, &bucket.tally);
        for (part, tallies) in [("bucket_step", &bucket.steps), ("bucket_model", &bucket.models)] {
            for (name, of) in tallies {
                tally(&mut text, Place { part, name, bucket: &bucket.from }, of);
            }
        }
    }
    for advice in &health.recommendations {
        let name = advice.step.as_ref().or(advice.model.as_ref()).map_or("", String::as_str);
        let place = Place { part: "recommendation", name, bucket: "" };
        let stage = advice.stage.as_deref().unwrap_or_default();
        line(&mut text, place, stage, "text", Cell::Text(&advice.text));
    }
    text
}

/// Appends the lines of a tally. Counts of zero are omitted, except for runs and coercions.
fn tally(text: &mut String, place: Place<'_>, tally: &Tally) {
    line(text, place, "", "runs", Cell::Number(&tally.runs.to_string()));
    line(text, place, "", "coercions", Cell::Number(&tally.coercions.successes.to_string()));
    if let Some(rate) = tally.per_100_runs() {
        line(text, place, "", "coercions_per_100_runs", Cell::Number(&rate.to_string()));
    }
    let counts = [
        ("coercion_attempts", tally.coercions.attempts),
        ("coercion_failures", tally.coercions.failures),
        ("coercion_recovered", tally.coercions.recovered),
        ("syntactic_success", tally.syntactic.success),
        ("syntactic_skip", tally.syntactic.skip),
        ("syntactic_fail", tally.syntactic.fail),
        ("semantic_success", tally.semantic.success),
        ("semantic_skip", tally.semantic.skip),
        ("semantic_fail", tally.semantic.fail),
        ("soe_enabled", tally.soe.enabled),
        ("soe_skipped", tally.soe.skipped),
        ("grammar_applied", tally.soe.applied),
        ("precheck_pass", tally.precheck.pass),
        ("precheck_fail", tally.precheck.fail),
        ("precheck_skipped", tally.precheck.skipped),
        ("validation_pass", tally.validation.pass),
        ("validation_fail", tally.validation.fail),
        ("failed_runs", tally.failed_runs),
        ("retries", tally.retries),
        ("repairs_valid", tally.repairs.valid),
        ("repairs_failed", tally.repairs.failed),
        ("requests", tally.cost.requests),
        ("tokens", tally.cost.tokens),
        ("latency_ms", tally.cost.latency_ms),
    ];
    counted(text, place, "", &counts);
    if let Some(rate) = tally.precheck.failure_rate() {
        line(text, place, "", "precheck_failure_rate", Cell::Number(&rate.to_string()));
    }
    for (stage, coercions) in &tally.stages {
        let counts = [
            ("coercions", coercions.successes),
            ("coercion_attempts", coercions.attempts),
            ("coercion_failures", coercions.failures),
            ("coercion_recovered", coercions.recovered),
        ];
        counted(text, place, stage, &counts);
    }
}

fn counted(text: &mut String, place: Place<'_>, stage: &str, counts: &[(&str, u64)]) {
    for (metric, count) in counts.iter().filter(|(_, count)| *count > 0) {
        line(text, place, stage, metric, Cell::Number(&count.to_string()));
    }
}

fn line(text: &mut String, place: Place<'_>, stage: &str, metric: &str, value: Cell<'_>) {
    let [part, name, bucket, stage, metric] =
        [place.part, place.name, place.bucket, stage, metric].map(|cell| field(Cell::Text(cell)));
    // Writing to a string does not fail.
    let _ = write!(text, "{part},{name},{bucket},{stage},{metric},{}\r\n", field(value));
}

/// First characters by which spreadsheets recognize a formula.
const FORMULA: [char; 7] = ['=', '+', '-', '@', '\t', '\r', '\n'];

/// Formats a cell and quotes it if necessary.
///
/// A text that a spreadsheet would run as a formula gets an apostrophe as a prefix, as OWASP
/// advises. This matters because names may come from a model or another untrusted source.
fn field(cell: Cell<'_>) -> String {
    let text = match cell {
        Cell::Text(text) if text.starts_with(FORMULA) => format!("'{text}"),
        Cell::Number(text) | Cell::Text(text) => text.to_owned(),
    };
    if text.contains([',', '"', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}
