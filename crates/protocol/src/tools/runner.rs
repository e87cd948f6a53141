use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::dispatcher::{Checked, ToolDispatcher};
use super::envelope::{Problem, ToolResult, codes};
use super::error::ToolsError;
use super::options::{RESERVED, ToolCallingOptions, ToolFailurePolicy, ToolUseMode};
use super::record::{CallRecord, RunSetup, RunStats, ToolEvent, ToolRun, Turn};
use super::registry::{Tool, ToolSource};
use super::shapes::{ReceivedCall, Shaped, ToolCall, shape};
use super::transforms::{Pipeline, Transforms};
use crate::{BackendError, Body, Feature, Plan, PromptRunner};

/// Runs a conversation with tools until the model answers without a call.
///
/// See the [module](super) for an example and [`ToolCallingOptions`] for all options.
pub struct ToolLoopRunner {
    prompt: PromptRunner,
    tools: Arc<dyn ToolSource>,
    options: ToolCallingOptions,
    pipeline: Pipeline,
    events: Arc<dyn Fn(&ToolEvent) + Send + Sync>,
}

impl ToolLoopRunner {
    /// Creates a runner with the built-in transforms.
    ///
    /// # Errors
    /// Returns an error if `options` name an unknown transform.
    pub fn new(
        prompt: PromptRunner,
        tools: Arc<dyn ToolSource>,
        options: ToolCallingOptions,
    ) -> Result<Self, ToolsError> {
        Self::with_transforms(prompt, tools, options, &Transforms::default())
    }

    /// Creates a runner that finds the transforms named in `options` in `transforms`.
    ///
    /// # Errors
    /// Returns an error if `options` name a transform that `transforms` does not have.
    pub fn with_transforms(
        prompt: PromptRunner,
        tools: Arc<dyn ToolSource>,
        options: ToolCallingOptions,
        transforms: &Transforms,
    ) -> Result<Self, ToolsError> {
        let pipeline = transforms.resolve(&options)?;
        Ok(Self { prompt, tools, options, pipeline, events: Arc::new(|_| {}) })
    }

    /// Sets a callback that receives every event as it happens.
    #[must_use]
    pub fn on_event(mut self, events: impl Fn(&ToolEvent) + Send + Sync + 'static) -> Self {
        self.events = Arc::new(events);
        self
    }

    /// Runs the loop, starting with the conversation `messages`, and returns the record of the run.
    /// Failures are part of the record. Dropping the future cancels the current request or tool.
    ///
    /// # Errors
    /// Returns an error only if the backend or a tool interrupts the run.
    pub async fn run(&self, messages: Vec<Value>) -> Result<ToolRun, BackendError> {
        let mut options = self.options.clone();
        if options.force_first_call.is_none() {
            let known = self.prompt.backend().known_capabilities(self.prompt.model());
            options.force_first_call = Some(known.is_some_and(|known| known.has(Feature::Tools)));
        }
        let definitions = self.tools.tools().into_iter().map(|tool| tool.definition().clone()).collect();
        let setup = RunSetup {
            backend: self.prompt.backend().name().to_owned(),
            model: self.prompt.model().to_owned(),
            defaults: self.prompt.defaults().clone(),
            options,
            tools: definitions,
            masked: self.tools.masked().into_iter().map(str::to_owned).collect(),
            messages,
        };
        let dispatcher = ToolDispatcher::with_options(Arc::clone(&self.tools), &setup.options);
        let mut world = Live { prompt: &self.prompt, dispatcher: &dispatcher };
        Loop::new(setup, &dispatcher, &self.pipeline, &*self.events).run(&mut world).await
    }
}

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

    /// Executes `call` with its tool and its checked arguments. Returns the result and the run time
    /// in milliseconds. An error ends the run without a record.
    fn execute<'a>(
        &'a mut self,
        call: &'a ToolCall,
        tool: &'a Tool,
        arguments: &'a Body,
    ) -> BoxFuture<'a, Result<(ToolResult, u64), E>>;
}

