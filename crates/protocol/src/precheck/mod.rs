//! A check before a costly generation: is there what it needs, and is its plan any good?
//!
//! Off, unless it is asked for. Then, in this order, until something decides:
//!
//! 1. keys that the context must have are there, or the check fails;
//! 2. a draft, where there is one, has what its schema requires ([`checklist`]), or nothing more is checked: such a draft is for repair;
//! 3. of several short plans, each of which says something, the key actions agree, and nothing more is checked ([`agreement`]);
//! 4. a [`PlanValidator`] judges the plan, and its score, or that of a scorer, reaches the threshold. A plan without a score does not.
//!
//! Without a plan there is nothing to judge, and nothing is made of that. A check that fails stops nothing, either: what it says is guidance
//! for the generation ([`Guidance`]). A validator that does not answer is as good as none; but what interrupts a run
//! ([`Interruption`](crate::Interruption)) passes through.
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
//! assert_eq!(report.feedback.as_deref(), Some("The plan's score is 0.2, and must be at least 0.7."));
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

/// What is checked before a generation.
#[derive(Clone)]
pub struct Precheck {
    options: PrecheckOptions,
    validator: Option<Arc<dyn PlanValidator>>,
    planner: Option<Arc<dyn Planner>>,
}

/// What there is to check.
#[derive(Clone, Copy, Debug)]
pub struct PrecheckInput<'a> {
    /// What the generation may use.
    pub context: &'a Body,
    /// What it is to do.
    pub task: &'a str,
    /// How it is to be done, if anybody says.
    pub plan: Option<&'a str>,
    /// An earlier answer, if there is one.
    pub draft: Option<&'a Value>,
    /// What answers must be.
    pub schema: Option<&'a Value>,
}

impl<'a> PrecheckInput<'a> {
    /// A context alone.
    pub const fn new(context: &'a Body) -> Self {
        Self { context, task: "", plan: None, draft: None, schema: None }
    }
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Nothing is wrong.
    Pass,
    /// Something is.
    Fail,
    /// There was nothing to judge, or nobody to judge it.
    Skipped,
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq)]
pub struct PrecheckReport {
    /// How it ended.
    pub verdict: Verdict,
    /// Why, by a name: `missing_context_keys`, `no_plan`, …
    pub reason: &'static str,
    /// What the generation is told, where something is wrong.
    pub feedback: Option<String>,
    /// How good the plan is, where somebody said so.
    pub score: Option<f64>,
    /// How far short plans agree, where they were asked for.
    pub consensus: Option<Consensus>,
    /// Whether a validator has judged the plan.
    pub is_judged: bool,
}

impl PrecheckReport {
    const fn new(verdict: Verdict, reason: &'static str) -> Self {
        Self { verdict, reason, feedback: None, score: None, consensus: None, is_judged: false }
    }
}

impl Precheck {
    /// Checks of keys alone, until there is a validator.
    pub const fn new(options: PrecheckOptions) -> Self {
        Self { options, validator: None, planner: None }
    }

    /// With somebody who judges plans: a closure, or a model ([`PromptValidator`]).
    #[must_use]
    pub fn with_validator(mut self, validator: impl PlanValidator + 'static) -> Self {
        self.validator = Some(Arc::new(validator));
        self
    }

    /// With somebody who makes short plans, for the consensus of several.
    #[must_use]
    pub fn with_planner(mut self, planner: impl Planner + 'static) -> Self {
        self.planner = Some(Arc::new(planner));
        self
    }

    /// How it checks.
    pub const fn options(&self) -> &PrecheckOptions {
        &self.options
    }

    /// Checks.
    ///
    /// # Errors
    /// Only when the run is interrupted.
    pub async fn check(&self, input: &PrecheckInput<'_>) -> Result<PrecheckReport, BackendError> {
        let missing = self.options.missing_keys(input.context);
        if !missing.is_empty() {
            let feedback = Some(format!("The context lacks: {}.", missing.join(", ")));
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

    /// What the validator says of a plan.
    async fn judged(
        &self,
        input: &PrecheckInput<'_>,
        plan: Option<&str>,
    ) -> Result<PrecheckReport, BackendError> {
        let Some(validator) = &self.validator else {
            // Keys were checked, and there was nothing else to do.
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
                tracing::info!(%error, "the plan is not checked");
                return Ok(PrecheckReport::new(Verdict::Skipped, "validator_failed"));
            }
        };
        Ok(self.weighed(judgement))
    }

    fn weighed(&self, judgement: Judgement) -> PrecheckReport {
        let score = judgement.score.filter(|score| score.is_finite());
        let low = match (score, self.options.score_threshold) {
            (Some(score), Some(least)) if score < least => {
                Some(format!("The plan's score is {score}, and must be at least {least}."))
            }
            // What was not found good needs no score.
            (None, Some(least)) if judgement.is_passed => {
                Some(format!("The plan has no score, and must have one of at least {least}."))
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
                Some(if told.is_empty() { "The plan was not found good.".to_owned() } else { told })
            }
            _ => None,
        };
        PrecheckReport { feedback, score, is_judged: true, ..PrecheckReport::new(verdict, reason) }
    }

    /// Short plans, and how far they agree; none where they are not asked for.
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
                    tracing::info!(%error, "there is no consensus of plans");
                    return Ok(None);
                }
            }
        }
        let agreement = agreement(&plans);
        // Plans that say nothing agree on nothing, however little is asked for.
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
