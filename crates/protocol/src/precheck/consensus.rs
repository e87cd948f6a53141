use std::collections::BTreeSet;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::{BackendError, Body, Plan, PromptRunner};

/// How far short plans agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Consensus {
    /// How many there are.
    pub samples: u32,
    /// The mean over all pairs, from 0 to 1.
    pub agreement: f64,
    /// Whether that is enough.
    pub is_agreed: bool,
}

/// Makes short plans.
pub trait Planner: Send + Sync {
    /// One plan of several, numbered from 0.
    fn plan<'a>(
        &'a self,
        task: &'a str,
        sample: u32,
        max_tokens: u32,
    ) -> BoxFuture<'a, Result<String, BackendError>>;
}

/// A model that makes short plans, each with a seed of its own.
#[derive(Clone)]
pub struct PromptPlanner {
    prompts: PromptRunner,
    system: String,
}

/// What a model is told, unless something else is said.
const SYSTEM: &str =
    "List the key actions for the task, one short line each, at most five. Do not carry them out.";

impl PromptPlanner {
    /// Asks with `prompts`.
    pub fn new(prompts: PromptRunner) -> Self {
        Self { prompts, system: SYSTEM.to_owned() }
    }

    /// With another system message.
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

/// How far plans agree on their words: the mean of Jaccard's index over all pairs. One alone agrees with itself, and two that say nothing
/// do not agree.
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

/// Whether a plan says what is done at all.
pub(super) fn has_actions(plan: &str) -> bool {
    !words(plan).is_empty()
}

/// The words that say what is done; articles and the like do not.
fn words(plan: &str) -> BTreeSet<String> {
    const EMPTY: [&str; 14] =
        ["a", "an", "and", "as", "at", "by", "for", "in", "it", "of", "on", "the", "then", "to"];
    let words = plan.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_lowercase);
    let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit());
    words.filter(|word| !is_number(word) && !EMPTY.contains(&word.as_str())).collect()
}
