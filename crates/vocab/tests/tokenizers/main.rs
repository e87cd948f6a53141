//! Tokenizers against known ids: tiny vocabularies spelt out here, and, where `FORMWORK_TOKENIZER_VECTORS` names their
//! folder, vocabularies of real models.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its data has failed")]

mod gguf_file;
mod json;
mod tiny;
mod vectors;
