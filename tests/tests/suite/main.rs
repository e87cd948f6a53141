//! Suites that cross crates.

mod masks;
mod matcher;
