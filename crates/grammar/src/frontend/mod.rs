//! Front ends, which translate grammar sources into the rules or JSON programs that machines run.

mod builder;
pub(crate) mod choice;
pub(crate) mod gbnf;
pub(crate) mod json_schema;
mod json_string;
pub(crate) mod lark;
pub(crate) mod missing;
pub(crate) mod notation;
pub(crate) mod part_cache;
pub(crate) mod parts;
pub(crate) mod parts_in_notation;
pub(crate) mod pieces;
pub(crate) mod regex;
pub(crate) mod schema;
pub(crate) mod tags;
mod triggers;
