//! The model call of an attempt: a single request or a tool loop.

use std::time::Duration;

use serde_json::{Value, json};

use super::constraint::{Constraint, Ladder, Sent};
use super::cost::Cost;
use super::error::Kind;
use super::{Context, Progress, Step};
use crate::adapt::repair::truncated;
use crate::ending::SHOWN;
use crate::tools::{ToolLoopRunner, Turn, codes};
use crate::trace::Span;
use crate::{Body, Plan, Reply, Withheld};

/// Result of a model call.
pub(super) enum CallResult {
    /// Text of the answer, and the request that it answers.
    Text(Box<Called>),
    /// The model refused to answer, or a content filter withheld the answer.
    Withheld { withheld: Withheld, cost: Cost },
    /// No usable answer, for these reasons.
    Failed { text: String, errors: Vec<String>, cost: Cost },
}

/// Answer of a model.
pub(super) struct Called {
    pub(super) text: String,
    pub(super) plan: Plan,
    /// Constraint in the request.
    pub(super) sent: Option<Sent>,
    /// True if the messages of the request contain the schema.
    pub(super) shows_schema: bool,
    pub(super) ending: Ending,
    pub(super) cost: Cost,
}

/// End of an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// The model ended the answer.
    Whole,
    /// The limit of tokens cut off the answer.
    CutOff,
    /// The backend closed the value early, because the limit of tokens was near.
    ClosedEarly,
    /// The reply is no answer, although it has a text: the model called a tool.
    Withheld,
}

impl Ending {
    fn of(reply: &Reply) -> Self {
        let closed = reply.body.pointer("/choices/0/closed_by_budget");
        if reply.is_truncated() {
            Self::CutOff
        } else if reply.is_withheld() {
            Self::Withheld
        } else if closed == Some(&Value::Bool(true)) {
            Self::ClosedEarly
        } else {
            Self::Whole
        }
    }
}

impl Called {
    pub(super) fn is_truncated(&self) -> bool {
        self.ending == Ending::CutOff
    }
}

impl Step {
    /// Calls the model with the constraint or the tools of the step.
    ///
    /// If the backend refuses a constraint, the next one is tried. Unless the backend enforces the
    /// schema, the messages contain it.
    ///
    /// The messages are those of the step, followed by the `feedback` about the last attempt.
    pub(super) async fn call(
        &self,
        (messages, feedback): (Vec<Value>, Vec<Value>),
        options: &Body,
        context: &Context,
        (ladder, span): (&mut Ladder, &Span),
    ) -> Result<CallResult, Kind> {
        loop {
            let constraint = self.constraint(ladder).await?;
            let shows_schema = constraint.sent() != Some(Sent::Schema) || ladder.shows_schema;
            let mut plan = Plan { messages: messages.clone(), options: options.clone() };
            let shows_schema = shows_schema && self.show_schema(&mut plan.messages, context);
            plan.messages.extend_from_slice(&feedback);
            self.report(&constraint, ladder);
            if self.tools.is_some() {
                constraint.tell(span);
                return self.with_loop(plan, shows_schema, context).await;
            }
            constraint.apply(&mut plan.options);
            match (self.prompts.run(&plan).await, constraint.sent()) {
                (Err(error), Some(sent)) if error.is_of_mode() => {
                    constraint.refused().tell(span);
                    (self.reports)(&Progress::Refused { sent: sent.name(), error: &error });
                    ladder.refused.push(sent);
                }
                (answered, sent) => {
                    let reply = answered?;
                    constraint.tell(span);
                    let cost = Cost::of_usage(reply.body.get("usage"), reply.latency);
                    if let Some(withheld) = Withheld::of(&reply) {
                        return Ok(CallResult::Withheld { withheld, cost });
                    }
                    let (text, ending) = (reply.content(), Ending::of(&reply));
                    return Ok(CallResult::Text(Box::new(Called {
                        text,
                        plan,
                        sent,
                        shows_schema,
                        ending,
                        cost,
                    })));
                }
            }
        }
    }

