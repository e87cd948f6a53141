//! The attempts of a step.

use std::sync::{Arc, Mutex, PoisonError};

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::call::{CallResult, Called, Ending};
use super::constraint::{Ladder, Sent};
use super::context::{StepInput, StepOutput};
use super::cost::Cost;
use super::error::{Kind, StepError};
use super::{Context, Interrupted, Output, Progress, Step, StepProcessor, events};
use crate::adapt::repair::{dotted, first_errors, truncated};
use crate::adapt::{Adaptation, Input, Processor, ProcessorError};
use crate::ending::{CUT, is_whole};
use crate::precheck::{InjectFeedback, PrecheckInput, plan_snippet};
use crate::repair::{Reader, Reading, Repairer, SENT, Tally, Verdict};
use crate::trace::{Span, Status};
use crate::{BackendError, Body, Interruption};

/// Slot for the reason why a text could not be read during a repair.
type Stopped = Arc<Mutex<Option<Kind>>>;

/// Failed attempt.
struct Failed {
    text: String,
    value: Option<Value>,
    errors: Vec<String>,
    asked: RepairCount,
    /// True if the limit of tokens cut off the text.
    is_truncated: bool,
}

/// Result of an attempt.
enum Ended {
    Good { value: Value, text: String, asked: RepairCount, context: Context, is_truncated: bool },
    Bad(Failed),
}

/// Numbers of requested and discarded repairs.
#[derive(Clone, Copy, Default)]
struct RepairCount {
    repairs: u32,
    /// Number of discarded repairs, for example because the result was worse.
    discarded: u32,
}

/// Parsed output.
struct Read {
    text: String,
    value: Option<Value>,
    errors: Vec<String>,
    asked: RepairCount,
    /// Context after the processors.
    context: Context,
    /// True if the limit of tokens cut off the text.
    is_truncated: bool,
}

impl Step {
    /// Runs the step and traces it in a new span inside `around`. `context` changes only if the
    /// step succeeds.
    ///
    /// # Errors
    /// Returns an error if no attempt gave a usable output, the backend failed, or the run was
    /// interrupted.
    pub async fn run(
        &self,
        input: &StepInput,
        context: &mut Body,
        around: &Span,
    ) -> Result<StepOutput, StepError> {
        let span = around.step(&self.name);
        span.set_model(self.prompts.model());
        span.set_provider(self.prompts.backend().name());
        if let Some(agent) = &self.agent {
            span.set_agent(agent);
        }
        if self.settings.is_on {
            span.set("aros.model_id", self.prompts.model());
        }
        let mut cost = Cost::default();
        let ended = self.attempts(input, context, (&span, &mut cost)).await;
        cost.record(&span);
        match &ended {
            Ok(output) if output.attempts > 1 || output.repairs > 0 => span.set("mended", true),
            Err(kind) if !self.traces_failures || kind.interruption().is_some() => {}
            Ok(_) | Err(Kind::Output { .. }) => {}
            Err(kind) => events::failed(&span, (kind.reason(), &[kind.to_string()]), &cost, None),
        }
        let ended = ended.map_err(StepError::from);
        span.end(status(&ended));
        ended
    }

    async fn attempts(
        &self,
        input: &StepInput,
        context: &mut Body,
        (span, cost): (&Span, &mut Cost),
    ) -> Result<StepOutput, Kind> {
        let mut last: Option<Failed> = None;
        let mut all = RepairCount::default();
        let mut ladder = Ladder::default();
        let attempts = self.retries.saturating_add(1);
        for number in 1..=attempts {
            ladder.attempt = number;
            let attempt = span.attempt(number);
            let (own, mut spent) = (Context::of(context), Cost::default());
            let ended = self.attempt(input, last.as_ref(), own, (&attempt, &mut spent, &mut ladder)).await;
            spent.record(&attempt);
            cost.add(spent);
            match ended {
                Ok(Ended::Good { value, text, asked, context: own, is_truncated }) => {
                    *context = own.snapshot();
                    attempt.end(Status::Ok);
                    self.count(Verdict::Valid, number, all.and(asked));
                    let repairs = asked.repairs;
                    return Ok(StepOutput { value, text, attempts: number, repairs, is_truncated });
                }
                Ok(Ended::Bad(failed)) => {
                    all = all.and(failed.asked);
                    attempt.set("errors", json!(first_errors(&failed.errors)));
                    let text = self.keeps_failures.then_some(failed.text.as_str());
                    if number < attempts && self.traces_failures {
                        let failed = ("output", failed.errors.as_slice());
                        events::retried(&attempt, number + 1, failed, &spent, text);
                    }
                    attempt.end(Status::Error);
                    let errors = &failed.errors;
                    (self.reports)(&Progress::Failed { attempt: number, attempts, errors });
                    last = Some(failed);
                }
                Err(kind) => {
                    attempt.end(if kind.interruption().is_some() {
                        Status::Cancelled
                    } else {
                        Status::Error
                    });
                    return Err(kind);
                }
            }
        }
        let has_value = last.as_ref().is_some_and(|failed| failed.value.is_some());
        self.count(if has_value { Verdict::Partial } else { Verdict::Text }, attempts, all);
        let text = last.as_ref().filter(|_| self.keeps_failures).map(|failed| failed.text.clone());
        let is_truncated = last.as_ref().is_some_and(|failed| failed.is_truncated);
        let errors = last.map(|failed| failed.errors).unwrap_or_default();
        if self.traces_failures {
            events::failed(span, ("output", &errors), cost, text.as_deref());
        }
        Err(Kind::Output { attempts, errors, is_truncated })
    }

