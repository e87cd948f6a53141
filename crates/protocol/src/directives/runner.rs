//! The ladder: one mode after the other, until an answer can be used.

mod attempt;
mod request;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use attempt::{Answered, Outcome};
use request::Conversation;
pub use request::{ResultValidator, RunRequest, require_types};

use super::presets::{self, RESERVED};
use super::{
    Attempt, AttemptKind, DirectiveResult, Envelope, Mode, PayloadSchemas, Preset, Problem, ProblemCategory,
    Skipped, StructuredOutputOptions, Validator, salvage, schema,
};
use crate::{BackendError, Capabilities, Feature, PromptRunner};

/// Asks for directives.
///
/// In each mode of its preset the model is asked once, and told what is wrong and asked again as often as there are repairs; then the
/// next mode has its turn. A mode that the backend refuses is left at once, and not tried again by this runner once an easier one was
/// answered. An error that is not about the mode ends the run. All of that is in the result; only a cancelled run has none.
#[derive(Clone)]
pub struct Runner {
    prompts: PromptRunner,
    preset: Preset,
    /// Modes that were refused, while an easier one was not.
    refused: Arc<Mutex<HashSet<Mode>>>,
}

impl Runner {
    /// With [`presets::default_directives`].
    pub fn new(prompts: PromptRunner) -> Self {
        Self::build(prompts, Preset::default())
    }

    /// With a preset over that.
    pub fn build(prompts: PromptRunner, preset: Preset) -> Self {
        let preset = presets::merge([presets::default_directives(), preset]);
        Self { prompts: prompts.without_defaults(&RESERVED), preset, refused: Arc::default() }
    }

    /// How it asks.
    pub const fn preset(&self) -> &Preset {
        &self.preset
    }

    /// Asks until an answer can be used, or nothing is left to try.
    ///
    /// # Errors
    /// Only when the run is interrupted, with what the backend said of that.
    pub async fn run(&self, request: &RunRequest) -> Result<DirectiveResult, BackendError> {
        let modes = request.modes.as_ref().or(self.preset.modes.as_ref());
        self.run_in(request, modes.map(Vec::as_slice).unwrap_or_default()).await
    }

    /// Asks in one mode, once, and reads the answer: what [`Runner::run`] is made of.
    ///
    /// # Errors
    /// As [`Runner::run`].
    pub async fn run_once(&self, request: &RunRequest, mode: Mode) -> Result<DirectiveResult, BackendError> {
        let once = Preset { repair_retries: Some(0), ..self.preset.clone() };
        Self { preset: once, ..self.clone() }.run_in(request, &[mode]).await
    }

    async fn run_in(&self, request: &RunRequest, modes: &[Mode]) -> Result<DirectiveResult, BackendError> {
        let mut run = Run::new(self, request);
        for mode in run.open(modes).await? {
            match run.climb(mode).await? {
                Step::Done(envelope) => return Ok(run.succeeded(mode, envelope)),
                Step::Next => {}
                Step::Stop => break,
            }
        }
        Ok(run.failed())
    }

    fn refused(&self) -> HashSet<Mode> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether requests say what payloads are.
    fn tells_payloads(&self) -> bool {
        match self.preset.payload_schemas.unwrap_or_default() {
            PayloadSchemas::Always => true,
            PayloadSchemas::Never => false,
            PayloadSchemas::Auto => {
                let known = self.prompts.backend().known_capabilities(self.prompts.model());
                known.is_some_and(|known: Capabilities| known.has(Feature::Grammar))
            }
        }
    }
}

/// How a mode ended.
enum Step {
    Done(Envelope),
    Next,
    Stop,
}

/// A run on its way.
struct Run<'a> {
    runner: &'a Runner,
    request: &'a RunRequest,
    validator: Validator<'a>,
    attempts: Vec<Attempt>,
    skipped: Vec<Skipped>,
    /// Modes that were refused so far.
    refused: Vec<Mode>,
    /// The text of the best answer so far, and whether that was an envelope.
    best: (String, bool),
}

impl<'a> Run<'a> {
    fn new(runner: &'a Runner, request: &'a RunRequest) -> Self {
        Self {
            runner,
            request,
            validator: Validator::new(&request.options),
            attempts: Vec::new(),
            skipped: Vec::new(),
            refused: Vec::new(),
            best: (String::new(), false),
        }
    }

