use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::held_out::HeldOut;
use super::metrics::{Metrics, Predictor};
use super::outcome::Outcome;
use super::question::QuestionKind;
use super::reliability::Reliability;
use super::table::{estimate, number, table, wrapped};

/// Results of an evaluation of decisions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionReport {
    /// Number of decisions.
    pub decisions: usize,
    /// Number of states.
    pub states: usize,
    /// Number of questions without a gold answer, which were skipped. Set by the caller.
    pub skipped: usize,
    /// Number of questions that the model did not answer. Set by the caller.
    pub failed: usize,
    /// Metrics of the model and the baselines, for all outcomes and by group.
    pub rows: Vec<ReportRow>,
    /// Share of right outcomes by the model's top probability.
    pub reliability: Reliability,
    /// Effect of fitted temperatures. `None` unless set by the caller.
    pub held_out: Option<HeldOut>,
}

/// Metrics of a predictor for a group of outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReportRow {
    /// The outcomes.
    pub group: OutcomeGroup,
    /// Source of the probabilities.
    pub predictor: Predictor,
    /// Metrics of the probabilities.
    pub metrics: Metrics,
}

/// Outcomes that a row is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", content = "name", rename_all = "snake_case")]
pub enum OutcomeGroup {
    /// All outcomes.
    All,
    /// Outcomes of questions of a type.
    Kind(QuestionKind),
    /// Outcomes of a source.
    Source(String),
}

impl OutcomeGroup {
    /// Returns the name in tables, such as `noul`.
    pub fn name(&self) -> &str {
        match self {
            Self::All => "all",
            Self::Kind(kind) => kind.name(),
            Self::Source(source) => source,
        }
    }

    /// Reports whether an outcome belongs to the group.
    pub fn contains(&self, outcome: &Outcome) -> bool {
        match self {
            Self::All => true,
            Self::Kind(kind) => outcome.kind == *kind,
            Self::Source(source) => outcome.source.as_ref() == Some(source),
        }
    }
}

