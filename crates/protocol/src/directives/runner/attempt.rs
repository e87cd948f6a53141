use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::request::Conversation;
use super::{DirectiveRun, salvage};
use crate::directives::read::not_met;
use crate::directives::{
    Attempt, AttemptKind, CLOSED_BY_BUDGET, Envelope, Mode, Problem, ProblemCategory, RunEvent, Warning,
    parser,
};
use crate::{BackendError, Reply};

/// Error code: the model refused to answer.
const REFUSED: &str = "REFUSED";
/// Error code: a content filter of the provider withheld the answer.
const CONTENT_FILTER: &str = "CONTENT_FILTER";

/// Outcome of an attempt.
pub(super) enum AttemptOutcome {
    /// An envelope that meets the caller's requirements.
    Good(Envelope),
    /// An answer that cannot be used, because it has no valid envelope or does not meet the
    /// caller's requirements.
    Bad(Box<Answered>),
    /// The backend refused the request, and another mode may work.
    Refused,
    /// The backend failed to answer, and another mode would fail, too.
    Failed,
}

/// An answer that cannot be used.
pub(super) struct Answered {
    /// Text of the answer.
    pub(super) content: String,
    pub(super) problem: Problem,
    /// Requirements of the caller that the envelope does not meet. Empty if there is no envelope.
    pub(super) reasons: Vec<String>,
    /// The envelope, if the answer has a valid one.
    pub(super) envelope: Option<Envelope>,
    /// The model's refusal message, given instead of an answer.
    refusal: Option<String>,
}

impl Answered {
    /// Returns the kind of attempt that asks the model to repair this answer.
    pub(super) fn repair_kind(&self) -> AttemptKind {
        match self.problem.category {
            ProblemCategory::Semantic => AttemptKind::SemanticRepair,
            _ => AttemptKind::Repair,
        }
    }

    /// Reports whether the model refused or a filter withheld the answer, so that another request
    /// would end in the same way.
    pub(super) fn is_final(&self) -> bool {
        [REFUSED, CONTENT_FILTER].contains(&self.problem.code.as_str())
    }

    /// Returns the text that can be shown to the user: the model's refusal message, or the text
    /// recovered from the answer.
    pub(super) fn text(&self) -> String {
        self.refusal.clone().unwrap_or_else(|| salvage::assistant_text(&self.content))
    }
}

impl DirectiveRun<'_> {
    /// Sends the request of `conversation` and records the attempt. Returns an error only if the
    /// request is interrupted.
    pub(super) async fn attempt(
        &mut self,
        mode: Mode,
        kind: AttemptKind,
        conversation: &Conversation,
    ) -> Result<AttemptOutcome, BackendError> {
        let plan = &conversation.plan;
        let (started, before) = (Instant::now(), self.budget.sent());
        let answer = match self.events {
            Some(events) => {
                events(RunEvent::Attempt { mode, kind });
                self.streamed((mode, kind), plan, events).await
            }
            None => self.runner.prompts.run(plan).await,
        };
        // A remote backend has counted its requests, others have not.
        let counted = self.budget.sent().saturating_sub(before);
        let sent = answer.as_ref().map_or(1, |reply| reply.attempts.max(1));
        self.budget.add(sent.saturating_sub(counted));
        let mut attempt = Attempt {
            mode,
            kind,
            plan: Some(plan.clone()),
            content: None,
            finish_reason: None,
            error: None,
            warnings: Vec::new(),
            sent: None,
            retried: Vec::new(),
            latency_ms: millis(started.elapsed()),
            usage: None,
        };
        let outcome = match answer {
            Err(error) if error.interruption().is_some() => return Err(error),
            Err(error) => {
                let (problem, outcome) = failed(mode, kind, &error);
                attempt.error = Some(problem);
                outcome
            }
            Ok(reply) => self.take(&mut attempt, &reply),
        };
        let error = attempt.error.as_ref().map(|error| error.code.as_str());
        tracing::debug!(
            mode = mode.name(),
            ?kind,
            error,
            latency_ms = attempt.latency_ms,
            "attempt finished"
        );
        self.attempts.push(attempt);
        Ok(outcome)
    }

    /// Copies the data of `reply` into `attempt` and returns the outcome of the answer.
    fn take(&mut self, attempt: &mut Attempt, reply: &Reply) -> AttemptOutcome {
        self.answered();
        attempt.content = Some(reply.content());
        attempt.finish_reason.clone_from(&reply.finish_reason);
        attempt.sent = Some(reply.attempts);
        attempt.retried = reply.retried.iter().map(|category| category.name().to_owned()).collect();
        attempt.usage = reply.body.get("usage").filter(|usage| usage.is_object()).cloned();
        let outcome = self.read(reply);
        match &outcome {
            AttemptOutcome::Good(envelope) => attempt.warnings.clone_from(&envelope.warnings),
            AttemptOutcome::Bad(answered) => {
                attempt.error = Some(answered.problem.clone());
                let warnings = answered.envelope.as_ref().map(|envelope| envelope.warnings.clone());
                attempt.warnings = warnings.unwrap_or_default();
                self.keep_text(answered);
            }
            AttemptOutcome::Refused | AttemptOutcome::Failed => {}
        }
        outcome
    }

    /// Parses the answer in `reply`, validates its envelope and runs the caller's check.
    fn read(&self, reply: &Reply) -> AttemptOutcome {
        let content = reply.content();
        let refusal = reply.message.get("refusal").and_then(Value::as_str).map(str::to_owned);
        let bad = |problem, reasons, envelope| {
            let refusal = refusal.clone();
            AttemptOutcome::Bad(Box::new(Answered {
                content: content.clone(),
                problem,
                reasons,
                envelope,
                refusal,
            }))
        };
        let mut envelope = match parser::envelope(&content, self.options().max_bytes, &self.validator) {
            Ok(envelope) => envelope,
            Err(problem) => return bad(cause(reply, problem), Vec::new(), None),
        };
        envelope.warnings.extend(cut_short(reply));
        let check = self.request.result_validator.as_ref();
        let mut reasons = self.options().unmet(&envelope);
        reasons.extend(check.map(|check| check(&envelope)).unwrap_or_default());
        if reasons.is_empty() {
            return AttemptOutcome::Good(envelope);
        }
        bad(not_met(&reasons), reasons, Some(envelope))
    }
}

