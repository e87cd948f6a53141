use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::{Value, json};

use super::counters::Tally;
use super::{Counters, Reading, RepairOptions, SHOWN, Shape, repair_prompt, truncated};
use crate::directives::Mode;
use crate::{BackendError, Plan, PromptRunner, Retry, RetryCause};

/// Makes of a text what there is in it. An error ends the run as it is.
pub type Reader = Arc<dyn Fn(&str) -> Result<Reading, BackendError> + Send + Sync>;

/// Has a model repair what it wrote, and asks it in one mode after the other.
#[derive(Clone)]
pub struct Repairer {
    prompts: PromptRunner,
    shape: Shape,
    options: RepairOptions,
    reader: Option<Reader>,
    progress: Arc<dyn Fn(&Retry) + Send + Sync>,
    counters: Arc<Counters>,
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
    /// Whether it validates less than what it was to repair, and was discarded.
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
}

/// What was answered in the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// How it ended.
    pub verdict: Verdict,
    /// The value; of the envelope, plain text is its `content`.
    pub value: Option<Value>,
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

    /// Asks in one mode after the other, with repairs, until an answer fits or may be taken as it is.
    ///
    /// # Errors
    /// When the backend does not answer for a reason that is not the mode's, or the run is interrupted.
    pub async fn ask(&self, plan: &Plan) -> Result<Answer, BackendError> {
        let mut run = Run { left: self.options.attempts(), attempts: Vec::new() };
        let mut best: Option<(Mode, String, Reading)> = None;
        let mut plain = None;
        for (at, &mode) in self.options.modes.iter().enumerate() {
            let is_last = at + 1 == self.options.modes.len();
            let plan = self.in_mode(plan, mode);
            let (text, reading) = match self.first(&plan, mode, &mut run).await {
                Ok(read) => read,
                Err(error) if error.is_of_mode() && mode.is_structured() && !is_last => continue,
                Err(error) => return Err(error),
            };
            if mode == Mode::PromptOnly && !text.trim().is_empty() {
                plain = Some(text.clone());
            }
            let (text, reading) = self.mend(&plan, mode, (text, reading), &mut run).await?;
            if best.as_ref().is_none_or(|(_, _, known)| known.is_worse_than(&reading)) {
                best = Some((mode, text, reading));
            }
            // What is better cannot come, or what there is will do.
            let will_do = |(_, _, reading): &(Mode, String, Reading)| {
                reading.is_valid() || (reading.is_partial() && !self.options.strict)
            };
            if best.as_ref().is_some_and(will_do) {
                break;
            }
        }
        Ok(self.answer(best, plain, run))
    }

    /// Has a text that was answered to `plan` repaired, if it does not fit.
    ///
    /// # Errors
    /// When the run is interrupted. Where the backend does not answer, the text stays as it is.
    pub async fn repair(&self, plan: &Plan, text: &str) -> Result<Answer, BackendError> {
        let repaired = self.repaired(plan, (text.to_owned(), self.read(text)?)).await?;
        let run = Run { left: 0, attempts: repaired.attempts };
        let mut answer = self.answer(Some((Mode::PromptOnly, repaired.text, repaired.reading)), None, run);
        answer.mode = None;
        Ok(answer)
    }

    /// The same for a text that was read already, without a verdict and without counting: for who does that.
    ///
    /// # Errors
    /// As [`Repairer::repair`].
    pub async fn repaired(&self, plan: &Plan, read: (String, Reading)) -> Result<Repaired, BackendError> {
        let mut run = Run { left: self.options.attempts(), attempts: Vec::new() };
        let (text, reading) = self.mend(plan, Mode::PromptOnly, read, &mut run).await?;
        Ok(Repaired { text, reading, attempts: run.attempts })
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
            let mut plan = self.of_repair(plan, &text, &reading, (attempt, most));
            let mut answered = self.prompts.run(&plan).await;
            // What the backend does not know it can do without: the answer is checked here.
            if answered.as_ref().is_err_and(BackendError::is_of_mode)
                && plan.options.remove("response_format").is_some()
            {
                answered = self.prompts.run(&plan).await;
            }
            let reply = match answered {
                Ok(reply) => reply,
                Err(error) if error.interruption().is_some() => return Err(error),
                Err(error) => {
                    // Nothing is lost: there is what there was before.
                    run.failed((mode, AttemptKind::Repair), &error);
                    break;
                }
            };
            let answered = reply.content();
            let read = self.read(&answered)?;
            let is_discarded = read.is_worse_than(&reading);
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

    fn answer(&self, best: Option<(Mode, String, Reading)>, plain: Option<String>, run: Run) -> Answer {
        let (mode, text, reading) = match best {
            Some((mode, text, reading)) => (Some(mode), text, reading),
            None => (None, String::new(), Reading::of_nothing(vec!["there is no mode to ask in".to_owned()])),
        };
        let is_parsed = reading.value.is_some();
        let (verdict, mode, text, value) = if reading.is_valid() {
            (Verdict::Valid, mode, text, reading.value)
        } else if reading.is_partial() && !self.options.strict {
            (Verdict::Partial, mode, text, reading.value)
        } else {
            let (mode, text) = plain.map_or((mode, text), |plain| (Some(Mode::PromptOnly), plain));
            let value = self.shape.of_text(text.trim());
            (Verdict::Text, mode, text, value)
        };
        let is_repair = |attempt: &&Attempt| attempt.kind == AttemptKind::Repair;
        let repairs = run.attempts.iter().filter(is_repair).count();
        let discarded = run.attempts.iter().filter(|attempt| attempt.is_discarded).count();
        let (repairs, discarded) = (repairs as u32, discarded as u64);
        self.counters.count(&Tally { verdict, is_parsed, repairs: repairs.into(), discarded });
        Answer { verdict, value, text, errors: reading.errors, mode, repairs, attempts: run.attempts }
    }
}

/// A run on its way.
struct Run {
    /// How many repairs are left.
    left: u32,
    attempts: Vec<Attempt>,
}

impl Run {
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

fn usage(body: &Value) -> Option<Value> {
    body.get("usage").filter(|usage| usage.is_object()).cloned()
}
