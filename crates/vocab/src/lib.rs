//! Token ids, their bytes, and sets of tokens.
//!
//! A [`Vocabulary`] maps every [`TokenId`] to its byte string and keeps a [`TokenTrie`] over these
//! strings. By walking a grammar along the trie, the engine finds the allowed tokens without
//! testing each token separately. The result is a [`TokenSet`], with one bit per token.
//!
//! A [`Tokenizer`] converts text to token ids and back. Tokenizers are built from GGUF metadata or
//! from a `tokenizer.json`.
//!
//! This crate does no I/O. Callers provide bytes and parsed metadata.

mod derived;
mod error;
mod set;
mod token;
pub mod tokenizer;
mod trie;
mod vocabulary;

pub use error::VocabError;
pub use set::TokenSet;
pub use token::{TokenId, TokenKind};
pub use tokenizer::Tokenizer;
pub use trie::{TokenTrie, TrieNode};
pub use vocabulary::{Token, Vocabulary};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