/// Returns a warning if a length limit cut off the answer after the complete envelope, or forced
/// the answer to close early.
fn cut_short(reply: &Reply) -> Option<Warning> {
    let told = |code: &str, message: &str| {
        let (code, message) = (code.to_owned(), message.to_owned());
        Some(Warning { code, message, index: None, kind: None, details: None })
    };
    if reply.is_truncated() {
        return told(parser::TRUNCATED, "the answer was cut off after the envelope");
    }
    if reply.body.pointer("/choices/0/closed_by_budget") == Some(&Value::Bool(true)) {
        return told(CLOSED_BY_BUDGET, "the length limit forced the answer to close early");
    }
    None
}

/// Returns a problem that explains why the answer has no valid envelope, if `reply` states a cause
/// such as a refusal. Otherwise returns `problem` unchanged.
fn cause(reply: &Reply, problem: Problem) -> Problem {
    let because = |code: &str, message: &str| {
        let found = json!({ "code": problem.code, "message": problem.message, "details": problem.details });
        Problem { category: problem.category, ..Problem::parse(code, message) }
            .with(json!({ "found": found }))
    };
    let refused = reply.message.get("refusal").is_some_and(Value::is_string);
    match reply.finish_reason.as_deref() {
        Some("length") => because(parser::TRUNCATED, "the answer was cut off at its length limit"),
        Some("content_filter") => {
            because(CONTENT_FILTER, "the provider's content filter withheld the answer")
        }
        _ if refused => because(REFUSED, "the model refused to answer"),
        _ if problem.code == parser::EMPTY && reply.message.contains_key("tool_calls") => {
            because("UNEXPECTED_TOOL_CALLS", "the answer contains tool calls instead of text")
        }
        _ => problem,
    }
}

/// Returns the problem to record for a backend error, and the outcome of the attempt. An error that
/// rejects the mode leads to the next mode. Any other error would recur in the next mode and ends
/// the run.
fn failed(mode: Mode, kind: AttemptKind, error: &BackendError) -> (Problem, AttemptOutcome) {
    let problem = Problem::transport(error);
    if !error.is_of_mode() || !mode.is_structured() {
        return (problem, AttemptOutcome::Failed);
    }
    if kind != AttemptKind::First {
        return (problem, AttemptOutcome::Refused);
    }
    let unsupported =
        Problem { category: ProblemCategory::Unsupported, code: "UNSUPPORTED_MODE".to_owned(), ..problem };
    (unsupported, AttemptOutcome::Refused)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
