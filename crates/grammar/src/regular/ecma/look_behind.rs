//! Where a search begins, and look-behind.
//!
//! A search may begin anywhere, so a pattern's language is what its beginning gives behind any text. Look-behind cuts a
//! sequence in two: the texts before it, among which it chooses, and what follows. That is exact where the match of the
//! first part does not depend on the second, and where the sequence is not inside of something that repeats it.

use super::ast::{Ast, Kind};
use super::build::{Builder, Continuation};
use super::{PatternError, PatternProblem};
use crate::regular::{ExprId, Expressions};

impl Builder<'_> {
    /// The texts in which `ast` is found.
    pub(super) fn found(&mut self, ast: &Ast) -> Result<ExprId, PatternError> {
        self.texts(ast, Continuation::always(Expressions::EVERYTHING))
    }

    /// The texts with a match somewhere and `rest` behind it.
    fn texts(&mut self, ast: &Ast, rest: Continuation) -> Result<ExprId, PatternError> {
        match &ast.kind {
            _ if !ast.facts.look_behind => self.anywhere(std::slice::from_ref(ast), rest),
            Kind::Alternatives(items) => {
                let parts = items.iter().map(|item| self.texts(item, rest)).collect::<Result<_, _>>()?;
                Ok(self.expressions.any_of(parts))
            }
            Kind::Concat(items) => self.sequence(items, rest),
            _ => self.sequence(std::slice::from_ref(ast), rest),
        }
    }

    /// The texts with a match of `items`, one after the other, and `rest` behind it.
    fn sequence(&mut self, items: &[Ast], rest: Continuation) -> Result<ExprId, PatternError> {
        let is_look_behind = |item: &Ast| matches!(item.kind, Kind::LookBehind { .. });
        let Some(at) = items.iter().rposition(is_look_behind) else { return self.anywhere(items, rest) };
        let rest = items[at + 1..].iter().rev().try_fold(rest, |rest, item| self.build(item, rest))?;
        let before = &items[..at];
        if let Some(item) = before.iter().find(|item| item.facts.looks_ahead) {
            return Err(PatternProblem::LookBehindAfterAssertion.at(item.offset));
        }
        // Before the last look-behind there may be more of them.
        let left = self.sequence(before, Continuation::always(Expressions::EMPTY))?;
        let asked = self.asked(&items[at])?;
        let left = self.expressions.all_of(vec![left, asked]);
        Ok(self.after(left, rest))
    }

    /// The texts before a place where a look-behind holds.
    fn asked(&mut self, ast: &Ast) -> Result<ExprId, PatternError> {
        let Kind::LookBehind { inner, negated } = &ast.kind else { return Ok(Expressions::EVERYTHING) };
        if inner.facts.looks_ahead {
            return Err(PatternProblem::LookBehindAfterAssertion.at(inner.offset));
        }
        let texts = self.texts(inner, Continuation::always(Expressions::EMPTY))?;
        Ok(if *negated { self.expressions.not(texts) } else { texts })
    }

    /// The texts with a match of `items` somewhere, and `rest` behind it.
    fn anywhere(&mut self, items: &[Ast], rest: Continuation) -> Result<ExprId, PatternError> {
        let rest = items.iter().rev().try_fold(rest, |rest, item| self.build(item, rest))?;
        Ok(self.after(Expressions::EVERYTHING, rest))
    }
}
