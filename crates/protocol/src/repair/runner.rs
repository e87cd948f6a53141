use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Value, json};

use super::counters::Tally;
use super::{Counters, Reading, RepairOptions, SHOWN, Shape, adapted, repair_prompt, truncated};
use crate::adapt::{AdaptError, AdaptOptions};
use crate::directives::Mode;
use crate::{BackendError, Plan, PromptRunner, Reply, Retry, RetryCause};

/// Makes of a text what there is in it. An error ends the run as it is.
pub type Reader = Arc<dyn Fn(&str) -> Result<Reading, BackendError> + Send + Sync>;

/// Has a model repair what it wrote, and asks it in one mode after the other.
///
/// What the backend refuses to hold the model to, while it answers without it, is not asked of it again, neither in repairs nor as a
/// mode. Clones share that.
#[derive(Clone)]
pub struct Repairer {
    prompts: PromptRunner,
    shape: Shape,
    options: RepairOptions,
    reader: Option<Reader>,
    progress: Arc<dyn Fn(&Retry) + Send + Sync>,
    counters: Arc<Counters>,
    /// The types of `response_format` that the backend refused, while it answered without them.
    refused: Arc<Mutex<HashSet<String>>>,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// There is a value that fits.
    Valid,
    /// There is one that does not fit, and is worth something still.
    Partial,
    /// There is plain text alone.
    Text,
}

/// Why an attempt was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptKind {
    /// It is the first in its mode.
    First,
    /// The answer before did not fit.
    Repair,
}

/// One request, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attempt {
    /// In which mode.
    pub mode: Mode,
    /// Why.
    pub kind: AttemptKind,
    /// The text that came; none where nothing came.
    pub text: Option<String>,
    /// What is wrong with it, or why nothing came; nothing, if it fits.
    pub errors: Vec<String>,
    /// Whether it validates less than what it was to repair, or loses something of it, and was discarded.
    pub is_discarded: bool,
    /// The tokens used, as the backend tells them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}

/// What a repair came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Repaired {
    /// The best text.
    pub text: String,
    /// What is in it.
    pub reading: Reading,
    /// The repairs that were tried, in order.
    pub attempts: Vec<Attempt>,
    /// Why the last of them was not answered, where it was not.
    pub unanswered: Option<BackendError>,
}

/// What was answered in the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// How it ended.
    pub verdict: Verdict,
    /// The value; of the envelope, plain text is its `content`.
    pub value: Option<Value>,
    /// The value as it was written, in one line, where no conversion made it: its numbers have all their digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
    /// What was done to the text to make it the value, as [`Reading::adapted`] says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub adapted: Vec<String>,
    /// The text that it was in.
    pub text: String,
    /// What is wrong with it still; nothing, if it fits.
    pub errors: Vec<String>,
    /// The mode that it came in; none where a text was given.
    pub mode: Option<Mode>,
    /// How many repairs were tried.
    pub repairs: u32,
    /// All requests, in order.
    pub attempts: Vec<Attempt>,
    /// Why the last request was not answered, where that is what it ended with: there might be something better.
    #[serde(skip)]
    pub unanswered: Option<BackendError>,
}

impl Repairer {
    /// By the defaults.
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

    /// With other options.
    #[must_use]
    pub fn with_options(mut self, options: RepairOptions) -> Self {
        self.options = options;
        self
    }

    /// With another way to make a value of a text than [`Shape::read`].
    #[must_use]
    pub fn with_reader(mut self, reader: Reader) -> Self {
        self.reader = Some(reader);
        self
    }

    /// With texts adapted, as far as the adapter may, before anything is asked for.
    ///
    /// # Errors
    /// When the adapter's options are not what they may be.
    pub fn with_adaptation(self, options: AdaptOptions) -> Result<Self, AdaptError> {
        let reader = adapted::reader(self.shape.clone(), options)?;
        Ok(self.with_reader(reader))
    }

    /// With counters that others count in as well.
    #[must_use]
    pub fn with_counters(mut self, counters: Arc<Counters>) -> Self {
        self.counters = counters;
        self
    }

