//! The results folder of an evaluation.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use formwork_eval::{EvalSettings, Journal, Summary, Trial, report};
use serde_json::Value;

/// The result files. `trials.jsonl` is written during the evaluation, the others at its end.
pub(super) struct Store {
    folder: PathBuf,
    trials: File,
}

impl Store {
    /// Opens or creates a results folder and reads the trials of an earlier run with the same
    /// settings.
    pub(super) fn open(folder: &Path, settings: &EvalSettings) -> Result<(Self, Journal)> {
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
        let journal = Journal::parse(settings, &text).with_context(|| path.display().to_string())?;
        // Drop a line that was only partly written when the process was killed.
        trials.set_len(journal.len as u64)?;
        trials.seek(SeekFrom::End(0))?;
        Ok((Self { folder: folder.to_owned(), trials }, journal))
    }

    /// Appends a trial to `trials.jsonl`, so that the trial outlives this process.
    pub(super) fn append(&mut self, trial: &Trial) -> Result<()> {
        self.trials.write_all(Journal::line(trial).as_bytes())?;
        Ok(self.trials.flush()?)
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

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    }
}

/// Writes the settings into a new folder; for an existing one, checks that the settings are the
/// same.
fn check_settings(folder: &Path, settings: &EvalSettings, is_new: bool) -> Result<()> {
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
    let known: EvalSettings = serde_json::from_slice(&known)
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
