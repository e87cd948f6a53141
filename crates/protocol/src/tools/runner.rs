mod calls;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::dispatcher::ToolDispatcher;
use super::envelope::{Problem, codes};
use super::error::ToolsError;
use super::next_tool;
use super::options::{NextTool, RESERVED, ToolCallingOptions, ToolUseMode};
use super::plans::{PlanDelta, size};
use super::record::{RunSetup, RunStats, ToolDecision, ToolEvent, ToolRun, Turn};
use super::registry::ToolSource;
use super::shapes::{Shaped, shape};
use super::thoughts::without_thoughts;
use super::transforms::{Pipeline, Transforms};
use super::verdict::refusal;
use super::world::{Live, TimedAnswer, World};
use crate::{BackendError, Feature, Plan, PromptRunner};

/// Field of requests with tools. Providers reject it in other requests.
const PARALLEL: &str = "parallel_tool_calls";

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
        // The loop sets these fields itself, per request.
        let prompt = self.prompt.clone().without_defaults(&RESERVED).without_defaults(&[PARALLEL]);
        let mut world = Live { prompt: &prompt, dispatcher: &dispatcher };
        Loop::new(setup, &dispatcher, &self.pipeline, &*self.events).run(&mut world).await
    }
}

/// State of a run.
pub(super) struct Loop<'a> {
    pub(super) setup: RunSetup,
    dispatcher: &'a ToolDispatcher,
    pipeline: &'a Pipeline,
    events: &'a (dyn Fn(&ToolEvent) + Send + Sync),
    messages: Vec<Value>,
    /// Size of `messages` as JSON, in bytes.
    bytes: usize,
    /// The last request.
    sent: Plan,
    turns: Vec<Turn>,
    ids: HashSet<String>,
    /// For each tool name that the model called: true if the last call of the tool succeeded.
    pub(super) ends: BTreeMap<String, bool>,
    pub(super) has_succeeded: bool,
    /// Name and arguments of the last call.
    last_call: Option<(String, Value)>,
    /// Warnings about the whole run.
    warnings: Vec<Problem>,
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
            bytes: setup.messages.iter().map(size).sum(),
            sent: Plan::default(),
            setup,
            dispatcher,
            pipeline,
            events,
            turns: Vec::new(),
            ids: HashSet::new(),
            ends: BTreeMap::new(),
            has_succeeded: false,
            last_call: None,
            warnings: Vec::new(),
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
            if let Some(problem) = self.too_large() {
                return Ok(self.finish(None, vec![problem]));
            }
            if let Next::End(text, errors) = self.turn(world).await? {
                return Ok(self.finish(text, errors));
            }
        }
    }

    pub(super) fn mode(&self) -> ToolUseMode {
        self.setup.options.tool_use_mode
    }

    fn tell(&self, event: &ToolEvent) {
        (self.events)(event);
    }

    /// Sends a request and processes its answer.
    async fn turn<E>(&mut self, world: &mut dyn World<E>) -> Result<Next, E> {
        let number = self.turns.len() + 1;
        let mut plan = self.plan();
        let next_tool = self.next_tool(&mut plan, world).await?;
        let tools = plan.options.get("tools").and_then(Value::as_array).map_or(0, Vec::len);
        let is_finalization = std::mem::take(&mut self.is_finalization);
        self.tell(&ToolEvent::Asking { turn: number, tools, is_finalization });
        let delta = PlanDelta::between(&self.sent, &plan);
        self.sent = plan;
        let TimedAnswer { answer, latency_ms } = world.ask(&self.sent).await?;
        let mut turn = Turn {
            plan: delta,
            next_tool,
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

    /// Decides the tool of the request `plan`, if the options say so, and sets its `tool_choice`.
    async fn next_tool<E>(
        &self,
        plan: &mut Plan,
        world: &mut dyn World<E>,
    ) -> Result<Option<ToolDecision>, E> {
        let choice = plan.options.get("tool_choice").and_then(Value::as_str);
        let tools = plan.options.get("tools").and_then(Value::as_array);
        let has_tools = tools.is_some_and(|tools| !tools.is_empty());
        // A call that is only required is still to be chosen.
        let is_required = choice == Some("required");
        let is_open = !plan.options.contains_key("tool_choice") || is_required || choice == Some("auto");
        // What failed once would fail again, after the whole conversation was sent.
        let mut decisions = self.turns.iter().filter_map(|turn| turn.next_tool.as_ref());
        let has_failed = decisions.any(|decision| decision.error.is_some());
        if self.setup.options.next_tool == NextTool::Model || !has_tools || !is_open || has_failed {
            return Ok(None);
        }
        let may_answer = !is_required && (self.mode() != ToolUseMode::Enforced || !self.ends.is_empty());
        let decision = world.decide(plan, may_answer).await?;
        next_tool::apply(&decision, plan);
        self.tell(&ToolEvent::Decided { turn: self.turns.len() + 1, decision: decision.clone() });
        Ok(Some(decision))
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
            fields.shift_remove(PARALLEL);
        } else {
            self.pipeline.tools(&mut tools);
            if let Some(parallel) = self.setup.defaults.get(PARALLEL)
                && !fields.contains_key(PARALLEL)
            {
                fields.insert(PARALLEL.to_owned(), parallel.clone());
            }
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

    /// Returns a warning for each field of `request_overrides` and of the default fields that is
    /// ignored because it is in [`RESERVED`].
    fn reserved(&self) -> Vec<Problem> {
        let RunSetup { options, defaults, .. } = &self.setup;
        let sources = [
            ("RESERVED_OVERRIDE", "request_overrides", &options.request_overrides),
            ("RESERVED_DEFAULT", "the default fields", defaults),
        ];
        let warnings = sources.into_iter().flat_map(|(code, place, fields)| {
            let named = RESERVED.iter().filter(|name| fields.contains_key(**name));
            named.map(move |name| {
                let message = format!("`{name}` in {place} is ignored; the loop sets this field");
                Problem::new(code, message).with("name", *name)
            })
        });
        warnings.collect()
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
            self.pipeline.response(&mut message, self.dispatcher.tools(), turn.is_truncated());
        }
        let mut shaped = shape(&message, number, &mut self.ids);
        turn.warnings.append(&mut shaped.warnings);

        let mut calls = std::mem::take(&mut shaped.calls);
        let most = if self.sent.options.contains_key("tools") { self.calls_per_turn() } else { 0 };
        turn.ignored_tool_calls_count = calls.len().saturating_sub(most);
        calls.truncate(most);
        if turn.ignored_tool_calls_count > 0 {
            let ignored_tool_calls_count = turn.ignored_tool_calls_count;
            self.tell(&ToolEvent::Ignored { turn: number, ignored_tool_calls_count });
        }
        if calls.is_empty() {
            return Ok(self.last(turn, &shaped));
        }
        let stopped = self.execute(turn, &shaped, calls, world).await?;
        Ok(stopped.map_or(Next::Go, |problem| {
            let mut errors = vec![problem];
            errors.extend(self.verdict());
            Next::End(None, errors)
        }))
    }

    fn calls_per_turn(&self) -> usize {
        let overrides = &self.setup.options.request_overrides;
        let parallel = overrides.get(PARALLEL).or(self.setup.defaults.get(PARALLEL));
        self.setup.options.calls_per_turn(parallel)
    }

    /// Handles a message without calls: ends the run, or asks once more after an empty message.
    fn last(&mut self, turn: &mut Turn, shaped: &Shaped) -> Next {
        let text = shaped.content().map(without_thoughts).filter(|text| !text.trim().is_empty());
        let withheld = refusal(shaped, turn.finish_reason.as_deref(), text.is_some());
        if let Some(text) = text {
            self.push(shaped.with_calls(&[]));
            if turn.is_truncated() {
                let message = "the final text was cut off at its token limit";
                self.warnings.push(Problem::new(codes::TRUNCATED, message));
            }
            let mut errors = self.verdict();
            match withheld {
                Some(problem) if problem.code == codes::CONTENT_FILTER_CUT => errors.push(problem),
                other => self.warnings.extend(other),
            }
            return Next::End(Some(text.into_owned()), errors);
        }
        // Another request would be refused as well.
        if let Some(problem) = withheld {
            let mut errors = self.verdict();
            errors.push(problem);
            return Next::End(None, errors);
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

    /// Adds a message to the conversation.
    fn push(&mut self, message: Value) {
        self.bytes += size(&message);
        self.messages.push(message);
    }

    /// Returns a problem if the conversation exceeds its limit.
    fn too_large(&self) -> Option<Problem> {
        let (bytes, limit) = (self.bytes, self.setup.options.max_conversation_bytes);
        (bytes > limit).then(|| {
            let message = format!("the conversation has {bytes} bytes, but the limit is {limit}");
            let problem = Problem::new(codes::CONVERSATION_TOO_LARGE, message);
            problem.with("bytes", bytes).with("limit", limit)
        })
    }

    fn finish(self, text: Option<String>, errors: Vec<Problem>) -> ToolRun {
        let ok = errors.is_empty();
        self.tell(&ToolEvent::Finished { ok, errors: errors.clone() });
        let Self { setup, turns, messages, warnings, .. } = self;
        ToolRun { ok, text, errors, warnings, stats: RunStats::of(&turns), setup, turns, messages }
    }
}
