use formwork_vocab::{TokenId, TokenSet};

/// Makes some of the outputs that a grammar allows likelier than others.
///
/// A [`Constraint`](crate::Constraint) says which tokens may come; a guide changes the logits of some of them, by the output so far.
pub trait Guide: Send + Sync {
    /// Follows an output from its start.
    fn follow(&self) -> Box<dyn Follower>;
}

/// A [`Guide`] at a place of an output.
pub trait Follower: Send {
    /// Reads the next token of the output.
    fn push(&mut self, token: TokenId);

    /// What is added to the logits of tokens that may come next; those that are not named stay as they are.
    fn bias(&self, allowed: &TokenSet) -> Vec<(TokenId, f32)>;
}
