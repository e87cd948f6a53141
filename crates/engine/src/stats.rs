use std::time::Duration;

/// Statistics of an engine since its start, and its current load.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stats {
    /// Requests that wait for a place in the model.
    pub waiting: usize,
    /// Sequences in the model.
    pub running: usize,
    /// Generations that finished.
    pub finished: u64,
    /// Generations cancelled because the receiver was gone.
    pub cancelled: u64,
    /// Generations that failed.
    pub failed: u64,
    /// Tokens of prompts and embedded texts, cached ones included.
    pub prompt_tokens: u64,
    /// Prompt tokens that were already computed.
    pub cached_tokens: u64,
    /// Tokens that were computed again, because a sequence was cut where the model has no copy of its
    /// recurrent state.
    pub replayed_tokens: u64,
    /// Tokens of outputs, forced ones included.
    pub completion_tokens: u64,
    /// Output tokens that grammars forced.
    pub forced_tokens: u64,
    /// Drafted tokens that the model checked.
    pub drafted_tokens: u64,
    /// Drafted tokens that were accepted.
    pub accepted_tokens: u64,
    /// Questions that were decided.
    pub decisions: u64,
    /// Prefixes of options that the model read for decisions, one token or more each.
    pub decision_nodes: u64,
    /// Rows of the output head that masks allowed, in all passes of generations. The others need not be
    /// computed.
    pub head_rows: u64,
    /// Rows of the output head that the same passes would have without masks.
    pub unmasked_head_rows: u64,
    /// Forward passes.
    pub steps: u64,
    /// Time spent on masks and grammar states.
    pub grammar: Duration,
    /// Time spent in forward passes.
    pub model: Duration,
    /// Tokens whose keys and values the prefix cache holds.
    pub cache_tokens: usize,
    /// Seconds from a request's arrival to the first token, for each generation.
    pub first_token: Histogram,
    /// Seconds between two steps that produced tokens of the same generation.
    pub between_tokens: Histogram,
    /// Number of sequences in each forward pass.
    pub batch: Histogram,
}

/// Bucket bounds in seconds.
const FIRST_TOKEN: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
const BETWEEN_TOKENS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
/// Bucket bounds in sequences.
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

    /// Counts a forward pass and the number of sequences in it.
    pub(crate) fn note_pass(&mut self, time: Duration, sequences: usize) {
        self.steps += 1;
        self.model += time;
        self.batch.observe(sequences as f64);
    }
}

/// Histogram of observed values.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Histogram {
    /// Buckets by ascending bounds.
    pub buckets: Vec<Bucket>,
    /// Number of observations above all bounds.
    pub above: u64,
    /// Sum of all observed values.
    pub sum: f64,
}

/// Bucket of a [`Histogram`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bucket {
    /// Upper bound of the observed values.
    pub bound: f64,
    /// Number of observations above the bound of the previous bucket and at most this bound.
    pub count: u64,
}

impl Histogram {
    /// Creates an empty histogram with these upper bounds, which must be ascending.
    pub fn new(bounds: &[f64]) -> Self {
        Self { buckets: bounds.iter().map(|&bound| Bucket { bound, count: 0 }).collect(), above: 0, sum: 0.0 }
    }

    /// Counts one observation.
    pub fn observe(&mut self, value: f64) {
        self.sum += value;
        match self.buckets.iter_mut().find(|bucket| value <= bucket.bound) {
            Some(bucket) => bucket.count += 1,
            None => self.above += 1,
        }
    }

    /// Returns the number of observations.
    pub fn count(&self) -> u64 {
        self.above + self.buckets.iter().map(|bucket| bucket.count).sum::<u64>()
    }
}
