//! Table of keywords: the overall result for each keyword and model.

use std::collections::BTreeSet;

use serde::Serialize;

use super::keywords::{ALL, ANY_SCHEMA, mentions, of_schema};
use super::{Case, StructuredTrial, Verdict, Violation};

/// Overall result for a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeywordVerdict {
    /// At least one probe was enforced, and no answer or refusal says otherwise.
    Enforced,
    /// At least one answer violates the keyword.
    Ignored,
    /// At least one request was refused because of the keyword, and no answer violates it.
    Refused,
    /// No probe tested the keyword, but the answers of other cases satisfy it.
    Kept,
    /// The trials do not show whether the keyword is enforced.
    Inconclusive,
}

impl KeywordVerdict {
    /// Returns the name in results, such as `enforced`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
            Self::Kept => "kept",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Results for one keyword and one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeywordRow {
    /// Name of the keyword, such as `maximum`, `format: date` or `if/then/else`.
    pub keyword: String,
    /// Name of the model.
    pub model: String,
    /// Overall result.
    pub verdict: KeywordVerdict,
    /// Number of probes that were enforced.
    pub enforced: usize,
    /// Number of answers that violate the keyword.
    pub ignored: usize,
    /// Number of requests that were refused because of the keyword.
    pub refused: usize,
    /// Number of probes that show nothing about the keyword.
    pub inconclusive: usize,
    /// Number of answers to cases without `violates` that satisfy the keyword.
    pub kept: usize,
    /// Number of answers with text around the JSON value, such as a fence. Their values count above.
    pub not_closed: usize,
}

impl KeywordRow {
    fn overall(&self) -> KeywordVerdict {
        match self {
            Self { ignored: 1.., .. } => KeywordVerdict::Ignored,
            Self { refused: 1.., .. } => KeywordVerdict::Refused,
            Self { enforced: 1.., .. } => KeywordVerdict::Enforced,
            Self { inconclusive: 0, kept: 1.., .. } => KeywordVerdict::Kept,
            _ => KeywordVerdict::Inconclusive,
        }
    }
}

/// Results of a model that decide how its other trials count.
#[derive(Default)]
struct Control {
    /// True if a request with a schema was answered: a refusal of another one is about its schema.
    is_answered: bool,
    /// True if the answer to a plain schema is not its JSON: the server reads no schemas.
    is_ignored: bool,
    /// Keywords that probes show as enforced.
    enforced: BTreeSet<String>,
}

impl Control {
    /// Returns the results of a model. Without a trial of the plain schema, any answer counts.
    fn of(trials: &[(&Case, &StructuredTrial)]) -> Self {
        let probes = |name: &str| {
            let name = name.to_owned();
            trials
                .iter()
                .filter(move |(case, _)| case.violates.as_ref() == Some(&name))
                .map(|(_, trial)| trial)
        };
        let is_answered = |trial: &StructuredTrial| trial.valid.is_some();
        let mut plain = probes(ANY_SCHEMA).peekable();
        let is_answered = match plain.peek() {
            Some(_) => plain.any(|trial| is_answered(trial)),
            None => trials.iter().any(|(_, trial)| is_answered(trial)),
        };
        let is_ignored = probes(ANY_SCHEMA).any(|trial| trial.verdict == Some(Verdict::Ignored));
        let probed: BTreeSet<&String> =
            trials.iter().filter_map(|(case, _)| case.violates.as_ref()).collect();
        let is_enforced = |keyword: &&String| {
            let direct = |trial: &StructuredTrial| {
                trial.verdict == Some(Verdict::Ignored) && is_direct(trial, keyword)
            };
            probes(keyword).any(|trial| trial.verdict == Some(Verdict::Enforced))
                && !probes(keyword).any(|trial| direct(trial))
        };
        let enforced = probed.into_iter().filter(is_enforced).cloned().collect();
        Self { is_answered, is_ignored, enforced }
    }

