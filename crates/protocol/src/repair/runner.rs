use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Value, json};

use super::counters::Tally;
use super::{Counters, Reading, RepairOptions, Shape, repair_prompt, response_format};
use crate::adapt::repair::truncated;
use crate::adapt::{AdaptError, AdaptOptions, Adapter};
use crate::directives::Mode;
use crate::ending::{CUT, Withheld, is_whole};
use crate::{BackendError, Plan, PromptRunner, Reply, Retry, RetryCause};

/// Maximum number of characters of an invalid answer in the messages of the next request.
pub(crate) const SENT: usize = 200_000;

/// Reads the value in a text. An error ends the run and is passed on unchanged.
pub type Reader = Arc<dyn Fn(&str) -> Result<Reading, BackendError> + Send + Sync>;

/// Asks a model in one mode after the other and has the model repair invalid answers.
///
/// If the backend rejects a response format but answers without the format, the format is not
/// requested again. Clones share the set of rejected formats.
#[derive(Clone)]
pub struct Repairer {
    prompts: PromptRunner,
    shape: Shape,
    options: RepairOptions,
    reader: Option<Reader>,
    progress: Arc<dyn Fn(&Retry) + Send + Sync>,
    counters: Arc<Counters>,
    /// Types of `response_format` that the backend rejected while answering without them.
    refused: Arc<Mutex<HashSet<String>>>,
}

/// Verdict on an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The value is valid.
    Valid,
    /// The value is invalid, but at least one of its key fields has content.
    Partial,
    /// The answer is plain text.
    Text,
}

/// Reason for an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptKind {
    /// First request in its mode.
    First,
    /// Repair of an invalid answer.
    Repair,
}

/// One request and its result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attempt {
    /// Mode of the request.
    pub mode: Mode,
    /// Reason for the attempt.
    pub kind: AttemptKind,
    /// Text of the reply, or `None` if the request failed.
    pub text: Option<String>,
    /// Validation errors of the reply, or the error of the request. Empty if the reply is valid.
    pub errors: Vec<String>,
    /// True if a repair was discarded, because it was worse than the previous answer, lost content
    /// or was not answered.
    pub is_discarded: bool,
    /// Token usage, as reported by the backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
    /// Time of the request, with its retries and pauses.
    #[serde(skip)]
    pub latency: Duration,
}

/// Result of [`Repairer::repaired`].
#[derive(Clone, Debug, PartialEq)]
pub struct Repaired {
    /// Text of the best answer.
    pub text: String,
    /// Value and errors of the text.
    pub reading: Reading,
    /// Attempted repairs, in order.
    pub attempts: Vec<Attempt>,
    /// Error of the last repair, if the backend did not answer that repair.
    pub unanswered: Option<BackendError>,
    /// Reason why the last repair has no answer, if the model refused or a content filter withheld
    /// that repair.
    pub withheld: Option<Withheld>,
}

/// Final answer of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Verdict on the answer.
    pub verdict: Verdict,
    /// Value of the answer. For the envelope, plain text becomes the `content`.
    pub value: Option<Value>,
    /// Source text of the value on a single line, with all digits of its numbers. `None` if a
    /// conversion changed the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
    /// Transforms applied to the text, as in [`Reading::adapted`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub adapted: Vec<String>,
    /// Text that contains the value.
    pub text: String,
    /// Remaining validation errors. Empty if the value is valid.
    pub errors: Vec<String>,
    /// Mode in which the model gave the answer. `None` if the text was given by the caller.
    pub mode: Option<Mode>,
    /// Number of attempted repairs.
    pub repairs: u32,
    /// All requests, in order.
    pub attempts: Vec<Attempt>,
    /// True if the only error is that the text ends inside the value.
    #[serde(rename = "truncated", skip_serializing_if = "std::ops::Not::not")]
    pub is_truncated: bool,
    /// Reason that ended the run early: the model refused to answer, or a content filter withheld
    /// the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// Error that ended the run early. A further request might have given a better answer.
    #[serde(skip)]
    pub unanswered: Option<BackendError>,
}

