use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::Event;

/// Counts of runs and events for one name, one bucket or a whole report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of runs of steps.
    pub runs: u64,
    /// Counts of changes of outputs by all stages (`output.coercion.*`).
    pub coercions: Coercions,
    /// The same counts by stage.
    pub stages: BTreeMap<String, Coercions>,
    /// Counts of repairs of broken JSON (`aros.aop.syntactic.*`).
    pub syntactic: Outcomes,
    /// Counts of conversions of values to other types (`aros.aop.coercion.*`).
    pub semantic: Outcomes,
    /// Counts of constraints during decoding (`aros.soe.*` and `grammar.applied`).
    pub soe: Soe,
    /// Counts of checks before a generation (`aros.reasoning.precheck.*`).
    pub precheck: Precheck,
    /// Counts of judgements of plans (`reasoning.validation`).
    pub validation: Validation,
    /// Number of runs of steps that failed.
    pub failed_runs: u64,
    /// Number of attempts that followed one without a usable output (`step.retry`).
    pub retries: u64,
    /// Counts of repairs by the model (`step.repair`).
    pub repairs: Repairs,
    /// Cost of the requests of steps.
    pub cost: Cost,
}

/// Counts of `step.repair` events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repairs {
    /// Number of repairs that gave a valid output.
    pub valid: u64,
    /// Number of all other repairs.
    pub failed: u64,
}

/// Cost of requests, as recorded in the spans of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Number of answered requests.
    pub requests: u64,
    /// Number of tokens of prompts and answers, if the backends report them.
    pub tokens: u64,
    /// Time of the requests, in milliseconds.
    pub latency_ms: u64,
}

/// Counts of `output.coercion.*` events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coercions {
    /// Number of times a stage began to process an output.
    pub attempts: u64,
    /// Number of times a stage changed an output.
    pub successes: u64,
    /// Number of times a stage failed and no later stage recovered the output.
    pub failures: u64,
    /// Number of times a stage failed and a later stage recovered the output.
    pub recovered: u64,
}

/// Counts of `aros.aop.syntactic.*` or `aros.aop.coercion.*` events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// Number of events whose name ends in `success`.
    pub success: u64,
    /// Number of events whose name ends in `skip`: there was nothing to do.
    pub skip: u64,
    /// Number of events whose name ends in `fail`.
    pub fail: u64,
}

/// Counts of `aros.soe.*` and `grammar.applied` events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Soe {
    /// Number of outputs that were constrained during decoding.
    pub enabled: u64,
    /// Number of outputs that were not constrained, although the configuration requested it.
    pub skipped: u64,
    /// Number of requests that asked the backend for a schema or grammar constraint.
    pub applied: u64,
}

/// Counts of `aros.reasoning.precheck.*` events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Precheck {
    /// Number of prechecks that passed.
    pub pass: u64,
    /// Number of prechecks that failed.
    pub fail: u64,
    /// Number of prechecks that were skipped because there was nothing to check.
    pub skipped: u64,
}

/// Counts of `reasoning.validation` events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Validation {
    /// Number of accepted plans.
    pub pass: u64,
    /// Number of rejected plans.
    pub fail: u64,
}

impl Tally {
    /// Returns the number of coercions per 100 runs. Returns `None` if there are no runs.
    pub fn per_100_runs(&self) -> Option<f64> {
        (self.runs > 0).then(|| self.coercions.successes as f64 * 100.0 / self.runs as f64)
    }

