//! Tests of the model runtime: valid and malformed files, and properties of the decoder.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod adapters;
mod broken;
mod candle;
mod candle_models;
mod conversations;
mod converted;
mod converted_encoders;
mod drafts;
mod encoders;
mod files;
mod golden;
mod gpu;
mod laws;
mod low_bits;
mod memory;
mod pair;
mod published;
mod reference;
mod stored;
mod tiny;
mod transformers;
mod writer;
