use std::fmt;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{BackendError, Category};

/// The pause before a retry that the server asks for at once.
const SHORTEST: Duration = Duration::from_millis(100);

/// When a request that failed is sent again: after errors that may pass, later each time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// How often at most, after the first time.
    pub retries: u32,
    /// The pause before the first retry; it doubles each time.
    pub first: Duration,
    /// The longest pause that is made of itself; a server that asks for a longer one gets it.
    pub longest: Duration,
    /// When to give up, from the first time on. Where the server is only busy (429) the number of retries has no bound but this one.
    pub deadline: Option<Duration>,
}

impl Default for RetryPolicy {
    /// Three times, after 1, 2 and 4 seconds, pauses of up to 30, no deadline.
    fn default() -> Self {
        Self { retries: 3, first: Duration::from_secs(1), longest: Duration::from_secs(30), deadline: None }
    }
}

/// A request that is about to be sent again, or an answer that is about to be repaired.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Why.
    pub cause: RetryCause,
    /// Which attempt comes next: of requests from 2, of repairs from 1.
    pub attempt: u32,
    /// How many there are at most; none where only a deadline ends them.
    pub max_attempts: Option<u32>,
    /// After how long.
    pub pause: Duration,
    /// Since when it has been tried.
    pub started_at: SystemTime,
    /// Whether a model is asked to repair what it wrote, rather than a server to answer after all.
    pub is_schema_repair: bool,
}

/// Why something is tried again.
#[derive(Clone, Debug, PartialEq)]
pub enum RetryCause {
    /// There was no answer.
    Backend(BackendError),
    /// There was one that does not fit its schema, for these reasons.
    Schema(Vec<String>),
}

impl RetryCause {
    /// The name of its kind in records, such as `RATE_LIMITED`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Backend(error) => error.category().name(),
            Self::Schema(_) => "SCHEMA_VALIDATION",
        }
    }
}

impl fmt::Display for RetryCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(error) => error.fmt(f),
            Self::Schema(errors) => f.write_str(&errors.join("; ")),
        }
    }
}

impl RetryPolicy {
    /// None at all.
    pub const fn never() -> Self {
        Self { retries: 0, first: Duration::ZERO, longest: Duration::ZERO, deadline: Some(Duration::ZERO) }
    }

    /// Whether to go on after `error` of the given attempt (from 1), and when.
    pub(super) fn next(&self, error: &BackendError, attempt: u32, started: Instant) -> Option<Retry> {
        let busy = error.category() == Category::RateLimited && self.deadline.is_some();
        if !error.is_transient() || (attempt > self.retries && !busy) {
            return None;
        }
        let doubled = self.first.saturating_mul(1 << (attempt - 1).min(20)).min(self.longest);
        // Of clients that were turned away together not all come back together.
        let jittered = doubled.mul_f64(0.75 + 0.25 * fastrand::f64());
        let pause = error.retry_after().map_or(jittered, |asked| asked.max(SHORTEST));
        let late = self.deadline.is_some_and(|deadline| started.elapsed() + pause > deadline);
        (!late).then(|| Retry {
            cause: RetryCause::Backend(error.clone()),
            attempt: attempt + 1,
            max_attempts: (!busy).then_some(self.retries + 1),
            pause,
            started_at: SystemTime::now().checked_sub(started.elapsed()).unwrap_or(SystemTime::UNIX_EPOCH),
            is_schema_repair: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, retry_after: Option<u64>) -> BackendError {
        BackendError::of_status(status, "", retry_after.map(Duration::from_secs))
    }

    fn pauses(policy: RetryPolicy, error: &BackendError) -> Vec<Duration> {
        let started = Instant::now();
        (1..20).map_while(|attempt| policy.next(error, attempt, started).map(|retry| retry.pause)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_up_to_the_longest() {
        let policy = RetryPolicy { retries: 7, ..RetryPolicy::default() };
        let pauses = pauses(policy, &error(503, None));
        assert_eq!(pauses.len(), 7);
        for (pause, most) in pauses.into_iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]) {
            assert!((0.75 * most..=most).contains(&pause.as_secs_f64()), "{pause:?} of {most}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_server_asks_for_is_kept() {
        assert_eq!(pauses(RetryPolicy::default(), &error(429, Some(7))), [Duration::from_secs(7); 3]);
        assert_eq!(pauses(RetryPolicy::default(), &error(503, Some(60))), [Duration::from_secs(60); 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_pass_is_not_tried_again() {
        for status in [400, 401, 404, 422] {
            assert!(pauses(RetryPolicy::default(), &error(status, None)).is_empty(), "{status}");
        }
        assert!(pauses(RetryPolicy::never(), &error(503, None)).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_is_asked_until_the_deadline() {
        let policy = RetryPolicy { deadline: Some(Duration::from_secs(3600)), ..RetryPolicy::default() };
        assert_eq!(pauses(policy, &error(429, Some(1))).len(), 19);
        assert_eq!(pauses(policy, &error(503, Some(1))).len(), 3);
        assert!(pauses(policy, &error(429, Some(3601))).is_empty());
    }
}
