//! The journal of an evaluation, stored as `trials.jsonl` with one trial per line. A line is
//! appended when a trial ends, and lines never change. An interrupted evaluation can therefore be
//! resumed.

use std::collections::HashSet;

use super::error::Kind;
use super::{EvalError, EvalSettings, Trial, TrialKey};

/// Contents of a journal: the trials completed so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    /// Completed trials, in the order in which they ended.
    pub trials: Vec<Trial>,
    /// Length of the complete lines, in bytes. An incomplete line may follow, which an interruption
    /// has left. The caller must truncate the file to this length before appending.
    pub len: usize,
}

impl Journal {
    /// Parses a journal of an evaluation with the settings `settings`.
    ///
    /// # Errors
    /// Returns an error if a complete line is not a trial, or if its trial is not planned or occurs
    /// more than once.
    pub fn parse(settings: &EvalSettings, text: &[u8]) -> Result<Self, EvalError> {
        let planned: HashSet<TrialKey> = settings.plan().into_iter().collect();
        let mut made = HashSet::new();
        let mut journal = Self::default();
        let whole = text.split_inclusive(|&byte| byte == b'\n').take_while(|line| line.ends_with(b"\n"));
        for (at, bytes) in whole.enumerate() {
            let line = at + 1;
            let fault = |error: serde_json::Error| Kind::NoTrial { line, reason: error.to_string() };
            let trial: Trial = serde_json::from_slice(bytes).map_err(fault)?;
            if !planned.contains(&trial.key) {
                return Err(Kind::NotPlanned { line, key: trial.key.to_string() }.into());
            }
            if !made.insert(trial.key.clone()) {
                return Err(Kind::Twice { line, key: trial.key.to_string() }.into());
            }
            journal.trials.push(trial);
            journal.len += bytes.len();
        }
        Ok(journal)
    }

    /// Returns the keys of the completed trials, as an argument for `Evaluation::trials`.
    pub fn done(&self) -> HashSet<TrialKey> {
        self.trials.iter().map(|trial| trial.key.clone()).collect()
    }

    /// Formats a trial as a line of the journal, with a line feed at the end.
    pub fn line(trial: &Trial) -> String {
        // All map keys of a trial are strings, so serialization cannot fail.
        let mut line = serde_json::to_string(trial).unwrap_or_default();
        line.push('\n');
        line
    }
}