struct Live<'a> {
    prompt: &'a PromptRunner,
    dispatcher: &'a ToolDispatcher,
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
fn problem(error: &BackendError) -> Problem {
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

/// State of a run.
pub(super) struct Loop<'a> {
    setup: RunSetup,
    dispatcher: &'a ToolDispatcher,
    pipeline: &'a Pipeline,
    events: &'a (dyn Fn(&ToolEvent) + Send + Sync),
    messages: Vec<Value>,
    turns: Vec<Turn>,
    ids: HashSet<String>,
    /// For each tool name that the model called: true if the last call of the tool succeeded.
    ends: BTreeMap<String, bool>,
    has_succeeded: bool,
    is_finalization: bool,
    was_asked_again: bool,
}

/// Next step after a turn.
enum Next {
    /// Send another request.
    Go,
    /// End the run with this text and these errors.
    End(Option<String>, Vec<Problem>),
}

impl<'a> Loop<'a> {
    pub(super) fn new(
        setup: RunSetup,
        dispatcher: &'a ToolDispatcher,
        pipeline: &'a Pipeline,
        events: &'a (dyn Fn(&ToolEvent) + Send + Sync),
    ) -> Self {
        Self {
            messages: setup.messages.clone(),
            setup,
            dispatcher,
            pipeline,
            events,
            turns: Vec::new(),
            ids: HashSet::new(),
            ends: BTreeMap::new(),
            has_succeeded: false,
            is_finalization: false,
            was_asked_again: false,
        }
    }

    pub(super) async fn run<E>(mut self, world: &mut dyn World<E>) -> Result<ToolRun, E> {
        if self.mode() == ToolUseMode::Enforced && self.dispatcher.tools().tools().is_empty() {
            let message = "a tool call is required, but no tools are available";
            return Ok(self.finish(None, vec![Problem::new(codes::NO_TOOLS, message)]));
        }
        loop {
            let limit = self.setup.options.max_turns.get();
            let counted = self.turns.iter().filter(|turn| !turn.is_finalization).count();
            if counted >= limit && !self.is_finalization {
                let message = format!("the model still called tools after {limit} turns");
                let problem = Problem::new(codes::MAX_TURNS, message).with("limit", limit);
                return Ok(self.finish(None, vec![problem]));
            }
            if let Next::End(text, errors) = self.turn(world).await? {
                return Ok(self.finish(text, errors));
            }
        }
    }

    fn mode(&self) -> ToolUseMode {
        self.setup.options.tool_use_mode
    }

    fn tell(&self, event: &ToolEvent) {
        (self.events)(event);
    }

    /// Sends a request and processes its answer.
    async fn turn<E>(&mut self, world: &mut dyn World<E>) -> Result<Next, E> {
        let number = self.turns.len() + 1;
        let plan = self.plan();
        let tools = plan.options.get("tools").and_then(Value::as_array).map_or(0, Vec::len);
        let is_finalization = std::mem::take(&mut self.is_finalization);
        self.tell(&ToolEvent::Asking { turn: number, tools, is_finalization });
        let TimedAnswer { answer, latency_ms } = world.ask(&plan).await?;
        let mut turn = Turn {
            plan,
            is_finalization,
            latency_ms,
            reply: None,
            finish_reason: None,
            retried: Vec::new(),
            error: None,
            calls: Vec::new(),
            ignored_tool_calls_count: 0,
            warnings: if number == 1 { self.reserved() } else { Vec::new() },
        };
        let next = match answer {
            Ok((body, retried)) => {
                turn.retried = retried;
                let next = self.answered(&mut turn, &body, world).await?;
                turn.reply = Some(body);
                next
            }
            Err(error) => {
                self.tell(&ToolEvent::Failed { turn: number, error: error.clone() });
                turn.error = Some(error.clone());
                Next::End(None, vec![error])
            }
        };
        self.turns.push(turn);
        Ok(next)
    }

