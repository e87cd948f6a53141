//! `trials.jsonl`: each try on a line, written as it ends and never changed, so that an evaluation that was killed can go on.

use std::collections::HashSet;

use super::error::Kind;
use super::{EvalError, EvalSettings, Trial, TrialKey};

/// What an evaluation has come to so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Journal {
    /// The tries that were made, in the order in which they ended.
    pub trials: Vec<Trial>,
    /// The bytes of the whole lines. What comes after them is the line that was being written when the evaluation was killed, and
    /// is to be cut off before more is written.
    pub len: usize,
}

impl Journal {
    /// Reads what was written under `settings`.
    ///
    /// # Errors
    /// When a whole line is no try, or one that is not planned or was made before.
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

    /// The keys of the tries that were made.
    pub fn done(&self) -> HashSet<TrialKey> {
        self.trials.iter().map(|trial| trial.key.clone()).collect()
    }

    /// A try as a line.
    pub fn line(trial: &Trial) -> String {
        // A trial has no keys but strings, so it always serializes.
        let mut line = serde_json::to_string(trial).unwrap_or_default();
        line.push('\n');
        line
    }
}
