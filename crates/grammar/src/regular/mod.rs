//! Regular languages over Unicode code points.
//!
//! JSON Schema constrains texts with `pattern`, `patternProperties`, `propertyNames`, `format` and
//! length bounds, and combines these constraints with `allOf`, `not` and related keywords. An
//! [expression](Expressions) may therefore contain intersections and complements. The automaton of
//! an expression is built from its Brzozowski derivatives, which exist for both.
//!
//! - [`CharSet`]: sets of code points.
//! - [`Expressions`]: hash-consed expressions, normalised on creation, and their derivatives.
//! - [`Portable`]: an expression that can be added to any collection.
//! - [`TextDfa`]: the minimal automaton of several expressions at once.
//! - [`ecma`]: the regular expressions of ECMA-262, the syntax of `pattern`.
//!
//! # What is not here
//! The letters of the languages are code points. Callers decode UTF-8 and JSON escapes first.

mod alphabet;
mod automaton;
mod charset;
mod derivative;
pub(crate) mod ecma;
mod expression;
pub(crate) mod minimize;
mod portable;
#[cfg(test)]
mod tests;
mod union;

pub(crate) use automaton::{TextDfa, TooLarge};
pub(crate) use charset::CharSet;
pub(crate) use expression::{ExprId, Expressions};
pub(crate) use portable::Portable;
