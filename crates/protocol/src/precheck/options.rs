use serde::Deserialize;
use serde_json::{Value, json};

use crate::Body;

/// The most tokens of a validator's answer, unless something else is said.
const TOKENS: u32 = 200;

/// How a check before a generation is made: the block `reasoning_precheck` of a step.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrecheckOptions {
    /// Whether it is made. It is not, unless this or the configuration says so.
    pub enabled: Option<bool>,
    /// Who judges plans, such as `agents.plan_checker`.
    pub validator_agent: Option<String>,
    /// Who makes short plans for a consensus, as well.
    pub planner_agent: Option<String>,
    /// The most tokens of each answer of theirs; 200, if nothing else is said.
    pub max_tokens: Option<u32>,
    /// How good a plan must be.
    pub score_threshold: Option<f64>,
    /// What the context must have.
    pub required_context_keys: Vec<String>,
    /// Where guidance goes; it goes nowhere, if nothing is said.
    pub inject_feedback: Option<InjectFeedback>,
    /// What stands before guidance in a prompt.
    pub retry_guidance_prefix: String,
    /// The key of guidance in the context.
    pub context_feedback_key: String,
    /// How many short plans are compared; less than two are none.
    pub consensus_samples: u32,
    /// How far they must agree for the validator not to be asked, from 0 to 1.
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

/// Where guidance goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectFeedback {
    /// In front of what the user says.
    Prepend,
    /// Into the context.
    ContextKey,
}

/// What a generation is told after a check that failed.
#[derive(Clone, Copy, Debug)]
pub struct Guidance<'a> {
    options: &'a PrecheckOptions,
    feedback: &'a str,
}

impl PrecheckOptions {
    /// The most tokens of each answer of a validator or planner.
    pub fn max_tokens(&self) -> u32 {
        self.max_tokens.unwrap_or(TOKENS)
    }

    /// Whether plans are to be judged, by whomever.
    pub(super) const fn has_judge(&self) -> bool {
        self.score_threshold.is_some() || self.validator_agent.is_some()
    }

    /// The keys that a context does not have, or has without a value.
    pub fn missing_keys(&self, context: &Body) -> Vec<&str> {
        let is_missing = |key: &&String| context.get(key.as_str()).is_none_or(Value::is_null);
        self.required_context_keys.iter().filter(is_missing).map(String::as_str).collect()
    }

    /// What `feedback` comes to.
    pub const fn guidance<'a>(&'a self, feedback: &'a str) -> Guidance<'a> {
        Guidance { options: self, feedback }
    }
}

impl Guidance<'_> {
    /// Puts it where it is to go: into the last message of the user, or into the context.
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