    /// Returns the verdict of a probe. A refusal counts only if the server accepts other schemas. A
    /// violation of another keyword inside of the probed one, such as `enum` in `propertyNames`,
    /// counts only if the server enforces that keyword elsewhere.
    fn verdict(&self, verdict: Verdict, keyword: &str, trial: &StructuredTrial) -> Verdict {
        let is_inner = |inner: &Violation| self.enforced.contains(&inner.keyword);
        match verdict {
            Verdict::Refused if keyword != ANY_SCHEMA && !self.is_answered => Verdict::Inconclusive,
            Verdict::Ignored
                if !(self.is_ignored
                    || keyword == ANY_SCHEMA
                    || is_direct(trial, keyword)
                    || trial.violations.iter().any(is_inner)) =>
            {
                Verdict::Inconclusive
            }
            other => other,
        }
    }
}

/// Reports whether an answer violates the keyword itself, or has no JSON value.
fn is_direct(trial: &StructuredTrial, keyword: &str) -> bool {
    trial.violations.is_empty() || trial.violations.iter().any(|violation| violation.keyword == keyword)
}

/// Adds the result of one trial to a row.
fn count(case: &Case, trial: &StructuredTrial, control: &Control, row: &mut KeywordRow) {
    if let (Some(verdict), Some(probed)) = (trial.verdict, case.violates.as_ref()) {
        if *probed == row.keyword {
            match control.verdict(verdict, probed, trial) {
                Verdict::Enforced => row.enforced += 1,
                Verdict::Ignored => row.ignored += 1,
                Verdict::Refused => row.refused += 1,
                Verdict::Inconclusive => row.inconclusive += 1,
            }
            row.not_closed += usize::from(is_not_closed(trial));
        }
        return;
    }
    let is_violated = trial.violations.iter().any(|violation| violation.keyword == row.keyword);
    let is_judged = trial.valid.is_some() && trial.complete == Some(true);
    let reason = trial.failure.as_ref().map_or("", |failure| failure.message.as_str());
    if is_judged && is_violated {
        row.ignored += 1;
    } else if is_judged && (trial.valid == Some(true) || !trial.violations.is_empty()) {
        row.kept += 1;
    } else if trial.refused && mentions(reason, &row.keyword) {
        row.refused += 1;
    }
    row.not_closed += usize::from(is_not_closed(trial));
}

/// Reports whether a complete answer has text around its JSON value.
fn is_not_closed(trial: &StructuredTrial) -> bool {
    let has_value = trial.valid == Some(true) || !trial.violations.is_empty();
    has_value && trial.complete == Some(true) && trial.closed == Some(false)
}

/// Returns a row for each keyword and model that has trials, in the order of
/// [`ALL`].
pub(super) fn table(cases: &[Case], models: &[String], trials: &[StructuredTrial]) -> Vec<KeywordRow> {
    let of_case = |case: &Case| match &case.violates {
        Some(probed) => BTreeSet::from([probed.clone()]),
        None => of_schema(&case.schema),
    };
    let sets: std::collections::HashMap<&str, (&Case, BTreeSet<String>)> =
        cases.iter().map(|case| (case.id.as_str(), (case, of_case(case)))).collect();
    let place = |keyword: &str| {
        let name = keyword.split(": ").next().unwrap_or(keyword);
        ALL.iter().position(|known| *known == name).map_or(0, |at| at + 1)
    };
    let mut names: Vec<String> = sets.values().flat_map(|(_, set)| set.iter().cloned()).collect();
    names.sort_by(|one, other| (place(one), one).cmp(&(place(other), other)));
    names.dedup();
    let controls: std::collections::HashMap<&str, Control> = models
        .iter()
        .map(|model| {
            let of_model = trials.iter().filter(|trial| trial.key.model == *model);
            let with_case = of_model.filter_map(|trial| Some((sets.get(trial.key.case.as_str())?.0, trial)));
            (model.as_str(), Control::of(&with_case.collect::<Vec<_>>()))
        })
        .collect();
    let mut rows = Vec::new();
    for keyword in names {
        for model in models {
            let mut row = KeywordRow {
                keyword: keyword.clone(),
                model: model.clone(),
                verdict: KeywordVerdict::Inconclusive,
                enforced: 0,
                ignored: 0,
                refused: 0,
                inconclusive: 0,
                kept: 0,
                not_closed: 0,
            };
            let of_model = trials.iter().filter(|trial| trial.key.model == *model);
            let mut any = false;
            for trial in of_model {
                let Some((case, set)) = sets.get(trial.key.case.as_str()) else { continue };
                if set.contains(&keyword) {
                    any = true;
                    count(case, trial, &controls[model.as_str()], &mut row);
                }
            }
            if any {
                row.verdict = row.overall();
                rows.push(row);
            }
        }
    }
    rows
}
