use serde::Deserialize;
use serde_json::{Value, json};

use crate::Body;

/// Default maximum number of tokens in each answer of a validator or planner.
const TOKENS: u32 = 200;

/// Options of a precheck, as written in the block `reasoning_precheck` of a step.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrecheckOptions {
    /// True to enable the check. If `None`, the option `enable_reasoning_precheck` of the
    /// configuration decides, which is false by default.
    pub enabled: Option<bool>,
    /// Name of the agent that judges plans, such as `agents.plan_checker`.
    pub validator_agent: Option<String>,
    /// Form of the validator's judgement; `text` by default.
    pub judgement: JudgementForm,
    /// Name of the agent that writes short plans, such as `agents.planner`.
    pub planner_agent: Option<String>,
    /// Maximum number of tokens in each answer of the validator and planner; 200 by default.
    pub max_tokens: Option<u32>,
    /// Minimum score of a plan. If `None`, plans need no score.
    pub score_threshold: Option<f64>,
    /// Keys that the context must have, with values other than null.
    pub required_context_keys: Vec<String>,
    /// Destination of the feedback of a failed check. If `None`, the feedback is not used.
    pub inject_feedback: Option<InjectFeedback>,
    /// Text before the feedback in a user message; `Guidance: ` by default. Used by
    /// [`InjectFeedback::Prepend`].
    pub retry_guidance_prefix: String,
    /// Key of the feedback in the context; `_aros_retry_guidance` by default. Used by
    /// [`InjectFeedback::ContextKey`].
    pub context_feedback_key: String,
    /// Number of short plans to compare; 0 by default. With fewer than 2, no plans are requested.
    pub consensus_samples: u32,
    /// Minimum [`agreement`](super::agreement) of the short plans, from 0 to 1; 0.5 by default. If
    /// the plans reach this value, the check passes without a judgement.
    pub consensus_threshold: f64,
}

impl Default for PrecheckOptions {
    fn default() -> Self {
        Self {
            enabled: None,
            validator_agent: None,
            judgement: JudgementForm::default(),
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

/// Form in which a validator agent judges plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgementForm {
    /// The model writes a verdict, a score and feedback ([`PromptValidator`](super::PromptValidator)).
    #[default]
    Text,
    /// The model's probability that the plan is good is the score, and no text is written
    /// ([`DecisionValidator`](super::DecisionValidator)). Without a score threshold, it must be 0.5.
    Decision,
}

/// Destination of the feedback of a failed check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InjectFeedback {
    /// The start of the last user message, after [`PrecheckOptions::retry_guidance_prefix`].
    Prepend,
    /// The context of the generation, under [`PrecheckOptions::context_feedback_key`].
    ContextKey,
}

/// Feedback of a failed check, ready to be inserted into the input of the generation.
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

    /// Reports whether the options require a judgement of the plan: a score threshold or a
    /// validator agent is set.
    pub(super) const fn has_judge(&self) -> bool {
        self.score_threshold.is_some() || self.validator_agent.is_some()
    }

    /// Returns the required keys that `context` lacks or maps to null, in the order of the options.
    pub fn missing_keys(&self, context: &Body) -> Vec<&str> {
        let is_missing = |key: &&String| context.get(key.as_str()).is_none_or(Value::is_null);
        self.required_context_keys.iter().filter(is_missing).map(String::as_str).collect()
    }

    /// Creates the guidance from the feedback of a failed check.
    pub const fn guidance<'a>(&'a self, feedback: &'a str) -> Guidance<'a> {
        Guidance { options: self, feedback }
    }
}

impl Guidance<'_> {
    /// Inserts the guidance into `messages` or `context`, as [`PrecheckOptions::inject_feedback`]
    /// selects. If there is no user message to extend, a new one is appended. Does nothing if no
    /// destination is selected.
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
