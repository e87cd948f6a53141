//! C ABI of Formwork's grammar engine.
//!
//! A program in any language compiles a grammar, binds it to a vocabulary, and gets the mask of
//! allowed tokens before each step. The program runs the model itself. `include/formwork.h` declares
//! everything, and `README.md` shows a whole program.
//!
//! # Handles
//! Each `formwork_…_new`, `_clone` or compiling function gives a handle, and the `_free` function of
//! the same type takes it back. Every `_free` accepts NULL. Handles keep alive what they need, so they
//! can be freed in any order.
//!
//! # Results
//! A function that can fail returns a [`FormworkStatus`]. Its last argument receives an error, or NULL
//! if the function succeeds. The argument may be NULL itself. If a function fails, its other outputs
//! are unchanged.
//!
//! Results of type [`FormworkBytes`] and [`FormworkTokens`] belong to the caller, who frees them with
//! [`formwork_bytes_free`] and [`formwork_tokens_free`]. All other pointers in results are borrowed,
//! and live as long as the handle that they come from.
//!
//! # Pointers
//! Arguments must be NULL or point to valid memory that no other thread writes during the call. An
//! array may be NULL if its length is 0. Outputs may be uninitialised, and must not overlap each other
//! or the inputs.
//!
//! # Threads
//! A matcher must be used by one thread at a time, but may move between threads. All other handles may
//! be used by several threads at the same time. No handle may be used while or after it is freed.
//!
//! # Panics
//! A defect of the library yields [`FormworkStatus::Internal`], and the message of the panic also goes
//! to standard error. A matcher that was part of the call should then be freed. All other handles
//! remain usable.
//!
//! # Scope
//! This crate runs no model and samples no tokens. It gives no access to documents of remote
//! references, to choice points or to tokenizers in GGUF files.

#![allow(unsafe_code, reason = "a C ABI reads the caller's arrays, and exports its names")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the section on pointers above holds for all functions, and the header has it once"
)]

mod bytes;
mod constraint;
mod error;
mod failure;
mod grammar;
mod guard;
mod matcher;
mod options;
mod tags;
mod tokenizer;
mod version;
mod vocabulary;

pub use bytes::{FormworkBytes, FormworkSlice, FormworkTokens, formwork_bytes_free, formwork_tokens_free};
pub use constraint::*;
pub use error::*;
pub use grammar::*;
pub use matcher::*;
pub use options::*;
pub use tokenizer::*;
pub use version::formwork_version;
pub use vocabulary::*;
