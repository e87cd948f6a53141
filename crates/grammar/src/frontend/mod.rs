//! From grammar source to a machine's program.

pub(crate) mod choice;
pub(crate) mod expr;
pub(crate) mod gbnf;
pub(crate) mod json_schema;
pub(crate) mod regex;
pub(crate) mod tags;
