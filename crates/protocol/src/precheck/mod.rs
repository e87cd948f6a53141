//! Checks the inputs and the plan of a generation before the costly generation starts.
//!
//! The *context* is the set of named values that the generation can use. A *plan* is a text that
//! says how the model will do its task. A *draft* is the value of an earlier answer to the same
//! task.
//!
//! The check is off by default. Its stages run in this order until one decides:
//!
//! 1. The check fails if the context lacks a required key.
//! 2. The check is skipped if the draft lacks fields that the schema requires ([`checklist`]). Such
//!    a draft needs repair instead of a better plan.
//! 3. A [`Planner`] writes several short plans. If all of them name actions and agree on these
//!    actions ([`agreement`]), the check passes.
//! 4. A [`PlanValidator`] judges the plan. If a score threshold is set, the plan's score must reach
//!    the threshold, and a plan without a score fails.
//!
//! If the input has no plan, stage 4 judges the first short plan that is not blank. Without any
//! plan, or if the validator returns an error, the check is skipped. An
//! [`Interruption`](crate::Interruption) of the backend is returned as an error. A failed check
//! does not stop the generation; its feedback becomes [`Guidance`].
//!
//! ```
//! use formwork_protocol::precheck::{
//!     Judgement, PlanRequest, Precheck, PrecheckInput, PrecheckOptions, Verdict,
//! };
//! use formwork_protocol::{BackendError, Body};
//! use futures_util::FutureExt;
//!
//! let options = PrecheckOptions { score_threshold: Some(0.7), ..PrecheckOptions::default() };
//! let scorer = |request: &PlanRequest<'_>| -> Result<Judgement, BackendError> {
//!     let score = if request.plan.contains("test") { 0.9 } else { 0.2 };
//!     Ok(Judgement { score: Some(score), ..Judgement::passed() })
//! };
//! let precheck = Precheck::new(options).with_validator(scorer);
//! let context = Body::new();
//! let input = PrecheckInput { plan: Some("delete everything"), ..PrecheckInput::new(&context) };
//! let report = precheck.check(&input).now_or_never().expect("a closure answers at once")?;
//! assert_eq!(report.verdict, Verdict::Fail);
//! assert_eq!(
//!     report.feedback.as_deref(),
//!     Some("The plan's score is 0.2; at least 0.7 is required.")
//! );
//! # Ok::<(), BackendError>(())
//! ```

mod checklist;
mod consensus;
mod options;
mod validator;

use std::sync::Arc;

pub use checklist::checklist;
pub use consensus::{Consensus, Planner, PromptPlanner, agreement};
pub use options::{Guidance, InjectFeedback, JudgementForm, PrecheckOptions};
pub use validator::{
    DecisionValidator, Judgement, PlanRequest, PlanValidator, PromptValidator, plan_snippet,
};

use serde_json::Value;

use crate::{BackendError, Body};
use consensus::has_actions;

/// Check before a generation, with its options, plan validator and planner.
#[derive(Clone)]
pub struct Precheck {
    options: PrecheckOptions,
    validator: Option<Arc<dyn PlanValidator>>,
    planner: Option<Arc<dyn Planner>>,
}

/// Input of a check.
#[derive(Clone, Copy, Debug)]
pub struct PrecheckInput<'a> {
    /// Named values that the generation can use. All [`PrecheckOptions::required_context_keys`]
    /// must be among them.
    pub context: &'a Body,
    /// Text of the generation's task; may be empty.
    pub task: &'a str,
    /// Plan for the task. If `None`, the check uses a short plan or skips the judgement.
    pub plan: Option<&'a str>,
    /// Value of an earlier answer to the same task. `None` before the first answer.
    pub draft: Option<&'a Value>,
    /// JSON Schema of the generation's answer. A draft is checked only if there is a schema.
    pub schema: Option<&'a Value>,
}

impl<'a> PrecheckInput<'a> {
    /// Creates an input that has only a context. The task is empty and all other fields are `None`.
    pub const fn new(context: &'a Body) -> Self {
        Self { context, task: "", plan: None, draft: None, schema: None }
    }
}

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// No problem was found.
    Pass,
    /// A problem was found.
    Fail,
    /// No stage could decide, for example because there is no plan.
    Skipped,
}

/// Report of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct PrecheckReport {
    /// Outcome of the check.
    pub verdict: Verdict,
    /// Name of the reason for the verdict, such as `missing_context_keys` or `no_plan`.
    pub reason: &'static str,
    /// Feedback for the generation. `None` unless the check failed.
    pub feedback: Option<String>,
    /// Score of the plan. `None` if no validator gave a finite score.
    pub score: Option<f64>,
    /// Agreement of the short plans. `None` if no plans were requested or if a request failed.
    pub consensus: Option<Consensus>,
    /// True if a validator judged the plan.
    pub is_judged: bool,
}

impl PrecheckReport {
    const fn new(verdict: Verdict, reason: &'static str) -> Self {
        Self { verdict, reason, feedback: None, score: None, consensus: None, is_judged: false }
    }
}

impl Precheck {
    /// Creates a check without a plan validator and planner. Such a check examines only context
    /// keys and drafts.
    pub const fn new(options: PrecheckOptions) -> Self {
        Self { options, validator: None, planner: None }
    }

    /// Sets the validator that judges plans: a closure, or a model ([`PromptValidator`]).
    #[must_use]
    pub fn with_validator(mut self, validator: impl PlanValidator + 'static) -> Self {
        self.validator = Some(Arc::new(validator));
        self
    }

    /// Sets the planner that writes short plans. The planner is asked only if
    /// [`PrecheckOptions::consensus_samples`] is at least 2.
    #[must_use]
    pub fn with_planner(mut self, planner: impl Planner + 'static) -> Self {
        self.planner = Some(Arc::new(planner));
        self
    }

