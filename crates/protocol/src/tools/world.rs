//! Sources of answers and results for a loop.

use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::dispatcher::ToolDispatcher;
use super::envelope::{Problem, ToolResult};
use super::next_tool;
use super::record::ToolDecision;
use super::registry::Tool;
use super::shapes::ToolCall;
use crate::{BackendError, Body, Plan, PromptRunner};

/// Result of a request.
pub(super) struct TimedAnswer {
    /// Body of the answer and the category name of the error behind each retry, or the problem if
    /// the backend did not answer.
    pub(super) answer: Result<(Value, Vec<String>), Problem>,
    pub(super) latency_ms: u64,
}

/// Source of answers and results for a [`Loop`]: either a model with its tools, or the record of an
/// earlier run.
pub(super) trait World<E>: Send {
    /// Returns the result of a request. An error ends the run without a record.
    fn ask<'a>(&'a mut self, plan: &'a Plan) -> BoxFuture<'a, Result<TimedAnswer, E>>;

    /// Returns the decision about the next tool of the request `plan`. With `may_answer`, the model may
    /// also answer without a call. An error ends the run without a record.
    fn decide<'a>(&'a mut self, plan: &'a Plan, may_answer: bool) -> BoxFuture<'a, Result<ToolDecision, E>>;

    /// Executes `call` with its tool and its checked arguments. Returns the result and the run time
    /// in milliseconds. An error ends the run without a record.
    fn execute<'a>(
        &'a mut self,
        call: &'a ToolCall,
        tool: &'a Tool,
        arguments: &'a Body,
    ) -> BoxFuture<'a, Result<(ToolResult, u64), E>>;
}

/// A model with its tools.
pub(super) struct Live<'a> {
    pub(super) prompt: &'a PromptRunner,
    pub(super) dispatcher: &'a ToolDispatcher,
}

impl World<BackendError> for Live<'_> {
    fn ask<'a>(&'a mut self, plan: &'a Plan) -> BoxFuture<'a, Result<TimedAnswer, BackendError>> {
        async move {
            let started = Instant::now();
            let answer = match self.prompt.run(plan).await {
                Ok(reply) => {
                    let retried = reply.retried.iter().map(|category| category.name().to_owned()).collect();
                    Ok((reply.body, retried))
                }
                Err(error) if error.interruption().is_some() => return Err(error),
                Err(error) => Err(problem(&error)),
            };
            Ok(TimedAnswer { answer, latency_ms: milliseconds(started) })
        }
        .boxed()
    }

    fn decide<'a>(
        &'a mut self,
        plan: &'a Plan,
        may_answer: bool,
    ) -> BoxFuture<'a, Result<ToolDecision, BackendError>> {
        next_tool::decide(self.prompt, plan, may_answer).boxed()
    }

    fn execute<'a>(
        &'a mut self,
        _: &'a ToolCall,
        tool: &'a Tool,
        arguments: &'a Body,
    ) -> BoxFuture<'a, Result<(ToolResult, u64), BackendError>> {
        async move {
            let started = Instant::now();
            let result = self.dispatcher.execute(tool, arguments).await;
            match result.interruption {
                Some(interruption) => Err(interruption.into()),
                None => Ok((result, milliseconds(started))),
            }
        }
        .boxed()
    }
}

fn milliseconds(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Converts a backend error to a problem for the record, with its category as the code.
pub(super) fn problem(error: &BackendError) -> Problem {
    let mut problem = Problem::new(error.category().name(), error.to_string());
    if let Some(status) = error.status() {
        problem = problem.with("status", status);
    }
    if let Some(code) = error.code() {
        problem = problem.with("provider_code", code);
    }
    if let Some(pause) = error.retry_after() {
        problem = problem.with("retry_after_seconds", pause.as_secs_f64());
    }
    problem
}
