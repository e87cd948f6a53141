//! Adjustments of the logits before a token is chosen: penalties, bias and DRY.

use std::collections::HashMap;
use std::sync::Arc;

use formwork_vocab::{TokenId, TokenSet, Vocabulary};

use crate::Request;
use crate::dry::Repetitions;
use crate::error::{RequestError, Setting};

/// Penalties on tokens that occurred before.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Penalties {
    /// Subtracted from the logit of each token that occurred in the output, forced tokens included.
    pub presence: f32,
    /// Subtracted from a token's logit for each occurrence in the output.
    pub frequency: f32,
    /// Factor for tokens of the prompt and the output: divides positive logits and multiplies
    /// negative ones. 1 changes nothing.
    pub repetition: f32,
}

impl Default for Penalties {
    fn default() -> Self {
        Self { presence: 0.0, frequency: 0.0, repetition: 1.0 }
    }
}

impl Penalties {
    pub(crate) fn check(&self) -> Result<(), RequestError> {
        let Self { presence, frequency, repetition } = *self;
        for (name, given) in [("presence_penalty", presence), ("frequency_penalty", frequency)] {
            Setting { name, given, range: "-100..=100" }.check((-100.0..=100.0).contains(&given))?;
        }
        Setting { name: "repetition_penalty", given: repetition, range: "0.01..=100" }
            .check((0.01..=100.0).contains(&repetition))
    }
}

/// Penalties and bias of one request, with the token counts that they depend on.
#[derive(Clone)]
pub(crate) struct Adjustment {
    penalties: Penalties,
    bias: Vec<(TokenId, f32)>,
    /// Number of occurrences of each token in the output.
    counts: HashMap<TokenId, u32>,
    /// Tokens of the prompt and the output.
    seen: TokenSet,
    repetitions: Option<Repetitions>,
    vocabulary: Arc<Vocabulary>,
}

impl Adjustment {
    /// Creates the adjustment of a request, or returns `None` if the request changes no logits.
    pub(crate) fn new(request: &Request, vocabulary: &Arc<Vocabulary>) -> Option<Self> {
        let Request { penalties, logit_bias, dry, prompt, .. } = request;
        if *penalties == Penalties::default() && logit_bias.is_empty() && !dry.is_on() {
            return None;
        }
        let mut seen = vocabulary.empty_set();
        for &token in prompt.iter().filter(|token| token.index() < vocabulary.len()) {
            seen.insert(token);
        }
        let repetitions = dry.is_on().then(|| Repetitions::new(dry.clone(), prompt, vocabulary));
        Some(Self {
            penalties: *penalties,
            bias: logit_bias.clone(),
            counts: HashMap::new(),
            seen,
            repetitions,
            vocabulary: Arc::clone(vocabulary),
        })
    }

    /// Counts a token of the output.
    pub(crate) fn count(&mut self, token: TokenId) {
        *self.counts.entry(token).or_default() += 1;
        self.seen.insert(token);
        if let Some(repetitions) = &mut self.repetitions {
            repetitions.push(token, &self.vocabulary);
        }
    }

    /// Returns the logits with all adjustments applied. Shape: `[vocabulary]`.
    pub(crate) fn apply(&self, logits: &[f32]) -> Vec<f32> {
        let mut logits = logits.to_vec();
        let Penalties { presence, frequency, repetition } = self.penalties;
        if Penalties::default().repetition.total_cmp(&repetition).is_ne() {
            for token in self.seen.iter() {
                if let Some(logit) = logits.get_mut(token.index()) {
                    *logit = if *logit > 0.0 { *logit / repetition } else { *logit * repetition };
                }
            }
        }
        for (token, &count) in &self.counts {
            if let Some(logit) = logits.get_mut(token.index()) {
                *logit -= presence + frequency * count as f32;
            }
        }
        if let Some(repetitions) = &self.repetitions {
            repetitions.apply(&mut logits, &self.vocabulary);
        }
        for (token, bias) in &self.bias {
            if let Some(logit) = logits.get_mut(token.index()) {
                *logit += bias;
            }
        }
        logits
    }
}

#[cfg(test)]
mod tests {
    use formwork_vocab::{Token, TokenKind};

    use super::*;
    use crate::Dry;

    fn token(id: u32) -> TokenId {
        TokenId(id)
    }

    fn adjustment(request: &Request, tokens: u8) -> Option<Adjustment> {
        let text = |byte| Token { bytes: vec![byte], kind: TokenKind::Text };
        let vocabulary = Vocabulary::new((0..tokens).map(text).collect(), vec![]).expect("good");
        Adjustment::new(request, &Arc::new(vocabulary))
    }

    #[test]
    fn neutral_settings_need_no_adjustment() {
        assert!(adjustment(&Request::new(vec![token(1)]), 4).is_none());
    }

    #[test]
    fn applies_each_penalty() {
        let request = Request {
            penalties: Penalties { presence: 0.5, frequency: 0.25, repetition: 2.0 },
            logit_bias: vec![(token(0), 3.0), (token(3), -100.0)],
            ..Request::new(vec![token(1), token(4)])
        };
        let mut adjustment = adjustment(&request, 6).expect("something to do");
        for id in [2, 2, 3] {
            adjustment.count(token(id));
        }
        let given = adjustment.apply(&[1.0, 4.0, 4.0, -1.0, -1.0, 2.0]);
        // Token 1 is in the prompt only. Token 2 occurred twice, token 3 once with a bias of -100.
        assert_eq!(given, [4.0, 2.0, 2.0 - 0.5 - 0.5, -2.0 - 0.75 - 100.0, -2.0, 2.0]);
    }

    #[test]
    fn repetitions_are_penalised_across_prompt_and_output() {
        let dry = Dry { multiplier: 1.0, base: 2.0, ..Dry::default() };
        let request = Request { dry, ..Request::new([0, 1, 2, 3, 0].map(token).to_vec()) };
        let mut adjustment = adjustment(&request, 4).expect("something to do");
        assert_eq!(adjustment.apply(&[0.0; 4]), [0.0; 4]);
        adjustment.count(token(1));
        assert_eq!(adjustment.apply(&[0.0; 4]), [0.0, 0.0, -1.0, 0.0]);
        adjustment.count(token(2));
        assert_eq!(adjustment.apply(&[0.0; 4]), [0.0, 0.0, 0.0, -2.0]);
    }

    #[test]
    fn keeps_masked_tokens_masked() {
        let request = Request {
            penalties: Penalties { repetition: 0.5, ..Penalties::default() },
            logit_bias: vec![(token(1), 100.0)],
            ..Request::new(vec![token(0)])
        };
        let adjustment = adjustment(&request, 2).expect("something to do");
        assert_eq!(adjustment.apply(&[f32::NEG_INFINITY; 2]), [f32::NEG_INFINITY; 2]);
    }

    #[test]
    fn names_invalid_penalties() {
        let error = |penalties: Penalties| penalties.check().expect_err("refused").to_string();
        let neutral = Penalties::default();
        assert!(neutral.check().is_ok());
        let given = error(Penalties { presence: 100.5, ..neutral });
        assert_eq!(given, "presence_penalty is 100.5; expected -100..=100");
        assert!(error(Penalties { frequency: f32::NAN, ..neutral }).starts_with("frequency_penalty is NaN"));
        let given = error(Penalties { repetition: 0.0, ..neutral });
        assert_eq!(given, "repetition_penalty is 0; expected 0.01..=100");
    }
}
