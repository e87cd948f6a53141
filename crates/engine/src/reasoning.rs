//! How far the reasoning is that an output begins with.

use formwork_vocab::TokenId;

use crate::Reasoning;

/// Counts the tokens of a reasoning until its end comes.
pub(crate) struct Thinking {
    bound: Reasoning,
    tokens: usize,
    is_over: bool,
}

impl Thinking {
    pub(crate) const fn new(bound: Reasoning) -> Self {
        Self { bound, tokens: 0, is_over: false }
    }

    /// Tokens before the end of the reasoning, as far as it has come.
    pub(crate) const fn tokens(&self) -> usize {
        self.tokens
    }

    /// Takes note of the last token of `output`.
    pub(crate) fn note(&mut self, output: &[TokenId]) {
        if self.is_over {
            return;
        }
        self.tokens += 1;
        if output.ends_with(&self.bound.close) {
            self.tokens -= self.bound.close.len();
            self.is_over = true;
        }
    }

    /// What must come to end the reasoning, where its budget is used up: the end, or the rest of it if it has begun.
    pub(crate) fn due(&self, output: &[TokenId]) -> Option<Vec<TokenId>> {
        if self.is_over || self.tokens < self.bound.budget {
            return None;
        }
        let close = &self.bound.close;
        let begun = (0..close.len()).rev().find(|&len| output.ends_with(&close[..len]));
        Some(close[begun.unwrap_or(0)..].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(ids: &[u32]) -> Vec<TokenId> {
        ids.iter().copied().map(TokenId).collect()
    }

    /// What is due after each of some tokens, and how many count as reasoning in the end.
    fn follow(budget: usize, close: &[u32], output: &[u32]) -> (Vec<Option<Vec<TokenId>>>, usize) {
        let mut thinking = Thinking::new(Reasoning { budget, close: tokens(close) });
        let output = tokens(output);
        let mut due = vec![thinking.due(&[])];
        for len in 1..=output.len() {
            thinking.note(&output[..len]);
            due.push(thinking.due(&output[..len]));
        }
        (due, thinking.tokens())
    }

    #[test]
    fn the_end_is_due_when_the_budget_is_used_up() {
        assert_eq!(follow(2, &[9], &[1, 2]), (vec![None, None, Some(tokens(&[9]))], 2));
        assert_eq!(follow(0, &[8, 9], &[]), (vec![Some(tokens(&[8, 9]))], 0));
    }

    #[test]
    fn an_end_that_has_begun_is_completed() {
        let (due, _) = follow(2, &[8, 9], &[1, 8]);
        assert_eq!(due[2], Some(tokens(&[9])));
        let (due, _) = follow(3, &[8, 8, 9], &[8, 8, 8]);
        assert_eq!(due[3], Some(tokens(&[9])));
    }

    #[test]
    fn nothing_is_due_after_the_end() {
        let (due, count) = follow(2, &[8, 9], &[1, 8, 9, 5, 5]);
        assert_eq!((&due[3..], count), (&[None, None, None][..], 1));
    }
}
