//! Tests of tokenizers against known ids.
//!
//! Most tests use small vocabularies of their own. If `FORMWORK_TOKENIZER_VECTORS` is set to a
//! folder, the vocabularies of real models in this folder are tested too.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its data has failed")]

mod ends;
mod gguf_file;
mod json;
mod tiny;
mod vectors;
