use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{InstanceCounts, Isolation, Outcome, Refusal, Spelling, Status};
use crate::Distribution;

/// Results over all cases.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// Schemas with instances.
    pub with_instances: Counts,
    /// Schemas without instances, which pass if they compile.
    pub without_instances: Counts,
    /// Numbers of instances and of wrong verdicts, over all schemas that compiled.
    pub instances: InstanceCounts,
    /// Reasons why schemas were refused, most frequent first.
    pub compile_errors: Vec<RefusalCount>,
    /// Times to compute a mask and append a token, in microseconds, over all schemas that compiled.
    pub mask_us: Distribution,
    /// Times to first mask, in microseconds: compilation and the first mask.
    pub ttfm_us: Distribution,
    /// Times to set up the sequence of an instance, in microseconds. Not included in the other
    /// times.
    pub start_us: Distribution,
}

/// Everything that a run reports as JSON.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Report<'a> {
    /// Name and version of the engine.
    pub engine: &'a str,
    /// Name of the tokenizer as given.
    pub tokenizer: &'a str,
    /// JSON spelling of the instances.
    pub text: Spelling,
    /// Scope of the caches.
    pub isolate: Isolation,
    /// Outcome of each case.
    pub schemas: &'a [Outcome],
    /// Summary over all cases.
    pub summary: &'a Summary,
}

/// Numbers of schemas, by the status of their outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[allow(missing_docs, reason = "as in `Status`")]
pub struct Counts {
    pub pass: usize,
    pub compile_error: usize,
    pub valid_rejected: usize,
    pub invalid_accepted: usize,
}

/// Number of schemas that were refused for the same reason.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RefusalCount {
    /// Unsupported keyword, if the engine names one.
    pub keyword: Option<String>,
    /// The reason, with quoted parts and numbers replaced by `…`.
    pub reason: String,
    /// Number of schemas that were refused for this reason.
    pub count: usize,
}

impl Summary {
    /// Summarizes the outcomes of all cases.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let (mut with_instances, mut without_instances) = (Counts::default(), Counts::default());
        let mut instances = InstanceCounts::default();
        for outcome in outcomes {
            let InstanceCounts { valid, invalid, valid_rejected, invalid_accepted } = outcome.instances;
            let counts = if valid + invalid > 0 { &mut with_instances } else { &mut without_instances };
            counts.add(outcome.status);
            if outcome.status != Status::CompileError {
                instances.valid += valid;
                instances.invalid += invalid;
                instances.valid_rejected += valid_rejected;
                instances.invalid_accepted += invalid_accepted;
            }
        }
        let times = |of: fn(&Outcome) -> &[f64]| Distribution::of(outcomes.iter().flat_map(of).copied());
        Self {
            with_instances,
            without_instances,
            instances,
            compile_errors: refusals(outcomes.iter().filter_map(|outcome| outcome.refusal.as_ref())),
            mask_us: times(|outcome| &outcome.mask_us),
            ttfm_us: times(|outcome| outcome.ttfm_us.as_slice()),
            start_us: times(|outcome| &outcome.start_us),
        }
    }
}

impl Counts {
    fn add(&mut self, status: Status) {
        *match status {
            Status::Pass => &mut self.pass,
            Status::CompileError => &mut self.compile_error,
            Status::ValidRejected => &mut self.valid_rejected,
            Status::InvalidAccepted => &mut self.invalid_accepted,
        } += 1;
    }
}

fn refusals<'a>(refusals: impl Iterator<Item = &'a Refusal>) -> Vec<RefusalCount> {
    let mut counts = BTreeMap::new();
    for refusal in refusals {
        *counts.entry((&refusal.keyword, unquoted(&refusal.reason))).or_insert(0) += 1;
    }
    let mut counts: Vec<RefusalCount> = counts
        .into_iter()
        .map(|((keyword, reason), count)| RefusalCount { keyword: keyword.clone(), reason, count })
        .collect();
    counts.sort_by_key(|refusal| std::cmp::Reverse(refusal.count));
    counts
}

/// Returns the first line of `reason` and replaces numbers and quoted parts with `…`, so that equal
/// reasons are counted together. Backquotes and double quotes are recognized.
fn unquoted(reason: &str) -> String {
    let mut short = String::new();
    let mut quote = None;
    for c in reason.chars().take_while(|&c| c != '\n') {
        match quote {
            Some(closing) if c != closing => continue,
            Some(_) => quote = None,
            None if matches!(c, '`' | '"') => {
                quote = Some(c);
                short.extend([c, '…']);
                continue;
            }
            None if c.is_ascii_digit() && short.ends_with('…') => continue,
            None => {}
        }
        short.push(if c.is_ascii_digit() { '…' } else { c });
    }
    short
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<26}{:>16}{:>16}", "schemas", "with instances", "without")?;
        let rows = [
            ("pass", (|counts| counts.pass) as fn(&Counts) -> usize),
            ("compile error", |counts| counts.compile_error),
            ("valid rejected", |counts| counts.valid_rejected),
            ("invalid accepted", |counts| counts.invalid_accepted),
        ];
        for (label, count) in rows {
            let (with, without) = (count(&self.with_instances), count(&self.without_instances));
            writeln!(f, "  {label:<24}{with:>16}{without:>16}")?;
        }
        let InstanceCounts { valid, invalid, valid_rejected, invalid_accepted } = self.instances;
        writeln!(f, "\ninstances of schemas that compile")?;
        writeln!(f, "  {valid} valid, {valid_rejected} of them rejected")?;
        writeln!(f, "  {invalid} invalid, {invalid_accepted} of them accepted")?;
        if !self.compile_errors.is_empty() {
            writeln!(f, "\ncompile errors")?;
        }
        for RefusalCount { keyword, reason, count } in &self.compile_errors {
            match keyword {
                Some(keyword) => writeln!(f, "{count:>8}  {keyword}: {reason}")?,
                None => writeln!(f, "{count:>8}  {reason}")?,
            }
        }
        writeln!(f, "\n{}", Distribution::header())?;
        for (label, times) in
            [("mask, µs", &self.mask_us), ("first mask, µs", &self.ttfm_us), ("start, µs", &self.start_us)]
        {
            writeln!(f, "{}", times.row(label))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_differ_by_more_than_what_they_quote() {
        assert_eq!(unquoted("unresolved reference `#/a`"), "unresolved reference `…`");
        assert_eq!(unquoted("needs 1200 states, more than 99\nhint"), "needs … states, more than …");
        assert_eq!(unquoted("format \"x\" of “y”"), "format \"…\" of “y”");
    }
}
