//! Formats health results for a terminal.

use std::fmt::Write;

use formwork_trace::health::{Bucket, Cost, Health, Named, Tally};

/// Formats the results as a table, with at most `limit` rows of each kind.
pub(super) fn table(health: &Health, limit: usize) -> String {
    let mut text = String::new();
    let (Some(from), Some(until)) = (&health.window.from, &health.window.until) else {
        return "no traces yet\n".to_owned();
    };
    // Writing to a string cannot fail, here and below.
    let runs = if health.traces == 1 { "pipeline run" } else { "pipeline runs" };
    let _ = writeln!(text, "{from} to {until}: {} {runs}\n", health.traces);
    let _ = writeln!(
        text,
        "{:<40} {:>8} {:>9} {:>7} {:>11}  stages",
        "", "runs", "coercions", "per 100", "uncorrected"
    );
    row(&mut text, "all", &health.overall);
    let lists = [
        ("pipeline", &health.pipelines),
        ("step", &health.steps),
        ("agent", &health.agents),
        ("model", &health.models),
    ];
    for (part, list) in lists {
        for Named { name, tally } in list.iter().take(limit) {
            row(&mut text, &format!("{part} {name}"), tally);
        }
    }
    trends(&mut text, &health.trends, limit);
    counts(&mut text, health, limit);
    text.push_str("\nrecommendations\n");
    for advice in &health.recommendations {
        let _ = writeln!(text, "- {}", advice.text);
    }
    text
}

fn row(text: &mut String, name: &str, tally: &Tally) {
    let rate = tally.per_100_runs().map_or_else(String::new, |rate| format!("{rate:.1}"));
    let stages = tally.stages.iter().filter(|(_, coercions)| coercions.successes > 0);
    let stages: Vec<_> =
        stages.map(|(stage, coercions)| format!("{stage} {}", coercions.successes)).collect();
    let line = format!(
        "{name:<40} {:>8} {:>9} {rate:>7} {:>11}  {}",
        tally.runs,
        tally.coercions.successes,
        tally.coercions.failures,
        stages.join(", ")
    );
    let _ = writeln!(text, "{}", line.trim_end());
}

/// Appends a row per time bucket, followed by the steps and models that needed help in that bucket.
fn trends(text: &mut String, buckets: &[Bucket], limit: usize) {
    for bucket in buckets {
        text.push('\n');
        row(text, &format!("from {}", bucket.from), &bucket.tally);
        for (part, tallies) in [("step", &bucket.steps), ("model", &bucket.models)] {
            let helped = tallies.iter().filter(|(_, tally)| tally.coercions.successes > 0);
            helped.take(limit).for_each(|(name, tally)| row(text, &format!("  {part} {name}"), tally));
        }
    }
}

fn counts(text: &mut String, health: &Health, limit: usize) {
    let mut lines = Vec::new();
    for count in health.transforms.iter().take(limit) {
        lines.push((format!("transform {}", count.name), count.count.to_string()));
    }
    for count in health.soe_skips.iter().take(limit) {
        let model = if count.name.is_empty() { "(unnamed)" } else { &count.name };
        lines.push((format!("structured output skipped, model {model}"), count.count.to_string()));
    }
    let checked = |step: &&Named| step.tally.precheck.failure_rate().is_some();
    for Named { name, tally } in health.steps.iter().filter(checked).take(limit) {
        let (check, rate) = (tally.precheck, tally.precheck.failure_rate().unwrap_or_default());
        let failed = format!("{}/{} ({:.1}%)", check.fail, check.pass + check.fail, rate * 100.0);
        lines.push((format!("precheck failed, step {name}"), failed));
    }
    lines.extend(outcomes(&health.overall, "all"));
    for Named { name, tally } in health.steps.iter().take(limit) {
        lines.extend(outcomes(tally, &format!("step {name}")));
    }
    if !lines.is_empty() {
        text.push('\n');
    }
    for (name, count) in lines {
        let _ = writeln!(text, "{name:<50} {count:>18}");
    }
}

/// Returns lines for failed runs, retries, repairs and cost, without those that are zero.
fn outcomes(tally: &Tally, name: &str) -> Vec<(String, String)> {
    let repairs = tally.repairs.valid + tally.repairs.failed;
    let mut lines = Vec::new();
    if tally.failed_runs > 0 {
        lines.push((format!("failed runs, {name}"), format!("{}/{}", tally.failed_runs, tally.runs)));
    }
    if tally.retries > 0 {
        lines.push((format!("retries, {name}"), tally.retries.to_string()));
    }
    if repairs > 0 {
        lines.push((format!("valid repairs, {name}"), format!("{}/{repairs}", tally.repairs.valid)));
    }
    let Cost { requests, tokens, latency_ms } = tally.cost;
    if requests > 0 {
        lines.push((format!("requests, {name}"), requests.to_string()));
        lines.push((format!("tokens, {name}"), tokens.to_string()));
        lines.push((format!("seconds of requests, {name}"), format!("{:.1}", latency_ms as f64 / 1000.0)));
    }
    lines
}