    /// Adds a run to the counters. Does nothing if the step has no schema.
    fn count(&self, verdict: Verdict, attempts: u32, asked: RepairCount) {
        if self.output.is_none() {
            return;
        }
        let repairs = u64::from(asked.repairs) + u64::from(attempts - 1);
        let is_parsed = verdict != Verdict::Text;
        self.counters.count(&Tally { verdict, is_parsed, repairs, discarded: asked.discarded.into() });
    }

    async fn attempt(
        &self,
        input: &StepInput,
        last: Option<&Failed>,
        context: Context,
        (span, cost, ladder): (&Span, &mut Cost, &mut Ladder),
    ) -> Result<Ended, Kind> {
        let key = self.guidance_key();
        // Guidance of earlier attempts does not apply to this one. The key stays defined because
        // the prompt may use it.
        if let Some(key) = key {
            context.set(key, "");
        }
        let mut messages = self.messages(input, &context)?;
        self.precheck(input, last, (&mut messages, &context), span).await?;
        if let Some(key) = key {
            messages = self.messages(input, &context)?;
            if context.get(key).is_some_and(|guidance| guidance == "") {
                context.remove(key);
            }
        }
        if messages.is_empty() {
            return Err(Kind::NoPrompt);
        }
        let feedback = last.map(feedback).unwrap_or_default();
        let called = self.call((messages, feedback), &input.options, &context, (ladder, span)).await?;
        let called = match called {
            CallResult::Text(called) => *called,
            CallResult::Withheld { withheld, cost: spent } => {
                cost.add(spent);
                return Err(withheld.into());
            }
            CallResult::Failed { text, errors, cost: spent } => {
                cost.add(spent);
                let (value, asked, is_truncated) = (None, RepairCount::default(), false);
                return Ok(Ended::Bad(Failed { text, value, errors, asked, is_truncated }));
            }
        };
        cost.add(called.cost);
        let text = called.text.clone();
        let Some(output) = &self.output else {
            self.report_cut(&called);
            let value = Some(Value::String(text.clone()));
            let (errors, asked, is_truncated) = (Vec::new(), RepairCount::default(), called.is_truncated());
            return self.validated(Read { text, value, errors, asked, context, is_truncated });
        };
        let mut read = self.read(output, text, &context, Some((span, called.cost)))?;
        read.is_truncated = called.is_truncated();
        self.learn(output, &called, !read.errors.is_empty(), ladder);
        let may_be_cut = called.is_truncated() && !self.settings.adapt.allow_truncated;
        if read.errors.is_empty() && may_be_cut && !is_whole(&read.text) {
            read.errors = vec![CUT.to_owned()];
        }
        if read.errors.is_empty() {
            self.report_cut(&called);
        } else if self.settings.repair.is_some() {
            read = self.repaired(output, read, (called, &context), (span, cost)).await?;
        }
        self.validated(read)
    }

    /// Reports that a limit of tokens affected an answer that is used.
    fn report_cut(&self, called: &Called) {
        let reason = match called.ending {
            Ending::CutOff if self.output.is_none() => CUT,
            Ending::CutOff => "the answer was cut off at its length limit, after its value",
            Ending::ClosedEarly => "the length limit forced the answer to close early",
            Ending::Whole | Ending::Withheld => return,
        };
        (self.reports)(&Progress::CutShort { reason });
    }

