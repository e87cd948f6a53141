use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::trace::Event;

/// What happened, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs of steps.
    pub runs: u64,
    /// What was done to outputs (`output.coercion.*`).
    pub coercions: Coercions,
    /// The same by stage.
    pub stages: BTreeMap<String, Coercions>,
    /// Repairs of broken JSON (`aros.aop.syntactic.*`).
    pub syntactic: Outcomes,
    /// Conversions of types (`aros.aop.coercion.*`).
    pub semantic: Outcomes,
    /// Whether outputs were constrained while they were written.
    pub soe: Soe,
    /// Checks before generations.
    pub precheck: Precheck,
    /// Judgements of plans.
    pub validation: Validation,
}

/// `output.coercion.*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Coercions {
    /// How often a stage began.
    pub attempts: u64,
    /// How often one changed an output.
    pub successes: u64,
    /// How often one could not, and no later one did.
    pub failures: u64,
    /// How often one could not, and a later one did.
    pub recovered: u64,
}

/// `aros.aop.syntactic.*` and `aros.aop.coercion.*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcomes {
    /// How often it was done.
    pub success: u64,
    /// How often there was nothing to do.
    pub skip: u64,
    /// How often it could not be done.
    pub fail: u64,
}

/// `aros.soe.*` and `grammar.applied`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Soe {
    /// How often an output was constrained.
    pub enabled: u64,
    /// How often one could not be.
    pub skipped: u64,
    /// How often a backend was asked to hold a model to a schema or a grammar.
    pub applied: u64,
}

/// `aros.reasoning.precheck.*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Precheck {
    /// How often nothing was wrong.
    pub pass: u64,
    /// How often something was.
    pub fail: u64,
    /// How often there was nothing to check.
    pub skipped: u64,
}

/// `reasoning.validation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Validation {
    /// How often a plan was good.
    pub pass: u64,
    /// How often it was not.
    pub fail: u64,
}

impl Tally {
    /// Coercions in 100 runs; `None` without runs.
    pub fn per_100_runs(&self) -> Option<f64> {
        (self.runs > 0).then(|| self.coercions.successes as f64 * 100.0 / self.runs as f64)
    }

    /// Counts `count` events; of failures, those that were recovered or those that were not.
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
            // Its result stands where others have their stage.
            Event::ReasoningValidation if stage == Some("pass") => &mut self.validation.pass,
            Event::ReasoningValidation => &mut self.validation.fail,
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
    /// With what another has.
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

/// Counters are added one by one.
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
    Validation { pass, fail }
);

impl Precheck {
    /// The share of checks that found something; `None` without checks. What was skipped is none.
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
        map.end()
    }
}
