use std::collections::BTreeMap;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::json;

use super::{Checks, Latency, Rate, Trial};

/// Statistics of a set of trials.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Number of successful trials among all trials of the set that count.
    pub runs: Rate,
    /// Number of trials that do not count, because the error that their scenario is about never
    /// occurred.
    pub not_exercised: usize,
    /// Percentiles of the durations of trials.
    pub latency: Latency,
    /// Number of requests in all trials.
    pub requests: usize,
    /// Number of failed trials, by category of the failure.
    pub failures: BTreeMap<String, usize>,
    /// Judgements of all answers by the independent judge.
    pub checks: Checks,
}

impl Stats {
    /// Computes the statistics of `trials`.
    pub fn of<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Self {
        let (mut stats, mut times) = (Self::default(), Vec::new());
        for trial in trials {
            match trial.not_exercised {
                None => stats.runs.add(trial.ok),
                Some(_) => stats.not_exercised += 1,
            }
            stats.requests += trial.exchanges.len();
            times.push(trial.latency_ms);
            if let Some(failure) = &trial.failure {
                *stats.failures.entry(failure.category.clone()).or_default() += 1;
            }
            trial.exchanges.iter().for_each(|exchange| stats.checks.merge(&exchange.checks));
        }
        stats.latency = Latency::of(&times);
        stats
    }

    /// Returns the number of trials of the set, whether they count or not.
    pub const fn trials(&self) -> usize {
        self.runs.of + self.not_exercised
    }
}

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("runs", &self.runs.of)?;
        map.serialize_entry("ok", &self.runs.ok)?;
        map.serialize_entry("ok_rate", &self.runs.share())?;
        map.serialize_entry("ok_rate_95", &self.runs.interval())?;
        map.serialize_entry("not_exercised", &self.not_exercised)?;
        map.serialize_entry("latency_ms", &self.latency)?;
        map.serialize_entry("requests", &self.requests)?;
        map.serialize_entry("failures", &self.failures)?;
        for (name, rate) in self.checks.named() {
            let (share, interval) = (rate.share(), rate.interval());
            let value = json!({ "ok": rate.ok, "of": rate.of, "rate": share, "rate_95": interval });
            map.serialize_entry(&name.replace([' ', '-'], "_"), &value)?;
        }
        map.end()
    }
}

/// Pairs of a name and the statistics of the trials with this name, in the order of the settings.
/// Names without trials are omitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups(pub Vec<(String, Stats)>);

impl Groups {
    /// Groups trials by name. `belongs` reports whether a trial belongs to a name. A trial may belong
    /// to several names.
    pub(super) fn of(trials: &[&Trial], names: &[String], belongs: impl Fn(&Trial, &str) -> bool) -> Self {
        let group = |wanted: &String| {
            let of = trials.iter().copied().filter(|trial| belongs(trial, wanted));
            (wanted.clone(), Stats::of(of))
        };
        Self(names.iter().map(group).filter(|(_, stats)| stats.trials() > 0).collect())
    }

    /// Reports whether there are no groups.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Groups {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, stats)| (name, stats)))
    }
}
