use std::collections::BTreeSet;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::{BackendError, Body, Plan, PromptRunner};

/// Agreement of several short plans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Consensus {
    /// Number of plans.
    pub samples: u32,
    /// Mean agreement over all pairs, from 0 to 1.
    pub agreement: f64,
    /// True if the agreement reaches the threshold and every plan names actions.
    pub is_agreed: bool,
}

/// Writes short plans.
pub trait Planner: Send + Sync {
    /// Returns the plan with index `sample`, from 0. `max_tokens` limits its length.
    fn plan<'a>(
        &'a self,
        task: &'a str,
        sample: u32,
        max_tokens: u32,
    ) -> BoxFuture<'a, Result<String, BackendError>>;
}

/// A model that writes short plans. Each plan has its own seed.
#[derive(Clone)]
pub struct PromptPlanner {
    prompts: PromptRunner,
    system: String,
}

/// Default system message.
const SYSTEM: &str =
    "List the key actions for the task, one short line each, at most five. Do not carry them out.";

impl PromptPlanner {
    /// Creates a planner that sends its requests through `prompts`.
    pub fn new(prompts: PromptRunner) -> Self {
        Self { prompts, system: SYSTEM.to_owned() }
    }

    /// Sets the system message.
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

/// Returns the mean Jaccard index of the plans' words over all pairs. A single plan has agreement
/// 1, and two plans without words have 0.
///
/// ```
/// use formwork_protocol::precheck::agreement;
/// assert_eq!(agreement(&["Read the file, write a test".to_owned(), "write the test; read a FILE".to_owned()]), 1.0);
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

/// Reports whether a plan names any actions.
pub(super) fn has_actions(plan: &str) -> bool {
    !words(plan).is_empty()
}

/// Returns the significant words of a plan, without articles, other common words and numbers.
fn words(plan: &str) -> BTreeSet<String> {
    const EMPTY: [&str; 14] =
        ["a", "an", "and", "as", "at", "by", "for", "in", "it", "of", "on", "the", "then", "to"];
    let words = plan.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_lowercase);
    let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit());
    words.filter(|word| !is_number(word) && !EMPTY.contains(&word.as_str())).collect()
}
