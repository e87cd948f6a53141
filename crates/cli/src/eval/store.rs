//! The results folder of an evaluation.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use formwork_eval::{
    EvalError, EvalSettings, Journal, JournalEntry, StructuredSettings, StructuredSummary, StructuredTrial,
    Summary, Trial, report, structured_report,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Settings of an evaluation, as a results folder stores them.
pub(super) trait Stored: Serialize + DeserializeOwned {
    type Trial: JournalEntry;

    /// Returns the name of the first field that differs.
    fn difference(&self, other: &Self) -> Option<String>;

    /// Parses the journal of an evaluation with these settings.
    fn journal(&self, text: &[u8]) -> Result<Journal<Self::Trial>, EvalError>;
}

impl Stored for EvalSettings {
    type Trial = Trial;

    fn difference(&self, other: &Self) -> Option<String> {
        Self::difference(self, other)
    }

    fn journal(&self, text: &[u8]) -> Result<Journal, EvalError> {
        Journal::parse(self, text)
    }
}

impl Stored for StructuredSettings {
    type Trial = StructuredTrial;

    fn difference(&self, other: &Self) -> Option<String> {
        Self::difference(self, other)
    }

    fn journal(&self, text: &[u8]) -> Result<Journal<StructuredTrial>, EvalError> {
        Journal::parse_structured(self, text)
    }
}

/// The result files. `trials.jsonl` is written during the evaluation, the others at its end.
pub(super) struct Store {
    folder: PathBuf,
    trials: File,
}

impl Store {
    /// Opens or creates a results folder and reads the trials of an earlier run with the same
    /// settings.
    pub(super) fn open<S: Stored>(folder: &Path, settings: &S) -> Result<(Self, Journal<S::Trial>)> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let path = folder.join("trials.jsonl");
        let options = OpenOptions::new().read(true).append(true).create(true).clone();
        let mut trials = options.open(&path).with_context(|| path.display().to_string())?;
        match trials.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("{}: another evaluation is writing this file", path.display())
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(|| path.display().to_string()),
        }
        let mut text = Vec::new();
        trials.read_to_end(&mut text).with_context(|| path.display().to_string())?;
        check_settings(folder, settings, text.is_empty())?;
        let journal = settings.journal(&text).with_context(|| path.display().to_string())?;
        // Drop a line that was only partly written when the process was killed.
        trials.set_len(journal.len as u64)?;
        trials.seek(SeekFrom::End(0))?;
        Ok((Self { folder: folder.to_owned(), trials }, journal))
    }

    /// Appends a trial to `trials.jsonl`, so that the trial outlives this process.
    pub(super) fn append<T: JournalEntry>(&mut self, trial: &T) -> Result<()> {
        let line = Journal::line(trial);
        let written = self.trials.write_all(line.as_bytes()).and_then(|()| self.trials.flush());
        written.with_context(|| self.folder.display().to_string())
    }

    /// Writes the summaries and the report; returns the report's path.
    pub(super) fn finish(&self, summary: &Summary, trials: &[Trial]) -> Result<PathBuf> {
        let settings = &summary.settings;
        self.write("summary.json", &pretty(&serde_json::to_value(summary)?)?)?;
        self.write("summary_by_scenario.json", &pretty(&Summary::by_scenario(settings, trials))?)?;
        if let Some(both) = Summary::by_scenario_and_strategy(settings, trials) {
            self.write("summary_by_scenario_and_strategy.json", &pretty(&both)?)?;
        }
        self.write("report.html", &report(summary, trials)?)?;
        Ok(self.folder.join("report.html"))
    }

    /// Writes the summary and the report of an evaluation of structured outputs; returns the report's
    /// path.
    pub(super) fn finish_structured(
        &self,
        summary: &StructuredSummary,
        trials: &[StructuredTrial],
    ) -> Result<PathBuf> {
        self.write("summary.json", &pretty(&serde_json::to_value(summary)?)?)?;
        self.write("report.html", &structured_report(summary, trials)?)?;
        Ok(self.folder.join("report.html"))
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    }
}

/// Writes the settings into a new folder; for an existing one, checks that the settings are the
/// same.
fn check_settings<S: Stored>(folder: &Path, settings: &S, is_new: bool) -> Result<()> {
    let path = folder.join("settings.json");
    let known = match fs::read(&path) {
        Ok(known) => known,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if !is_new {
                bail!("{}: found trials.jsonl without settings.json", folder.display());
            }
            let text = pretty(&serde_json::to_value(settings)?)?;
            return fs::write(&path, text).with_context(|| path.display().to_string());
        }
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    // Settings of older versions differ in their fields, so the version decides first.
    let version = formwork_json::from_slice::<Value>(&known).ok();
    let version = version.and_then(|known| known["version"].as_u64());
    let ours = serde_json::to_value(settings)?["version"].as_u64();
    if version.is_some() && version != ours {
        bail!("{}: made by another version of the evaluation; choose another --out", folder.display());
    }
    let known: S = formwork_json::from_slice(&known)
        .with_context(|| format!("{}: invalid settings file", path.display()))?;
    match settings.difference(&known) {
        Some(field) => bail!(
            "{}: made with other settings (`{field}` differs); resume with the same settings, or choose another --out",
            folder.display()
        ),
        None => Ok(()),
    }
}

fn pretty(value: &Value) -> Result<String> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}
