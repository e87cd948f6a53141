use std::sync::Arc;
use std::time::Instant;

use formwork_grammar::{Constraint, Guide};
use formwork_vocab::TokenId;

use crate::error::{RequestError, RequestKind};
use crate::{Dry, Penalties, Sampling};

/// What to generate.
#[derive(Clone)]
pub struct Request {
    /// The prompt, with the beginning-of-sequence token where the model wants one.
    pub prompt: Vec<TokenId>,
    /// What the output must match, if anything.
    pub constraint: Option<Constraint>,
    /// What makes some of the tokens within the constraint's mask likelier.
    pub guide: Option<Arc<dyn Guide>>,
    /// How tokens are chosen.
    pub sampling: Sampling,
    /// How tokens become less likely by having come up. Within a constraint's mask, as is `logit_bias`.
    pub penalties: Penalties,
    /// How repeated stretches of text are kept short, within the mask, too.
    pub dry: Dry,
    /// What is added to the logits of some tokens.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// The most tokens of output; without it, what is left of the context.
    pub max_tokens: Option<usize>,
    /// Texts that end the output, and are not part of it.
    pub stop: Vec<String>,
    /// Tokens that do the same, beside those that the vocabulary says do. Like stop strings, they end an output with a
    /// constraint only where it may end; elsewhere they are tokens like others.
    pub stop_tokens: Vec<TokenId>,
    /// With what probability each token came, and as many of the likeliest in its place; `None` tells nothing. It does not
    /// change what is generated.
    pub logprobs: Option<usize>,
    /// What happens to an output with a constraint when the budget runs out.
    pub on_budget: OnBudget,
    /// Whether tokens that the constraint decides alone are taken without asking the model; true but for measuring what that
    /// saves. Where text has more than one spelling in tokens, the output may be another one.
    pub forced_tokens: bool,
    /// How long the model may think.
    pub reasoning: Option<Reasoning>,
    /// When to give up; nothing may come later.
    pub deadline: Option<Instant>,
}

/// What happens to an output with a constraint when its token budget runs out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnBudget {
    /// It is steered to a complete and valid end in time.
    #[default]
    Close,
    /// It is cut off, with [`FinishReason::Length`](crate::FinishReason::Length).
    Length,
}

/// How the hidden states of a text's tokens become one vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// That of the last token.
    Last,
}

/// A bound on the reasoning that an output begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reasoning {
    /// The most tokens before `close`.
    pub budget: usize,
    /// What ends the reasoning: forced where the budget is used up and these have not come.
    pub close: Vec<TokenId>,
}

impl Request {
    /// Greedy, unconstrained, up to the end of the context.
    pub fn new(prompt: Vec<TokenId>) -> Self {
        Self {
            prompt,
            constraint: None,
            guide: None,
            sampling: Sampling::default(),
            penalties: Penalties::default(),
            dry: Dry::default(),
            logit_bias: Vec::new(),
            max_tokens: None,
            stop: Vec::new(),
            stop_tokens: Vec::new(),
            logprobs: None,
            on_budget: OnBudget::Close,
            forced_tokens: true,
            reasoning: None,
            deadline: None,
        }
    }

    /// Checks the request against a context of `context_len` tokens and gives its token budget.
    pub(crate) fn budget(&self, context_len: usize) -> Result<usize, RequestError> {
        self.sampling.check()?;
        self.penalties.check()?;
        self.dry.check()?;
        if let Some(&(_, given)) = self.logit_bias.iter().find(|(_, bias)| !(-100.0..=100.0).contains(bias)) {
            return Err(RequestKind::Sampling { name: "logit_bias", given, range: "-100..=100" }.into());
        }
        if self.prompt.is_empty() {
            return Err(RequestKind::EmptyPrompt.into());
        }
        if self.max_tokens == Some(0) {
            return Err(RequestKind::NoBudget.into());
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(RequestKind::EmptyStop.into());
        }
        if self.reasoning.as_ref().is_some_and(|reasoning| reasoning.close.is_empty()) {
            return Err(RequestKind::EmptyReasoningEnd.into());
        }
        let left = context_len.saturating_sub(self.prompt.len());
        if left == 0 {
            return Err(too_long(self.prompt.len(), 1, context_len));
        }
        let budget = self.max_tokens.map_or(left, |max| max.min(left));
        if let Some(constraint) = &self.constraint
            && self.on_budget == OnBudget::Close
        {
            let minimum = constraint.minimum_tokens().ok_or(RequestKind::Unspellable)?;
            if self.max_tokens.is_some_and(|max| max < minimum) {
                let given = self.max_tokens.unwrap_or_default();
                return Err(RequestKind::BudgetTooSmall { given, minimum }.into());
            }
            if left < minimum {
                return Err(too_long(self.prompt.len(), minimum, context_len));
            }
        }
        Ok(budget)
    }
}

fn too_long(given: usize, room: usize, limit: usize) -> RequestError {
    RequestKind::PromptTooLong { given, room, limit }.into()
}
