//! Runs a request: tries one mode after another until an answer can be used.

mod attempt;
mod request;
mod streamed;
mod type_decision;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use attempt::{Answered, AttemptOutcome};
use request::Conversation;
pub use request::{ResultValidator, RunRequest, require_types};

use super::presets::{self, RESERVED};
use super::{
    Attempt, AttemptKind, DirectiveResult, Envelope, Mode, PayloadSchemas, Preset, Problem, ProblemCategory,
    RunEvent, Skipped, StructuredOutputOptions, Validator, salvage, schema,
};
use crate::remembered::hint;
use crate::{BackendError, Capabilities, Feature, PromptRunner, RequestBudget};

/// Asks a model for directives.
///
/// The runner tries the modes of its preset in order. In each mode it asks once and then sends up
/// to `repair_retries` repair requests. If the backend refuses a request, the runner tries the next
/// mode at once, unless the preset sets `stop_on_refusal`. A backend error that is not about the
/// mode ends the run, and so does a refusal of the model or a content filter: asking again for what
/// was refused would be refused again.
///
/// With [`Preset::type_by_decision`], the run begins with the decision which type fits.
///
/// A refusal also affects later runs of the runner and its clones. They skip the refused mode if
/// the backend answered in a later mode of the same run.
///
/// The result records every attempt. Only interrupted runs have no result.
#[derive(Clone)]
pub struct Runner {
    prompts: PromptRunner,
    preset: Preset,
    /// Modes that later runs skip. The backend refused each of them and then answered in a later
    /// mode of the same run.
    refused: Arc<Mutex<HashSet<Mode>>>,
}

impl Runner {
    /// Creates a runner that sends requests through `prompts`, with the settings of
    /// [`presets::default_directives`].
    pub fn new(prompts: PromptRunner) -> Self {
        Self::build(prompts, Preset::default())
    }

    /// Creates a runner that sends requests through `prompts`. `preset` overrides the settings of
    /// [`presets::default_directives`].
    pub fn build(prompts: PromptRunner, preset: Preset) -> Self {
        let preset = presets::merge([presets::default_directives(), preset]);
        Self { prompts: prompts.without_defaults(&RESERVED), preset, refused: Arc::default() }
    }

    /// Returns the runner's settings, in which the defaults replace unset fields.
    pub const fn preset(&self) -> &Preset {
        &self.preset
    }

    /// Asks for directives in one mode after another until an answer can be used. If no answer can
    /// be used, the result has `ok` set to false.
    ///
    /// # Errors
    /// Returns the backend's error if the run is interrupted
    /// ([`Interruption`](crate::Interruption)). All other errors are recorded in the result.
    pub async fn run(&self, request: &RunRequest) -> Result<DirectiveResult, BackendError> {
        let modes = request.modes.as_ref().or(self.preset.modes.as_ref());
        self.run_in(request, modes.map(Vec::as_slice).unwrap_or_default()).await
    }

    /// Sends a single request, in `mode`, without repair requests.
    ///
    /// # Errors
    /// Returns the backend's error if the run is interrupted, as [`Runner::run`] does.
    pub async fn run_once(&self, request: &RunRequest, mode: Mode) -> Result<DirectiveResult, BackendError> {
        let once = Preset { repair_retries: Some(0), ..self.preset.clone() };
        Self { preset: once, ..self.clone() }.run_in(request, &[mode]).await
    }

    /// Runs like [`Runner::run`], with streamed answers. Calls `events` for each request, each piece
    /// of text and each valid directive as soon as it is whole. The result alone decides: if a
    /// request fails, the events before the next [`RunEvent::Attempt`] are void.
    ///
    /// # Errors
    /// Returns the backend's error if the run is interrupted, as [`Runner::run`] does.
    pub async fn run_streamed(
        &self,
        request: &RunRequest,
        events: &(dyn Fn(RunEvent) + Send + Sync),
    ) -> Result<DirectiveResult, BackendError> {
        let modes = request.modes.as_ref().or(self.preset.modes.as_ref());
        self.run_with(request, modes.map(Vec::as_slice).unwrap_or_default(), Some(events)).await
    }