    /// Builds the request from the conversation, the tools and the options.
    fn plan(&self) -> Plan {
        let options = &self.setup.options;
        let mut fields = options.request_overrides.clone();
        fields.retain(|name, _| !RESERVED.contains(&name.as_str()));
        let mut tools: Vec<Value> =
            self.dispatcher.tools().tools().iter().map(|tool| tool.definition().to_wire()).collect();
        let is_off = self.mode() == ToolUseMode::Disabled
            || (self.is_finalization && options.fix_empty_final_disable_tools);
        if is_off || tools.is_empty() {
            // Providers reject this field in requests without tools.
            fields.shift_remove("parallel_tool_calls");
        } else {
            self.pipeline.tools(&mut tools);
            fields.insert("tools".to_owned(), tools.into());
            if let Some(choice) = options.choice(!self.ends.is_empty()) {
                fields.insert("tool_choice".to_owned(), choice);
            }
        }
        let mut messages = self.messages.clone();
        if self.is_finalization {
            messages.push(json!({ "role": "user", "content": options.fix_empty_final_prompt }));
        }
        self.pipeline.messages(&mut messages);
        Plan { messages, options: fields }
    }

    /// Returns a warning for each field of `request_overrides` that is ignored because it is in
    /// [`RESERVED`].
    fn reserved(&self) -> Vec<Problem> {
        let overrides = &self.setup.options.request_overrides;
        let named = RESERVED.iter().filter(|name| overrides.contains_key(**name));
        let warning = |name: &&str| {
            let message = format!("`{name}` in request_overrides is ignored; the loop sets this field");
            Problem::new("RESERVED_OVERRIDE", message).with("name", *name)
        };
        named.map(warning).collect()
    }

    /// Reads an answer, then executes its calls or ends the run.
    async fn answered<E>(
        &mut self,
        turn: &mut Turn,
        body: &Value,
        world: &mut dyn World<E>,
    ) -> Result<Next, E> {
        let number = self.turns.len() + 1;
        let choice = body.get("choices").and_then(|choices| choices.get(0));
        let finish_reason = choice.and_then(|choice| choice.get("finish_reason")).and_then(Value::as_str);
        turn.finish_reason = finish_reason.map(str::to_owned);
        let message = choice.and_then(|choice| choice.get("message")).and_then(Value::as_object);
        let mut message = message.cloned().unwrap_or_default();
        let finish_reason = turn.finish_reason.clone();
        self.tell(&ToolEvent::Answered { turn: number, finish_reason, latency_ms: turn.latency_ms });
        if turn.is_truncated() {
            turn.warnings.push(Problem::new("TRUNCATED", "the answer was cut off at its token limit"));
        }
        if self.mode() != ToolUseMode::Disabled {
            self.pipeline.response(&mut message);
        }
        let mut shaped = shape(&message, number, &mut self.ids);
        turn.warnings.append(&mut shaped.warnings);

        let mut calls = std::mem::take(&mut shaped.calls);
        let most = if turn.plan.options.contains_key("tools") { self.calls_per_turn() } else { 0 };
        turn.ignored_tool_calls_count = calls.len().saturating_sub(most);
        calls.truncate(most);
        if turn.ignored_tool_calls_count > 0 {
            let ignored_tool_calls_count = turn.ignored_tool_calls_count;
            self.tell(&ToolEvent::Ignored { turn: number, ignored_tool_calls_count });
        }
        if calls.is_empty() {
            return Ok(self.last(turn, &shaped));
        }
        self.execute(turn, &shaped, calls, world).await?;
        Ok(Next::Go)
    }

    fn calls_per_turn(&self) -> usize {
        let overrides = &self.setup.options.request_overrides;
        let parallel =
            overrides.get("parallel_tool_calls").or(self.setup.defaults.get("parallel_tool_calls"));
        self.setup.options.calls_per_turn(parallel)
    }

    /// Handles a message without calls: ends the run, or asks once more after an empty message.
    fn last(&mut self, turn: &mut Turn, shaped: &Shaped) -> Next {
        if let Some(text) = shaped.content().filter(|text| !text.trim().is_empty()) {
            self.messages.push(shaped.with_calls(&[]));
            return Next::End(Some(text.to_owned()), self.verdict());
        }
        // If an enforced call is missing, asking for text does not help.
        let misses_calls = self.mode() == ToolUseMode::Enforced && self.ends.is_empty();
        let again = self.setup.options.fix_empty_final && !self.was_asked_again && !misses_calls;
        self.tell(&ToolEvent::EmptyFinal { turn: self.turns.len() + 1, is_asked_again: again });
        let problem = Problem::new(codes::EMPTY_FINAL, "the last message is empty");
        turn.warnings.push(problem.clone());
        if again {
            (self.was_asked_again, self.is_finalization) = (true, true);
            return Next::Go;
        }
        let mut errors = self.verdict();
        errors.push(problem);
        Next::End(None, errors)
    }

