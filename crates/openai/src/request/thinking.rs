//! Switches and budgets of reasoning, in the spellings of several servers.

use serde_json::{Map, Value};

use super::add_effort;
use super::fields::{Fields, Place};
use crate::RequestError;

/// Reads `enable_thinking` (Qwen), `think` (Ollama), `thinking` (Anthropic, GLM, DeepSeek),
/// `thinking_budget` (Qwen) and, in a chat, `reasoning` (OpenRouter). They become variables of the chat
/// template, unless the request sets these.
pub(crate) fn read(
    fields: &mut Fields,
    variables: &mut Map<String, Value>,
) -> Result<Thinking, RequestError> {
    let mut display = None;
    if let Some(enabled) = fields.read("enable_thinking", Place::bool)? {
        enable(enabled, variables);
    }
    if let Some(at) = fields.take("think") {
        if at.is_string() {
            enable(true, variables);
            add_effort(&at, variables)?;
        } else {
            enable(at.bool()?, variables);
        }
    }
    let mut budget = fields.read("thinking_budget", |at| at.integer(0, "at least 0"))?;
    if let Some(at) = fields.take("thinking") {
        let thinking = read_thinking(at, variables)?;
        budget = budget.or(thinking.0);
        display = thinking.1;
    }
    if let Some(at) = fields.take("reasoning") {
        budget = budget.or(read_reasoning(at, variables)?);
    }
    Ok(Thinking { budget: budget.map(|tokens| tokens as usize), display })
}

/// Settings of reasoning that are no variables of the template.
pub(crate) struct Thinking {
    budget: Option<usize>,
    display: Option<Place>,
}

impl Thinking {
    /// Returns the maximum number of tokens of reasoning, for an API that always shows reasoning.
    pub(crate) fn budget(self) -> Option<usize> {
        if let Some(at) = self.display {
            at.ignore();
        }
        self.budget
    }

    /// Returns the maximum number of tokens of reasoning, and true if its text is not shown.
    pub(crate) fn budget_and_hiding(self) -> (Option<usize>, bool) {
        (self.budget, self.display.is_some_and(|at| at.value() == "omitted"))
    }
}

fn enable(enabled: bool, variables: &mut Map<String, Value>) {
    variables.entry("enable_thinking").or_insert(Value::Bool(enabled));
}

/// Parses `thinking`: a boolean, an effort, or an object with `type` and `budget_tokens`.
fn read_thinking(
    at: Place,
    variables: &mut Map<String, Value>,
) -> Result<(Option<i64>, Option<Place>), RequestError> {
    if at.value().is_boolean() {
        enable(at.bool()?, variables);
        return Ok((None, None));
    }
    if at.is_string() {
        enable(at.value() != "none", variables);
        add_effort(&at, variables)?;
        return Ok((None, None));
    }
    let mut fields = at.fields()?;
    let known = |name: &str| match name {
        "enabled" => Some(Some(true)),
        "disabled" => Some(Some(false)),
        "auto" | "adaptive" => Some(None),
        _ => None,
    };
    let kind = fields.required("type")?.one_of(known, "enabled, disabled, auto and adaptive")?;
    if let Some(enabled) = kind {
        enable(enabled, variables);
    }
    let budget = fields.read("budget_tokens", |at| at.integer(0, "at least 0"))?;
    let display = fields.take("display");
    if let Some(at) = &display {
        at.one_of(|name| ["summarized", "omitted"].contains(&name).then_some(()), "summarized and omitted")?;
    }
    if let Some(clear) = fields.read("clear_thinking", Place::bool)? {
        // GLM's templates leave out the thoughts of earlier turns if it is true.
        variables.entry("clear_thinking").or_insert(Value::Bool(clear));
    }
    // The field is about signatures of thoughts, which have no effect here.
    fields.ignore("block_binding");
    fields.finish_strictly()?;
    Ok((budget, display))
}

/// Parses `reasoning`: an object with `effort`, `enabled` and `max_tokens`.
fn read_reasoning(at: Place, variables: &mut Map<String, Value>) -> Result<Option<i64>, RequestError> {
    let mut fields = at.fields()?;
    if let Some(enabled) = fields.read("enabled", Place::bool)? {
        enable(enabled, variables);
    }
    if let Some(effort) = fields.take("effort") {
        add_effort(&effort, variables)?;
    }
    let budget = fields.read("max_tokens", |at| at.integer(0, "at least 0"))?;
    // Reasoning is sent in full and in a field of its own.
    for name in ["summary", "generate_summary", "exclude"] {
        fields.ignore(name);
    }
    fields.finish_strictly()?;
    Ok(budget)
}
