//! Builds the language of a pattern from back to front.
//!
//! An assertion may concern all the text after it, so an expression is built together with the text
//! that follows. [`Builder::build`] takes the [`Continuation`] after an expression and returns the
//! continuation before the expression. Look-ahead intersects the continuation with the texts that
//! begin with a match of its body. `$` intersects the continuation with the empty text. `^` and
//! `\b` depend on the preceding text. Only three cases of preceding text matter, so a continuation
//! consists of three expressions.

use super::ast::{Ast, Kind};
use super::class::word_chars;
use super::{PatternError, PatternProblem};
use crate::regular::{ExprId, Expressions};

/// Maximum number of rounds of a repetition with assertions. Each round of such a repetition is
/// built separately.
const ROUNDS: u32 = 64;

/// Number of calls of [`Builder::build`] that are allowed in addition to two calls for each node of
/// the pattern. Rounds of repetitions need the additional calls.
const STEPS: usize = 100_000;

/// Maximum work ([`Expressions::work`]) of the expressions that one construction creates.
pub(super) const WORK: usize = 1 << 21;

/// Returns the language of all texts in which the pattern is found.
pub(super) fn search(expressions: &mut Expressions, ast: &Ast) -> Result<ExprId, PatternError> {
    Builder::new(expressions, 2 * ast.size + STEPS).found(ast)
}

/// Returns the language of all texts that the pattern matches from start to end.
pub(super) fn whole(expressions: &mut Expressions, ast: &Ast) -> Result<ExprId, PatternError> {
    let mut builder = Builder::new(expressions, 2 * ast.size + STEPS);
    Ok(builder.build(ast, Continuation::always(Expressions::EMPTY))?.start)
}

/// The texts that may follow at a position, for each case of the preceding text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Continuation {
    /// Texts that may follow if the position is the start of the text.
    pub(super) start: ExprId,
    /// Texts that may follow if the preceding character is a word character.
    pub(super) word: ExprId,
    /// Texts that may follow if the preceding character is not a word character.
    pub(super) other: ExprId,
}

impl Continuation {
    /// Creates a continuation that does not depend on the preceding text.
    pub(super) const fn always(expr: ExprId) -> Self {
        Self { start: expr, word: expr, other: expr }
    }

    /// Returns the texts that may follow after a character, if they are the same after all
    /// characters. Otherwise returns `None`.
    fn inside(self) -> Option<ExprId> {
        (self.word == self.other).then_some(self.word)
    }

    fn each(self, mut f: impl FnMut(ExprId) -> ExprId) -> Self {
        Self { start: f(self.start), word: f(self.word), other: f(self.other) }
    }

    fn with(self, other: Self, mut f: impl FnMut(ExprId, ExprId) -> ExprId) -> Self {
        Self {
            start: f(self.start, other.start),
            word: f(self.word, other.word),
            other: f(self.other, other.other),
        }
    }
}

pub(super) struct Builder<'a> {
    pub(super) expressions: &'a mut Expressions,
    /// The texts that end in a word character (Σ*`\w`). `ends_in_other` is the texts that end in
    /// another character (Σ*`\W`).
    ends_in_word: ExprId,
    ends_in_other: ExprId,
    /// Number of calls of [`build`](Self::build) and of plain nodes that are still allowed.
    steps: usize,
    /// Value of [`Expressions::work`] at which the construction stops.
    most_work: usize,
}

impl<'a> Builder<'a> {
    fn new(expressions: &'a mut Expressions, steps: usize) -> Self {
        let mut ends_in = |set| {
            let class = expressions.class(set);
            expressions.concat(Expressions::EVERYTHING, class)
        };
        let (ends_in_word, ends_in_other) = (ends_in(word_chars()), ends_in(word_chars().complement()));
        let most_work = expressions.work().saturating_add(WORK);
        Self { expressions, ends_in_word, ends_in_other, steps, most_work }
    }

    /// Returns the continuation at the start of `ast`: the texts that `ast` matches, followed by a
    /// text of `rest`.
    pub(super) fn build(&mut self, ast: &Ast, rest: Continuation) -> Result<Continuation, PatternError> {
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 || self.expressions.work() > self.most_work {
            return Err(PatternProblem::TooManyRounds.at(ast.offset));
        }
        if ast.is_plain() {
            return Ok(self.attach(ast, rest));
        }
        Ok(match &ast.kind {
            Kind::Class(_) => self.attach(ast, rest),
            Kind::Concat(items) => items.iter().rev().try_fold(rest, |rest, item| self.build(item, rest))?,
            Kind::Alternatives(items) => {
                let parts = items.iter().map(|item| self.build(item, rest)).collect::<Result<Vec<_>, _>>()?;
                let mut any_of =
                    |f: fn(&Continuation) -> ExprId| self.expressions.any_of(parts.iter().map(f).collect());
                Continuation {
                    start: any_of(|part| part.start),
                    word: any_of(|part| part.word),
                    other: any_of(|part| part.other),
                }
            }
            &Kind::Repeat { ref inner, min, max } => self.rounds(inner, min, max, rest)?,
            Kind::Start => Continuation { start: rest.start, ..Continuation::always(Expressions::NOTHING) },
            Kind::End => rest.each(|rest| self.expressions.all_of(vec![Expressions::EMPTY, rest])),
            &Kind::WordBoundary { negated } => self.word_boundary(negated, rest),
            Kind::LookAhead { inner, negated } => {
                let asked = self.build(inner, Continuation::always(Expressions::EVERYTHING))?;
                asked.with(rest, |asked, rest| {
                    let asked = if *negated { self.expressions.not(asked) } else { asked };
                    self.expressions.all_of(vec![asked, rest])
                })
            }
            Kind::LookBehind { .. } => return Err(PatternProblem::NestedLookBehind.at(ast.offset)),
        })
    }