    /// Learns from an answer whether the backend enforces the constraint of the request.
    ///
    /// A whole answer that is not JSON shows that the constraint was ignored, unless the model refused,
    /// called a tool, or a filter withheld the answer. This run then uses another constraint. Later
    /// runs do so after the second such answer in a row. Other answers that do not match the schema
    /// only show that the model needs to see the schema.
    fn learn(&self, output: &Output, called: &Called, is_wrong: bool, ladder: &mut Ladder) {
        let Some(sent @ (Sent::Schema | Sent::Object)) = called.sent else { return };
        let says_nothing = matches!(called.ending, Ending::CutOff | Ending::Withheld);
        if says_nothing || called.text.trim().is_empty() {
            return;
        }
        let is_json = serde_json::from_str::<IgnoredAny>(called.text.trim()).is_ok();
        let (backend, model) = (self.prompts.backend(), self.prompts.model());
        if is_json {
            backend.confirm(model, sent.feature());
        } else {
            backend.refute(model, sent.feature());
            ladder.unenforced.push(sent);
        }
        ladder.shows_schema |= !is_json || (is_wrong && as_it_came(output, &called.text).is_some());
    }

    /// Returns the context key for guidance, if guidance goes into the context.
    fn guidance_key(&self) -> Option<&str> {
        let options = self.precheck.as_ref()?.options();
        let is_key = options.inject_feedback == Some(InjectFeedback::ContextKey);
        is_key.then_some(options.context_feedback_key.as_str())
    }

    /// Builds the conversation: the system message, the input messages and the rendered prompt.
    fn messages(&self, input: &StepInput, context: &Context) -> Result<Vec<Value>, Kind> {
        let mut messages = Vec::new();
        messages.extend(self.system.as_ref().map(|text| json!({ "role": "system", "content": text })));
        messages.extend_from_slice(&input.messages);
        if let Some(template) = &self.template {
            let schema = self.output.as_ref().map(|output| output.shape.schema());
            let text = template.written(&context.body(), schema)?;
            messages.push(json!({ "role": "user", "content": text }));
        }
        Ok(messages)
    }

    /// Runs the precheck. Its feedback becomes guidance in the messages or the context.
    async fn precheck(
        &self,
        input: &StepInput,
        last: Option<&Failed>,
        (messages, context): (&mut Vec<Value>, &Context),
        span: &Span,
    ) -> Result<(), Kind> {
        let Some(precheck) = &self.precheck else { return Ok(()) };
        let said = |message: &Value| message["content"].as_str().map(str::to_owned);
        let task = messages.iter().rev().find(|message| message["role"] == "user").and_then(said);
        let written = last.and_then(|failed| plan_snippet(&failed.text).map(str::to_owned));
        let plans =
            || messages.iter().rev().filter_map(said).find_map(|text| plan_snippet(&text).map(str::to_owned));
        let given = input.plan.clone().filter(|plan| !plan.trim().is_empty());
        let plan = given.or(written).or_else(plans);
        let body = context.snapshot();
        let checked = PrecheckInput {
            context: &body,
            task: task.as_deref().unwrap_or_default(),
            plan: plan.as_deref(),
            draft: last.and_then(|failed| failed.value.as_ref()),
            schema: self.output.as_ref().map(|output| output.shape.schema()),
        };
        let report = precheck.check(&checked).await?;
        events::precheck(span, &report);
        if let Some(feedback) = &report.feedback {
            precheck.options().guidance(feedback).inject(messages, &mut context.body());
        }
        Ok(())
    }

    /// Parses and adapts `text`. Processors get a copy of `context`. If `span` is given, it records
    /// the adaptation, whose text had the cost that is given with the span.
    fn read(
        &self,
        output: &Output,
        text: String,
        context: &Context,
        span: Option<(&Span, Cost)>,
    ) -> Result<Read, Kind> {
        let context = context.copied();
        let (asked, is_truncated) = (RepairCount::default(), false);
        if self.settings.enforce_grammar
            && let Some(errors) = as_it_came(output, &text)
        {
            return Ok(Read { text, value: None, errors, asked, context, is_truncated });
        }
        let faults = Mutex::default();
        let adaptation = {
            let bind = |processor| Bound { processor, context: &context, faults: &faults };
            let bound: Vec<Bound<'_>> = self.processors.iter().map(|processor| bind(&**processor)).collect();
            let processors: Vec<&dyn Processor<Interrupted>> = bound.iter().map(|bound| bound as _).collect();
            output.adapter.adapt_with(&text, &processors)?
        };
        if let Some((span, cost)) = span.filter(|_| self.settings.is_on) {
            events::adaptation(span, &adaptation, output, (&self.settings, &cost));
        }
        for ProcessorFault { reason, is_required } in
            faults.into_inner().unwrap_or_else(PoisonError::into_inner)
        {
            // An invalid value does not reach the caller, and the model may repair it.
            if is_required && adaptation.is_valid() {
                return Err(Kind::Processor { reason });
            }
            if span.is_some() {
                (self.reports)(&Progress::Processor { error: &reason });
            }
        }
        let errors = errors(output, &adaptation);
        Ok(Read { text, value: adaptation.into_value(), errors, asked, context, is_truncated })
    }

