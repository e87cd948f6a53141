use crate::regular::{ExprId, Expressions, ecma};

/// Builds regular languages with the combinators of ABNF (RFC 5234).
pub(super) struct Abnf<'a>(&'a mut Expressions);

impl<'a> Abnf<'a> {
    pub(super) fn new(expressions: &'a mut Expressions) -> Self {
        Self(expressions)
    }

    /// Returns the language of the texts that an ECMA-262 pattern matches from end to end.
    ///
    /// # Panics
    /// Panics if the pattern is invalid, so only patterns in the source code may be passed.
    pub(super) fn pattern(&mut self, source: &str) -> ExprId {
        ecma::pattern(self.0, &format!("^(?:{source})$"))
            .expect("the pattern is written in the code, and a test builds every format")
    }

    /// Returns the language that contains only `text`.
    pub(super) fn text(&mut self, text: &str) -> ExprId {
        self.0.literal(text)
    }

    /// Concatenates `parts` in order.
    pub(super) fn all<const N: usize>(&mut self, parts: [ExprId; N]) -> ExprId {
        parts.into_iter().rev().fold(Expressions::EMPTY, |rest, part| self.0.concat(part, rest))
    }

    /// Returns the union of `parts`.
    pub(super) fn any(&mut self, parts: impl IntoIterator<Item = ExprId>) -> ExprId {
        self.0.any_of(parts.into_iter().collect())
    }

    /// Returns the intersection of `a` and `b`.
    pub(super) fn both(&mut self, a: ExprId, b: ExprId) -> ExprId {
        self.0.all_of(vec![a, b])
    }

    /// Returns the language of the texts that are in `a` and not in `b`.
    pub(super) fn except(&mut self, a: ExprId, b: ExprId) -> ExprId {
        let not = self.0.not(b);
        self.both(a, not)
    }

    pub(super) fn optional(&mut self, part: ExprId) -> ExprId {
        self.times(part, 0, Some(1))
    }

    pub(super) fn many(&mut self, part: ExprId) -> ExprId {
        self.times(part, 0, None)
    }

    pub(super) fn times(&mut self, part: ExprId, min: u32, max: Option<u32>) -> ExprId {
        self.0.repeat(part, min, max)
    }
}
