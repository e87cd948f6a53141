//! The model call of an attempt: a single request or a tool loop.

use serde_json::Value;

use super::constraint::Constraint;
use super::error::Kind;
use super::{Context, Step};
use crate::tools::ToolLoopRunner;
use crate::trace::Span;
use crate::{Body, Plan};

/// Result of a model call.
pub(super) enum CallResult {
    /// Text of the answer, and the request that it answers.
    Text { text: String, plan: Plan },
    /// No usable answer, for these reasons.
    Failed { text: String, errors: Vec<String> },
}

impl Step {
    /// Calls the model with the constraint or the tools of the step.
    pub(super) async fn call(
        &self,
        messages: Vec<Value>,
        options: &Body,
        context: &Context,
        span: &Span,
    ) -> Result<CallResult, Kind> {
        let constraint = self.constraint().await?;
        if self.tools.is_some() {
            constraint.tell(span);
            return self.with_loop(messages, options, context).await;
        }
        let mut plan = Plan { messages, options: options.clone() };
        let plain = plan.clone();
        constraint.apply(&mut plan.options);
        let reply = match self.prompts.run(&plan).await {
            // The backend refused the constraint despite its reported capabilities. Retry without
            // it.
            Err(error) if error.is_of_mode() && matches!(constraint, Constraint::Applied { .. }) => {
                constraint.refused().tell(span);
                plan = plain;
                self.prompts.run(&plan).await?
            }
            answered => {
                let reply = answered?;
                constraint.tell(span);
                reply
            }
        };
        Ok(CallResult::Text { text: reply.content(), plan })
    }

    async fn with_loop(
        &self,
        messages: Vec<Value>,
        options: &Body,
        context: &Context,
    ) -> Result<CallResult, Kind> {
        let Some((tools, settings)) = &self.tools else {
            return Ok(CallResult::Failed { text: String::new(), errors: Vec::new() });
        };
        let mut defaults = self.prompts.defaults().clone();
        defaults.extend(options.clone());
        let prompts = self.prompts.clone().with_defaults(defaults);
        let runner = ToolLoopRunner::new(prompts, tools(context), settings.clone())?;
        let run = runner.run(messages).await?;
        let text = run.text.clone().unwrap_or_default();
        if !run.ok {
            let errors =
                run.errors.iter().map(|error| format!("{}: {}", error.code, error.message)).collect();
            return Ok(CallResult::Failed { text, errors });
        }
        // The last message is the answer itself, which is returned separately as `text`.
        let mut messages = run.messages;
        if messages.last().is_some_and(|message| message["role"] == "assistant") {
            messages.pop();
        }
        Ok(CallResult::Text { text, plan: Plan { messages, options: options.clone() } })
    }
}
