//! The journal of an evaluation, stored as `trials.jsonl` with one trial per line. A line is
//! appended when a trial ends, and lines never change. An interrupted evaluation can therefore be
//! resumed.

use std::collections::HashSet;
use std::fmt::Display;
use std::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Kind;
use super::{EvalError, EvalSettings, StructuredKey, StructuredSettings, StructuredTrial, Trial, TrialKey};

/// A trial that a journal can store.
pub trait JournalEntry: Serialize + DeserializeOwned {
    /// Key of a trial. No two trials of an evaluation have the same key.
    type Key: Clone + Eq + Hash + Display;

    /// Returns the key of the trial.
    fn key(&self) -> &Self::Key;
}

impl JournalEntry for Trial {
    type Key = TrialKey;

    fn key(&self) -> &TrialKey {
        &self.key
    }
}

impl JournalEntry for StructuredTrial {
    type Key = StructuredKey;

    fn key(&self) -> &StructuredKey {
        &self.key
    }
}

/// Contents of a journal: the trials completed so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Journal<T = Trial> {
    /// Completed trials, in the order in which they ended.
    pub trials: Vec<T>,
    /// Length of the complete lines, in bytes. An incomplete line may follow, which an interruption
    /// has left. The caller must truncate the file to this length before appending.
    pub len: usize,
}

impl<T> Default for Journal<T> {
    fn default() -> Self {
        Self { trials: Vec::new(), len: 0 }
    }
}

impl Journal {
    /// Parses a journal of an evaluation with the settings `settings`.
    ///
    /// # Errors
    /// Returns an error if a complete line is not a trial, or if its trial is not planned or occurs
    /// more than once.
    pub fn parse(settings: &EvalSettings, text: &[u8]) -> Result<Self, EvalError> {
        Self::parse_planned(settings.plan(), text)
    }
}

impl Journal<StructuredTrial> {
    /// Parses a journal of an evaluation of structured outputs with the settings `settings`.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`Journal::parse`].
    pub fn parse_structured(settings: &StructuredSettings, text: &[u8]) -> Result<Self, EvalError> {
        Self::parse_planned(settings.plan(), text)
    }
}

impl<T: JournalEntry> Journal<T> {
    fn parse_planned(plan: Vec<T::Key>, text: &[u8]) -> Result<Self, EvalError> {
        let planned: HashSet<T::Key> = plan.into_iter().collect();
        let mut made = HashSet::new();
        let mut journal = Self::default();
        let whole = text.split_inclusive(|&byte| byte == b'\n').take_while(|line| line.ends_with(b"\n"));
        for (at, bytes) in whole.enumerate() {
            let line = at + 1;
            let fault = |error: serde_json::Error| Kind::NoTrial { line, reason: error.to_string() };
            let trial: T = serde_json::from_slice(bytes).map_err(fault)?;
            if !planned.contains(trial.key()) {
                return Err(Kind::NotPlanned { line, key: trial.key().to_string() }.into());
            }
            if !made.insert(trial.key().clone()) {
                return Err(Kind::Twice { line, key: trial.key().to_string() }.into());
            }
            journal.trials.push(trial);
            journal.len += bytes.len();
        }
        Ok(journal)
    }

    /// Returns the keys of the completed trials, as an argument for `Evaluation::trials`.
    pub fn done(&self) -> HashSet<T::Key> {
        self.trials.iter().map(|trial| trial.key().clone()).collect()
    }

    /// Formats a trial as a line of the journal, with a line feed at the end.
    pub fn line(trial: &T) -> String {
        // All map keys of a trial are strings, so serialization cannot fail.
        let mut line = serde_json::to_string(trial).unwrap_or_default();
        line.push('\n');
        line
    }
}
