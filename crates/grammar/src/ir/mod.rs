//! Intermediate representations between the grammar front ends and the machines.
//!
//! [`expr`] has the rules of a context-free grammar, and [`json`] has the compiled form of a JSON
//! Schema. [`text`] has texts of an automaton. Front ends write these forms and machines read them, so neither side depends on the
//! other.

pub(crate) mod expr;
pub(crate) mod json;
pub(crate) mod text;
