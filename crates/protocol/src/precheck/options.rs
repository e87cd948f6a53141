use serde::Deserialize;
use serde_json::{Value, json};

use crate::Body;

/// Default maximum number of tokens in each answer of a validator or planner.
const TOKENS: u32 = 200;

/// Options of a check before a generation: the block `reasoning_precheck` of a step.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrecheckOptions {
    /// True to enable the check. If unset, the configuration decides; the check is off by default.
    pub enabled: Option<bool>,
    /// Agent that judges plans, such as `agents.plan_checker`.
    pub validator_agent: Option<String>,
    /// Agent that writes short plans for the consensus.
    pub planner_agent: Option<String>,
    /// Maximum number of tokens in each answer of the validator and planner; 200 by default.
    pub max_tokens: Option<u32>,
    /// Minimum score of a plan.
    pub score_threshold: Option<f64>,
    /// Keys that the context must have.
    pub required_context_keys: Vec<String>,
    /// Destination of the guidance. If unset, the guidance is not used.
    pub inject_feedback: Option<InjectFeedback>,
    /// Text before the guidance in a prompt.
    pub retry_guidance_prefix: String,
    /// Context key of the guidance.
    pub context_feedback_key: String,
    /// Number of short plans to compare. The consensus is disabled below 2.
    pub consensus_samples: u32,
    /// Minimum agreement of the plans, from 0 to 1. If they reach it, the validator is not asked.
    pub consensus_threshold: f64,
}

impl Default for PrecheckOptions {
    fn default() -> Self {
        Self {
            enabled: None,
            validator_agent: None,
            planner_agent: None,
            max_tokens: None,
            score_threshold: None,
            required_context_keys: Vec::new(),
            inject_feedback: None,
            retry_guidance_prefix: "Guidance: ".to_owned(),
            context_feedback_key: "_aros_retry_guidance".to_owned(),
            consensus_samples: 0,
            consensus_threshold: 0.5,
        }
    }
}

/// Destination of guidance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectFeedback {
    /// Start of the last user message.
    Prepend,
    /// Context of the generation.
    ContextKey,
}

/// Feedback of a failed check, as guidance for the generation.
#[derive(Clone, Copy, Debug)]
pub struct Guidance<'a> {
    options: &'a PrecheckOptions,
    feedback: &'a str,
}

impl PrecheckOptions {
    /// Returns the maximum number of tokens in each answer of a validator or planner.
    pub fn max_tokens(&self) -> u32 {
        self.max_tokens.unwrap_or(TOKENS)
    }

    /// Reports whether the options ask for plans to be judged.
    pub(super) const fn has_judge(&self) -> bool {
        self.score_threshold.is_some() || self.validator_agent.is_some()
    }

    /// Returns the required keys that the context lacks or maps to null.
    pub fn missing_keys(&self, context: &Body) -> Vec<&str> {
        let is_missing = |key: &&String| context.get(key.as_str()).is_none_or(Value::is_null);
        self.required_context_keys.iter().filter(is_missing).map(String::as_str).collect()
    }

    /// Creates the guidance from `feedback`.
    pub const fn guidance<'a>(&'a self, feedback: &'a str) -> Guidance<'a> {
        Guidance { options: self, feedback }
    }
}

impl Guidance<'_> {
    /// Inserts the guidance at its destination: the last user message or the context.
    pub fn inject(&self, messages: &mut Vec<Value>, context: &mut Body) {
        match self.options.inject_feedback {
            Some(InjectFeedback::Prepend) => self.prepend(messages),
            Some(InjectFeedback::ContextKey) => {
                context.insert(self.options.context_feedback_key.clone(), self.feedback.into());
            }
            None => {}
        }
    }

    fn prepend(&self, messages: &mut Vec<Value>) {
        let told = format!("{}{}", self.options.retry_guidance_prefix, self.feedback);
        let Some(message) = messages.iter_mut().rev().find(|message| message["role"] == "user") else {
            messages.push(json!({ "role": "user", "content": told }));
            return;
        };
        match &mut message["content"] {
            Value::Array(parts) => parts.insert(0, json!({ "type": "text", "text": format!("{told}\n\n") })),
            content => *content = format!("{told}\n\n{}", content.as_str().unwrap_or_default()).into(),
        }
    }
}
