//! `formwork eval structured`: which schemas and keywords does a server enforce?

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use formwork_eval::{
    Case, Journal, KeywordVerdict, StructuredEvaluation, StructuredSettings, StructuredSummary,
    keyword_probes,
};

use super::args::EvalStructuredArgs;
use super::models::{self, Subjects};
use super::store::Store;
use super::{drive, new_folder, table};
use crate::{config, files};

/// Maximum number of cases. More are probably not meant.
const CASES: usize = 10_000;
/// Maximum depth of folders below the given one.
const DEPTH: usize = 16;

/// Runs the evaluation; returns false if the rate of trials that are ok is below `--min-ok`.
pub(super) fn structured(args: &EvalStructuredArgs, as_json: bool) -> Result<bool> {
    let summary = run(args)?;
    let mut out = std::io::stdout();
    if as_json {
        writeln!(out, "{}", serde_json::to_string(&summary)?)?;
    } else {
        write!(out, "{}", text(&summary))?;
    }
    let share = summary.overall.ok.share().unwrap_or_default();
    Ok(args.shared.min_ok.is_none_or(|least| share >= least))
}

fn run(args: &EvalStructuredArgs) -> Result<StructuredSummary> {
    let shared = &args.shared;
    let overrides = shared.sampling.sampling();
    overrides.check()?;
    // Everything that can be wrong with the cases is reported before a model is loaded or asked.
    let mut cases = if args.keywords { keyword_probes() } else { Vec::new() };
    if let Some(path) = &args.cases {
        cases.extend(read(path)?);
    }
    let config = config::load(shared.config.as_deref())?.config;
    let Subjects { models, backends } = models::subjects(shared, &config, None)?;
    let settings = StructuredSettings {
        models,
        cases,
        trials: args.trials,
        seed: shared.seed(),
        max_tokens: Some(shared.max_tokens),
        defaults: shared.llm_options_defaults.clone().unwrap_or_default(),
        overrides,
        strict: args.strict.value(),
        timeout_seconds: args.timeout,
        ..StructuredSettings::new()
    };
    let evaluation = StructuredEvaluation::new(settings, &backends)?;
    let folder = shared.out.clone().map_or_else(|| new_folder("structured"), Ok)?;
    let (mut store, Journal { mut trials, .. }) = Store::open(&folder, evaluation.settings())?;
    let done = trials.iter().map(|trial| trial.key.clone()).collect();
    let planned = evaluation.settings().plan().len();
    drive(&mut store, planned, &mut trials, evaluation.trials(&done, shared.parallel.get()))?;
    let summary = StructuredSummary::of(evaluation.settings(), &trials);
    let report = store.finish_structured(&summary, &trials)?;
    eprintln!("formwork: {}", report.display());
    Ok(summary)
}

/// Reads the cases of a file, or of all `.json` and `.jsonl` files in a folder and its subfolders. A
/// case without `id` is named by its path in the folder without the ending, and in a `.jsonl` file by
/// its line as well.
///
/// An error names the file and the place in the file.
fn read(path: &Path) -> Result<Vec<Case>> {
    let mut found = Vec::new();
    let is_folder = path.metadata().with_context(|| format!("--cases: {}", path.display()))?.is_dir();
    if is_folder {
        list(path, 0, &mut found)?;
        found.sort();
    } else {
        found.push(path.to_owned());
    }
    let mut cases: Vec<(Case, String)> = Vec::new();
    for file in &found {
        let name = if is_folder {
            file.strip_prefix(path).unwrap_or(file)
        } else {
            Path::new(file.file_name().unwrap_or_default())
        };
        let id = name.with_extension("").to_string_lossy().replace('\\', "/");
        let text = files::read_option("--cases", file)?;
        let shown = file.display().to_string();
        if file.extension().is_some_and(|extension| extension == "jsonl") {
            for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                let place = format!("{shown}:{}", at + 1);
                cases.push((parse(line, &format!("{id}#{}", at + 1), &place)?, place));
            }
        } else {
            cases.push((parse(&text, &id, &shown)?, shown));
        }
        ensure!(cases.len() <= CASES, "--cases: {} has more than {CASES} cases", path.display());
    }
    if cases.is_empty() {
        bail!("--cases: {} has no cases: expected .json or .jsonl files", path.display());
    }
    let mut places = std::collections::HashMap::new();
    for (case, place) in &cases {
        if let Some(first) = places.insert(case.id.as_str(), place) {
            bail!("--cases: {place}: duplicate id `{}`, first in {first}", case.id);
        }
    }
    Ok(cases.into_iter().map(|(case, _)| case).collect())
}

fn parse(text: &str, id: &str, place: &str) -> Result<Case> {
    Case::parse(text, id).map_err(|error| anyhow!("--cases: {place}: {error}"))
}

/// Appends the case files below a folder. Does not follow links to folders.
fn list(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<()> {
    let at = || format!("--cases: {}", folder.display());
    ensure!(depth <= DEPTH, "{}: more than {DEPTH} levels of folders", at());
    for entry in std::fs::read_dir(folder).with_context(at)? {
        let entry = entry.with_context(at)?;
        let path = entry.path();
        if entry.file_type().with_context(at)?.is_dir() {
            list(&path, depth + 1, found)?;
        } else if path.extension().is_some_and(|extension| extension == "json" || extension == "jsonl") {
            found.push(path);
        }
    }
    Ok(())
}

/// Formats the results for a terminal.
fn text(summary: &StructuredSummary) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:<44} {:>11} {:>7} {:>15}", "", "ok", "rate", "95%");
    let mut line = |name: &str, rate| {
        if let formwork_eval::Rate { of: 1.., .. } = rate {
            let _ = writeln!(
                text,
                "{name:<44} {:>11} {:>7} {:>15}",
                table::of(rate),
                table::percent(rate.share()),
                table::interval(rate)
            );
        }
    };
    line("all", summary.overall.ok);
    for (name, rate) in summary.overall.judgements() {
        line(name, rate);
    }
    if summary.by_model.0.len() > 1 {
        for (name, stats) in &summary.by_model.0 {
            line(&format!("model {name}"), stats.ok);
        }
    }
    let overall = &summary.overall;
    let _ = writeln!(
        text,
        "time: p50 {:.0} ms, p95 {:.0} ms; tokens: {} prompt, {} completion",
        overall.latency.p50, overall.latency.p95, overall.prompt_tokens, overall.completion_tokens
    );
    for (category, count) in &overall.failures {
        let _ = writeln!(text, "failed: {category} {count}");
    }
    let is_single = summary.by_model.0.len() < 2;
    for row in &summary.keywords {
        let model = if is_single { String::new() } else { format!("  {}", row.model) };
        let counts = match row.verdict {
            KeywordVerdict::Kept => {
                format!("{} {}, no probe", row.kept, if row.kept == 1 { "answer" } else { "answers" })
            }
            _ => format!(
                "{} enforced, {} ignored, {} refused, {} inconclusive",
                row.enforced, row.ignored, row.refused, row.inconclusive
            ),
        };
        let closed = match row.not_closed {
            0 => String::new(),
            count => format!(", {count} not closed"),
        };
        let _ = writeln!(text, "{:<24} {:<12} {counts}{closed}{model}", row.keyword, row.verdict.name());
    }
    text
}

#[cfg(test)]
mod tests;
