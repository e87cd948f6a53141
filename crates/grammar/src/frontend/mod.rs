//! Front ends, which translate grammar sources into the rules or JSON programs that machines run.

mod builder;
pub(crate) mod choice;
pub(crate) mod gbnf;
pub(crate) mod json_schema;
pub(crate) mod parts;
pub(crate) mod regex;
pub(crate) mod schema;
pub(crate) mod tags;
mod triggers;