    fn word_boundary(&mut self, negated: bool, rest: Continuation) -> Continuation {
        let class = self.expressions.class(word_chars());
        let word = self.expressions.concat(class, Expressions::EVERYTHING);
        let no_word = self.expressions.not(word);
        let (behind_word, behind_other) = if negated { (word, no_word) } else { (no_word, word) };
        let asked = Continuation { start: behind_other, word: behind_word, other: behind_other };
        asked.with(rest, |asked, rest| self.expressions.all_of(vec![asked, rest]))
    }

    /// Returns the continuation at the start of a repetition of `inner` that contains assertions.
    /// Each round is built with its continuation, because a round alone has no language.
    fn rounds(
        &mut self,
        inner: &Ast,
        min: u32,
        max: Option<u32>,
        rest: Continuation,
    ) -> Result<Continuation, PatternError> {
        if max.unwrap_or(min) > ROUNDS {
            return Err(PatternProblem::TooManyRounds.at(inner.offset));
        }
        let mut from_here = match max {
            None => self.star(inner, rest)?,
            Some(max) => {
                let mut from_here = rest;
                for _ in min..max {
                    let round = self.build(inner, from_here)?;
                    from_here = rest.with(round, |rest, round| self.expressions.any_of(vec![rest, round]));
                }
                from_here
            }
        };
        for _ in 0..min {
            from_here = self.build(inner, from_here)?;
        }
        Ok(from_here)
    }

    /// Returns the continuation at the start of any number of rounds of `inner`: the least solution
    /// of X = rest | round·X.
    fn star(&mut self, inner: &Ast, rest: Continuation) -> Result<Continuation, PatternError> {
        if inner.min_len == 0 {
            return Err(PatternProblem::EmptyRound.at(inner.offset));
        }
        let word_nullable = self.expressions.nullable(rest.word);
        let word = self.expressions.recursive(word_nullable);
        let other = if inner.facts.looks_back || rest.inside().is_none() {
            let nullable = self.expressions.nullable(rest.other);
            self.expressions.recursive(nullable)
        } else {
            word
        };
        // A round is not empty, so the position after a round is not the start of the text.
        let round = self.build(inner, Continuation { start: Expressions::NOTHING, word, other })?;
        let solution = rest.with(round, |rest, round| self.expressions.any_of(vec![rest, round]));
        self.expressions.define(word, solution.word);
        if other != word {
            self.expressions.define(other, solution.other);
        }
        Ok(Continuation { start: solution.start, word, other })
    }

    /// Returns the continuation at the start of `ast`, which contains no assertions.
    fn attach(&mut self, ast: &Ast, rest: Continuation) -> Continuation {
        let expr = self.plain(ast);
        if let Some(inside) = rest.inside()
            && (inside == rest.start || !self.expressions.nullable(expr))
        {
            return Continuation::always(self.expressions.concat(expr, inside));
        }
        let is_nullable = self.expressions.nullable(expr);
        let behind = self.behind(expr, rest);
        rest.each(|rest| if is_nullable { self.expressions.any_of(vec![behind, rest]) } else { behind })
    }

    /// Returns the non-empty texts of `expr`, each followed by a text that `rest` allows after the
    /// last character.
    fn behind(&mut self, expr: ExprId, rest: Continuation) -> ExprId {
        let e = &mut *self.expressions;
        if let Some(inside) = rest.inside() {
            let some = e.repeat(Expressions::ANY, 1, None);
            let some = if e.nullable(expr) { e.all_of(vec![expr, some]) } else { expr };
            return e.concat(some, inside);
        }
        let in_word = e.all_of(vec![expr, self.ends_in_word]);
        let in_word = e.concat(in_word, rest.word);
        let in_other = e.all_of(vec![expr, self.ends_in_other]);
        let in_other = e.concat(in_other, rest.other);
        e.any_of(vec![in_word, in_other])
    }

    /// Returns the texts of `left`, each followed by a text that `rest` allows after it. The texts
    /// of `left` begin at the start of the text.
    pub(super) fn after(&mut self, left: ExprId, rest: Continuation) -> ExprId {
        if rest == Continuation::always(rest.start) {
            return self.expressions.concat(left, rest.start);
        }
        let behind = self.behind(left, rest);
        if self.expressions.nullable(left) {
            self.expressions.any_of(vec![rest.start, behind])
        } else {
            behind
        }
    }

    /// Returns the language of `ast`, which contains no assertions.
    fn plain(&mut self, ast: &Ast) -> ExprId {
        self.steps = self.steps.saturating_sub(1);
        match &ast.kind {
            Kind::Class(set) => self.expressions.class(set.clone()),
            Kind::Concat(items) => items.iter().rev().fold(Expressions::EMPTY, |rest, item| {
                let expr = self.plain(item);
                self.expressions.concat(expr, rest)
            }),
            Kind::Alternatives(items) => {
                let items = items.iter().map(|item| self.plain(item)).collect();
                self.expressions.any_of(items)
            }
            &Kind::Repeat { ref inner, min, max } => {
                let inner = self.plain(inner);
                self.expressions.repeat(inner, min, max)
            }
            // A plain expression contains no assertions.
            _ => Expressions::NOTHING,
        }
    }
}
