//! Guide that applies the weights of choices and variants, and the probabilities of optional members,
//! during sampling.
//!
//! Weights become biases on the logits of tokens. When a token decides between options of a
//! weighted choice, its bias is the logarithm of a share. The share is the total weight of the
//! options possible after the token, divided by the total weight of the options possible before.
//!
//! The shares of all tokens of an option multiply to the share of the option. The way in which an
//! option is split into tokens therefore does not matter.
//!
//! A model that finds all options equally likely therefore writes them in proportion to their
//! weights. Otherwise, the weights multiply the preferences of the model.
//!
//! The decision about the next member of an object works alike. Its outcomes are the optional
//! members up to the next required one, that member, and the end of the object. Among members with
//! probabilities, an optional member without one counts as 0.5.
//!
//! A guide skips the text before the JSON text of an output ([`lead`]), such as thoughts. It reads the JSON text ([`position`]), and looks up which kinds are possible at
//! each location ([`plan`]). The output is expected to match the grammar of the definition. After a
//! mismatch, no further bias is applied.
//!
//! While an untagged variant is read, several of its structures may remain possible. Any of the
//! following excludes a structure: a member that it does not have, a value of another type, or a
//! value that is not one of its options. A weight is applied only once its choice is the only kind
//! that remains possible for a value. The same holds for the members of an object.

mod lead;
mod plan;
mod position;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use formwork_grammar::{Follower, Guide};
use formwork_vocab::{TokenId, TokenSet, Vocabulary};

pub use self::lead::Lead;
use self::lead::Reading;
use self::plan::Plan;
pub(crate) use self::plan::{has_weights, widest};
use self::position::Position;
use crate::Definition;

/// Guide that biases tokens by weights and probabilities. Created by [`Definition::weights`].
#[derive(Clone)]
pub struct Weights {
    plan: Arc<Plan>,
    vocabulary: Arc<Vocabulary>,
    crossing: Arc<Crossing>,
    lead: Arc<Lead>,
}

impl Weights {
    /// Returns a guide for a definition, or `None` if the output can contain nothing with weights or
    /// a probability.
    pub(crate) fn new(definition: &Definition, vocabulary: &Arc<Vocabulary>) -> Option<Self> {
        Some(Self {
            plan: Arc::new(Plan::new(definition)?),
            vocabulary: Arc::clone(vocabulary),
            crossing: vocabulary.derived(Crossing::new),
            lead: Arc::default(),
        })
    }

    /// Returns the guide for outputs with something before their JSON text.
    #[must_use]
    pub fn after(self, lead: Lead) -> Self {
        Self { lead: Arc::new(lead), ..self }
    }
}

impl Guide for Weights {
    fn follow(&self) -> Box<dyn Follower> {
        let (mut reading, mut position) = (Reading::start(&self.lead), Position::start(&self.plan));
        position.extend(&self.plan, &reading.read(self.lead.begun.as_bytes()));
        Box::new(Walk { weights: self.clone(), reading, position })
    }
}

/// Tokens that can contain a byte that decides, after other bytes.
///
/// The first byte of a value follows one of the bytes `:`, `,` and `[`, and the first byte of a
/// member's name follows `{`. These tokens contain such a byte in any position but the last. The
/// bytes `,` and `}` after a value decide whether another member follows. These tokens contain such
/// a byte in any position but the first.
struct Crossing(Vec<TokenId>);

impl Crossing {
    fn new(vocabulary: &Vocabulary) -> Self {
        let is_crossing = |token: &TokenId| {
            let bytes = vocabulary.bytes(*token);
            let before = bytes.split_last().map_or(&[][..], |(_, before)| before);
            let after = bytes.get(1..).unwrap_or_default();
            before.iter().any(|byte| matches!(byte, b':' | b',' | b'[' | b'{'))
                || after.iter().any(|byte| matches!(byte, b',' | b'}'))
        };
        Self(vocabulary.ids().filter(is_crossing).collect())
    }
}

/// Position in one output, with the guide that it follows.
#[derive(Clone)]
struct Walk {
    weights: Weights,
    reading: Reading,
    position: Position,
}

impl Walk {
    /// Advances `position` by a token of the JSON text. Tokens that are neither text nor an end are ignored.
    fn read(&self, position: &mut Position, token: TokenId) {
        let Weights { plan, vocabulary, .. } = &self.weights;
        if vocabulary.is_end(token) {
            position.end(plan);
        } else if vocabulary.kind(token).is_text() {
            position.extend(plan, vocabulary.bytes(token));
        }
    }

    /// Returns the token with its bias, or `None` if the bias is zero.
    fn added(&self, token: TokenId) -> Option<(TokenId, f32)> {
        let mut after = self.position.clone();
        self.read(&mut after, token);
        let bias = (after.log_share() - self.position.log_share()) as f32;
        (bias != 0.0).then_some((token, bias))
    }
}

impl Follower for Walk {
    fn boxed_clone(&self) -> Box<dyn Follower> {
        Box::new(self.clone())
    }

    fn push(&mut self, token: TokenId) {
        if !matches!(self.reading, Reading::Json) {
            let Weights { plan, vocabulary, .. } = &self.weights;
            let json = self.reading.read(vocabulary.bytes(token));
            self.position.extend(plan, &json);
            return;
        }
        let mut position = std::mem::take(&mut self.position);
        self.read(&mut position, token);
        self.position = position;
    }

    fn bias(&self, allowed: &TokenSet) -> Vec<(TokenId, f32)> {
        if !self.reading.may_be_json() {
            Vec::new()
        } else if self.position.is_weighted(&self.weights.plan) {
            allowed.iter().filter_map(|token| self.added(token)).collect()
        } else if self.position.is_lost() {
            Vec::new()
        } else {
            let crossing = self.weights.crossing.0.iter().copied();
            crossing.filter(|token| allowed.contains(*token)).filter_map(|token| self.added(token)).collect()
        }
    }
}
