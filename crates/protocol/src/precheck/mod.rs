//! A check before a costly generation: that its inputs are complete and its plan is sound.
//!
//! The check is off by default. The stages run in this order until one decides:
//!
//! 1. The context must have all required keys, or the check fails.
//! 2. A draft that lacks members required by the schema ends the check as skipped ([`checklist`]).
//!    Such a draft needs repair.
//! 3. If several short plans name actions and agree on them, the check passes ([`agreement`]).
//! 4. A [`PlanValidator`] judges the plan. If a score threshold is set, the score must reach it,
//!    and a plan without a score fails.
//!
//! If the input has no plan, stage 4 judges the first short plan that is not blank. Without any
//! plan, or if the validator fails, stage 4 is skipped. An [`Interruption`](crate::Interruption) of
//! the backend is returned as an error. A failed check does not stop the generation; its feedback
//! becomes [`Guidance`].
//!
//! ```
//! use formwork_protocol::precheck::{Judgement, PlanRequest, Precheck, PrecheckInput, PrecheckOptions, Verdict};
//! use formwork_protocol::{BackendError, Body};
//! use futures_util::FutureExt;
//!
//! let options = PrecheckOptions { score_threshold: Some(0.7), ..PrecheckOptions::default() };
//! let scorer = |request: &PlanRequest<'_>| -> Result<Judgement, BackendError> {
//!     Ok(Judgement { score: Some(if request.plan.contains("test") { 0.9 } else { 0.2 }), ..Judgement::passed() })
//! };
//! let precheck = Precheck::new(options).with_validator(scorer);
//! let context = Body::new();
//! let input = PrecheckInput { plan: Some("delete everything"), ..PrecheckInput::new(&context) };
//! let report = precheck.check(&input).now_or_never().expect("a closure answers at once")?;
//! assert_eq!(report.verdict, Verdict::Fail);
//! assert_eq!(report.feedback.as_deref(), Some("The plan's score is 0.2; at least 0.7 is required."));
//! # Ok::<(), BackendError>(())
//! ```

mod checklist;
mod consensus;
mod options;
mod validator;

use std::sync::Arc;

pub use checklist::checklist;
pub use consensus::{Consensus, Planner, PromptPlanner, agreement};
pub use options::{Guidance, InjectFeedback, PrecheckOptions};
pub use validator::{Judgement, PlanRequest, PlanValidator, PromptValidator, plan_snippet};

use serde_json::Value;

use crate::{BackendError, Body};
use consensus::has_actions;

/// Configured check before a generation.
#[derive(Clone)]
pub struct Precheck {
    options: PrecheckOptions,
    validator: Option<Arc<dyn PlanValidator>>,
    planner: Option<Arc<dyn Planner>>,
}

/// Input of a check.
#[derive(Clone, Copy, Debug)]
pub struct PrecheckInput<'a> {
    /// Context of the generation.
    pub context: &'a Body,
    /// Task of the generation.
    pub task: &'a str,
    /// Plan for the task, if known.
    pub plan: Option<&'a str>,
    /// Earlier answer, if any.
    pub draft: Option<&'a Value>,
    /// JSON Schema of answers.
    pub schema: Option<&'a Value>,
}

impl<'a> PrecheckInput<'a> {
    /// Creates an input that has only a context.
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
    /// Nothing was judged.
    Skipped,
}

/// Report of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct PrecheckReport {
    /// Outcome of the check.
    pub verdict: Verdict,
    /// Name of the reason, such as `missing_context_keys` or `no_plan`.
    pub reason: &'static str,
    /// Feedback for the generation, if the check failed.
    pub feedback: Option<String>,
    /// Score of the plan, if the validator gave one.
    pub score: Option<f64>,
    /// Agreement of the short plans, if they were requested.
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
    /// Creates a check of context keys and drafts, without a validator.
    pub const fn new(options: PrecheckOptions) -> Self {
        Self { options, validator: None, planner: None }
    }

    /// Sets the validator of plans: a closure, or a model ([`PromptValidator`]).
    #[must_use]
    pub fn with_validator(mut self, validator: impl PlanValidator + 'static) -> Self {
        self.validator = Some(Arc::new(validator));
        self
    }

    /// Sets the planner that writes short plans for the consensus.
    #[must_use]
    pub fn with_planner(mut self, planner: impl Planner + 'static) -> Self {
        self.planner = Some(Arc::new(planner));
        self
    }

    /// Returns the options.
    pub const fn options(&self) -> &PrecheckOptions {
        &self.options
    }

    /// Runs the check.
    ///
    /// # Errors
    /// Returns an error only if the run is interrupted.
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

    /// Asks the validator about a plan.
    async fn judged(
        &self,
        input: &PrecheckInput<'_>,
        plan: Option<&str>,
    ) -> Result<PrecheckReport, BackendError> {
        let Some(validator) = &self.validator else {
            // Passes if key checks were the only configured stage.
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

    /// Requests short plans and compares them. Returns `None` if the consensus is disabled or a
    /// request fails.
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
