//! Counting and limiting the requests that are sent for one run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::BackendError;
use super::error::Kind;

tokio::task_local! {
    /// Budget of the run that the current future belongs to.
    static CURRENT: RequestBudget;
}

/// Number of requests that a run has sent, and the number that it may send. Clones share the
/// numbers.
///
/// A [`RemoteBackend`](crate::RemoteBackend) takes each HTTP request from the budget of the future
/// in which it runs: first requests, retries, adjusted requests and probes, whole and streamed. When
/// the budget is spent, nothing is sent.
///
/// ```
/// use formwork_backend::RequestBudget;
/// let budget = RequestBudget::new(Some(3));
/// assert_eq!((budget.sent(), budget.is_spent()), (0, false));
/// ```
#[derive(Clone, Debug, Default)]
pub struct RequestBudget {
    sent: Arc<AtomicU32>,
    limit: Option<u32>,
}

impl RequestBudget {
    /// Creates a budget. `None` counts without a limit.
    pub fn new(limit: Option<u32>) -> Self {
        Self { sent: Arc::default(), limit }
    }

    /// Returns the number of requests sent so far.
    pub fn sent(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Reports whether no further request may be sent.
    pub fn is_spent(&self) -> bool {
        self.limit.is_some_and(|limit| self.sent() >= limit)
    }

    /// Counts requests of a backend that does not count them itself.
    pub fn add(&self, requests: u32) {
        self.sent.fetch_add(requests, Ordering::Relaxed);
    }

    /// Runs `work`. Its requests are taken from this budget.
    pub async fn within<T>(&self, work: impl Future<Output = T>) -> T {
        CURRENT.scope(self.clone(), work).await
    }

    /// Takes one request from the budget of the current future. Without a budget, nothing is limited.
    pub(crate) fn take() -> Result<(), BackendError> {
        let take = |budget: &Self| {
            let more =
                |sent: u32| budget.limit.is_none_or(|limit| sent < limit).then(|| sent.saturating_add(1));
            let taken = budget.sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
            taken.map(drop).map_err(|limit| Kind::RequestLimit { limit }.into())
        };
        CURRENT.try_with(take).unwrap_or(Ok(()))
    }

    /// Reports whether the budget of the current future is spent.
    pub(crate) fn is_current_spent() -> bool {
        CURRENT.try_with(Self::is_spent).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_budget_holds_for_its_future_only() {
        let budget = RequestBudget::new(Some(2));
        budget
            .within(async {
                assert!(RequestBudget::take().is_ok() && !RequestBudget::is_current_spent());
                assert!(RequestBudget::take().is_ok() && RequestBudget::is_current_spent());
                let error = RequestBudget::take().expect_err("spent");
                assert_eq!(error.to_string(), "the request was not sent: the limit of 2 requests is reached");
                assert!(!error.is_transient() && error.interruption().is_none());
            })
            .await;
        assert_eq!(budget.sent(), 2);
        assert!(RequestBudget::take().is_ok());
    }
}
