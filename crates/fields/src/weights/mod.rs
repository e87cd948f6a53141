//! Weights of choices, for the sampler.
//!
//! Where a token decides between options, its logit gets the logarithm of a share: the weights of the options that it leaves, of
//! those that were left before it. Along an output these shares multiply to the option's own, however it is cut into tokens. So a
//! model that finds all options equally likely writes them in the proportion of their weights, and any other one that much likelier.
//!
//! Texts are followed as JSON ([`position`]), by what the definition says may come where ([`plan`]). They are taken to be of the
//! definition's grammar; one that is not has no weights from there on. Where the structures of an untagged variant may still be
//! several, only what all of them have in a place counts: they are told apart by the names of their members, and by values that are
//! choices, constants, or of different types.

mod plan;
mod position;

use std::sync::Arc;

use formwork_grammar::{Follower, Guide};
use formwork_vocab::{TokenId, TokenSet, Vocabulary};

use self::plan::Plan;
use self::position::Position;
use crate::Definition;

/// What makes options likelier by the weights of their choices.
#[derive(Clone)]
pub struct Weights {
    plan: Arc<Plan>,
    vocabulary: Arc<Vocabulary>,
    crossing: Arc<Crossing>,
}

impl Weights {
    /// `None` where no choice has weights.
    pub(crate) fn new(definition: &Definition, vocabulary: &Arc<Vocabulary>) -> Option<Self> {
        Some(Self {
            plan: Arc::new(Plan::new(definition)?),
            vocabulary: Arc::clone(vocabulary),
            crossing: vocabulary.derived(Crossing::new),
        })
    }
}

impl Guide for Weights {
    fn follow(&self) -> Box<dyn Follower> {
        Box::new(Walk { weights: self.clone(), position: Position::start(&self.plan) })
    }
}

/// Tokens that may come to a value from before the end of what is there: values follow these bytes only.
struct Crossing(Vec<TokenId>);

impl Crossing {
    fn new(vocabulary: &Vocabulary) -> Self {
        let is_crossing = |token: &TokenId| {
            let bytes = vocabulary.bytes(*token).split_last().map_or(&[][..], |(_, before)| before);
            bytes.iter().any(|byte| matches!(byte, b':' | b',' | b'['))
        };
        Self(vocabulary.ids().filter(is_crossing).collect())
    }
}

/// The weights along an output.
struct Walk {
    weights: Weights,
    position: Position,
}

impl Walk {
    /// The position after another token.
    fn read(&self, position: &mut Position, token: TokenId) {
        let Weights { plan, vocabulary, .. } = &self.weights;
        if vocabulary.is_end(token) {
            position.end(plan);
        } else if vocabulary.kind(token).is_text() {
            position.extend(plan, vocabulary.bytes(token));
        }
    }

    /// What a token adds, where it adds something.
    fn added(&self, token: TokenId) -> Option<(TokenId, f32)> {
        let mut after = self.position.clone();
        self.read(&mut after, token);
        let bias = (after.log_share() - self.position.log_share()) as f32;
        (bias != 0.0).then_some((token, bias))
    }
}

impl Follower for Walk {
    fn push(&mut self, token: TokenId) {
        let mut position = std::mem::take(&mut self.position);
        self.read(&mut position, token);
        self.position = position;
    }

    fn bias(&self, allowed: &TokenSet) -> Vec<(TokenId, f32)> {
        if self.position.is_weighted(&self.weights.plan) {
            allowed.iter().filter_map(|token| self.added(token)).collect()
        } else if self.position.is_lost() {
            Vec::new()
        } else {
            let crossing = self.weights.crossing.0.iter().copied();
            crossing.filter(|token| allowed.contains(*token)).filter_map(|token| self.added(token)).collect()
        }
    }
}
