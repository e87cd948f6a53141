//! Slow recognisers that share no code with the engine.

pub mod cfg;
pub mod json_schema;