    /// Executes calls in order and adds them with their results to the conversation.
    async fn execute<E>(
        &mut self,
        turn: &mut Turn,
        shaped: &Shaped,
        mut calls: Vec<ReceivedCall>,
        world: &mut dyn World<E>,
    ) -> Result<(), E> {
        let dispatcher = self.dispatcher;
        let (mut arguments, mut results) = (Vec::new(), Vec::new());
        let last = calls.len() - 1;
        for (index, called) in calls.iter_mut().enumerate() {
            self.pipeline.call(&mut called.call);
            // Truncation affects only the last call.
            let mut checked = dispatcher.check(&called.call, turn.is_truncated() && index == last);
            turn.warnings.append(&mut checked.warnings);
            arguments.push(std::mem::take(&mut checked.arguments));
            let (record, content) = self.call(&called.call, checked, world).await?;
            results.push(json!({ "role": "tool", "tool_call_id": called.call.id, "content": content }));
            turn.calls.push(record);
        }
        let calls: Vec<(&ReceivedCall, &str)> =
            calls.iter().zip(arguments.iter().map(String::as_str)).collect();
        self.messages.push(shaped.with_calls(&calls));
        self.messages.extend(results);
        Ok(())
    }

    /// Executes one call. Returns its record and the text of the result to send.
    async fn call<E>(
        &mut self,
        call: &ToolCall,
        checked: Checked<'_>,
        world: &mut dyn World<E>,
    ) -> Result<(CallRecord, String), E> {
        let turn = self.turns.len() + 1;
        self.tell(&ToolEvent::Calling { turn, call: call.clone() });
        let (result, latency_ms) = match checked.ready {
            Ok((tool, arguments)) => world.execute(call, tool, &arguments).await?,
            Err(refusal) => (refusal, 0),
        };
        let (result, content) = self.dispatcher.bound(result, |envelope| self.pipeline.result(envelope));
        self.ends.insert(call.name.clone(), result.ok);
        self.has_succeeded |= result.ok;
        let record = CallRecord { call: call.clone(), result, latency_ms };
        self.tell(&ToolEvent::Called { turn, record: record.clone() });
        Ok((record, content))
    }

    /// Returns the requirements of the mode `enforced` that the run does not meet. Empty in other
    /// modes.
    fn verdict(&self) -> Vec<Problem> {
        if self.mode() != ToolUseMode::Enforced {
            return Vec::new();
        }
        if self.ends.is_empty() {
            return vec![Problem::new(
                codes::NO_TOOL_CALLS,
                "a tool call is required, but the model made none",
            )];
        }
        match self.setup.options.tool_failure_policy {
            ToolFailurePolicy::Fatal => {
                let failed: Vec<&str> =
                    self.ends.iter().filter(|(_, ok)| !**ok).map(|(name, _)| name.as_str()).collect();
                if failed.is_empty() {
                    return Vec::new();
                }
                let message = format!("the last call of these tools failed: {}", failed.join(", "));
                vec![Problem::new(codes::TOOL_ERROR, message).with("tools", failed)]
            }
            ToolFailurePolicy::Tolerated if self.has_succeeded => Vec::new(),
            ToolFailurePolicy::Tolerated => {
                vec![Problem::new(codes::NO_SUCCESSFUL_TOOL_CALL, "all calls failed")]
            }
        }
    }

    fn finish(self, text: Option<String>, errors: Vec<Problem>) -> ToolRun {
        let ok = errors.is_empty();
        self.tell(&ToolEvent::Finished { ok, errors: errors.clone() });
        let Self { setup, turns, messages, .. } = self;
        ToolRun { ok, text, errors, stats: RunStats::of(&turns), setup, turns, messages }
    }
}