    async fn run_in(&self, request: &RunRequest, modes: &[Mode]) -> Result<DirectiveResult, BackendError> {
        self.run_with(request, modes, None).await
    }

    async fn run_with(
        &self,
        request: &RunRequest,
        modes: &[Mode],
        events: Option<&(dyn Fn(RunEvent) + Send + Sync)>,
    ) -> Result<DirectiveResult, BackendError> {
        let budget = RequestBudget::new(self.preset.max_requests);
        let (narrowed, type_decision) = budget.within(self.decided(request, &budget)).await?;
        let request = narrowed.as_ref().unwrap_or(request);
        let run = DirectiveRun { budget, events, ..DirectiveRun::new(self, request) };
        Ok(DirectiveResult { type_decision, ..run.run(modes).await? })
    }

    /// Returns the modes that the backend refused in earlier runs.
    fn refused(&self) -> HashSet<Mode> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports whether the schema in requests describes payloads.
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

/// Next action of a run after the attempts in one mode.
enum ModeEnd {
    /// End the run with this envelope.
    Done(Envelope),
    /// Try the next mode.
    Next,
    /// End the run without an envelope.
    Stop,
}

/// State of one run.
struct DirectiveRun<'a> {
    runner: &'a Runner,
    request: &'a RunRequest,
    validator: Validator<'a>,
    attempts: Vec<Attempt>,
    skipped: Vec<Skipped>,
    /// Modes that the backend refused since its last answer in this run.
    refused: Vec<Mode>,
    /// Best text for the user in the unusable answers so far. The flag is true if the text came
    /// from a valid envelope.
    best: (String, bool),
    /// Number of requests sent so far, including retries and probes, and its limit.
    budget: RequestBudget,
    /// True if the limit of requests ended the run.
    is_limited: bool,
    /// Receiver of events, if answers are streamed.
    events: Option<&'a (dyn Fn(RunEvent) + Send + Sync)>,
}

impl<'a> DirectiveRun<'a> {
    fn new(runner: &'a Runner, request: &'a RunRequest) -> Self {
        Self {
            runner,
            request,
            validator: Validator::new(&request.options),
            attempts: Vec::new(),
            skipped: Vec::new(),
            refused: Vec::new(),
            best: (String::new(), false),
            budget: RequestBudget::default(),
            is_limited: false,
            events: None,
        }
    }

    async fn run(self, modes: &[Mode]) -> Result<DirectiveResult, BackendError> {
        self.budget.clone().within(self.all(modes)).await
    }

    async fn all(mut self, modes: &[Mode]) -> Result<DirectiveResult, BackendError> {
        let mut open = self.open(modes).into_iter();
        let mut is_stopped = false;
        while !is_stopped && !self.is_spent() {
            let Some(mode) = open.next() else { break };
            if !self.is_supported(mode).await? {
                let reason = "the backend does not support this mode".to_owned();
                self.skipped.push(Skipped { mode, reason });
                continue;
            }
            match self.climb(mode).await? {
                ModeEnd::Done(envelope) => return Ok(self.succeeded(mode, envelope)),
                ModeEnd::Next => {}
                ModeEnd::Stop => is_stopped = true,
            }
        }
        if self.is_limited || (self.is_spent() && !is_stopped) {
            let reason = format!("the run reached its limit of {} requests", self.budget.sent());
            let left = self.skipped.len();
            self.skipped.extend(open.map(|mode| Skipped { mode, reason: reason.clone() }));
            self.is_limited |= self.skipped.len() > left;
        }
        Ok(self.failed())
    }

    /// Reports whether the run has sent as many requests as the preset allows.
    fn is_spent(&self) -> bool {
        self.budget.is_spent()
    }

