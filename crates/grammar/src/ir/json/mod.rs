//! The compiled form of a JSON Schema: the program that the JSON machine runs, and the tables that
//! the program refers to.

pub(crate) mod cost;
pub(crate) mod decimal;
pub(crate) mod layout;
pub(crate) mod needs;
pub(crate) mod number;
pub(crate) mod program;
pub(crate) mod reading;
pub(crate) mod sets;
pub(crate) mod spelling;
pub(crate) mod texts;
pub(crate) mod trie;
pub(crate) mod values;

pub(crate) use program::JsonProgram;
pub(crate) use spelling::shortest_spelling;
