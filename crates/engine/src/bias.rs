//! What is done to logits before a token is chosen among them.

use std::collections::HashMap;

use formwork_vocab::{TokenId, TokenSet};

use crate::error::{RequestError, RequestKind};

/// How tokens become less likely by having come up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Penalties {
    /// Taken from the logit of each token of the output so far, forced ones included.
    pub presence: f32,
    /// Taken from it once for each time that the token came up.
    pub frequency: f32,
    /// For tokens of the prompt and of the output: positive logits are divided by this, negative ones multiplied with it. 1
    /// does nothing.
    pub repetition: f32,
}

impl Default for Penalties {
    fn default() -> Self {
        Self { presence: 0.0, frequency: 0.0, repetition: 1.0 }
    }
}

impl Penalties {
    pub(crate) fn check(&self) -> Result<(), RequestError> {
        let checks = [
            ("presence_penalty", self.presence, -2.0..=2.0, "-2..=2"),
            ("frequency_penalty", self.frequency, -2.0..=2.0, "-2..=2"),
            ("repetition_penalty", self.repetition, 0.01..=100.0, "0.01..=100"),
        ];
        match checks.into_iter().find(|(_, given, allowed, _)| !allowed.contains(given)) {
            Some((name, given, _, range)) => Err(RequestKind::Sampling { name, given, range }.into()),
            None => Ok(()),
        }
    }
}

/// The penalties and the bias of one request, with what they depend on.
pub(crate) struct Adjustment {
    penalties: Penalties,
    bias: Vec<(TokenId, f32)>,
    /// How often each token of the output came up.
    counts: HashMap<TokenId, u32>,
    /// Tokens of the prompt and of the output.
    seen: TokenSet,
}

impl Adjustment {
    /// Nothing, where nothing is to be done.
    pub(crate) fn new(
        penalties: Penalties,
        bias: Vec<(TokenId, f32)>,
        prompt: &[TokenId],
        vocabulary: usize,
    ) -> Option<Self> {
        if penalties == Penalties::default() && bias.is_empty() {
            return None;
        }
        let mut seen = TokenSet::empty(vocabulary);
        for &token in prompt.iter().filter(|token| token.index() < vocabulary) {
            seen.insert(token);
        }
        Some(Self { penalties, bias, counts: HashMap::new(), seen })
    }

    /// Counts a token of the output.
    pub(crate) fn count(&mut self, token: TokenId) {
        *self.counts.entry(token).or_default() += 1;
        self.seen.insert(token);
    }

    /// Logits, `[vocabulary]`, with everything applied.
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
    use super::*;

    fn token(id: u32) -> TokenId {
        TokenId(id)
    }

    #[test]
    fn nothing_to_do_is_nothing() {
        assert!(Adjustment::new(Penalties::default(), Vec::new(), &[token(1)], 4).is_none());
    }

    #[test]
    fn each_penalty_does_what_it_says() {
        let prompt = [token(1), token(4)];
        let penalties = Penalties { presence: 0.5, frequency: 0.25, repetition: 2.0 };
        let bias = vec![(token(0), 3.0), (token(3), -100.0)];
        let mut adjustment = Adjustment::new(penalties, bias, &prompt, 6).expect("something to do");
        for id in [2, 2, 3] {
            adjustment.count(token(id));
        }
        let given = adjustment.apply(&[1.0, 4.0, 4.0, -1.0, -1.0, 2.0]);
        // Token 1 is in the prompt only, 2 came up twice, 3 once and is all but forbidden.
        assert_eq!(given, [4.0, 2.0, 2.0 - 0.5 - 0.5, -2.0 - 0.75 - 100.0, -2.0, 2.0]);
    }

    #[test]
    fn what_is_masked_stays_masked() {
        let penalties = Penalties { repetition: 0.5, ..Penalties::default() };
        let bias = vec![(token(1), 100.0)];
        let adjustment = Adjustment::new(penalties, bias, &[token(0)], 2).expect("something to do");
        assert_eq!(adjustment.apply(&[f32::NEG_INFINITY; 2]), [f32::NEG_INFINITY; 2]);
    }

    #[test]
    fn bad_penalties_are_named() {
        let error = |penalties: Penalties| penalties.check().expect_err("refused").to_string();
        let neutral = Penalties::default();
        assert!(neutral.check().is_ok());
        let given = error(Penalties { presence: 2.5, ..neutral });
        assert_eq!(given, "presence_penalty is 2.5, outside -2..=2");
        assert!(error(Penalties { frequency: f32::NAN, ..neutral }).starts_with("frequency_penalty is NaN"));
        let given = error(Penalties { repetition: 0.0, ..neutral });
        assert_eq!(given, "repetition_penalty is 0, outside 0.01..=100");
    }
}
