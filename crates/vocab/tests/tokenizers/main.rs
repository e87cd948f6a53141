//! Tests of tokenizers against known ids.
//!
//! The tests have small vocabularies of their own. If `FORMWORK_TOKENIZER_VECTORS` is set to a
//! folder, they also test the vocabularies of real models in that folder.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its data has failed")]

mod gguf_file;
mod json;
mod tiny;
mod vectors;
