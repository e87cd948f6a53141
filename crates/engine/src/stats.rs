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
    /// Tokens of prompts, cached ones included.
    pub prompt_tokens: u64,
    /// Those of them that had been computed before.
    pub cached_tokens: u64,
    /// Tokens of outputs, forced ones included.
    pub completion_tokens: u64,
    /// Those of them that grammars forced.
    pub forced_tokens: u64,
    /// Drafted tokens that were tried, and those of them that were right.
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
