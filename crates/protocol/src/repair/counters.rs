use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use super::Verdict;

/// How often what was needed, over all that was asked. Clones of what counts share it.
///
/// A run of a [`Step`](crate::step::Step) with a schema counts as one that is asked. All that it asks for beyond its first answer are repairs, be it a repair or
/// a further attempt: both tell the model what is wrong.
#[derive(Debug, Default)]
pub struct Counters {
    runs: AtomicU64,
    parsed: AtomicU64,
    valid_at_first: AtomicU64,
    valid: AtomicU64,
    repaired: AtomicU64,
    repairs: AtomicU64,
    discarded: AtomicU64,
    plain_text: AtomicU64,
}

/// What a run comes to in the counters.
pub(crate) struct Tally {
    pub(crate) verdict: Verdict,
    /// Whether a value was read in the end.
    pub(crate) is_parsed: bool,
    /// Attempts to repair.
    pub(crate) repairs: u64,
    /// Those that validated less than what they were to repair.
    pub(crate) discarded: u64,
}

impl Counters {
    pub(crate) fn count(&self, tally: &Tally) {
        let add = |counter: &AtomicU64, by: u64| counter.fetch_add(by, Relaxed);
        let is_valid = tally.verdict == Verdict::Valid;
        add(&self.runs, 1);
        add(&self.parsed, tally.is_parsed.into());
        add(&self.valid, is_valid.into());
        add(&self.valid_at_first, (is_valid && tally.repairs == 0).into());
        add(&self.repaired, (tally.repairs > 0).into());
        add(&self.repairs, tally.repairs);
        add(&self.discarded, tally.discarded);
        add(&self.plain_text, (tally.verdict == Verdict::Text).into());
    }

    /// The figures now.
    pub fn stats(&self) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        Stats {
            runs: read(&self.runs),
            parsed: read(&self.parsed),
            valid_at_first: read(&self.valid_at_first),
            valid: read(&self.valid),
            repaired: read(&self.repaired),
            repairs: read(&self.repairs),
            discarded: read(&self.discarded),
            plain_text: read(&self.plain_text),
        }
    }
}

/// The figures of some runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// How much was asked or given to repair.
    pub runs: u64,
    /// Of that, where a value was read.
    pub parsed: u64,
    /// Where it fitted without a repair.
    pub valid_at_first: u64,
    /// Where it fitted in the end.
    pub valid: u64,
    /// Where a repair was tried.
    pub repaired: u64,
    /// The repairs that were tried.
    pub repairs: u64,
    /// Of them, those that validated less, and were discarded.
    pub discarded: u64,
    /// Where plain text was all there was.
    pub plain_text: u64,
}

/// A figure to reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Target {
    /// Of what.
    pub name: &'static str,
    /// The figure; none where nothing was counted yet.
    pub value: Option<f64>,
    /// What it should be.
    pub target: f64,
    /// Whether it is.
    pub is_met: bool,
}

impl Stats {
    /// The share of runs in which a value was read.
    pub fn parse_rate(&self) -> Option<f64> {
        share(self.parsed, self.runs)
    }

    /// The share of runs in which a value fitted in the end.
    pub fn validation_rate(&self) -> Option<f64> {
        share(self.valid, self.runs)
    }

    /// How many repairs it took on average, where any were tried.
    pub fn average_repairs(&self) -> Option<f64> {
        share(self.repairs, self.repaired)
    }

    /// The share of runs in which plain text was all there was.
    pub fn plain_text_rate(&self) -> Option<f64> {
        share(self.plain_text, self.runs)
    }

    /// The figures beside those that are aimed at: values read in 95% of the runs and fitting in 99%, less than 1.2 repairs where there are any,
    /// and plain text in less than 1%. What was not counted yet is not missed.
    pub fn targets(&self) -> [Target; 4] {
        let least = |name, value: Option<f64>, target| Target {
            name,
            value,
            target,
            is_met: value.is_none_or(|value| value >= target),
        };
        let below = |name, value: Option<f64>, target| Target {
            name,
            value,
            target,
            is_met: value.is_none_or(|value| value < target),
        };
        [
            least("parse_success", self.parse_rate(), 0.95),
            least("schema_validation", self.validation_rate(), 0.99),
            below("average_repair_attempts", self.average_repairs(), 1.2),
            below("plain_text_fallback", self.plain_text_rate(), 0.01),
        ]
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
