use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::Serialize;

use super::Verdict;

/// Statistics of repairs over all runs. Clones of a [`Repairer`](super::Repairer) share one
/// instance.
///
/// A run of a [`Step`](crate::step::Step) with a schema counts as one run. All its requests after
/// the first answer count as repairs, because repairs and further attempts both show the model its
/// errors.
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

/// Result of one run, as counted by [`Counters`].
pub(crate) struct Tally {
    pub(crate) verdict: Verdict,
    /// True if the final answer contains a value.
    pub(crate) is_parsed: bool,
    /// Number of attempted repairs.
    pub(crate) repairs: u64,
    /// Number of repairs that were discarded.
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

    /// Returns the current figures.
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

/// Figures of all runs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Number of runs. Each question, and each text given for repair, counts once.
    pub runs: u64,
    /// Number of runs whose final answer contains a value.
    pub parsed: u64,
    /// Number of runs with a valid value that needed no repair.
    pub valid_at_first: u64,
    /// Number of runs that ended with a valid value.
    pub valid: u64,
    /// Number of runs in which a repair was attempted.
    pub repaired: u64,
    /// Total number of attempted repairs.
    pub repairs: u64,
    /// Number of repairs that were discarded, because they were worse, lost content or were not
    /// answered.
    pub discarded: u64,
    /// Number of runs that ended with plain text only.
    pub plain_text: u64,
}

/// A figure compared with its target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Target {
    /// Name of the figure, such as `parse_success`.
    pub name: &'static str,
    /// Current figure, or `None` if nothing was counted yet.
    pub value: Option<f64>,
    /// Target for the figure. Depending on the figure, a minimum or an exclusive maximum.
    pub target: f64,
    /// True if the figure meets its target or was not counted yet.
    pub is_met: bool,
}

impl Stats {
    /// Returns the fraction of runs whose final answer contains a value.
    pub fn parse_rate(&self) -> Option<f64> {
        share(self.parsed, self.runs)
    }

    /// Returns the fraction of runs that ended with a valid value.
    pub fn validation_rate(&self) -> Option<f64> {
        share(self.valid, self.runs)
    }

    /// Returns the average number of repairs over the runs in which a repair was attempted.
    pub fn average_repairs(&self) -> Option<f64> {
        share(self.repairs, self.repaired)
    }

    /// Returns the fraction of runs that ended with plain text only.
    pub fn plain_text_rate(&self) -> Option<f64> {
        share(self.plain_text, self.runs)
    }

    /// Compares the figures with their targets.
    ///
    /// The targets are:
    /// - A value in at least 95% of the runs.
    /// - A valid value in at least 99% of the runs.
    /// - Fewer than 1.2 repairs on average.
    /// - Plain text in less than 1% of the runs.
    ///
    /// A figure that was not counted yet meets its target.
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
