use std::fmt;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{BackendError, Category};

/// Minimum pause before a retry, even if the server requests a shorter one.
const SHORTEST: Duration = Duration::from_millis(100);
/// Maximum pause before a retry, even if the server requests a longer one.
const LONGEST: Duration = Duration::from_secs(60);

/// Rules for resending a failed request. Only transient errors are retried, with exponential
/// backoff.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Maximum number of retries, not counting the first attempt.
    pub retries: u32,
    /// Pause before the first retry. Each further retry doubles the pause; jitter shortens each
    /// pause by up to 25%.
    pub first: Duration,
    /// Maximum pause chosen by the policy. A longer pause requested by the server is respected, up
    /// to 60 seconds.
    pub longest: Duration,
    /// Time limit for all attempts and pauses together, measured from the first attempt. With a
    /// deadline, rate-limited requests (429) are retried until the deadline, regardless of
    /// `retries`.
    pub deadline: Option<Duration>,
}

impl Default for RetryPolicy {
    /// Returns 3 retries after about 1, 2 and 4 seconds, a maximum pause of 30 seconds and no
    /// deadline.
    fn default() -> Self {
        Self { retries: 3, first: Duration::from_secs(1), longest: Duration::from_secs(30), deadline: None }
    }
}

/// A request that is about to be resent, or an answer that is about to be repaired.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Cause of the retry.
    pub cause: RetryCause,
    /// Number of the next attempt. The first retry of a request has number 2, because the request
    /// itself was attempt 1. The first repair has number 1.
    pub attempt: u32,
    /// Maximum number of attempts. `None` if only the deadline ends the retries.
    pub max_attempts: Option<u32>,
    /// Pause before the next attempt.
    pub pause: Duration,
    /// Time at which the first attempt started.
    pub started_at: SystemTime,
    /// True if the model is asked to repair its output; false if a request is resent.
    pub is_schema_repair: bool,
}

/// Cause of a retry.
#[derive(Clone, Debug, PartialEq)]
pub enum RetryCause {
    /// The backend did not answer.
    Backend(BackendError),
    /// The answer does not match its schema. Holds the validation errors.
    Schema(Vec<String>),
}

impl RetryCause {
    /// Returns the name of the cause in records, such as `RATE_LIMITED`.
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
    /// Creates a policy without retries.
    pub const fn never() -> Self {
        Self { retries: 0, first: Duration::ZERO, longest: Duration::ZERO, deadline: Some(Duration::ZERO) }
    }

    /// Returns the next retry after `error`, or `None` to give up. `attempt` is the number of the
    /// failed attempt, from 1. `started` is the time at which the first attempt started.
    pub(super) fn next(&self, error: &BackendError, attempt: u32, started: Instant) -> Option<Retry> {
        let busy = error.category() == Category::RateLimited && self.deadline.is_some();
        if !error.is_transient() || (attempt > self.retries && !busy) {
            return None;
        }
        let doubled = self.first.saturating_mul(1 << (attempt - 1).min(20)).min(self.longest);
        // Jitter keeps clients that were rejected together from all returning at the same time.
        let jittered = doubled.mul_f64(0.75 + 0.25 * fastrand::f64());
        let pause = error.retry_after().map_or(jittered, |asked| asked.clamp(SHORTEST, LONGEST));
        // A server that asks for more time than is left will still be busy.
        let asked = error.retry_after().map_or(pause, |asked| asked.max(pause));
        let late = self.deadline.is_some_and(|deadline| started.elapsed().saturating_add(asked) > deadline);
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
    async fn pauses_double_up_to_the_maximum() {
        let policy = RetryPolicy { retries: 7, ..RetryPolicy::default() };
        let pauses = pauses(policy, &error(503, None));
        assert_eq!(pauses.len(), 7);
        for (pause, most) in pauses.into_iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]) {
            assert!((0.75 * most..=most).contains(&pause.as_secs_f64()), "{pause:?} of {most}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn honors_the_pause_that_the_server_requests() {
        assert_eq!(pauses(RetryPolicy::default(), &error(429, Some(7))), [Duration::from_secs(7); 3]);
        assert_eq!(pauses(RetryPolicy::default(), &error(503, Some(60))), [Duration::from_secs(60); 3]);
        assert_eq!(pauses(RetryPolicy::default(), &error(503, Some(86_400))), [Duration::from_secs(60); 3]);
        assert_eq!(pauses(RetryPolicy::default(), &error(501, None)), []);
    }

    #[tokio::test(start_paused = true)]
    async fn does_not_retry_permanent_errors() {
        for status in [400, 401, 404, 422] {
            assert!(pauses(RetryPolicy::default(), &error(status, None)).is_empty(), "{status}");
        }
        assert!(pauses(RetryPolicy::never(), &error(503, None)).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn retries_a_busy_server_until_the_deadline() {
        let policy = RetryPolicy { deadline: Some(Duration::from_secs(3600)), ..RetryPolicy::default() };
        assert_eq!(pauses(policy, &error(429, Some(1))).len(), 19);
        assert_eq!(pauses(policy, &error(503, Some(1))).len(), 3);
        assert!(pauses(policy, &error(429, Some(3601))).is_empty());
    }
}
