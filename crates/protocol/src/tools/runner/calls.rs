//! Execution of the calls of a message.

use serde_json::json;

use super::super::dispatcher::Checked;
use super::super::envelope::{Problem, ToolResult, codes};
use super::super::members::normalized;
use super::super::options::RepeatedCalls;
use super::super::plans::size;
use super::super::record::{CallRecord, ToolEvent, Turn};
use super::super::shapes::{ReceivedCall, Shaped, ToolCall};
use super::super::world::World;
use super::Loop;

impl Loop<'_> {
    /// Executes calls in order and adds them with their results to the conversation. Returns the
    /// problem if a repeated call ends the run.
    pub(super) async fn execute<E>(
        &mut self,
        turn: &mut Turn,
        shaped: &Shaped,
        mut calls: Vec<ReceivedCall>,
        world: &mut dyn World<E>,
    ) -> Result<Option<Problem>, E> {
        let dispatcher = self.dispatcher;
        let (mut arguments, mut results) = (Vec::new(), Vec::new());
        let last = calls.len() - 1;
        let mut stopped = None;
        for (index, called) in calls.iter_mut().enumerate() {
            self.pipeline.call(&mut called.call);
            // Truncation affects only the last call.
            let mut checked = dispatcher.check(&called.call, turn.is_truncated() && index == last);
            turn.warnings.append(&mut checked.warnings);
            if let Some(problem) = self.repeated(&called.call, &checked) {
                turn.warnings.push(problem.clone());
                if self.setup.options.repeated_calls == RepeatedCalls::Stop {
                    checked.ready = Err(ToolResult::failed(problem.clone()));
                    stopped = Some(problem);
                }
            }
            arguments.push(std::mem::take(&mut checked.arguments));
            let (record, content) = self.call(&called.call, checked, world, stopped.is_some()).await?;
            let result = json!({ "role": "tool", "tool_call_id": called.call.id, "content": content });
            self.bytes += size(&result);
            results.push(result);
            turn.calls.push(record);
            // The results of one message must not exceed the memory either.
            stopped = stopped.or_else(|| self.too_large());
            if stopped.is_some() {
                turn.ignored_tool_calls_count += last - index;
                break;
            }
        }
        let calls: Vec<(&ReceivedCall, &str)> =
            calls.iter().zip(arguments.iter().map(String::as_str)).collect();
        self.push(shaped.with_calls(&calls));
        self.messages.extend(results);
        // The message of the calls counts as well.
        let is_large = stopped.as_ref().is_some_and(|problem| problem.code == codes::CONVERSATION_TOO_LARGE);
        if is_large { Ok(self.too_large()) } else { Ok(stopped) }
    }

    /// Returns a problem if `call` has the name and the arguments of the call before it.
    fn repeated(&mut self, call: &ToolCall, checked: &Checked<'_>) -> Option<Problem> {
        let turn = self.turns.len() + 1;
        // The order of members and the notation of numbers do not matter. Invalid arguments are
        // compared as text.
        let arguments = match &checked.ready {
            Ok((_, arguments)) => arguments.clone().into(),
            Err(_) => serde_json::from_str(&call.arguments).unwrap_or_else(|_| call.arguments.trim().into()),
        };
        let this = (call.name.clone(), normalized(arguments));
        let is_repeated = self.last_call.as_ref() == Some(&this);
        self.last_call = Some(this);
        if !is_repeated {
            return None;
        }
        self.tell(&ToolEvent::Repeated { turn, call: call.clone() });
        let message = format!("`{}` was called twice in a row with the same arguments", call.name);
        Some(Problem::new(codes::REPEATED_CALL, message).with("name", call.name.as_str()))
    }

    /// Executes one call. Returns its record and the text of the result to send.
    async fn call<E>(
        &mut self,
        call: &ToolCall,
        checked: Checked<'_>,
        world: &mut dyn World<E>,
        is_stopped: bool,
    ) -> Result<(CallRecord, String), E> {
        let turn = self.turns.len() + 1;
        self.tell(&ToolEvent::Calling { turn, call: call.clone() });
        let (result, latency_ms) = match checked.ready {
            Ok((tool, arguments)) => world.execute(call, tool, &arguments).await?,
            Err(refusal) => (refusal, 0),
        };
        let (result, content) = self.dispatcher.bound(result, |envelope| self.pipeline.result(envelope));
        // A call that ends the run says nothing about the tool.
        if !is_stopped {
            self.ends.insert(call.name.clone(), result.ok);
        }
        self.has_succeeded |= result.ok;
        let record = CallRecord { call: call.clone(), result, latency_ms };
        self.tell(&ToolEvent::Called { turn, record: record.clone() });
        Ok((record, content))
    }
}
