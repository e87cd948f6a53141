use std::sync::Arc;
use std::time::Instant;

use formwork_grammar::{Constraint, Guide, Matcher};
use formwork_vocab::{TokenId, Tokenizer};

use crate::error::{RequestError, RequestKind, Setting};
use crate::{Dry, Penalties, Sampling};

/// A generation request.
#[derive(Clone)]
pub struct Request {
    /// Tokens of the prompt, including the beginning-of-sequence token if the model expects one.
    pub prompt: Vec<TokenId>,
    /// Constraint that the output must match.
    pub constraint: Option<Constraint>,
    /// Guide that adds to the logits of some tokens within the constraint's mask. Ignored without a
    /// constraint.
    pub guide: Option<Arc<dyn Guide>>,
    /// Sampling settings.
    pub sampling: Sampling,
    /// Penalties on tokens that occurred before. Like `logit_bias`, these apply within the
    /// constraint's mask.
    pub penalties: Penalties,
    /// DRY penalty on repeated sequences of tokens. Applies within the constraint's mask.
    pub dry: Dry,
    /// Values added to the logits of individual tokens, each in -100..=100.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Maximum number of output tokens. `None` allows the rest of the context.
    pub max_tokens: Option<usize>,
    /// Number of output tokens before which no end-of-sequence token, stop token or stop string ends the
    /// output. If a constraint allows only such tokens, the output ends anyway.
    pub min_tokens: usize,
    /// Effect of end-of-sequence tokens.
    pub end_tokens: EndTokens,
    /// Strings that end the output. The output does not include them.
    pub stop: Vec<String>,
    /// Tokens that end the output, in addition to the vocabulary's end-of-sequence tokens.
    ///
    /// With a constraint, stop strings and stop tokens end the output only where the grammar
    /// accepts. Elsewhere they are ordinary text and tokens.
    pub stop_tokens: Vec<TokenId>,
    /// True to report each token of the output.
    pub reports_tokens: bool,
    /// Number of likeliest alternatives to report with each token's log-probability. `None` reports
    /// no log-probabilities. The setting does not change the output.
    pub logprobs: Option<usize>,
    /// Number of likeliest tokens to report in the [`TokenMask`](crate::TokenMask) of each token. `None` reports
    /// no token masks. The setting does not change the output.
    pub mask_view: Option<usize>,
    /// True to report the log-probabilities of the prompt's tokens too, except the first. The token that
    /// ends the output is reported as well. Requires `logprobs`. Only such a request may have a budget of
    /// 0 tokens.
    pub prompt_logprobs: bool,
    /// Text at the end of the prompt that already belongs to the answer. The constraint covers this text
    /// and the output.
    pub begun: String,
    /// Behaviour of a constrained output when the token budget runs out.
    pub on_budget: OnBudget,
    /// Appends tokens that the constraint forces without running the model's head; true by default.
    /// Set to false only to measure the saving. If a text has several tokenizations, the output may
    /// differ.
    pub forced_tokens: bool,
    /// Limit on the reasoning at the start of the output.
    pub reasoning: Option<Reasoning>,
    /// Deadline, after which the request fails.
    pub deadline: Option<Instant>,
}

/// Effect of end-of-sequence tokens on an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EndTokens {
    /// They end the output.
    #[default]
    Allowed,
    /// They are excluded. A limit, a stop string, a stop token or a constraint ends the output.
    Excluded,
}

/// Behaviour of a constrained output when its token budget runs out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnBudget {
    /// Steers the output to a complete and valid end within the budget.
    #[default]
    Close,
    /// Cuts the output off, with [`FinishReason::Length`](crate::FinishReason::Length).
    Length,
}

/// Limit on the reasoning at the start of an output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reasoning {
    /// Maximum number of tokens before `close`. The reasoning runs longer if the constraint does
    /// not allow `close` yet.
    pub budget: usize,
    /// Tokens that end the reasoning. The engine appends them if the budget is used up before they
    /// occur.
    pub close: Vec<TokenId>,
}

impl Request {
    /// Creates a greedy, unconstrained request that may use the rest of the context.
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
            min_tokens: 0,
            end_tokens: EndTokens::Allowed,
            stop: Vec::new(),
            stop_tokens: Vec::new(),
            reports_tokens: false,
            logprobs: None,
            mask_view: None,
            prompt_logprobs: false,
            begun: String::new(),
            on_budget: OnBudget::Close,
            forced_tokens: true,
            reasoning: None,
            deadline: None,
        }
    }

    /// Returns a matcher of the constraint at the start of the output.
    ///
    /// # Errors
    /// Returns an error if the constraint does not allow the begun text.
    pub(crate) fn matcher(&self, tokenizer: &Tokenizer) -> Result<Option<Matcher>, RequestError> {
        let Some(constraint) = &self.constraint else { return Ok(None) };
        let mut matcher = constraint.matcher();
        if !self.begun.is_empty() {
            let tokens = tokenizer.encode_fragment(&self.begun).map_err(|_| RequestKind::Unspellable)?;
            let spelt = tokens.iter().flat_map(|&token| tokenizer.vocabulary().bytes(token));
            if !spelt.eq(self.begun.as_bytes()) {
                return Err(RequestKind::Unspellable.into());
            }
            for (index, token) in tokens.into_iter().enumerate() {
                matcher.commit(token).map_err(|_| RequestKind::BegunNotAllowed)?;
                if index % 1024 == 1023 {
                    // Only a mask lets the matcher leave caches that are full.
                    matcher.mask();
                }
            }
        }
        Ok(Some(matcher))
    }

    /// Checks the request against a context of `context_len` tokens, except the constraint.
    pub(crate) fn check(&self, context_len: usize) -> Result<(), RequestError> {
        self.sampling.check()?;
        self.penalties.check()?;
        self.dry.check()?;
        for &(_, given) in &self.logit_bias {
            Setting { name: "logit_bias", given, range: "-100..=100" }
                .check((-100.0..=100.0).contains(&given))?;
        }
        if self.prompt.is_empty() {
            return Err(RequestKind::EmptyPrompt.into());
        }
        let only_prompt = self.max_tokens == Some(0);
        if only_prompt && !self.prompt_logprobs {
            return Err(RequestKind::NoBudget.into());
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(RequestKind::EmptyStop.into());
        }
        if self.reasoning.as_ref().is_some_and(|reasoning| reasoning.close.is_empty()) {
            return Err(RequestKind::EmptyReasoningEnd.into());
        }
        if self.prompt.len() + usize::from(!only_prompt) > context_len {
            return Err(too_long(self.prompt.len(), 1, context_len));
        }
        Ok(())
    }

    /// Returns the token budget of a [checked](Self::check) request. `matcher` is the start of the
    /// constraint.
    pub(crate) fn budget(
        &self,
        context_len: usize,
        matcher: Option<&mut Matcher>,
    ) -> Result<usize, RequestError> {
        let left = context_len.saturating_sub(self.prompt.len());
        let budget = self.max_tokens.map_or(left, |max| max.min(left));
        if let Some(matcher) = matcher
            && self.on_budget == OnBudget::Close
        {
            let minimum = matcher.closing_tokens().ok_or(RequestKind::Unspellable)?;
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