impl DecisionReport {
    /// Computes the metrics of all outcomes, of each type of question and of each source. Groups without
    /// outcomes are omitted. An outcome without a source belongs to no group of sources.
    ///
    /// `skipped` and `failed` are 0, and `held_out` is `None`.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let sources: BTreeSet<&String> =
            outcomes.iter().filter_map(|outcome| outcome.source.as_ref()).collect();
        let mut groups = vec![OutcomeGroup::All];
        groups.extend(QuestionKind::ALL.map(OutcomeGroup::Kind));
        groups.extend(sources.into_iter().cloned().map(OutcomeGroup::Source));
        let mut rows = Vec::new();
        for group in groups {
            let members: Vec<&Outcome> = outcomes.iter().filter(|outcome| group.contains(outcome)).collect();
            if members.is_empty() {
                continue;
            }
            rows.extend(Predictor::ALL.map(|predictor| {
                let metrics = Metrics::of(members.iter().copied(), predictor);
                ReportRow { group: group.clone(), predictor, metrics }
            }));
        }
        let (decisions, states) =
            rows.first().map_or((0, 0), |row| (row.metrics.decisions, row.metrics.states));
        let reliability = Reliability::of(outcomes);
        Self { decisions, states, skipped: 0, failed: 0, rows, reliability, held_out: None }
    }

    /// Renders the report as Markdown that reads well as plain text, with at most 110 columns. A value that
    /// is not defined is `-`.
    pub fn to_markdown(&self) -> String {
        let Self { decisions, states, skipped, failed, .. } = self;
        let mut text = wrapped(&format!(
            "{decisions} decisions (n) about {states} states. {skipped} questions without a gold answer were \
             skipped, and {failed} failed."
        ));
        text.push_str(&wrapped(
            "Parentheses contain 95% bootstrap intervals over states. Small samples rank nothing: models \
             whose intervals overlap may be equally good.",
        ));
        if self.rows.is_empty() {
            return text;
        }
        for (title, part) in [
            ("Answers", self.answers()),
            ("Confidence", self.confidence()),
            ("Stability", self.stability()),
            ("Reliability", format!("```text\n{}```\n", self.reliability.plot())),
            ("Temperature", self.held_out.as_ref().map(temperature).unwrap_or_default()),
        ] {
            if !part.is_empty() {
                text.extend(["\n## ", title, "\n\n", &part]);
            }
        }
        text
    }

    fn answers(&self) -> String {
        let row = |ReportRow { group, predictor, metrics }: &ReportRow| {
            vec![
                group.name().to_owned(),
                predictor.name().to_owned(),
                metrics.decisions.to_string(),
                estimate(metrics.accuracy),
                estimate(metrics.brier),
                estimate(metrics.nll),
            ]
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        table(&["group", "predictor", "n", "accuracy", "Brier score", "cross-entropy"], 2, &rows)
    }

    fn confidence(&self) -> String {
        let row = |ReportRow { group, predictor, metrics }: &ReportRow| {
            vec![
                group.name().to_owned(),
                predictor.name().to_owned(),
                estimate(metrics.ece),
                estimate(metrics.coverage),
                estimate(metrics.level_error),
            ]
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        table(&["group", "predictor", "calibration error", "coverage at 5% error", "level error"], 2, &rows)
    }

    /// Returns the table of values that only the model has. Empty if it has none.
    fn stability(&self) -> String {
        let is_known = |metrics: &Metrics| {
            metrics.flips.is_some() || metrics.mass.is_some() || metrics.max_error.is_some()
        };
        let rows = self.rows.iter().filter(|row| is_known(&row.metrics)).map(|row| {
            vec![
                row.group.name().to_owned(),
                estimate(row.metrics.flips),
                number(row.metrics.mass),
                number(row.metrics.max_error),
            ]
        });
        match rows.collect::<Vec<_>>() {
            rows if rows.is_empty() => String::new(),
            rows => table(&["group", "flips in reverse", "median mass", "maximum error"], 1, &rows),
        }
    }
}

fn temperature(held_out: &HeldOut) -> String {
    let HeldOut { fitted, fitted_on, before, after } = held_out;
    let by_options = fitted.by_options.iter();
    let by_options: Vec<String> = by_options
        .map(|(options, temperature)| format!("{options}: {}", number(Some(*temperature))))
        .collect();
    let mut text = wrapped(&format!(
        "Temperatures were fitted to {fitted_on} decisions of one half of the states, and measured on {} \
         decisions of the other half. Temperature: {}. By number of options: {}.",
        before.decisions,
        number(Some(fitted.temperature)),
        if by_options.is_empty() { "-".to_owned() } else { by_options.join(", ") }
    ));
    let row = |name: &str, metrics: &Metrics| {
        let cells = [metrics.brier, metrics.nll, metrics.ece, metrics.coverage].map(estimate);
        [vec![name.to_owned()], cells.to_vec()].concat()
    };
    let rows = [row("as given", before), row("fitted", after)];
    let header =
        ["probabilities", "Brier score", "cross-entropy", "calibration error", "coverage at 5% error"];
    text.push('\n');
    text.push_str(&table(&header, 1, &rows));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decisions::samples::{outcome, tops};

    fn outcomes() -> Vec<Outcome> {
        let mut outcomes =
            tops(&(0..40).map(|index| (0.6 + f64::from(index) / 100.0, index % 3 != 0)).collect::<Vec<_>>());
        outcomes.push(Outcome { mass: Some(1e-5), flipped: Some(true), ..outcome("x", &[0.2, 0.5, 0.3], 1) });
        outcomes.push(Outcome { kind: QuestionKind::Score, ..outcome("y", &[0.2, 0.5, 0.3], 1) });
        outcomes[0].source = Some("a source with a name that is longer than a table is wide ".repeat(3));
        outcomes[1].source = Some("b".to_owned());
        outcomes
    }

    #[test]
    fn groups_are_all_kinds_and_sources() {
        let report = DecisionReport::of(&outcomes());
        assert_eq!((report.decisions, report.states, report.rows.len()), (42, 42, 3 * 6));
        let groups: Vec<_> =
            report.rows.iter().step_by(3).map(|row| (row.group.name(), row.metrics.decisions)).collect();
        assert_eq!(groups[..4], [("all", 42), ("noul", 40), ("choice", 1), ("score", 1)]);
        assert_eq!(groups[5], ("b", 1));
    }

    #[test]
    fn markdown_fits_110_columns_and_prints_no_nan() {
        let outcomes = outcomes();
        let report =
            DecisionReport { held_out: HeldOut::of(&outcomes), skipped: 7, ..DecisionReport::of(&outcomes) };
        assert!(report.held_out.is_some());
        let text = report.to_markdown();
        assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        for part in [
            "42 decisions (n) about 42 states. 7 questions without a gold answer were skipped, and 0 failed.",
            "Small samples rank nothing",
            "## Temperature",
            "1e-5",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_report_without_outcomes_has_no_tables() {
        let text = DecisionReport::of(&[]).to_markdown();
        assert!(text.starts_with("0 decisions") && !text.contains('|') && !text.contains("NaN"));
        let broken = DecisionReport::of(&[outcome("a", &[f64::NAN, f64::NAN], 0)]).to_markdown();
        assert!(!broken.contains("NaN"), "{broken}");
    }

    #[test]
    fn the_report_is_read_back_from_json() {
        let outcomes = outcomes();
        let report = DecisionReport { held_out: HeldOut::of(&outcomes), ..DecisionReport::of(&outcomes) };
        let text = serde_json::to_string(&report).expect("JSON");
        assert!(text.contains(r#""group":{"by":"kind","name":"noul"},"predictor":"uniform""#), "{text}");
        assert!(text.contains(r#""group":{"by":"all"},"predictor":"model""#), "{text}");
        let again: DecisionReport = serde_json::from_str(&text).expect("a report");
        assert_eq!(again.rows.len(), report.rows.len());
    }
}
