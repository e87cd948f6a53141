use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};

use super::table;
use super::{KeywordRow, StructuredSettings, StructuredTrial};
use crate::{Latency, Rate};

/// Statistics of a set of trials.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StructuredStats {
    /// Trials whose answers are as they should be, among all trials.
    pub ok: Rate,
    /// Answers with a valid value, among all answers.
    pub valid: Rate,
    /// Answers that were not cut off, among all answers.
    pub complete: Rate,
    /// Answers without text around the value, among all answers.
    pub closed: Rate,
    /// Answers that equal the expected value, among all answers to cases that expect one.
    pub equal: Rate,
    /// Number of requests that the server refused because of their schema.
    pub refused: usize,
    /// Number of trials that are not ok, by category.
    pub failures: BTreeMap<String, usize>,
    /// Percentiles of the durations of trials.
    pub latency: Latency,
    /// Number of prompt tokens, as far as servers report it.
    pub prompt_tokens: u64,
    /// Number of completion tokens, as far as servers report it.
    pub completion_tokens: u64,
}

impl StructuredStats {
    /// Computes the statistics of `trials`.
    pub fn of<'a>(trials: impl IntoIterator<Item = &'a StructuredTrial>) -> Self {
        let (mut stats, mut times) = (Self::default(), Vec::new());
        for trial in trials {
            stats.ok.add(trial.ok);
            for (rate, judged) in [
                (&mut stats.valid, trial.valid),
                (&mut stats.complete, trial.complete),
                (&mut stats.closed, trial.closed),
                (&mut stats.equal, trial.equal),
            ] {
                if let Some(judged) = judged {
                    rate.add(judged);
                }
            }
            stats.refused += usize::from(trial.refused);
            if let Some(failure) = &trial.failure {
                *stats.failures.entry(failure.category.clone()).or_default() += 1;
            }
            times.push(trial.latency_ms);
            stats.prompt_tokens += trial.prompt_tokens.unwrap_or_default();
            stats.completion_tokens += trial.completion_tokens.unwrap_or_default();
        }
        stats.latency = Latency::of(&times);
        stats
    }

    /// Returns the four judgements of answers, each with its name.
    pub fn judgements(&self) -> [(&'static str, Rate); 4] {
        [("valid", self.valid), ("complete", self.complete), ("closed", self.closed), ("equal", self.equal)]
    }
}

impl Serialize for StructuredStats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("runs", &self.ok.of)?;
        map.serialize_entry("ok", &self.ok.ok)?;
        map.serialize_entry("ok_rate", &self.ok.share())?;
        map.serialize_entry("ok_rate_95", &self.ok.interval())?;
        for (name, rate) in self.judgements() {
            let value: Value =
                json!({ "ok": rate.ok, "of": rate.of, "rate": rate.share(), "rate_95": rate.interval() });
            map.serialize_entry(name, &value)?;
        }
        map.serialize_entry("refused", &self.refused)?;
        map.serialize_entry("failures", &self.failures)?;
        map.serialize_entry("latency_ms", &self.latency)?;
        map.serialize_entry("prompt_tokens", &self.prompt_tokens)?;
        map.serialize_entry("completion_tokens", &self.completion_tokens)?;
        map.end()
    }
}

/// Results for one case and one model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CaseRow {
    /// Name of the case.
    pub case: String,
    /// Name of the model.
    pub model: String,
    /// Statistics of the trials.
    #[serde(flatten)]
    pub stats: StructuredStats,
    /// Number of trials by verdict, for probes only.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub verdicts: BTreeMap<&'static str, usize>,
}

/// Results of an evaluation of structured outputs, which may be incomplete.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StructuredSummary {
    /// Name of the evaluation: `structured`.
    pub harness: &'static str,
    /// Settings of the evaluation.
    pub settings: StructuredSettings,
    /// Number of planned trials, completed or not.
    pub planned: usize,
    /// Statistics of all completed trials.
    pub overall: StructuredStats,
    /// Statistics by name of the model.
    pub by_model: StructuredGroups,
    /// Results for each keyword and model.
    pub keywords: Vec<KeywordRow>,
    /// Results for each case and model, in the order of the settings.
    pub cases: Vec<CaseRow>,
}

/// Pairs of a name and the statistics of the trials with this name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StructuredGroups(pub Vec<(String, StructuredStats)>);

impl Serialize for StructuredGroups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, stats)| (name, stats)))
    }
}

impl StructuredSummary {
    /// Computes the results of completed trials. The order of `trials` does not matter.
    pub fn of(settings: &StructuredSettings, trials: &[StructuredTrial]) -> Self {
        let models: Vec<String> = settings.models.iter().map(|model| model.name.clone()).collect();
        let of_model = |name: &String| {
            let stats = StructuredStats::of(trials.iter().filter(|trial| trial.key.model == *name));
            (stats.ok.of > 0).then(|| (name.clone(), stats))
        };
        let mut by_cell: BTreeMap<(&str, &str), Vec<&StructuredTrial>> = BTreeMap::new();
        for trial in trials {
            by_cell.entry((&trial.key.case, &trial.key.model)).or_default().push(trial);
        }
        let cells = settings.cases.iter().flat_map(|case| models.iter().map(move |model| (case, model)));
        let cases = cells.filter_map(|(case, model)| {
            let of = by_cell.get(&(case.id.as_str(), model.as_str()))?;
            let mut verdicts = BTreeMap::new();
            for verdict in of.iter().filter_map(|trial| trial.verdict) {
                *verdicts.entry(verdict.name()).or_default() += 1;
            }
            let stats = StructuredStats::of(of.iter().copied());
            Some(CaseRow { case: case.id.clone(), model: model.clone(), stats, verdicts })
        });
        Self {
            harness: "structured",
            settings: settings.clone(),
            planned: settings.plan().len(),
            overall: StructuredStats::of(trials),
            by_model: StructuredGroups(models.iter().filter_map(of_model).collect()),
            keywords: table::table(&settings.cases, &models, trials),
            cases: cases.collect(),
        }
    }
}