impl Repairer {
    /// Creates a repairer with the default options.
    pub fn new(prompts: PromptRunner, shape: Shape) -> Self {
        Self {
            prompts,
            shape,
            options: RepairOptions::default(),
            reader: None,
            progress: Arc::new(|_| {}),
            counters: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Sets the options.
    #[must_use]
    pub fn with_options(mut self, options: RepairOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the function that reads texts, instead of [`Shape::read`].
    #[must_use]
    pub fn with_reader(mut self, reader: Reader) -> Self {
        self.reader = Some(reader);
        self
    }

    /// Adapts invalid texts without the model before a repair is requested.
    ///
    /// # Errors
    /// Returns an error if the adapter options are invalid.
    pub fn with_adaptation(self, options: AdaptOptions) -> Result<Self, AdaptError> {
        let adapter = Adapter::new(self.shape.schema(), options)?;
        let shape = self.shape.clone();
        Ok(self.with_reader(Arc::new(move |text: &str| Ok(shape.read_adapted(&adapter, text)))))
    }

    /// Sets counters that can be shared with other repairers.
    #[must_use]
    pub fn with_counters(mut self, counters: Arc<Counters>) -> Self {
        self.counters = counters;
        self
    }

    /// Sets a callback that is called before each repair is requested.
    #[must_use]
    pub fn on_retry(mut self, progress: impl Fn(&Retry) + Send + Sync + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// Returns the shape that answers must have.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the options.
    pub const fn options(&self) -> &RepairOptions {
        &self.options
    }

    /// Returns the statistics of all runs.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Reads the value in a text.
    ///
    /// # Errors
    /// Returns an error if the reader interrupts the run.
    pub fn read(&self, text: &str) -> Result<Reading, BackendError> {
        self.reader.as_ref().map_or_else(|| Ok(self.shape.read(text)), |read| read(text))
    }

    /// Asks in one mode after the other. An invalid answer is repaired while repairs are left; all
    /// modes share one limit. The first valid answer ends the run, and so does a usable answer
    /// unless [`RepairOptions::strict`] is set. A refusal ends the run as well.
    ///
    /// If a later mode is not answered, the best answer so far is returned.
    ///
    /// # Errors
    /// Returns an error if the run is interrupted, or if a request fails before any answer. A mode
    /// that the backend rejects is skipped, unless no mode is left.
    pub async fn ask(&self, plan: &Plan) -> Result<Answer, BackendError> {
        let mut run = RepairRun::new(self.options.attempts());
        let modes = self.open_modes();
        let mut refused = Vec::new();
        for (at, &mode) in modes.iter().enumerate() {
            let is_last = at + 1 == modes.len();
            let plan = self.in_mode(plan, mode);
            let (text, reading) = match self.first(&plan, mode, &mut run).await {
                Ok(read) => read,
                Err(error) if error.interruption().is_some() => return Err(error),
                Err(error) if error.is_of_mode() && mode.is_structured() && !is_last => {
                    refused.extend(format_of(&plan));
                    continue;
                }
                Err(error) if run.has_answer() => {
                    run.unanswered = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            };
            self.remember(refused.drain(..));
            if run.withheld.is_some() {
                run.offer(mode, text, reading);
                break;
            }
            run.says(mode, mode == Mode::PromptOnly, (&text, &reading));
            let (text, reading) = self.mend(&plan, mode, (text, reading), &mut run).await?;
            run.offer(mode, text, reading);
            // A valid answer ends the run. So does a usable one, unless `strict` is set.
            if run.withheld.is_some() || run.best.as_ref().is_some_and(|best| self.will_do(&best.reading)) {
                break;
            }
        }
        Ok(self.answer(run))
    }

    /// Repairs a text that a model answered to `plan`, if the text is invalid.
    ///
    /// # Errors
    /// Returns an error if the run is interrupted. If the backend does not answer, the text is
    /// returned unchanged and [`Answer::unanswered`] holds the error.
    pub async fn repair(&self, plan: &Plan, text: &str) -> Result<Answer, BackendError> {
        let reading = self.read(text)?;
        let mut run = RepairRun::new(self.options.attempts());
        run.says(Mode::PromptOnly, false, (text, &reading));
        let (text, reading) = self.mend(plan, Mode::PromptOnly, (text.to_owned(), reading), &mut run).await?;
        run.offer(Mode::PromptOnly, text, reading);
        Ok(Answer { mode: None, ..self.answer(run) })
    }

    /// Repairs a text that the caller has read already, like [`Repairer::repair`].
    ///
    /// The result has no verdict and is not counted, because the caller does both.
    ///
    /// # Errors
    /// Returns an error if the run is interrupted.
    pub async fn repaired(&self, plan: &Plan, read: (String, Reading)) -> Result<Repaired, BackendError> {
        let mut run = RepairRun::new(self.options.attempts());
        let (text, reading) = self.mend(plan, Mode::PromptOnly, read, &mut run).await?;
        let RepairRun { attempts, unanswered, withheld, .. } = run;
        Ok(Repaired { text, reading, attempts, unanswered, withheld })
    }

    /// Requests repairs until an answer is valid or no attempts are left. Returns the best answer.
    async fn mend(
        &self,
        plan: &Plan,
        mode: Mode,
        (mut text, mut reading): (String, Reading),
        run: &mut RepairRun,
    ) -> Result<(String, Reading), BackendError> {
        let most = self.options.attempts();
        let mut conversation = plan.clone();
        // The latest answer, which may be worse than the best one.
        let mut latest = (text.clone(), reading.clone());
        let started_at = SystemTime::now();
        run.unanswered = None;
        // A text that was closed at its end is not completed by a model.
        while !reading.is_valid() && !reading.is_truncated() && run.left > 0 {
            run.left -= 1;
            let attempt = most - run.left;
            (self.progress)(&Retry {
                cause: RetryCause::Schema(reading.errors.clone()),
                attempt,
                max_attempts: Some(most),
                pause: Duration::ZERO,
                started_at,
                is_schema_repair: true,
            });
            tracing::debug!(attempt, errors = latest.1.errors.len(), "requesting a repair");
            conversation = self.of_repair(&conversation, &latest.0, &latest.1, (attempt, most));
            let reply = match self.asked(conversation.clone()).await {
                Ok(reply) => reply,
                Err(error) if error.interruption().is_some() => return Err(error),
                Err(error) => {
                    // The previous answer is kept.
                    run.failed((mode, AttemptKind::Repair), &error);
                    run.unanswered = Some(error);
                    break;
                }
            };
            let answered = reply.content();
            run.withheld = Withheld::of(&reply);
            let read = self.reading(&reply, run.withheld.as_ref())?;
            let is_discarded = run.withheld.is_some() || self.is_discarded((&text, &reading), &read);
            run.attempts.push(Attempt {
                mode,
                kind: AttemptKind::Repair,
                text: Some(answered.clone()),
                errors: read.errors.clone(),
                is_discarded,
                usage: usage(&reply.body),
                latency: reply.latency,
            });
            if run.withheld.is_some() {
                // The previous answer is kept.
                break;
            }
            latest = (answered.clone(), if is_discarded { lossy(read.clone()) } else { read.clone() });
            if !is_discarded {
                (text, reading) = (answered, read);
            }
        }
        Ok((text, reading))
    }

    /// Sends a repair. A response format that the backend rejects is removed, because the answer is
    /// validated here anyway.
    async fn asked(&self, mut plan: Plan) -> Result<Reply, BackendError> {
        let format = format_of(&plan);
        if format.as_ref().is_some_and(|format| self.refused().contains(format)) {
            plan.options.remove("response_format");
        }
        match self.prompts.run(&plan).await {
            Err(error) if error.is_of_mode() && plan.options.remove("response_format").is_some() => {
                let answered = self.prompts.run(&plan).await;
                if answered.is_ok() {
                    self.remember(format);
                }
                answered
            }
            answered => answered,
        }
    }

    /// Reports whether a repair must be discarded, because it is worse than the previous answer or
    /// loses content.
    fn is_discarded(&self, (text, before): (&str, &Reading), read: &Reading) -> bool {
        // If plain text can stand for an answer, a value without content must not replace the text.
        let is_silent = before.value.is_none() && !text.trim().is_empty() && !read.is_telling();
        read.is_worse_than(before)
            || read.loses(before)
            || (is_silent && read.value.is_some() && self.shape.of_text(text).is_some())
    }

    /// Reports whether an answer ends the run: it is valid, or usable and `strict` is off.
    fn will_do(&self, reading: &Reading) -> bool {
        reading.is_valid() || (reading.is_partial() && !self.options.strict)
    }

    /// Returns the modes that were not rejected, or all modes if every mode was rejected.
    fn open_modes(&self) -> Vec<Mode> {
        let refused = self.refused();
        let is_open = |mode: &&Mode| !mode.is_structured() || !refused.contains(mode.name());
        let open: Vec<Mode> = self.options.modes.iter().filter(is_open).copied().collect();
        if open.is_empty() { self.options.modes.clone() } else { open }
    }

    fn refused(&self) -> HashSet<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, formats: impl IntoIterator<Item = String>) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).extend(formats);
    }

    /// Reads a reply. A reply that was withheld has no value, and a value that the token limit may
    /// have cut off is invalid.
    fn reading(&self, reply: &Reply, withheld: Option<&Withheld>) -> Result<Reading, BackendError> {
        if let Some(withheld) = withheld {
            return Ok(Reading::of_nothing(vec![withheld.to_string()]));
        }
        let text = reply.content();
        let reading = self.read(&text)?;
        let is_cut = reply.is_truncated() && reading.is_valid() && !is_whole(&text);
        Ok(if is_cut { reading.with_errors(vec![CUT.to_owned()]) } else { reading })
    }

    async fn first(
        &self,
        plan: &Plan,
        mode: Mode,
        run: &mut RepairRun,
    ) -> Result<(String, Reading), BackendError> {
        let reply = match self.prompts.run(plan).await {
            Ok(reply) => reply,
            Err(error) => {
                run.failed((mode, AttemptKind::First), &error);
                return Err(error);
            }
        };
        let text = reply.content();
        run.withheld = Withheld::of(&reply);
        let reading = self.reading(&reply, run.withheld.as_ref())?;
        run.attempts.push(Attempt {
            mode,
            kind: AttemptKind::First,
            text: Some(text.clone()),
            errors: reading.errors.clone(),
            is_discarded: false,
            usage: usage(&reply.body),
            latency: reply.latency,
        });
        Ok((text, reading))
    }

    fn in_mode(&self, plan: &Plan, mode: Mode) -> Plan {
        let mut plan = plan.clone();
        match response_format(&self.shape, mode) {
            Some(format) => plan.options.insert("response_format".to_owned(), format),
            None => plan.options.remove("response_format"),
        };
        plan
    }

    /// Builds the conversation for a repair: the original messages, the earlier repairs, the answer
    /// and the repair prompt.
    ///
    /// A discarded repair is part of the conversation as well. Otherwise the next request would be
    /// the same, and so would its answer.
    fn of_repair(&self, plan: &Plan, text: &str, reading: &Reading, attempt: (u32, u32)) -> Plan {
        let mut plan = plan.clone();
        // Some servers reject an empty message.
        if !text.trim().is_empty() {
            plan.messages.push(json!({ "role": "assistant", "content": truncated(text, SENT) }));
        }
        let told = repair_prompt(&self.shape, text, reading, attempt);
        plan.messages.push(json!({ "role": "user", "content": told }));
        plan.options.insert("temperature".to_owned(), 0.into());
        plan
    }

    fn answer(&self, run: RepairRun) -> Answer {
        let RepairRun { best, said, attempts, unanswered, withheld, .. } = run;
        let nothing = || Reading::of_nothing(vec!["`modes` is empty; expected at least one mode".to_owned()]);
        let (mode, text, reading) = match best {
            Some(Best { mode, text, reading }) => (Some(mode), text, reading),
            None => (None, String::new(), nothing()),
        };
        let is_parsed = reading.value.is_some();
        let (is_valid, will_do) = (reading.is_valid(), self.will_do(&reading));
        let (written, adapted) = (reading.written().map(str::to_owned), reading.adapted().to_vec());
        let is_cut = reading.is_truncated() || reading.errors.first().is_some_and(|error| error == CUT);
        let is_truncated = is_cut && reading.errors.len() == 1;
        let Reading { value, errors, .. } = reading;
        let (verdict, mode, text, value, written, adapted) = if will_do {
            let verdict = if is_valid { Verdict::Valid } else { Verdict::Partial };
            (verdict, mode, text, value, written, adapted)
        } else {
            // In prompt-only mode, the model's text is the answer. If the best answer has no value,
            // the first text is the answer.
            let said = said.filter(|said| said.is_asked_for || !is_parsed);
            let is_answer = said.is_some() || withheld.is_none();
            let (mode, text) = said.map_or((mode, text), |said| (Some(said.mode), said.text));
            let value = self.shape.of_text(text.trim()).filter(|_| is_answer);
            (Verdict::Text, mode, text, value, None, Vec::new())
        };
        let is_repair = |attempt: &&Attempt| attempt.kind == AttemptKind::Repair;
        let repairs = attempts.iter().filter(is_repair).count() as u32;
        let discarded = attempts.iter().filter(|attempt| attempt.is_discarded).count() as u64;
        self.counters.count(&Tally { verdict, is_parsed, repairs: repairs.into(), discarded });
        Answer {
            verdict,
            value,
            written,
            adapted,
            text,
            errors,
            mode,
            repairs,
            attempts,
            is_truncated,
            withheld,
            unanswered,
        }
    }
}

/// Adds an error to a repair that is valid but was discarded. The error tells the model the reason.
fn lossy(read: Reading) -> Reading {
    if !read.errors.is_empty() {
        return read;
    }
    let error = "Values of the original response are missing. Keep all of its values".to_owned();
    read.with_errors(vec![error])
}

/// State of a run.
struct RepairRun {
    /// Number of repairs left.
    left: u32,
    attempts: Vec<Attempt>,
    best: Option<Best>,
    said: Option<Said>,
    unanswered: Option<BackendError>,
    withheld: Option<Withheld>,
}

/// Best answer so far.
struct Best {
    mode: Mode,
    text: String,
    reading: Reading,
}

/// Text that may become the final answer: the first reply without a value, or the reply in
/// prompt-only mode.
struct Said {
    mode: Mode,
    text: String,
    is_asked_for: bool,
}

impl RepairRun {
    const fn new(left: u32) -> Self {
        Self { left, attempts: Vec::new(), best: None, said: None, unanswered: None, withheld: None }
    }

    /// Reports whether any reply had content.
    fn has_answer(&self) -> bool {
        self.said.is_some() || self.best.as_ref().is_some_and(|best| !best.text.trim().is_empty())
    }

    /// Records the first reply of a mode if it may become the final answer as text.
    fn says(&mut self, mode: Mode, is_asked_for: bool, (text, reading): (&str, &Reading)) {
        if !text.trim().is_empty() && (is_asked_for || (self.said.is_none() && reading.value.is_none())) {
            self.said = Some(Said { mode, text: text.to_owned(), is_asked_for });
        }
    }

    /// Keeps an answer if it is better than the best one so far.
    ///
    /// An invalid answer must also preserve the content of the best one, because fewer errors may
    /// only mean less content.
    fn offer(&mut self, mode: Mode, text: String, reading: Reading) {
        let is_better = |best: &Best| {
            best.reading.is_worse_than(&reading) && (reading.is_valid() || !reading.loses(&best.reading))
        };
        if self.best.as_ref().is_none_or(is_better) {
            self.best = Some(Best { mode, text, reading });
        }
    }

    fn failed(&mut self, (mode, kind): (Mode, AttemptKind), error: &BackendError) {
        self.attempts.push(Attempt {
            mode,
            kind,
            text: None,
            errors: vec![error.to_string()],
            is_discarded: kind == AttemptKind::Repair,
            usage: None,
            latency: Duration::ZERO,
        });
    }
}

/// Returns the type of the `response_format` in a request.
fn format_of(plan: &Plan) -> Option<String> {
    plan.options.get("response_format")?.get("type")?.as_str().map(str::to_owned)
}

fn usage(body: &Value) -> Option<Value> {
    body.get("usage").filter(|usage| usage.is_object()).cloned()
}
