//! Formats the summary for a terminal.

use std::fmt::Write;

use formwork_eval::{Groups, Rate, Stats, Summary};

/// Formats the results of an evaluation as a table.
pub(super) fn table(summary: &Summary) -> String {
    let mut text = String::new();
    let mut line = |name: &str, stats: &Stats| {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{name:<44} {:>11} {:>7} {:>15} {:>8} {:>9} {:>9}",
            of(stats.runs),
            percent(stats.runs.share()),
            interval(stats.runs),
            stats.not_exercised,
            format!("{:.0}", stats.latency.p50),
            format!("{:.0}", stats.latency.p95),
        );
    };
    line("all", &summary.overall);
    if let Some(tools) = &summary.tool_scenarios {
        line("with tools", tools);
    }
    let parts = [
        ("scenario", &summary.by_scenario),
        ("mode", &summary.by_mode),
        ("answered in mode", &summary.by_answered_mode),
        ("strategy", &summary.by_strategy),
        ("profile", &summary.by_profile),
        ("model", &summary.by_model),
    ];
    for (part, Groups(groups)) in parts {
        for (name, stats) in groups {
            line(&format!("{part} {name}"), stats);
        }
    }
    let header = format!(
        "{:<44} {:>11} {:>7} {:>15} {:>8} {:>9} {:>9}\n",
        "", "ok", "rate", "95%", "not ex.", "p50 ms", "p95 ms"
    );
    let mut text = header + &text;
    let modes: Vec<_> =
        summary.by_mode.0.iter().filter(|(_, stats)| stats.checks.named().next().is_some()).collect();
    if modes.is_empty() {
        judged(&mut text, "", &summary.overall);
    }
    for (mode, stats) in modes {
        judged(&mut text, &format!("{mode}: "), stats);
    }
    if summary.overall.not_exercised > 0 {
        let _ =
            writeln!(text, "not exercised (not ex.): the error of the scenario never occurred; not counted");
    }
    if !summary.run_once.is_empty() {
        let models = summary.run_once.join(", ");
        let _ = writeln!(text, "run once for both strategies, because no workaround applies: {models}");
    }
    for (category, count) in &summary.overall.failures {
        let _ = writeln!(text, "failed: {category} {count}");
    }
    text
}

/// Appends the rates of the independent judge's checks.
fn judged(text: &mut String, place: &str, stats: &Stats) {
    for (name, rate) in stats.checks.named() {
        let _ = writeln!(
            text,
            "{:<44} {:>11} {:>7} {:>15}",
            format!("{place}{name}"),
            of(rate),
            percent(rate.share()),
            interval(rate)
        );
    }
}

pub(super) fn of(rate: Rate) -> String {
    format!("{}/{}", rate.ok, rate.of)
}

pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.1}%", share * 100.0))
}

pub(super) fn interval(rate: Rate) -> String {
    rate.interval().map_or_else(String::new, |(low, high)| format!("{:.1}–{:.1}%", low * 100.0, high * 100.0))
}
