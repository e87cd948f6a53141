//! Quotas of tokens and time: reserve, execute, reconcile.
//!
//! What something will cost at most is reserved before it is begun; then it is done; then the reservation is reconciled with what it did
//! cost. Where there is not enough to reserve, nothing is begun: that is an [`Interruption`](crate::Interruption), no failure, and passes through whatever
//! retries and repairs. Nothing is stopped afterwards for what it has cost: what it has cost beyond its reservation is booked, and the
//! next one does not begin. A reservation that is dropped is given back.
//!
//! ```
//! use formwork_protocol::quota::{Cost, Quota};
//! let quota = Quota::unlimited().with_tokens(100);
//! let reservation = quota.reserve(Cost::tokens(80))?;
//! assert_eq!(quota.reserve(Cost::tokens(30)).unwrap_err().to_string(), "30 tokens are asked for, and 20 of the quota are left");
//! reservation.reconcile(Cost::tokens(60));
//! assert_eq!(quota.left().tokens, Some(40));
//! drop(quota.reserve(Cost::tokens(30))?);
//! assert_eq!(quota.left().tokens, Some(40));
//! # Ok::<(), formwork_protocol::quota::Exhausted>(())
//! ```
//!
//! [`Metered`] does so for each request of a backend, whatever asks it.

mod metered;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;

pub use metered::Metered;

/// What something costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cost {
    /// Tokens, of prompts and answers.
    pub tokens: u64,
    /// Time, to the millisecond.
    pub time: Duration,
}

impl Cost {
    /// Tokens alone.
    pub const fn tokens(tokens: u64) -> Self {
        Self { tokens, time: Duration::ZERO }
    }

    /// Time alone.
    pub const fn time(time: Duration) -> Self {
        Self { tokens: 0, time }
    }
}

/// What may still be reserved; none is without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Left {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Time.
    pub time: Option<Duration>,
}

/// Something that there is only so much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Tokens.
    Tokens,
    /// Milliseconds.
    Milliseconds,
}

impl Resource {
    /// Its name in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Milliseconds => "milliseconds",
        }
    }
}

/// There is not enough left to begin with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{asked} {} are asked for, and {left} of the quota are left", resource.name())]
pub struct Exhausted {
    /// Of what.
    pub resource: Resource,
    /// How much was to be reserved.
    pub asked: u64,
    /// How much there is.
    pub left: u64,
}

/// So much may be used. Clones share it.
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
    /// As much as one likes.
    pub fn unlimited() -> Self {
        Self::default()
    }

    /// With at most so many tokens in all.
    #[must_use]
    pub fn with_tokens(self, limit: u64) -> Self {
        self.books().tokens.limit = Some(limit);
        self
    }

    /// With at most so much time in all: of what runs at the same time each counts.
    #[must_use]
    pub fn with_time(self, limit: Duration) -> Self {
        self.books().milliseconds.limit = Some(milliseconds(limit));
        self
    }

    /// Sets aside what something will cost at most.
    ///
    /// # Errors
    /// When there is not so much left; then nothing is reserved.
    pub fn reserve(&self, cost: Cost) -> Result<Reservation, Exhausted> {
        let (tokens, time) = (cost.tokens, milliseconds(cost.time));
        let mut books = self.books();
        books.tokens.check(Resource::Tokens, tokens)?;
        books.milliseconds.check(Resource::Milliseconds, time)?;
        books.tokens.reserved = books.tokens.reserved.saturating_add(tokens);
        books.milliseconds.reserved = books.milliseconds.reserved.saturating_add(time);
        Ok(Reservation { quota: self.clone(), cost, used: Cost::default() })
    }

    /// What may still be reserved.
    pub fn left(&self) -> Left {
        let books = self.books();
        Left { tokens: books.tokens.left(), time: books.milliseconds.left().map(Duration::from_millis) }
    }

    /// What was used so far.
    pub fn used(&self) -> Cost {
        let books = self.books();
        Cost { tokens: books.tokens.used, time: Duration::from_millis(books.milliseconds.used) }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Something set aside, which comes back when it is dropped.
#[derive(Debug)]
#[must_use = "a reservation that is dropped is given back"]
pub struct Reservation {
    quota: Quota,
    cost: Cost,
    used: Cost,
}

impl Reservation {
    /// What was set aside.
    pub const fn cost(&self) -> Cost {
        self.cost
    }

    /// Books what it did cost, be that less or more, and gives the rest back.
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
