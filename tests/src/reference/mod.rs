//! Slow recognizers that share no code with the engine.

pub mod cfg;
pub mod finite;
pub mod json_schema;
mod mask;

pub use mask::{TextTokens, reference_mask};
