//! Tests of the model runtime: valid and malformed files, and properties of the decoder.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

#[cfg(feature = "candle-models")]
mod candle_models;
mod broken;
mod converted;
mod files;
mod golden;
mod laws;
mod published;
mod reference;
mod candle;
mod tiny;
mod transformers;
mod writer;
