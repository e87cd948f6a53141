//! Token ids, the bytes they stand for, and sets of them.
//!
//! A [`Vocabulary`] maps every [`TokenId`] to its byte string and keeps a [`TokenTrie`] over those strings, so that a
//! grammar can be walked against all tokens at once. A [`TokenSet`] is the result of such a walk: one bit per token.
//! A [`Tokenizer`] turns text into ids and back; it is built from GGUF metadata or from a `tokenizer.json`.
//!
//! This crate does no I/O: callers hand it bytes and parsed metadata.

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
