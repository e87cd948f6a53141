//! What the suites that cross crates share: slow references and random inputs.

pub mod random;
pub mod reference;
