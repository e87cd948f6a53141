//! Replay of a run from its record.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

use super::dispatcher::ToolDispatcher;
use super::envelope::ToolResult;
use super::error::{Kind, ToolsError};
use super::executor::Recorded;
use super::record::{CallRecord, ToolDecision, ToolRun, Turn};
use super::registry::{Lookup, Tool, ToolRegistry, ToolSource};
use super::runner::Loop;
use super::shapes::ToolCall;
use super::transforms::Transforms;
use super::world::{TimedAnswer, World};
use crate::{Body, Plan};

/// Repeats the run of `record` with the recorded answers and results. No model is asked and no tool
/// runs.
///
/// Everything else is computed again, such as requests and the checks of arguments. The returned
/// record equals `record` unless the code of the loop or a transform has changed.
///
/// # Errors
/// Returns an error if a request or call of the loop differs from the record, or if `transforms`
/// lacks a transform that the record names.
pub fn replay(record: &ToolRun, transforms: &Transforms) -> Result<ToolRun, ToolsError> {
    let setup = record.setup.clone();
    let pipeline = transforms.resolve(&setup.options)?;
    let mut tools = ToolRegistry::new();
    for definition in &setup.tools {
        tools.add(definition.clone(), Recorded)?;
    }
    let tools = Masked { tools, masked: setup.masked.clone() };
    let dispatcher = ToolDispatcher::with_options(Arc::new(tools), &setup.options);
    let turns = record.turns.iter().collect();
    let mut world = Past { turns, calls: VecDeque::new(), turn: 0, plan: Plan::default() };
    let run = Loop::new(setup, &dispatcher, &pipeline, &|_| {}).run(&mut world);
    // A replay has nothing to wait for.
    run.now_or_never().unwrap_or_else(|| Err(world_waits()))
}

fn world_waits() -> ToolsError {
    departs(0, "a step did not finish immediately")
}

fn departs(turn: usize, reason: &str) -> ToolsError {
    Kind::Departs { turn, reason: reason.to_owned() }.into()
}

struct Past<'a> {
    turns: VecDeque<&'a Turn>,
    calls: VecDeque<&'a CallRecord>,
    turn: usize,
    /// Request of the last turn in the record.
    plan: Plan,
}

impl Past<'_> {
    fn next(&mut self, plan: &Plan) -> Result<TimedAnswer, ToolsError> {
        self.turn += 1;
        let Some(turn) = self.turns.pop_front() else {
            return Err(departs(self.turn, "the record has no further request"));
        };
        turn.plan.apply(&mut self.plan);
        if self.plan != *plan {
            return Err(departs(self.turn, "the request is different"));
        }
        self.calls = turn.calls.iter().collect();
        let answer = match (&turn.reply, &turn.error) {
            (Some(reply), None) => Ok((reply.clone(), turn.retried.clone())),
            (_, Some(error)) => Err(error.clone()),
            (None, None) => return Err(departs(self.turn, "the record has no answer")),
        };
        Ok(TimedAnswer { answer, latency_ms: turn.latency_ms })
    }

    fn result(&mut self, call: &ToolCall) -> Result<(ToolResult, u64), ToolsError> {
        // Refused calls are refused again by the loop and do not reach this function.
        while let Some(record) = self.calls.pop_front() {
            if record.call == *call {
                return Ok((record.result.clone(), record.latency_ms));
            }
        }
        Err(departs(self.turn, "the call is different"))
    }
}

impl World<ToolsError> for Past<'_> {
    fn ask<'a>(&'a mut self, plan: &'a Plan) -> BoxFuture<'a, Result<TimedAnswer, ToolsError>> {
        ready(self.next(plan)).boxed()
    }

    fn decide<'a>(&'a mut self, _: &'a Plan, _: bool) -> BoxFuture<'a, Result<ToolDecision, ToolsError>> {
        let decision = self.turns.front().and_then(|turn| turn.next_tool.clone());
        ready(decision.ok_or_else(|| departs(self.turn + 1, "the record has no decision"))).boxed()
    }

    fn execute<'a>(
        &'a mut self,
        call: &'a ToolCall,
        _: &'a Tool,
        _: &'a Body,
    ) -> BoxFuture<'a, Result<(ToolResult, u64), ToolsError>> {
        ready(self.result(call)).boxed()
    }
}

/// Tools of a record. For masked tools, only the names are known.
struct Masked {
    tools: ToolRegistry,
    masked: Vec<String>,
}

impl ToolSource for Masked {
    fn tools(&self) -> Vec<&Tool> {
        self.tools.tools()
    }

    fn find(&self, name: &str) -> Lookup<'_> {
        match self.tools.find(name) {
            Lookup::Unknown if self.masked.iter().any(|masked| masked == name) => Lookup::Masked,
            found => found,
        }
    }

    fn masked(&self) -> Vec<&str> {
        self.masked.iter().map(String::as_str).collect()
    }
}
