//! The budget of one compilation: steps of work, and bytes of memory.
//!
//! All stages of a compilation charge one [`Ledger`], so no stage can exhaust time or memory
//! without a limit. Charges are estimates. A step takes about 10 ns, and bytes are the sizes of
//! tables that grow with the input. A stage charges before it allocates or loops, in proportion to
//! the work ahead.
//!
//! Code that cannot return an error calls [`Ledger::note`] and [`Ledger::keep`]. The next
//! [`Ledger::spend`] or [`Ledger::check`] then fails. Such code may stop early when
//! [`Ledger::is_over`] returns true.

use std::cell::Cell;
use std::rc::Rc;

use crate::{GrammarError, Limits};

/// The work and memory that one compilation has used so far.
#[derive(Debug)]
pub(crate) struct Ledger {
    work: Cell<usize>,
    bytes: Cell<usize>,
    max_work: usize,
    max_bytes: usize,
}

impl Ledger {
    pub(crate) fn new(limits: &Limits) -> Rc<Self> {
        Rc::new(Self {
            work: Cell::new(0),
            bytes: Cell::new(0),
            max_work: limits.work,
            max_bytes: limits.bytes,
        })
    }

    /// Charges steps of work.
    ///
    /// # Errors
    /// Returns an error if the compilation has exceeded one of its limits.
    pub(crate) fn spend(&self, work: usize) -> Result<(), GrammarError> {
        self.note(work);
        self.check()
    }

    /// Charges bytes that stay in use until the end of the compilation, unless
    /// [released](Self::release).
    ///
    /// # Errors
    /// Returns an error if the compilation has exceeded one of its limits.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), GrammarError> {
        self.keep(bytes);
        self.check()
    }

    /// Charges bytes like [`Ledger::hold`], for callers that cannot return an error.
    pub(crate) fn keep(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }

    /// Returns bytes to the budget that were [held](Self::hold) and are now free.
    pub(crate) fn release(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    /// Returns the number of bytes in use.
    pub(crate) fn held(&self) -> usize {
        self.bytes.get()
    }

    /// Returns all bytes to the budget that were held since [`held`](Self::held) returned `held`.
    pub(crate) fn release_to(&self, held: usize) {
        self.bytes.set(held);
    }

    /// Charges steps of work like [`Ledger::spend`], for callers that cannot return an error.
    pub(crate) fn note(&self, work: usize) {
        self.work.set(self.work.get().saturating_add(work));
    }

    /// Reports whether a limit is exceeded.
    pub(crate) fn is_over(&self) -> bool {
        self.work.get() > self.max_work || self.bytes.get() > self.max_bytes
    }

    /// Returns the limit that is exceeded, as its name, the amount used, and the limit.
    pub(crate) fn excess(&self) -> Option<(&'static str, usize, usize)> {
        let (work, bytes) = (self.work.get(), self.bytes.get());
        if work > self.max_work {
            return Some(("steps of work to compile", work, self.max_work));
        }
        (bytes > self.max_bytes).then_some(("bytes of memory to compile", bytes, self.max_bytes))
    }

    /// Checks the limits.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded. The error has the name of the limit and the amount
    /// used.
    pub(crate) fn check(&self) -> Result<(), GrammarError> {
        self.excess().map_or(Ok(()), |(what, given, limit)| Err(GrammarError::limit(what, given, limit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_the_limit_that_was_passed() {
        let ledger = Ledger::new(&Limits { work: 10, bytes: 100, ..Limits::default() });
        assert!(ledger.spend(10).is_ok());
        assert!(ledger.hold(100).is_ok());
        ledger.release(50);
        assert!(ledger.hold(51).unwrap_err().to_string().contains("bytes of memory"));
        ledger.release(51);
        ledger.note(1);
        assert!(ledger.is_over());
        assert!(ledger.check().unwrap_err().to_string().contains("11 steps of work"));
    }
}