    const fn options(&self) -> &'a StructuredOutputOptions {
        &self.request.options
    }

    /// Returns the members of `modes` that no earlier run saw refused. Records the others in
    /// `self.skipped`.
    fn open(&mut self, modes: &[Mode]) -> Vec<Mode> {
        let refused = self.runner.refused();
        let mut open = Vec::new();
        for &mode in modes {
            if refused.contains(&mode) && modes.len() > 1 {
                let reason = "the backend refused this mode in an earlier run".to_owned();
                self.skipped.push(Skipped { mode, reason });
            } else {
                open.push(mode);
            }
        }
        open
    }

    /// Reports whether the backend supports `mode`, if the preset says that this is checked. If the
    /// backend cannot say so, the mode is tried; if the check is interrupted, returns the error.
    async fn is_supported(&self, mode: Mode) -> Result<bool, BackendError> {
        let Some(feature) = mode.feature().filter(|_| self.runner.preset.check_capabilities == Some(true))
        else {
            return Ok(true);
        };
        let prompts = &self.runner.prompts;
        match prompts.backend().supports(prompts.model(), feature).await {
            Err(error) if error.interruption().is_none() => {
                tracing::info!(mode = mode.name(), %error, "it is unknown whether the backend supports the mode");
                Ok(true)
            }
            answered => answered,
        }
    }

    /// Asks in `mode`, and sends repair requests until an answer can be used or no more repairs are
    /// allowed. Returns the next action of the run.
    async fn climb(&mut self, mode: Mode) -> Result<ModeEnd, BackendError> {
        let detail = schema::Detail {
            payloads: self.runner.tells_payloads(),
            strict: self.runner.preset.strict.unwrap_or(true),
        };
        let mut conversation = Conversation::new(self.request, &self.runner.preset, mode, detail);
        let mut kind = AttemptKind::First;
        for left in (0..=self.runner.preset.repair_retries.unwrap_or_default()).rev() {
            if self.is_spent() {
                self.is_limited = true;
                return Ok(ModeEnd::Stop);
            }
            match self.attempt(mode, kind, &conversation).await? {
                AttemptOutcome::Good(envelope) => return Ok(ModeEnd::Done(envelope)),
                AttemptOutcome::Refused if kind == AttemptKind::First => {
                    self.refused.push(mode);
                    return Ok(self.after_refusal());
                }
                AttemptOutcome::Refused => return Ok(self.after_refusal()),
                AttemptOutcome::Failed => return Ok(ModeEnd::Stop),
                AttemptOutcome::Bad(answered) if answered.is_final() => return Ok(ModeEnd::Stop),
                AttemptOutcome::Bad(answered) if left > 0 => {
                    kind = answered.repair_kind();
                    conversation.repair(&answered);
                }
                AttemptOutcome::Bad(_) => {}
            }
        }
        Ok(ModeEnd::Next)
    }

    /// Returns the next action of the run after the backend refused a request.
    fn after_refusal(&self) -> ModeEnd {
        if self.runner.preset.stop_on_refusal == Some(true) { ModeEnd::Stop } else { ModeEnd::Next }
    }

    /// Records that the backend answered. Any refusals before this answer were therefore about
    /// their modes, so later runs skip these modes.
    fn answered(&mut self) {
        let mut refused = self.runner.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.extend(self.refused.drain(..));
    }

    /// Keeps the text of an unusable answer as the best text so far. Other text never replaces text
    /// from an envelope, and empty text is ignored.
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
            type_decision: None,
        }
    }

    fn failed(self) -> DirectiveResult {
        let mut errors: Vec<Problem> =
            self.attempts.iter().filter_map(|attempt| attempt.error.clone()).collect();
        if self.is_limited {
            let message = format!("the run reached its limit of {} requests", self.budget.sent());
            errors.push(Problem::new(ProblemCategory::Limit, "REQUEST_LIMIT", message));
        } else if self.attempts.is_empty() {
            let prompts = &self.runner.prompts;
            let place = prompts.backend().remembered_in(prompts.model());
            let message = format!("the backend supports none of the modes{}", hint(place.as_deref()));
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
            type_decision: None,
        }
    }
}

#[cfg(test)]
mod tests;