    /// Requests repairs for an output that does not match its schema.
    async fn repaired(
        &self,
        output: &Output,
        read: Read,
        (called, context): (Called, &Context),
        (span, cost): (&Span, &mut Cost),
    ) -> Result<Read, Kind> {
        let Some(options) = &self.settings.repair else { return Ok(read) };
        let Called { mut plan, shows_schema, cost: of_call, .. } = called;
        // The answer shows that the backend does not enforce the schema.
        if !shows_schema {
            self.show_schema(&mut plan.messages, context);
        }
        // Keeps a processor's interruption, since a backend error cannot carry its details.
        let stopped: Stopped = Arc::default();
        let reader = self.reader(output, context, Some(Arc::clone(&stopped)));
        let progress = Arc::clone(&self.progress);
        let repairer = Repairer::new(self.prompts.clone(), output.shape.clone())
            .with_options(options.clone())
            .with_counters(Arc::clone(&self.counters))
            .with_reader(reader)
            .on_retry(move |retry| progress(retry));
        let first = reading(output, read.copied());
        let repaired = match repairer.repaired(&plan, (read.text.clone(), first)).await {
            Ok(repaired) => repaired,
            Err(error) => {
                let stopped = stopped.lock().unwrap_or_else(PoisonError::into_inner).take();
                return Err(stopped.unwrap_or(Kind::Backend(error)));
            }
        };
        for (attempt, number) in repaired.attempts.iter().zip(1..) {
            cost.add(events::repaired(span, attempt, number));
        }
        let discarded = repaired.attempts.iter().filter(|attempt| attempt.is_discarded).count();
        let asked = RepairCount { repairs: repaired.attempts.len() as u32, discarded: discarded as u32 };
        if let Some(withheld) = repaired.withheld {
            return Err(withheld.into());
        }
        if repaired.text == read.text && !repaired.reading.is_valid() {
            return Ok(Read { asked, ..read });
        }
        let mut read = self.read(output, repaired.text, context, Some((span, of_call)))?;
        if read.errors.is_empty() {
            // The token limit may have cut off the repair.
            read.errors = repaired.reading.errors;
            read.is_truncated = !read.errors.is_empty();
        }
        Ok(Read { asked, ..read })
    }

    /// Returns a repairer for texts from other sources, with this step's schema, processors and
    /// options.
    ///
    /// Returns `None` if the step has no schema.
    pub fn repairer(&self) -> Option<Repairer> {
        let output = self.output.as_ref()?;
        let reader = self.reader(output, &Context::default(), None);
        let repairer = Repairer::new(self.prompts.clone(), output.shape.clone());
        let options = self.settings.repair.clone().unwrap_or_default();
        Some(repairer.with_options(options).with_counters(Arc::clone(&self.counters)).with_reader(reader))
    }

    /// Returns a reader that parses each text with its own copy of the context.
    fn reader(&self, output: &Output, context: &Context, stopped: Option<Stopped>) -> Reader {
        let (step, output, context) = (self.clone(), output.clone(), context.clone());
        Arc::new(move |text| match step.read(&output, text.to_owned(), &context, None) {
            Ok(read) => Ok(reading(&output, read)),
            // Without a slot for the reason, the caller gets the reason as an error of the text.
            Err(Kind::Processor { reason }) if stopped.is_none() => {
                Ok(output.shape.unread(text, vec![format!("the processor {reason}")]))
            }
            Err(kind) => {
                let reason = kind.interruption().unwrap_or(Interruption::Cancelled);
                if let Some(stopped) = &stopped {
                    *stopped.lock().unwrap_or_else(PoisonError::into_inner) = Some(kind);
                }
                Err(BackendError::from(reason))
            }
        })
    }

