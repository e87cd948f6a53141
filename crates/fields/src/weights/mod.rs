//! Guide that applies the weights of choices during sampling.
//!
//! A token that narrows a weighted choice has its logit biased by the logarithm of a share. The
//! share is the weight of the options possible after the token, divided by the weight of the
//! options possible before it. Along an output, these shares multiply to the share of the chosen
//! option, however the option is split into tokens.
//!
//! A model that finds all options equally likely therefore writes them in proportion to their
//! weights. The preferences of any other model are scaled by the weights.
//!
//! The output is followed as JSON text ([`position`]), using a table of the kinds that are possible
//! at each location ([`plan`]). The output is expected to match the grammar of the definition.
//! After a mismatch, no further bias is applied.
//!
//! Several structures of an untagged variant may remain possible for a while. They are
//! distinguished by the names of their members, and by values that are choices, constants or of
//! different types. A weight applies only if its choice is the single kind that remains possible
//! for a value.

mod plan;
mod position;

use std::sync::Arc;

use formwork_grammar::{Follower, Guide};
use formwork_vocab::{TokenId, TokenSet, Vocabulary};

use self::plan::Plan;
use self::position::Position;
use crate::Definition;

/// Guide that biases tokens by the weights of choices. Created by [`Definition::weights`].
#[derive(Clone)]
pub struct Weights {
    plan: Arc<Plan>,
    vocabulary: Arc<Vocabulary>,
    crossing: Arc<Crossing>,
}

impl Weights {
    /// Returns `None` if no reachable choice has weights.
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

/// Tokens that can reach into a value from before its start. A value follows one of the bytes `:`,
/// `,` and `[`, so these tokens contain such a byte before their last byte.
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

/// Position in an output, with the weights that apply.
struct Walk {
    weights: Weights,
    position: Position,
}

impl Walk {
    /// Advances a position by a token.
    fn read(&self, position: &mut Position, token: TokenId) {
        let Weights { plan, vocabulary, .. } = &self.weights;
        if vocabulary.is_end(token) {
            position.end(plan);
        } else if vocabulary.kind(token).is_text() {
            position.extend(plan, vocabulary.bytes(token));
        }
    }

    /// Returns the bias of a token, or `None` if the bias is zero.
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