    const fn options(&self) -> &'a StructuredOutputOptions {
        &self.request.options
    }

    /// The modes that may be worth trying.
    async fn open(&mut self, modes: &[Mode]) -> Result<Vec<Mode>, BackendError> {
        let capabilities = match self.runner.preset.check_capabilities {
            Some(true) => self.capabilities().await?,
            _ => Capabilities::all(),
        };
        let refused = self.runner.refused();
        let mut open = Vec::new();
        for &mode in modes {
            let reason = if !mode.is_within(capabilities) {
                "the backend cannot hold the model to it"
            } else if refused.contains(&mode) && modes.len() > 1 {
                "the backend refused it before"
            } else {
                open.push(mode);
                continue;
            };
            self.skipped.push(Skipped { mode, reason: reason.to_owned() });
        }
        Ok(open)
    }

    /// What the backend can do; all, if it does not say.
    async fn capabilities(&self) -> Result<Capabilities, BackendError> {
        let prompts = &self.runner.prompts;
        match prompts.backend().capabilities(prompts.model()).await {
            Err(error) if error.interruption().is_none() => {
                tracing::info!(%error, "what the backend can do is not known");
                Ok(Capabilities::all())
            }
            answered => answered,
        }
    }

    /// Asks in one mode, with repairs.
    async fn climb(&mut self, mode: Mode) -> Result<Step, BackendError> {
        let detail = schema::Detail {
            payloads: self.runner.tells_payloads(),
            strict: self.runner.preset.strict.unwrap_or(true),
        };
        let mut conversation = Conversation::new(self.request, &self.runner.preset, mode, detail);
        let mut kind = AttemptKind::First;
        for left in (0..=self.runner.preset.repair_retries.unwrap_or_default()).rev() {
            match self.attempt(mode, kind, &conversation).await? {
                Outcome::Good(envelope) => return Ok(Step::Done(envelope)),
                Outcome::Refused if kind == AttemptKind::First => {
                    self.refused.push(mode);
                    return Ok(self.after_refusal());
                }
                Outcome::Refused => return Ok(self.after_refusal()),
                Outcome::Failed => return Ok(Step::Stop),
                Outcome::Bad(answered) if left > 0 => {
                    kind = answered.repair_kind();
                    conversation.repair(&answered);
                }
                Outcome::Bad(_) => {}
            }
        }
        Ok(Step::Next)
    }

    fn after_refusal(&self) -> Step {
        if self.runner.preset.stop_on_refusal == Some(true) { Step::Stop } else { Step::Next }
    }

    /// Takes note of an answer: whatever was refused before was refused for its mode.
    fn answered(&mut self) {
        let mut refused = self.runner.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.extend(self.refused.drain(..));
    }

    /// Keeps the text of an answer that cannot be used, if there is no better one.
    fn keep_text(&mut self, answered: &Answered) {
        let (text, whole) = match &answered.envelope {
            Some(envelope) => (envelope.assistant_text.clone(), true),
            None => (answered.text(), false),
        };
        if !text.is_empty() && (whole || !self.best.1) {
            self.best = (text, whole);
        }
    }

    fn succeeded(self, mode: Mode, envelope: Envelope) -> DirectiveResult {
        DirectiveResult {
            ok: true,
            mode: Some(mode),
            assistant_text: envelope.assistant_text,
            directives: envelope.directives,
            warnings: envelope.warnings,
            errors: Vec::new(),
            attempts: self.attempts,
            skipped: self.skipped,
        }
    }

    fn failed(self) -> DirectiveResult {
        let mut errors: Vec<Problem> =
            self.attempts.iter().filter_map(|attempt| attempt.error.clone()).collect();
        if self.attempts.is_empty() {
            let message = "there is no mode in which the backend can be asked";
            errors.push(Problem::new(ProblemCategory::Unsupported, "NO_MODE", message));
        }
        DirectiveResult {
            ok: false,
            mode: None,
            assistant_text: self.best.0,
            directives: Vec::new(),
            warnings: Vec::new(),
            errors,
            attempts: self.attempts,
            skipped: self.skipped,
        }
    }
}

#[cfg(test)]
mod tests;
