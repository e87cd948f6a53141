use formwork_vocab::{TokenId, TokenSet};

/// Makes some of the outputs that a grammar allows more likely than others.
///
/// A [`Constraint`](crate::Constraint) says which tokens may come next. A guide changes the logits
/// of some of these tokens, depending on the output so far.
///
/// ```
/// use formwork_grammar::{Follower, Guide};
/// use formwork_vocab::{TokenId, TokenSet};
/// /// Prefers a token more and more.
/// struct More(TokenId);
/// struct Count(TokenId, f32);
/// impl Guide for More {
///     fn follow(&self) -> Box<dyn Follower> {
///         Box::new(Count(self.0, 0.0))
///     }
/// }
/// impl Follower for Count {
///     fn boxed_clone(&self) -> Box<dyn Follower> {
///         Box::new(Count(self.0, self.1))
///     }
///     fn push(&mut self, _: TokenId) {
///         self.1 += 1.0;
///     }
///     fn bias(&self, allowed: &TokenSet) -> Vec<(TokenId, f32)> {
///         allowed.contains(self.0).then_some((self.0, self.1)).into_iter().collect()
///     }
/// }
/// let mut follower = More(TokenId(2)).follow();
/// follower.push(TokenId(0));
/// assert_eq!(follower.bias(&TokenSet::full(4)), [(TokenId(2), 1.0)]);
/// ```
pub trait Guide: Send + Sync {
    /// Creates a follower at the start of an output.
    fn follow(&self) -> Box<dyn Follower>;
}

/// The state of a [`Guide`] at a position of an output.
pub trait Follower: Send {
    /// Returns a copy of the follower.
    fn boxed_clone(&self) -> Box<dyn Follower>;

    /// Reads the next token of the output.
    fn push(&mut self, token: TokenId);

    /// Returns the values to add to the logits of `allowed` tokens. The logits of unlisted tokens
    /// stay unchanged.
    fn bias(&self, allowed: &TokenSet) -> Vec<(TokenId, f32)>;
}