    /// Adds `count` events. For a failure, `is_recovered` selects the counter. For a validation and
    /// a repair, `stage` is the result.
    pub(super) fn add(&mut self, (event, is_recovered): (Event, bool), stage: Option<&str>, count: u64) {
        let counter = match event {
            Event::GrammarApplied => &mut self.soe.applied,
            Event::SoeEnabled => &mut self.soe.enabled,
            Event::SoeSkipped => &mut self.soe.skipped,
            Event::SyntacticSuccess => &mut self.syntactic.success,
            Event::SyntacticSkip => &mut self.syntactic.skip,
            Event::SyntacticFail => &mut self.syntactic.fail,
            Event::CoercionSuccess => &mut self.semantic.success,
            Event::CoercionSkip => &mut self.semantic.skip,
            Event::CoercionFail => &mut self.semantic.fail,
            Event::PrecheckPass => &mut self.precheck.pass,
            Event::PrecheckFail => &mut self.precheck.fail,
            Event::PrecheckSkipped => &mut self.precheck.skipped,
            // For this event, `stage` has the result, `pass` or `fail`.
            Event::ReasoningValidation if stage == Some("pass") => &mut self.validation.pass,
            Event::ReasoningValidation => &mut self.validation.fail,
            Event::StepRetry => &mut self.retries,
            // For this event, `stage` has the result.
            Event::StepRepair if stage == Some("valid") => &mut self.repairs.valid,
            Event::StepRepair => &mut self.repairs.failed,
            // Failed runs are counted by the status of their spans.
            Event::StepFail => return,
            Event::OutputAttempt | Event::OutputSuccess | Event::OutputFail => {
                if let Some(stage) = stage {
                    if !self.stages.contains_key(stage) {
                        self.stages.insert(stage.to_owned(), Coercions::default());
                    }
                    if let Some(of_stage) = self.stages.get_mut(stage) {
                        *of_stage.counter(event, is_recovered) += count;
                    }
                }
                self.coercions.counter(event, is_recovered)
            }
        };
        *counter += count;
    }
}

impl Tally {
    /// Adds the counts of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        self.runs += other.runs;
        self.coercions += other.coercions;
        for (stage, coercions) in &other.stages {
            *self.stages.entry(stage.clone()).or_default() += *coercions;
        }
        self.syntactic += other.syntactic;
        self.semantic += other.semantic;
        self.soe += other.soe;
        self.precheck += other.precheck;
        self.validation += other.validation;
        self.failed_runs += other.failed_runs;
        self.retries += other.retries;
        self.repairs += other.repairs;
        self.cost += other.cost;
    }
}

impl Coercions {
    const fn counter(&mut self, event: Event, is_recovered: bool) -> &mut u64 {
        match event {
            Event::OutputSuccess => &mut self.successes,
            Event::OutputFail if is_recovered => &mut self.recovered,
            Event::OutputFail => &mut self.failures,
            _ => &mut self.attempts,
        }
    }
}

/// Implements `AddAssign` for structs of counts.
macro_rules! added {
    ($($counters:ident { $($counter:ident),+ }),+) => {
        $(impl AddAssign for $counters {
            fn add_assign(&mut self, other: Self) {
                $(self.$counter += other.$counter;)+
            }
        })+
    };
}

added!(
    Coercions { attempts, successes, failures, recovered },
    Outcomes { success, skip, fail },
    Soe { enabled, skipped, applied },
    Precheck { pass, fail, skipped },
    Validation { pass, fail },
    Repairs { valid, failed },
    Cost { requests, tokens, latency_ms }
);

impl Precheck {
    /// Returns the number of failed prechecks as a share of all passed and failed ones, from 0 to
    /// 1. Returns `None` if no precheck passed or failed.
    pub fn failure_rate(self) -> Option<f64> {
        let checks = self.pass + self.fail;
        (checks > 0).then(|| self.fail as f64 / checks as f64)
    }
}

impl Serialize for Tally {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("runs", &self.runs)?;
        map.serialize_entry("coercions", &self.coercions)?;
        map.serialize_entry("coercions_per_100_runs", &self.per_100_runs())?;
        map.serialize_entry("stages", &self.stages)?;
        map.serialize_entry("syntactic", &self.syntactic)?;
        map.serialize_entry("semantic", &self.semantic)?;
        map.serialize_entry("soe", &self.soe)?;
        map.serialize_entry("precheck", &self.precheck)?;
        map.serialize_entry("precheck_failure_rate", &self.precheck.failure_rate())?;
        map.serialize_entry("validation", &self.validation)?;
        map.serialize_entry("failed_runs", &self.failed_runs)?;
        map.serialize_entry("retries", &self.retries)?;
        map.serialize_entry("repairs", &self.repairs)?;
        map.serialize_entry("cost", &self.cost)?;
        map.end()
    }
}
