//! Choosing the next tool by a decision.

use serde_json::{Value, json};

use super::record::{ToolDecision, ToolProbability};
use super::world::problem;
use crate::{BackendError, Chosen, DecisionOption, Plan, PromptRunner};

/// Question about the next tool.
const INSTRUCTIONS: &str = "Which tool should be called next?";

/// Option for an answer without a call. No tool can have this name.
const NO_TOOL: &str = "(no tool)";
const NO_TOOL_DESCRIPTION: &str = "All that is needed is known: answer the user now.";

/// Asks which tool of the request `plan` the model should call next. With `may_answer`, an answer without
/// a call is an option, too.
///
/// # Errors
/// Returns the backend's error if the question is interrupted. Any other error is part of the result.
pub(super) async fn decide(
    prompt: &PromptRunner,
    plan: &Plan,
    may_answer: bool,
) -> Result<ToolDecision, BackendError> {
    let mut options: Vec<_> = tools(plan).iter().map(option).collect();
    let mut names: Vec<_> = options.iter().map(|option| option.value.clone()).collect();
    if may_answer {
        let (value, description) = (NO_TOOL.to_owned(), NO_TOOL_DESCRIPTION.to_owned());
        options.push(DecisionOption { value, description });
    }
    if let [only] = options.as_slice() {
        return Ok(ToolDecision { tool: Some(only.value.clone()), ..ToolDecision::default() });
    }
    match prompt.choose(&plan.messages, INSTRUCTIONS, &options).await {
        Ok(Chosen { index, mut probabilities, confidence, cost }) => {
            let answer = if may_answer { probabilities.pop() } else { None };
            let tool = (index < names.len()).then(|| names[index].clone());
            let with = names.drain(..).zip(probabilities);
            let probabilities = with.map(|(tool, probability)| ToolProbability { tool, probability });
            Ok(ToolDecision {
                tool,
                probabilities: probabilities.collect(),
                answer,
                confidence,
                prompt_tokens: cost.prompt_tokens,
                latency_ms: u64::try_from(cost.latency.as_millis()).unwrap_or(u64::MAX),
                error: None,
            })
        }
        Err(error) if error.interruption().is_some() => Err(error),
        Err(error) => Ok(ToolDecision { error: Some(problem(&error)), ..ToolDecision::default() }),
    }
}

/// Sets the `tool_choice` of the request `plan` to what was decided.
pub(super) fn apply(decision: &ToolDecision, plan: &mut Plan) {
    let choice = match &decision.tool {
        Some(name) => json!({ "type": "function", "function": { "name": name } }),
        None if decision.error.is_none() => json!("none"),
        None => return,
    };
    plan.options.insert("tool_choice".to_owned(), choice);
}

/// Returns the definitions of the tools in a request.
fn tools(plan: &Plan) -> &[Value] {
    plan.options.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn option(tool: &Value) -> DecisionOption {
    let text = |name: &str| tool["function"][name].as_str().unwrap_or_default().to_owned();
    DecisionOption { value: text("name"), description: text("description") }
}