    /// Tells of every repair before it is asked for.
    #[must_use]
    pub fn on_retry(mut self, progress: impl Fn(&Retry) + Send + Sync + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    /// What answers must be.
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How it repairs.
    pub const fn options(&self) -> &RepairOptions {
        &self.options
    }

    /// How often what was needed.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What a text comes to.
    ///
    /// # Errors
    /// When the reader interrupts the run.
    pub fn read(&self, text: &str) -> Result<Reading, BackendError> {
        self.reader.as_ref().map_or_else(|| Ok(self.shape.read(text)), |read| read(text))
    }

    /// Asks in one mode after the other, with repairs, until an answer fits or may be taken as it is. What was answered in one mode is
    /// not lost where the next is not answered.
    ///
    /// # Errors
    /// When the backend does not answer for a reason that is not the mode's, and has not answered before, or the run is interrupted.
    pub async fn ask(&self, plan: &Plan) -> Result<Answer, BackendError> {
        let mut run = Run::new(self.options.attempts());
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
            run.says(mode, mode == Mode::PromptOnly, (&text, &reading));
            let (text, reading) = self.mend(&plan, mode, (text, reading), &mut run).await?;
            run.offer(mode, text, reading);
            // What is better cannot come, or what there is will do.
            if run.best.as_ref().is_some_and(|best| self.will_do(&best.reading)) {
                break;
            }
        }
        Ok(self.answer(run))
    }

    /// Has a text that was answered to `plan` repaired, if it does not fit.
    ///
    /// # Errors
    /// When the run is interrupted. Where the backend does not answer, the text stays as it is, and [`Answer::unanswered`] says why.
    pub async fn repair(&self, plan: &Plan, text: &str) -> Result<Answer, BackendError> {
        let reading = self.read(text)?;
        let mut run = Run::new(self.options.attempts());
        run.says(Mode::PromptOnly, false, (text, &reading));
        let (text, reading) = self.mend(plan, Mode::PromptOnly, (text.to_owned(), reading), &mut run).await?;
        run.offer(Mode::PromptOnly, text, reading);
        Ok(Answer { mode: None, ..self.answer(run) })
    }

    /// The same for a text that was read already, without a verdict and without counting: for who does that.
    ///
    /// # Errors
    /// As [`Repairer::repair`].
    pub async fn repaired(&self, plan: &Plan, read: (String, Reading)) -> Result<Repaired, BackendError> {
        let mut run = Run::new(self.options.attempts());
        let (text, reading) = self.mend(plan, Mode::PromptOnly, read, &mut run).await?;
        Ok(Repaired { text, reading, attempts: run.attempts, unanswered: run.unanswered })
    }

    /// Asks for repairs while there are some left, and keeps the best.
    async fn mend(
        &self,
        plan: &Plan,
        mode: Mode,
        (mut text, mut reading): (String, Reading),
        run: &mut Run,
    ) -> Result<(String, Reading), BackendError> {
        let most = self.options.attempts();
        let started_at = SystemTime::now();
        run.unanswered = None;
        while !reading.is_valid() && run.left > 0 {
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
            tracing::debug!(attempt, errors = reading.errors.len(), "asking for a repair");
            let plan = self.of_repair(plan, &text, &reading, (attempt, most));
            let reply = match self.asked(plan).await {
                Ok(reply) => reply,
                Err(error) if error.interruption().is_some() => return Err(error),
                Err(error) => {
                    // Nothing is lost: there is what there was before.
                    run.failed((mode, AttemptKind::Repair), &error);
                    run.unanswered = Some(error);
                    break;
                }
            };
            let answered = reply.content();
            let read = self.read(&answered)?;
            let is_discarded = self.is_discarded((&text, &reading), &read);
            run.attempts.push(Attempt {
                mode,
                kind: AttemptKind::Repair,
                text: Some(answered.clone()),
                errors: read.errors.clone(),
                is_discarded,
                usage: usage(&reply.body),
            });
            if !is_discarded {
                (text, reading) = (answered, read);
            }
        }
        Ok((text, reading))
    }

    /// Sends a repair, without a format that the backend does not know: the answer is checked here.
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

    /// Whether what was read does not take the place of what it was to repair: it validates less, or says less.
    fn is_discarded(&self, (text, before): (&str, &Reading), read: &Reading) -> bool {
        // Where plain text stands for an answer, a value that says nothing does not stand for the text.
        let is_silent = before.value.is_none() && !text.trim().is_empty() && !read.is_telling();
        read.is_worse_than(before)
            || read.loses(before)
            || (is_silent && read.value.is_some() && self.shape.of_text(text).is_some())
    }

    /// Whether there is nothing more to ask for.
    fn will_do(&self, reading: &Reading) -> bool {
        reading.is_valid() || (reading.is_partial() && !self.options.strict)
    }

    /// The modes that were not refused; all, if all were.
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

