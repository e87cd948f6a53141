//! Suites that cross crates.

mod json_schema;
mod masks;
mod matcher;
