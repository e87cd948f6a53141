use std::time::Duration;

/// What an engine has done since it started, and what it is doing.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stats {
    /// Requests that wait for a place.
    pub waiting: usize,
    /// Sequences in the model.
    pub running: usize,
    /// Generations that came to their end.
    pub finished: u64,
    /// Those that nobody waited for any more.
    pub cancelled: u64,
    /// Those that failed.
    pub failed: u64,
    /// Tokens of prompts and of embedded texts, cached ones included.
    pub prompt_tokens: u64,
    /// Those of them that had been computed before.
    pub cached_tokens: u64,
    /// Tokens of outputs, forced ones included.
    pub completion_tokens: u64,
    /// Those of them that grammars forced.
    pub forced_tokens: u64,
    /// Drafted tokens that were tried.
    pub drafted_tokens: u64,
    /// Those of the drafted tokens that were right.
    pub accepted_tokens: u64,
    /// Forward passes.
    pub steps: u64,
    /// Time in masks and grammar states.
    pub grammar: Duration,
    /// Time in forward passes.
    pub model: Duration,
    /// Tokens whose keys and values the prefix cache holds.
    pub cache_tokens: usize,
    /// From arrival to the first token, for each generation, in seconds.
    pub first_token: Histogram,
    /// Between two steps with tokens of one generation, in seconds.
    pub between_tokens: Histogram,
    /// Sequences in a forward pass.
    pub batch: Histogram,
}

/// Seconds.
const FIRST_TOKEN: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
const BETWEEN_TOKENS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
/// Sequences.
const BATCH: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

impl Stats {
    pub(crate) fn new() -> Self {
        Self {
            first_token: Histogram::new(FIRST_TOKEN),
            between_tokens: Histogram::new(BETWEEN_TOKENS),
            batch: Histogram::new(BATCH),
            ..Self::default()
        }
    }

    /// Counts a forward pass of so many sequences.
    pub(crate) fn note_pass(&mut self, time: Duration, sequences: usize) {
        self.steps += 1;
        self.model += time;
        self.batch.observe(sequences as f64);
    }
}

/// How many observations were at most how large.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Histogram {
    /// Upper bounds, ascending, and how many observations are above the bound before and not above this one.
    pub buckets: Vec<(f64, u64)>,
    /// Observations above all bounds.
    pub above: u64,
    /// All observations together.
    pub sum: f64,
}

impl Histogram {
    /// Without observations.
    pub fn new(bounds: &[f64]) -> Self {
        Self { buckets: bounds.iter().map(|&bound| (bound, 0)).collect(), above: 0, sum: 0.0 }
    }

    /// Counts one observation.
    pub fn observe(&mut self, value: f64) {
        self.sum += value;
        match self.buckets.iter_mut().find(|(bound, _)| value <= *bound) {
            Some((_, count)) => *count += 1,
            None => self.above += 1,
        }
    }

    /// The number of observations.
    pub fn count(&self) -> u64 {
        self.above + self.buckets.iter().map(|(_, count)| count).sum::<u64>()
    }
}
