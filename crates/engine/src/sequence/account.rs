//! Token counts and times of one sequence.
//!
//! Counts and times only grow. Each report adds the growth since the last report to the statistics,
//! so the statistics contain every token once.

use std::time::{Duration, Instant};

use crate::{Stats, Timings, Usage};

/// Counts and times of a sequence, and the part of them in the statistics.
pub(super) struct Account {
    usage: Usage,
    arrived: Instant,
    admitted: Instant,
    first_token: Option<Instant>,
    prompt_read: Option<Instant>,
    /// Total time spent on masks and grammar states.
    grammar: Duration,
    reported: Reported,
}

/// State at the last report to the statistics.
#[derive(Default)]
struct Reported {
    usage: Usage,
    grammar: Duration,
    /// Time of the last report with new tokens.
    tokens_at: Option<Instant>,
}

impl Account {
    /// Opens the account of a sequence that is admitted now.
    pub(super) fn new(prompt_tokens: usize, arrived: Instant) -> Self {
        Self {
            usage: Usage { prompt_tokens, ..Usage::default() },
            arrived,
            admitted: Instant::now(),
            first_token: None,
            prompt_read: None,
            grammar: Duration::ZERO,
            reported: Reported::default(),
        }
    }

    /// Returns the token counts.
    pub(super) const fn usage(&self) -> Usage {
        self.usage
    }

    /// Returns the number of output tokens so far.
    pub(super) const fn completion_tokens(&self) -> usize {
        self.usage.completion_tokens
    }

    /// Counts `tokens` prompt tokens that were already computed.
    pub(super) const fn count_cached(&mut self, tokens: usize) {
        self.usage.cached_tokens += tokens;
    }

    /// Counts one output token.
    pub(super) fn count_token(&mut self) {
        self.first_token.get_or_insert_with(Instant::now);
        self.usage.completion_tokens += 1;
    }

    /// Counts the output tokens after the first `before` as forced.
    pub(super) const fn count_forced_since(&mut self, before: usize) {
        self.usage.forced_tokens += self.usage.completion_tokens - before;
    }

    /// Sets the number of reasoning tokens.
    pub(super) const fn set_reasoning(&mut self, tokens: usize) {
        self.usage.reasoning_tokens = tokens;
    }

    /// Records that the model has read the prompt. Later calls change nothing.
    pub(super) fn note_prompt_read(&mut self) {
        self.prompt_read.get_or_insert_with(Instant::now);
    }

    /// Adds the time since `started` to the time of the grammar.
    pub(super) fn add_grammar_since(&mut self, started: Instant) {
        self.grammar += started.elapsed();
    }

    /// Adds the changes since the last call to the statistics.
    pub(super) fn report(&mut self, stats: &mut Stats) {
        let now = Instant::now();
        let Reported { usage: before, grammar, tokens_at } = self.reported;
        let cached = (self.usage.cached_tokens - before.cached_tokens) as u64;
        stats.cached_tokens += cached;
        stats.prompt_tokens += cached;
        stats.grammar += self.grammar.saturating_sub(grammar);
        let tokens = self.usage.completion_tokens - before.completion_tokens;
        self.reported = Reported { usage: self.usage, grammar: self.grammar, tokens_at };
        if tokens == 0 {
            return;
        }
        stats.completion_tokens += tokens as u64;
        stats.forced_tokens += (self.usage.forced_tokens - before.forced_tokens) as u64;
        match tokens_at {
            None => stats.first_token.observe((now - self.arrived).as_secs_f64()),
            Some(last) => stats.between_tokens.observe((now - last).as_secs_f64()),
        }
        self.reported.tokens_at = Some(now);
    }

    /// Returns the time spent in each phase of a generation that ends now.
    pub(super) fn timings(&self) -> Timings {
        let now = Instant::now();
        let read = self.prompt_read.unwrap_or(now);
        Timings {
            first_token: self.first_token.unwrap_or(now) - self.admitted,
            prompt: read - self.admitted,
            decode: now - read,
            grammar: self.grammar,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_every_token_once() {
        let mut stats = Stats::new();
        let mut account = Account::new(10, Instant::now());
        account.count_cached(4);
        account.report(&mut stats);
        assert_eq!((stats.cached_tokens, stats.prompt_tokens, stats.completion_tokens), (4, 4, 0));
        account.count_token();
        account.count_token();
        account.count_forced_since(1);
        account.report(&mut stats);
        account.report(&mut stats);
        account.count_token();
        account.report(&mut stats);
        assert_eq!((stats.cached_tokens, stats.completion_tokens, stats.forced_tokens), (4, 3, 1));
    }

    #[test]
    fn only_reports_with_new_tokens_are_observed() {
        let mut stats = Stats::new();
        let mut account = Account::new(1, Instant::now());
        account.report(&mut stats);
        assert_eq!((stats.first_token.count(), stats.between_tokens.count()), (0, 0));
        account.count_token();
        account.report(&mut stats);
        account.report(&mut stats);
        assert_eq!((stats.first_token.count(), stats.between_tokens.count()), (1, 0));
        account.count_token();
        account.report(&mut stats);
        assert_eq!((stats.first_token.count(), stats.between_tokens.count()), (1, 1));
    }

    #[test]
    fn an_unread_prompt_takes_the_whole_time() {
        let mut account = Account::new(1, Instant::now());
        assert_eq!(account.timings().decode, Duration::ZERO);
        account.note_prompt_read();
        let read = account.timings().prompt;
        account.note_prompt_read();
        assert_eq!(account.timings().prompt, read);
    }
}