    /// Returns the options with which the check was created.
    pub const fn options(&self) -> &PrecheckOptions {
        &self.options
    }

    /// Runs the stages of the check on `input`.
    ///
    /// # Errors
    /// Returns the backend's error if the check is interrupted
    /// ([`Interruption`](crate::Interruption)). Any other error of the planner or validator only
    /// skips its stage.
    pub async fn check(&self, input: &PrecheckInput<'_>) -> Result<PrecheckReport, BackendError> {
        let missing = self.options.missing_keys(input.context);
        if !missing.is_empty() {
            let feedback = Some(format!("The context is missing these keys: {}.", missing.join(", ")));
            return Ok(PrecheckReport {
                feedback,
                ..PrecheckReport::new(Verdict::Fail, "missing_context_keys")
            });
        }
        if let (Some(schema), Some(draft)) = (input.schema, input.draft)
            && !checklist(schema, draft).is_empty()
        {
            return Ok(PrecheckReport::new(Verdict::Skipped, "draft_lacks_basics"));
        }
        let (consensus, sampled) = match self.consensus(input).await? {
            Some((consensus, _)) if consensus.is_agreed => {
                let report = PrecheckReport::new(Verdict::Pass, "consensus");
                return Ok(PrecheckReport { consensus: Some(consensus), ..report });
            }
            Some((consensus, plans)) => {
                (Some(consensus), plans.into_iter().find(|plan| says_something(plan)))
            }
            None => (None, None),
        };
        let given = input.plan.filter(|plan| says_something(plan));
        let report = self.judged(input, given.or(sampled.as_deref())).await?;
        Ok(PrecheckReport { consensus, ..report })
    }

    /// Returns the report of stage 4: asks the validator to judge `plan`. The verdict is `Skipped`
    /// without a judgement.
    async fn judged(
        &self,
        input: &PrecheckInput<'_>,
        plan: Option<&str>,
    ) -> Result<PrecheckReport, BackendError> {
        let Some(validator) = &self.validator else {
            // Passes if the options require context keys but no judgement.
            let is_checked = !self.options.required_context_keys.is_empty() && !self.options.has_judge();
            let verdict = if is_checked { Verdict::Pass } else { Verdict::Skipped };
            return Ok(PrecheckReport::new(
                verdict,
                if is_checked { "context_keys" } else { "no_validator" },
            ));
        };
        let Some(plan) = plan else {
            return Ok(PrecheckReport::new(Verdict::Skipped, "no_plan"));
        };
        let request = PlanRequest { plan, task: input.task, max_tokens: self.options.max_tokens() };
        let judgement = match validator.judge(&request).await {
            Ok(Some(judgement)) => judgement,
            Ok(None) => return Ok(PrecheckReport::new(Verdict::Skipped, "no_judgement")),
            Err(error) if error.interruption().is_some() => return Err(error),
            Err(error) => {
                tracing::info!(%error, "the plan could not be validated");
                return Ok(PrecheckReport::new(Verdict::Skipped, "validator_failed"));
            }
        };
        Ok(self.weighed(judgement))
    }

    /// Returns the report of a judgement. A plan that the validator accepts fails nevertheless if
    /// its score is below the threshold or missing.
    fn weighed(&self, judgement: Judgement) -> PrecheckReport {
        let score = judgement.score.filter(|score| score.is_finite());
        let low = match (score, self.options.score_threshold) {
            (Some(score), Some(least)) if score < least => {
                Some(format!("The plan's score is {score}; at least {least} is required."))
            }
            // A plan that the validator rejected fails anyway, so it needs no score.
            (None, Some(least)) if judgement.is_passed => {
                Some(format!("The plan has no score; at least {least} is required."))
            }
            _ => None,
        };
        let (verdict, reason) = match (judgement.is_passed, &low) {
            (false, _) => (Verdict::Fail, "validator"),
            (true, Some(_)) => (Verdict::Fail, "score"),
            (true, None) => (Verdict::Pass, "validator"),
        };
        let feedback = judgement.feedback.filter(|text| !text.trim().is_empty());
        let feedback = match verdict {
            Verdict::Fail => {
                let told = [feedback, low].into_iter().flatten().collect::<Vec<_>>().join(" ");
                Some(if told.is_empty() { "The plan was rejected.".to_owned() } else { told })
            }
            _ => None,
        };
        PrecheckReport { feedback, score, is_judged: true, ..PrecheckReport::new(verdict, reason) }
    }

    /// Requests short plans and compares them. Returns the consensus and the plans, or `None` if
    /// the consensus is disabled or a request fails.
    async fn consensus(
        &self,
        input: &PrecheckInput<'_>,
    ) -> Result<Option<(Consensus, Vec<String>)>, BackendError> {
        let Some(planner) = self.planner.as_ref().filter(|_| self.options.consensus_samples >= 2) else {
            return Ok(None);
        };
        let mut plans = Vec::new();
        for sample in 0..self.options.consensus_samples {
            match planner.plan(input.task, sample, self.options.max_tokens()).await {
                Ok(plan) => plans.push(plan),
                Err(error) if error.interruption().is_some() => return Err(error),
                Err(error) => {
                    tracing::info!(%error, "no consensus was computed because a plan could not be generated");
                    return Ok(None);
                }
            }
        }
        let agreement = agreement(&plans);
        // Plans without actions never agree, whatever the threshold.
        let is_agreed =
            plans.iter().all(|plan| has_actions(plan)) && agreement >= self.options.consensus_threshold;
        Ok(Some((Consensus { samples: self.options.consensus_samples, agreement, is_agreed }, plans)))
    }
}

fn says_something(plan: &str) -> bool {
    !plan.trim().is_empty()
}

#[cfg(test)]
mod tests;
