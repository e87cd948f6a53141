use crate::regular::CharSet;

/// A parsed pattern or part of a pattern, with the properties that decide how its language is
/// built.
#[derive(Debug)]
pub(crate) struct Ast {
    pub(crate) kind: Kind,
    /// Byte offset in the pattern at which the expression starts.
    pub(super) offset: usize,
    /// Lower bound on the length of a match, in code points.
    pub(super) min_len: u32,
    /// Number of nodes of the tree, including this one.
    pub(super) size: usize,
    pub(super) facts: Facts,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// One code point.
    Class(CharSet),
    Concat(Vec<Ast>),
    Alternatives(Vec<Ast>),
    Repeat {
        inner: Box<Ast>,
        min: u32,
        max: Option<u32>,
    },
    /// `^`
    Start,
    /// `$`
    End,
    /// `\b`, or `\B`
    WordBoundary {
        negated: bool,
    },
    LookAhead {
        inner: Box<Ast>,
        negated: bool,
    },
    LookBehind {
        inner: Box<Ast>,
        negated: bool,
    },
}

/// The kinds of assertions in an expression.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Facts {
    /// True if the expression contains an assertion about the preceding text: `^`, `\b`, `\B` or
    /// look-behind.
    pub(super) looks_back: bool,
    /// True if the expression contains an assertion about the following text: `$`, `\b`, `\B` or
    /// look-ahead.
    pub(super) looks_ahead: bool,
    /// True if the expression contains a look-behind.
    pub(super) look_behind: bool,
}

impl Facts {
    fn or(self, other: Self) -> Self {
        Self {
            looks_back: self.looks_back || other.looks_back,
            looks_ahead: self.looks_ahead || other.looks_ahead,
            look_behind: self.look_behind || other.look_behind,
        }
    }

    fn of(items: &[Ast]) -> Self {
        items.iter().fold(Self::default(), |facts, item| facts.or(item.facts))
    }
}

impl Ast {
    pub(super) fn new(kind: Kind, offset: usize) -> Self {
        let (min_len, facts) = match &kind {
            Kind::Class(_) => (1, Facts::default()),
            Kind::Concat(items) => {
                let sum = items.iter().fold(0_u32, |sum, item| sum.saturating_add(item.min_len));
                (sum, Facts::of(items))
            }
            Kind::Alternatives(items) => {
                (items.iter().map(|item| item.min_len).min().unwrap_or(0), Facts::of(items))
            }
            Kind::Repeat { inner, min, .. } => (inner.min_len.saturating_mul(*min), inner.facts),
            Kind::Start => (0, Facts { looks_back: true, ..Facts::default() }),
            Kind::End => (0, Facts { looks_ahead: true, ..Facts::default() }),
            Kind::WordBoundary { .. } => {
                (0, Facts { looks_back: true, looks_ahead: true, ..Facts::default() })
            }
            Kind::LookAhead { inner, .. } => {
                (0, inner.facts.or(Facts { looks_ahead: true, ..Facts::default() }))
            }
            Kind::LookBehind { inner, .. } => {
                let own = Facts { looks_back: true, look_behind: true, ..Facts::default() };
                (0, inner.facts.or(own))
            }
        };
        let size = match &kind {
            Kind::Concat(items) | Kind::Alternatives(items) => items.iter().map(|item| item.size).sum(),
            Kind::Repeat { inner, .. } | Kind::LookAhead { inner, .. } | Kind::LookBehind { inner, .. } => {
                inner.size
            }
            _ => 0,
        };
        Self { kind, offset, min_len, size: size + 1, facts }
    }

    /// Reports whether the expression contains no assertions. A match then depends on the matched
    /// text alone.
    pub(super) fn is_plain(&self) -> bool {
        self.facts == Facts::default()
    }
}
