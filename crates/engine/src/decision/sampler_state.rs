//! The distribution from which a generation samples its next token.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use formwork_vocab::{TokenId, TokenSet, Tokenizer};

use crate::processors::LogitsProcessors;
use crate::{Request, RequestError, Sampling};

/// State of a generation after some tokens of its output, without the model.
///
/// The state says with which probability the engine would choose each next token, given the model's logits:
/// with the constraint's mask, tokens that the constraint forces, the temperature and filters of
/// [`Sampling`], penalties, bias and guide. It does not count that a small token budget steers an output to
/// its end.
///
/// Created by [`EngineHandle::sampler`](crate::EngineHandle::sampler).
#[derive(Clone)]
pub struct SamplerState {
    sampling: Sampling,
    /// True if the tokens that the constraint forces are appended without sampling.
    forces: bool,
    tokenizer: Arc<Tokenizer>,
    processors: LogitsProcessors,
    /// Tokens that the engine appends next without sampling.
    forced: VecDeque<TokenId>,
}

impl fmt::Debug for SamplerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SamplerState").field("sampling", &self.sampling).finish_non_exhaustive()
    }
}

/// How the next token is chosen.
enum Choosing {
    /// The output ends.
    End,
    /// This token is appended without sampling.
    Forced(TokenId),
    /// A token of the mask is sampled, or any token without a mask.
    Sampled(Option<Arc<TokenSet>>),
}

impl SamplerState {
    /// Creates the state at the start of a request's output.
    pub(crate) fn new(request: &Request, tokenizer: &Arc<Tokenizer>) -> Result<Self, RequestError> {
        let matcher = request.matcher(tokenizer)?;
        Ok(Self {
            sampling: request.sampling,
            forces: request.forced_tokens,
            tokenizer: Arc::clone(tokenizer),
            processors: LogitsProcessors::new(request, matcher, tokenizer),
            forced: VecDeque::new(),
        })
    }

    /// Appends a token of the output. Returns false if the constraint does not allow the token.
    pub fn push(&mut self, token: TokenId) -> bool {
        self.next();
        if self.forced.pop_front() != Some(token) {
            self.forced.clear();
        }
        let matcher = self.processors.matcher.as_mut();
        if matcher.is_some_and(|matcher| matcher.commit(token).is_err()) {
            return false;
        }
        self.processors.note(token);
        true
    }

    fn next(&mut self) -> Choosing {
        if let Some(&token) = self.forced.front() {
            return Choosing::Forced(token);
        }
        let Some(matcher) = &mut self.processors.matcher else { return Choosing::Sampled(None) };
        if matcher.complete() {
            return Choosing::End;
        }
        let mask = matcher.mask();
        match mask.single() {
            Some(only) if self.tokenizer.vocabulary().is_end(only) => return Choosing::End,
            Some(only) if self.forces => self.forced.push_back(only),
            None if self.forces => self.forced.extend(matcher.forced_tokens(&self.tokenizer)),
            _ => {}
        }
        match self.forced.front() {
            Some(&token) => Choosing::Forced(token),
            None => Choosing::Sampled(Some(mask)),
        }
    }

    /// Returns the distribution of the next token. Shape of `logits`: `[vocabulary]`.
    pub(super) fn law(&mut self, logits: &[f32]) -> TokenLaw<'static> {
        match self.next() {
            Choosing::End => TokenLaw::Certain(None),
            Choosing::Forced(token) => TokenLaw::Certain(Some(token)),
            Choosing::Sampled(mask) => {
                let adjusted = self.processors.adjust(logits, mask.as_deref());
                let law = self.sampling.law(&adjusted, mask.as_deref());
                law.map_or(TokenLaw::Impossible, TokenLaw::Probabilities)
            }
        }
    }
}

/// Distribution of the next token.
pub(super) enum TokenLaw<'l> {
    /// The model's own: logits, with the logarithm of the sum of their exponentials.
    Logits(&'l [f32], f64),
    /// Probabilities. Shape: `[vocabulary]`.
    Probabilities(Vec<f64>),
    /// Only this token follows. `None` stands for the end of the output.
    Certain(Option<TokenId>),
    /// No token follows.
    Impossible,
}

impl TokenLaw<'_> {
    /// Returns the logarithm of a token's probability.
    pub(super) fn ln(&self, token: TokenId) -> f64 {
        match self {
            Self::Logits(row, ln_total) => {
                let given = row.get(token.index()).copied().filter(|logit| logit.is_finite());
                given.map_or(f64::NEG_INFINITY, |logit| f64::from(logit) - ln_total)
            }
            Self::Probabilities(law) => law.get(token.index()).map_or(f64::NEG_INFINITY, |share| share.ln()),
            Self::Certain(only) if *only == Some(token) => 0.0,
            Self::Certain(_) | Self::Impossible => f64::NEG_INFINITY,
        }
    }

    /// Returns the logarithms of the probabilities of end tokens.
    pub(super) fn ln_ends<'e>(&'e self, ends: &'e [TokenId]) -> impl Iterator<Item = f64> + 'e {
        let certain = matches!(self, Self::Certain(None)).then_some(0.0);
        certain.into_iter().chain(ends.iter().map(|&end| self.ln(end)))
    }
}
