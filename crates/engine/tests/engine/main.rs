//! Tests of the engine with scripted models.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod choices;
mod decisions;
mod drafting;
mod fixture;
mod generation;
mod isolation;
mod logprobs;
mod masks;
mod pieces;
mod sharing;
mod top;
