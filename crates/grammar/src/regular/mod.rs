//! Regular languages over Unicode code points.
//!
//! JSON Schema constrains texts with `pattern`, `patternProperties`, `propertyNames`, `format` and
//! length bounds, and combines these constraints with `allOf`, `not` and related keywords. The
//! languages here are therefore closed under boolean operations: an [expression](Expressions) may
//! contain intersections and complements. Its automaton is built from Brzozowski's derivatives,
//! which handle both without other machinery.
//!
//! - [`CharSet`]: sets of code points.
//! - [`Expressions`]: hash-consed expressions, normalised on creation, and their derivatives.
//! - [`TextDfa`]: the minimal automaton of several expressions at once.
//! - [`ecma`]: the regular expressions of ECMA-262, the syntax of `pattern`.
//!
//! # What is not here
//! Bytes and JSON escapes are not handled here. The letters are code points, so callers decode
//! their input first.

mod alphabet;
mod automaton;
mod charset;
mod derivative;
pub(crate) mod ecma;
mod expression;
pub(crate) mod minimize;
#[cfg(test)]
mod tests;
mod union;

pub(crate) use automaton::{TextDfa, TooLarge};
pub(crate) use charset::CharSet;
pub(crate) use expression::{ExprId, Expressions};
