use std::collections::BTreeSet;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::{BackendError, Body, Plan, PromptRunner};

/// Result of comparing several short plans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Consensus {
    /// Number of compared plans.
    pub samples: u32,
    /// Agreement of the plans, from 0 to 1, as computed by [`agreement`].
    pub agreement: f64,
    /// True if every plan names actions and the agreement reaches
    /// [`PrecheckOptions::consensus_threshold`](super::PrecheckOptions::consensus_threshold).
    pub is_agreed: bool,
}

/// Writes short plans for a task, which are then compared.
pub trait Planner: Send + Sync {
    /// Writes one plan for `task`. `sample` is the index of the plan, from 0, and `max_tokens` is
    /// the maximum number of tokens in the plan.
    fn plan<'a>(
        &'a self,
        task: &'a str,
        sample: u32,
        max_tokens: u32,
    ) -> BoxFuture<'a, Result<String, BackendError>>;
}

/// Planner that asks a model. The seed of each request is the index of the plan.
#[derive(Clone)]
pub struct PromptPlanner {
    prompts: PromptRunner,
    system: String,
}

/// Default system message of a [`PromptPlanner`].
const SYSTEM: &str =
    "List the key actions for the task, one short line each, at most five. Do not carry them out.";

impl PromptPlanner {
    /// Creates a planner that sends its requests through `prompts`.
    pub fn new(prompts: PromptRunner) -> Self {
        Self { prompts, system: SYSTEM.to_owned() }
    }

    /// Sets the system message, which tells the model to list the actions of its plan.
    #[must_use]
    pub fn with_system(mut self, system: impl Into<String>) -> Self {
        self.system = system.into();
        self
    }
}

impl Planner for PromptPlanner {
    fn plan<'a>(
        &'a self,
        task: &'a str,
        sample: u32,
        max_tokens: u32,
    ) -> BoxFuture<'a, Result<String, BackendError>> {
        async move {
            let messages = vec![
                json!({ "role": "system", "content": self.system }),
                json!({ "role": "user", "content": task }),
            ];
            let options = [("max_tokens", max_tokens), ("seed", sample)];
            let options: Body =
                options.map(|(name, value)| (name.to_owned(), value.into())).into_iter().collect();
            Ok(self.prompts.run(&Plan { messages, options }).await?.content())
        }
        .boxed()
    }
}

/// Returns the mean Jaccard index over all pairs of `plans`, from 0 to 1. The index of a pair is
/// the number of words in both plans, divided by the number of words in at least one of them.
///
/// Each word counts once. Case, numbers and common words such as `the` are ignored. A pair without
/// words has index 0, and fewer than two plans have agreement 1.
///
/// ```
/// use formwork_protocol::precheck::agreement;
/// let plans = ["Read the file, write a test", "write the test; read a FILE"].map(str::to_owned);
/// assert_eq!(agreement(&plans), 1.0);
/// assert_eq!(agreement(&["read file".to_owned(), "delete file".to_owned()]), 1.0 / 3.0);
/// ```
pub fn agreement(plans: &[String]) -> f64 {
    let sets: Vec<_> = plans.iter().map(|plan| words(plan)).collect();
    let pairs =
        sets.iter().enumerate().flat_map(|(at, one)| sets[at + 1..].iter().map(move |other| (one, other)));
    let (sum, count) =
        pairs.fold((0.0, 0_u32), |(sum, count), (one, other)| (sum + jaccard(one, other), count + 1));
    if count == 0 { 1.0 } else { sum / f64::from(count) }
}

fn jaccard(one: &BTreeSet<String>, other: &BTreeSet<String>) -> f64 {
    let all = one.union(other).count();
    if all == 0 { 0.0 } else { one.intersection(other).count() as f64 / all as f64 }
}

/// Reports whether a plan names any actions, which means that it has significant words.
pub(super) fn has_actions(plan: &str) -> bool {
    !words(plan).is_empty()
}

/// Returns the words of a plan in lower case, without articles, other common words and numbers.
fn words(plan: &str) -> BTreeSet<String> {
    const EMPTY: [&str; 14] =
        ["a", "an", "and", "as", "at", "by", "for", "in", "it", "of", "on", "the", "then", "to"];
    let words = plan.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_lowercase);
    let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit());
    words.filter(|word| !is_number(word) && !EMPTY.contains(&word.as_str())).collect()
}