    /// Ends an attempt: a valid output must also pass the caller's validators.
    fn validated(&self, read: Read) -> Result<Ended, Kind> {
        let Read { text, value, mut errors, asked, context, is_truncated } = read;
        let value = match value {
            Some(value) if errors.is_empty() => value,
            value => return Ok(Ended::Bad(Failed { text, value, errors, asked, is_truncated })),
        };
        for validator in &self.validators {
            match validator.validate(&value, &context) {
                Ok(()) => {}
                Err(ProcessorError::Interrupt(interrupted)) => return Err(interrupted.into()),
                Err(ProcessorError::Fault { path, message }) => errors.push(fault(&path, &message)),
            }
        }
        if errors.is_empty() {
            return Ok(Ended::Good { value, text, asked, context, is_truncated });
        }
        let is_truncated = false;
        Ok(Ended::Bad(Failed { text, value: Some(value), errors, asked, is_truncated }))
    }
}

impl RepairCount {
    const fn and(self, more: Self) -> Self {
        Self {
            repairs: self.repairs.saturating_add(more.repairs),
            discarded: self.discarded.saturating_add(more.discarded),
        }
    }
}

impl Read {
    fn copied(&self) -> Self {
        Self {
            text: self.text.clone(),
            value: self.value.clone(),
            errors: self.errors.clone(),
            asked: self.asked,
            context: self.context.clone(),
            is_truncated: self.is_truncated,
        }
    }
}

/// Processor bound to the context of an attempt.
struct Bound<'a> {
    processor: &'a dyn StepProcessor,
    context: &'a Context,
    /// Faults of all processors.
    faults: &'a Mutex<Vec<ProcessorFault>>,
}

/// Fault of a processor.
struct ProcessorFault {
    reason: String,
    /// True if the step fails unless the value is invalid.
    is_required: bool,
}

impl Processor<Interrupted> for Bound<'_> {
    fn process(&self, input: Input<'_>) -> Result<Option<Value>, ProcessorError<Interrupted>> {
        let processed = self.processor.process(input, self.context);
        if let Err(ProcessorError::Fault { path, message }) = &processed {
            let (reason, is_required) = (fault(path, message), self.processor.is_required());
            let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
            faults.push(ProcessorFault { reason, is_required });
        }
        processed
    }
}

fn reading(output: &Output, read: Read) -> Reading {
    match read.value {
        Some(value) => output.shape.check(value).with_errors(read.errors),
        None => output.shape.unread(&read.text, read.errors),
    }
}

/// Returns the faults of an output by field; empty if it matches the schema.
fn errors(output: &Output, adaptation: &Adaptation) -> Vec<String> {
    if adaptation.is_valid() {
        return Vec::new();
    }
    let told = adaptation.value().map(|value| output.shape.check(value.clone()).errors).unwrap_or_default();
    if !told.is_empty() {
        return told;
    }
    let violations = adaptation.violations().iter();
    let told: Vec<String> = violations.map(|violation| fault(&violation.path, &violation.message)).collect();
    if told.is_empty() { vec!["the output does not match its schema".to_owned()] } else { told }
}

/// Returns the faults of `text` if it is not JSON that matches the schema without adaptation.
/// Returns `None` if it matches.
fn as_it_came(output: &Output, text: &str) -> Option<Vec<String>> {
    match serde_json::from_str(text.trim()) {
        Ok(value) => Some(output.shape.check(value).errors).filter(|errors| !errors.is_empty()),
        Err(error) => Some(vec![format!("the output is not valid JSON: {error}")]),
    }
}

/// Formats a fault with its location, given as a JSON pointer.
fn fault(path: &str, message: &str) -> String {
    let place = dotted(path);
    if place.is_empty() { message.to_owned() } else { format!("Field \"{place}\": {message}") }
}

/// Builds the messages for the next attempt: the rejected answer and its faults.
fn feedback(failed: &Failed) -> Vec<Value> {
    let mut messages = Vec::new();
    // Some servers reject an empty message.
    if !failed.text.trim().is_empty() {
        messages.push(json!({ "role": "assistant", "content": truncated(&failed.text, SENT) }));
    }
    let errors: Vec<String> =
        first_errors(&failed.errors).into_iter().map(|error| format!("- {error}")).collect();
    let told = format!(
        "Your previous answer could not be used:\n{}\n\nAnswer again, without these errors.",
        errors.join("\n")
    );
    messages.push(json!({ "role": "user", "content": told }));
    messages
}

fn status<T>(ended: &Result<T, StepError>) -> Status {
    match ended {
        Ok(_) => Status::Ok,
        Err(error) if error.interruption().is_some() => Status::Cancelled,
        Err(_) => Status::Error,
    }
}
