//! Quotas of tokens and time: reserve, execute, reconcile.
//!
//! A caller reserves the maximum cost of an action, executes the action, and then reconciles the
//! reservation with the actual cost. If the remaining quota is too small for the reservation,
//! [`Quota::reserve`] returns an error, and the action must not start. This error is an
//! [`Interruption`](crate::Interruption) instead of a failure, so retries and repairs pass it on
//! unchanged.
//!
//! A running action is never stopped because of its tokens. Any cost beyond the reservation is
//! charged, so that later reservations may fail. Dropping a reservation returns it to the quota.
//! [`Metered`] stops a request when the time quota is used up.
//!
//! ```
//! use formwork_backend::quota::{Cost, Quota};
//! let quota = Quota::unlimited().with_tokens(100);
//! let reservation = quota.reserve(Cost::tokens(80))?;
//! assert_eq!(
//!     quota.reserve(Cost::tokens(30)).unwrap_err().to_string(),
//!     "quota exceeded: 30 tokens requested, 20 left"
//! );
//! reservation.reconcile(Cost::tokens(60));
//! assert_eq!(quota.left().tokens, Some(40));
//! drop(quota.reserve(Cost::tokens(30))?);
//! assert_eq!(quota.left().tokens, Some(40));
//! # Ok::<(), formwork_backend::quota::Exhausted>(())
//! ```
//!
//! [`Metered`] applies a quota to every request of a backend.

mod metered;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;

pub use metered::Metered;

/// Cost of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost {
    /// Number of tokens in prompts and answers.
    pub tokens: u64,
    /// Duration, counted in whole milliseconds.
    pub time: Duration,
}

impl Cost {
    /// Creates a cost of tokens without time.
    pub const fn tokens(tokens: u64) -> Self {
        Self { tokens, time: Duration::ZERO }
    }

    /// Creates a cost of time without tokens.
    pub const fn time(time: Duration) -> Self {
        Self { tokens: 0, time }
    }
}

/// Amounts of a quota that can still be reserved. `None` means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Number of tokens.
    pub tokens: Option<u64>,
    /// Duration, in whole milliseconds.
    pub time: Option<Duration>,
}

/// A limited resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Tokens of prompts and answers.
    Tokens,
    /// Time, in milliseconds.
    Milliseconds,
}

impl Resource {
    /// Returns the plural unit used in messages, such as `tokens`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Milliseconds => "milliseconds",
        }
    }
}

/// Error of a reservation that exceeds the remaining quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("quota exceeded: {asked} {} requested, {left} left", resource.name())]
pub struct Exhausted {
    /// The exhausted resource.
    pub resource: Resource,
    /// Requested amount, in tokens or milliseconds.
    pub asked: u64,
    /// Remaining amount, in the unit of `asked`.
    pub left: u64,
}

/// A shared budget of tokens and time. Clones share the same budget.
#[derive(Clone, Debug, Default)]
pub struct Quota(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    tokens: Account,
    milliseconds: Account,
}

#[derive(Debug, Default)]
struct Account {
    limit: Option<u64>,
    used: u64,
    reserved: u64,
}

impl Account {
    fn left(&self) -> Option<u64> {
        let taken = self.used.saturating_add(self.reserved);
        self.limit.map(|limit| limit.saturating_sub(taken))
    }

    fn check(&self, resource: Resource, asked: u64) -> Result<(), Exhausted> {
        match self.left() {
            Some(left) if asked > left => Err(Exhausted { resource, asked, left }),
            _ => Ok(()),
        }
    }

    fn settle(&mut self, reserved: u64, used: u64) {
        self.reserved = self.reserved.saturating_sub(reserved);
        self.used = self.used.saturating_add(used);
    }
}

impl Quota {
    /// Creates a quota that counts costs without limiting them.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// Limits the total number of tokens.
    #[must_use]
    pub fn with_tokens(self, limit: u64) -> Self {
        self.books().tokens.limit = Some(limit);
        self
    }

    /// Limits the total time of all actions. Concurrent actions each count their full duration.
    #[must_use]
    pub fn with_time(self, limit: Duration) -> Self {
        self.books().milliseconds.limit = Some(milliseconds(limit));
        self
    }

    /// Reserves the maximum cost of an action.
    ///
    /// # Errors
    /// Returns an error if the remaining quota is smaller than `cost`. Nothing is reserved in this
    /// case.
    pub fn reserve(&self, cost: Cost) -> Result<Reservation, Exhausted> {
        let (tokens, time) = (cost.tokens, milliseconds(cost.time));
        let mut books = self.books();
        books.tokens.check(Resource::Tokens, tokens)?;
        books.milliseconds.check(Resource::Milliseconds, time)?;
        books.tokens.reserved = books.tokens.reserved.saturating_add(tokens);
        books.milliseconds.reserved = books.milliseconds.reserved.saturating_add(time);
        Ok(Reservation { quota: self.clone(), cost, used: Cost::default() })
    }

    /// Returns the amounts that can still be reserved.
    pub fn left(&self) -> Left {
        let books = self.books();
        Left { tokens: books.tokens.left(), time: books.milliseconds.left().map(Duration::from_millis) }
    }

    /// Returns the cost charged so far, without open reservations.
    pub fn used(&self) -> Cost {
        let books = self.books();
        Cost { tokens: books.tokens.used, time: Duration::from_millis(books.milliseconds.used) }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reserved part of a quota. Dropping the reservation returns it to the quota.
#[derive(Debug)]
#[must_use = "dropping a reservation releases it"]
pub struct Reservation {
    quota: Quota,
    cost: Cost,
    used: Cost,
}

impl Reservation {
    /// Returns the reserved cost.
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// Charges the actual cost, which may differ from the reservation, and releases the
    /// reservation.
    pub fn reconcile(mut self, used: Cost) {
        self.used = used;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut books = self.quota.books();
        books.tokens.settle(self.cost.tokens, self.used.tokens);
        books.milliseconds.settle(milliseconds(self.cost.time), milliseconds(self.used.time));
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