    /// Reports the request that is about to be sent.
    fn report(&self, constraint: &Constraint, ladder: &mut Ladder) {
        if let Constraint::Skipped { reason, .. } = *constraint
            && !std::mem::replace(&mut ladder.is_told, true)
        {
            (self.reports)(&Progress::Unconstrained { reason });
        }
        (self.reports)(&Progress::Asking {
            attempt: ladder.attempt,
            attempts: self.retries.saturating_add(1),
            model: self.prompts.model(),
            sent: constraint.sent().map(Sent::name),
        });
    }

    /// Adds the schema to the last message of the user. Returns true if the messages then contain
    /// the schema.
    pub(super) fn show_schema(&self, messages: &mut Vec<Value>, context: &Context) -> bool {
        let Some(output) = self.output.as_ref().filter(|_| self.settings.schema_in_prompt) else {
            return false;
        };
        let is_written =
            self.template.as_ref().is_some_and(|template| template.shows_schema(&context.body()));
        if is_written {
            return true;
        }
        let told = format!(
            "Answer with JSON that matches this JSON Schema, and with nothing else:\n{}",
            output.shape.schema()
        );
        match messages.iter_mut().rev().find(|message| message["role"] == "user") {
            Some(message) => match &mut message["content"] {
                Value::Array(parts) => parts.push(json!({ "type": "text", "text": told })),
                content => *content = format!("{}\n\n{told}", content.as_str().unwrap_or_default()).into(),
            },
            None => messages.push(json!({ "role": "user", "content": told })),
        }
        true
    }

    async fn with_loop(
        &self,
        Plan { messages, options }: Plan,
        shows_schema: bool,
        context: &Context,
    ) -> Result<CallResult, Kind> {
        let Some((tools, settings)) = &self.tools else {
            return Ok(CallResult::Failed { text: String::new(), errors: Vec::new(), cost: Cost::default() });
        };
        let mut defaults = self.prompts.defaults().clone();
        defaults.extend(options.clone());
        let prompts = self.prompts.clone().with_defaults(defaults);
        let runner = ToolLoopRunner::new(prompts, tools(context), settings.clone())?;
        let run = runner.run(messages).await?;
        let text = run.text.clone().unwrap_or_default();
        let cost = Cost {
            requests: u32::try_from(run.stats.turns).unwrap_or(u32::MAX),
            tokens: run.stats.prompt_tokens.saturating_add(run.stats.completion_tokens),
            time: Duration::from_millis(run.stats.latency_ms),
        };
        let is_withheld = |code: &str| [codes::REFUSED, codes::CONTENT_FILTER].contains(&code);
        if let Some(problem) =
            run.errors.iter().chain(&run.warnings).find(|problem| is_withheld(&problem.code))
        {
            let refusal = problem.details.get("refusal").and_then(Value::as_str);
            let refusal =
                refusal.map(|refusal| format!(": {}", truncated(refusal, SHOWN))).unwrap_or_default();
            let withheld = Withheld::new(&problem.code, &format!("{}{refusal}", problem.message));
            return Ok(CallResult::Withheld { withheld, cost });
        }
        if !run.ok {
            let errors =
                run.errors.iter().map(|error| format!("{}: {}", error.code, error.message)).collect();
            return Ok(CallResult::Failed { text, errors, cost });
        }
        let is_truncated = run.turns.last().is_some_and(Turn::is_truncated);
        let ending = if is_truncated { Ending::CutOff } else { Ending::Whole };
        // The last message is the answer itself, which is returned separately as `text`.
        let mut messages = run.messages;
        if messages.last().is_some_and(|message| message["role"] == "assistant") {
            messages.pop();
        }
        let plan = Plan { messages, options };
        Ok(CallResult::Text(Box::new(Called { text, plan, sent: None, shows_schema, ending, cost })))
    }
}
