//! Slow reference implementations and random inputs, shared by the suites that span crates.

pub mod random;
pub mod reference;