    async fn first(&self, plan: &Plan, mode: Mode, run: &mut Run) -> Result<(String, Reading), BackendError> {
        let reply = match self.prompts.run(plan).await {
            Ok(reply) => reply,
            Err(error) => {
                run.failed((mode, AttemptKind::First), &error);
                return Err(error);
            }
        };
        let text = reply.content();
        let reading = self.read(&text)?;
        run.attempts.push(Attempt {
            mode,
            kind: AttemptKind::First,
            text: Some(text.clone()),
            errors: reading.errors.clone(),
            is_discarded: false,
            usage: usage(&reply.body),
        });
        Ok((text, reading))
    }

    fn in_mode(&self, plan: &Plan, mode: Mode) -> Plan {
        let mut plan = plan.clone();
        match self.shape.response_format(mode) {
            Some(format) => plan.options.insert("response_format".to_owned(), format),
            None => plan.options.remove("response_format"),
        };
        plan
    }

    /// The conversation with the answer, and what is wrong with it. Each repair begins with the conversation as it was.
    fn of_repair(&self, plan: &Plan, text: &str, reading: &Reading, attempt: (u32, u32)) -> Plan {
        let mut plan = plan.clone();
        // Some servers refuse a message that says nothing.
        if !text.trim().is_empty() {
            plan.messages.push(json!({ "role": "assistant", "content": truncated(text, SHOWN) }));
        }
        let told = repair_prompt(&self.shape, text, reading, attempt);
        plan.messages.push(json!({ "role": "user", "content": told }));
        plan.options.insert("temperature".to_owned(), 0.into());
        plan
    }

    fn answer(&self, run: Run) -> Answer {
        let Run { best, said, attempts, unanswered, .. } = run;
        let nothing = || Reading::of_nothing(vec!["there is no mode to ask in".to_owned()]);
        let (mode, text, reading) = match best {
            Some(Best { mode, text, reading }) => (Some(mode), text, reading),
            None => (None, String::new(), nothing()),
        };
        let is_parsed = reading.value.is_some();
        let (is_valid, will_do) = (reading.is_valid(), self.will_do(&reading));
        let Reading { value, errors, written, adapted, .. } = reading;
        let (verdict, mode, text, value, written, adapted) = if will_do {
            let verdict = if is_valid { Verdict::Valid } else { Verdict::Partial };
            (verdict, mode, text, value, written, adapted)
        } else {
            // What was asked for as text is text; where there is no value, so is what was said before it was asked for again.
            let said = said.filter(|said| said.is_asked_for || !is_parsed);
            let (mode, text) = said.map_or((mode, text), |said| (Some(said.mode), said.text));
            let value = self.shape.of_text(text.trim());
            (Verdict::Text, mode, text, value, None, Vec::new())
        };
        let is_repair = |attempt: &&Attempt| attempt.kind == AttemptKind::Repair;
        let repairs = attempts.iter().filter(is_repair).count() as u32;
        let discarded = attempts.iter().filter(|attempt| attempt.is_discarded).count() as u64;
        self.counters.count(&Tally { verdict, is_parsed, repairs: repairs.into(), discarded });
        Answer { verdict, value, written, adapted, text, errors, mode, repairs, attempts, unanswered }
    }
}

/// A run on its way.
struct Run {
    /// How many repairs are left.
    left: u32,
    attempts: Vec<Attempt>,
    best: Option<Best>,
    said: Option<Said>,
    unanswered: Option<BackendError>,
}

/// The best answer so far.
struct Best {
    mode: Mode,
    text: String,
    reading: Reading,
}

/// The first answer that is text alone, or the one that was asked for as such.
struct Said {
    mode: Mode,
    text: String,
    is_asked_for: bool,
}

impl Run {
    const fn new(left: u32) -> Self {
        Self { left, attempts: Vec::new(), best: None, said: None, unanswered: None }
    }

    /// Whether anything was answered.
    fn has_answer(&self) -> bool {
        self.said.is_some() || self.best.as_ref().is_some_and(|best| !best.text.trim().is_empty())
    }

    /// Takes note of what a mode's first answer says, if that is text.
    fn says(&mut self, mode: Mode, is_asked_for: bool, (text, reading): (&str, &Reading)) {
        if !text.trim().is_empty() && (is_asked_for || (self.said.is_none() && reading.value.is_none())) {
            self.said = Some(Said { mode, text: text.to_owned(), is_asked_for });
        }
    }

    /// Keeps an answer, if there is no better one. It may say something else; but that less of it is wrong counts only where less is not
    /// all that it says.
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
        });
    }
}

/// The type of the format that a request asks for.
fn format_of(plan: &Plan) -> Option<String> {
    plan.options.get("response_format")?.get("type")?.as_str().map(str::to_owned)
}

fn usage(body: &Value) -> Option<Value> {
    body.get("usage").filter(|usage| usage.is_object()).cloned()
}
