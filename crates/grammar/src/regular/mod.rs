//! Regular languages over Unicode code points.
//!
//! JSON Schema speaks about texts through `pattern`, `patternProperties`, `propertyNames`, `format` and the length
//! bounds, and combines them with `allOf`, `not` and their relatives. So the languages here are closed under the boolean
//! operations from the start: an [expression](Expressions) may intersect and complement, and its automaton comes from
//! Brzozowski's derivatives, which need no other machinery for that.
//!
//! - [`CharSet`]: sets of code points.
//! - [`Expressions`]: hash-consed expressions, normalised as they are made, and their derivatives.
//! - [`TextDfa`]: the minimal automaton of several expressions at once.
//! - [`ecma`]: the regular expressions of ECMA-262, as `pattern` writes them.
//!
//! # What is not here
//! Bytes and JSON's escapes: the letters are code points, and who reads an encoding decodes it first.

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
