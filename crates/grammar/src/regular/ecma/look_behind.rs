//! Builds the text before a match, and look-behind.
//!
//! A match may begin anywhere, so the language of a pattern consists of any text, followed by the
//! continuation at the start of the pattern. A look-behind cuts a sequence in two. The text before
//! the cut is intersected with the texts that the look-behind allows. The part of the pattern after
//! the cut follows. This is exact if the match of the first part does not depend on the second
//! part, and if no repetition contains the sequence.

use super::ast::{Ast, Kind};
use super::build::{Builder, Continuation};
use super::{PatternError, PatternProblem};
use crate::regular::{ExprId, Expressions};

impl Builder<'_> {
    /// Returns the language of all texts in which `ast` is found.
    pub(super) fn found(&mut self, ast: &Ast) -> Result<ExprId, PatternError> {
        self.texts(ast, Continuation::always(Expressions::EVERYTHING))
    }

    /// Returns the texts in which a match of `ast` is followed by a text of `rest`, up to the end.
    /// The match may begin anywhere.
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

    /// Returns the texts in which a match of the sequence `items` is followed by a text of `rest`,
    /// up to the end. The match may begin anywhere. The sequence may contain look-behinds.
    fn sequence(&mut self, items: &[Ast], rest: Continuation) -> Result<ExprId, PatternError> {
        let is_look_behind = |item: &Ast| matches!(item.kind, Kind::LookBehind { .. });
        let Some(at) = items.iter().rposition(is_look_behind) else { return self.anywhere(items, rest) };
        let rest = items[at + 1..].iter().rev().try_fold(rest, |rest, item| self.build(item, rest))?;
        let before = &items[..at];
        if let Some(item) = before.iter().find(|item| item.facts.looks_ahead) {
            return Err(PatternProblem::LookBehindAfterAssertion.at(item.offset));
        }
        // There may be more look-behinds before the last one.
        let left = self.sequence(before, Continuation::always(Expressions::EMPTY))?;
        let asked = self.asked(&items[at])?;
        let left = self.expressions.all_of(vec![left, asked]);
        Ok(self.after(left, rest))
    }

    /// Returns the texts after which the look-behind `ast` holds.
    fn asked(&mut self, ast: &Ast) -> Result<ExprId, PatternError> {
        let Kind::LookBehind { inner, negated } = &ast.kind else { return Ok(Expressions::EVERYTHING) };
        if inner.facts.looks_ahead {
            return Err(PatternProblem::LookBehindAfterAssertion.at(inner.offset));
        }
        let texts = self.texts(inner, Continuation::always(Expressions::EMPTY))?;
        Ok(if *negated { self.expressions.not(texts) } else { texts })
    }

    /// Returns the texts in which a match of the sequence `items` is followed by a text of `rest`,
    /// up to the end. The match may begin anywhere. No item is a look-behind.
    fn anywhere(&mut self, items: &[Ast], rest: Continuation) -> Result<ExprId, PatternError> {
        let rest = items.iter().rev().try_fold(rest, |rest, item| self.build(item, rest))?;
        Ok(self.after(Expressions::EVERYTHING, rest))
    }
}
