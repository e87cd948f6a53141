//! Token budget of one output.

use formwork_grammar::Matcher;
use formwork_vocab::{TokenId, TokenSet};

use crate::OnBudget;

/// Number of output tokens left, and the behaviour at the end of them.
pub(super) struct Budget {
    remaining: usize,
    behaviour: OnBudget,
    /// True if the budget limited the output, and the output was steered to a complete end.
    is_closed: bool,
}

impl Budget {
    /// Creates a budget of `tokens` output tokens.
    pub(super) const fn new(tokens: usize, behaviour: OnBudget) -> Self {
        Self { remaining: tokens, behaviour, is_closed: false }
    }

    /// Returns the number of output tokens left.
    pub(super) const fn remaining(&self) -> usize {
        self.remaining
    }

    /// Returns true if a constrained output must be complete within the budget.
    pub(super) fn must_close(&self) -> bool {
        self.behaviour == OnBudget::Close
    }

    /// Returns true if the output was steered to a complete end because of the budget.
    pub(super) const fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Takes one token from the budget.
    pub(super) const fn spend(&mut self) {
        self.remaining = self.remaining.saturating_sub(1);
    }

    /// Returns true if `token` may come next for `matcher`, which is `ahead` tokens ahead of the
    /// output.
    pub(super) fn allows(&self, matcher: &mut Matcher, token: TokenId, ahead: usize) -> bool {
        let remaining = self.remaining.saturating_sub(ahead);
        match self.behaviour {
            OnBudget::Close => matcher.allows_within(token, remaining),
            OnBudget::Length => remaining > 0,
        }
    }

    /// Steers the output to its end: returns the tokens after which it can close in time.
    pub(super) fn close(&mut self, matcher: &mut Matcher) -> TokenSet {
        self.is_closed = true;
        matcher.mask_within(self.remaining)
    }

    /// Notes that the budget is used up. Returns true if the output is complete at this point.
    pub(super) fn run_out(&mut self, is_constrained: bool) -> bool {
        self.is_closed = is_constrained && self.must_close();
        self.is_closed
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use formwork_grammar::{Constraint, Grammar, Limits};
    use formwork_vocab::{Token, TokenKind, Vocabulary};

    use super::*;

    const A: TokenId = TokenId(b'a' as u32);

    /// Creates a matcher of the only output `abc`, in a vocabulary of bytes.
    fn matcher() -> Matcher {
        let token = |byte| Token { bytes: vec![byte], kind: TokenKind::Text };
        let vocabulary = Vocabulary::new((0..=255).map(token).collect(), vec![]).expect("good");
        let grammar = Grammar::choices(&["abc"], &Limits::default()).expect("good");
        Constraint::new(&grammar, Arc::new(vocabulary)).expect("good").matcher()
    }

    #[test]
    fn a_token_is_allowed_only_if_the_output_can_close_after_it() {
        let mut budget = Budget::new(5, OnBudget::Close);
        assert!(budget.allows(&mut matcher(), A, 2));
        assert!(!budget.allows(&mut matcher(), A, 3));
        budget.spend();
        assert!(!budget.allows(&mut matcher(), A, 2));
    }

    #[test]
    fn without_closing_any_token_within_the_budget_is_allowed() {
        let budget = Budget::new(2, OnBudget::Length);
        assert!(budget.allows(&mut matcher(), A, 1));
        assert!(!budget.allows(&mut matcher(), A, 2));
    }

    #[test]
    fn an_output_is_complete_at_the_end_of_its_budget_if_it_had_to_close() {
        assert!(Budget::new(0, OnBudget::Close).run_out(true));
        assert!(!Budget::new(0, OnBudget::Close).run_out(false));
        assert!(!Budget::new(0, OnBudget::Length).run_out(true));
    }

    #[test]
    fn steering_marks_the_budget_as_closed() {
        let mut budget = Budget::new(3, OnBudget::Close);
        assert!(!budget.is_closed());
        assert_eq!(budget.close(&mut matcher()).iter().collect::<Vec<_>>(), [A]);
        assert!(budget.is_closed());
    }
}
