//! The budget of one compilation: steps of work, and bytes of memory.
//!
//! All stages of a compilation charge the same [`Ledger`], so no stage can use unlimited time or
//! memory. A stage charges its estimated cost before it allocates or loops. One step stands for
//! about 10 ns of work. Bytes are the sizes of tables that grow with the input.
//!
//! Code that cannot return an error charges with [`Ledger::note`] and [`Ledger::keep`]. If such a
//! charge exceeds a limit, the next [`Ledger::spend`], [`Ledger::hold`] or [`Ledger::check`] fails.
//! Such code may stop early when [`Ledger::is_over`] returns true.

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

    /// Charges `work` steps.
    ///
    /// # Errors
    /// Returns an error if the compilation has exceeded one of its limits.
    pub(crate) fn spend(&self, work: usize) -> Result<(), GrammarError> {
        self.note(work);
        self.check()
    }

    /// Charges `bytes` of memory that stay in use until the end of the compilation, unless
    /// [released](Self::release).
    ///
    /// # Errors
    /// Returns an error if the compilation has exceeded one of its limits.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), GrammarError> {
        self.keep(bytes);
        self.check()
    }

    /// Charges `bytes` of memory like [`Ledger::hold`], but never fails.
    pub(crate) fn keep(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }

    /// Gives `bytes` that were [held](Self::hold) and are now free back to the budget.
    pub(crate) fn release(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    /// Returns the number of steps that are charged so far.
    pub(crate) fn worked(&self) -> usize {
        self.work.get()
    }

    /// Returns the number of bytes that are charged at the moment.
    pub(crate) fn held(&self) -> usize {
        self.bytes.get()
    }

    /// Gives back all bytes that were charged since [`held`](Self::held) returned `held`.
    pub(crate) fn release_to(&self, held: usize) {
        self.bytes.set(held);
    }

    /// Charges `work` steps like [`Ledger::spend`], but never fails.
    pub(crate) fn note(&self, work: usize) {
        self.work.set(self.work.get().saturating_add(work));
    }

    /// Reports whether the work or the memory exceeds its limit.
    pub(crate) fn is_over(&self) -> bool {
        self.work.get() > self.max_work || self.bytes.get() > self.max_bytes
    }

    /// Returns the first exceeded limit as `(name, amount used, limit)`, or `None` if no limit is
    /// exceeded.
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
    /// Returns an error if a limit is exceeded. The error has the name of the limit, the amount
    /// used and the limit.
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
