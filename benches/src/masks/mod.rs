//! MaskBench: speed and correctness of masks, over schemas with valid and invalid instances.
//!
//! A case is a file `{"schema": …, "tests": [{"valid": …, "data": …}]}`. The engine compiles the
//! schema and computes the first mask, which together take the *time to first mask*. Then each
//! instance is written as JSON text and tokenized. For each token the engine computes the mask and
//! appends the token, which together take one *mask time*. After the last token, one more mask must
//! allow end-of-sequence. A valid instance must pass all of this, and an invalid one must not.
//!
//! ```
//! use formwork_benches::masks::{Case, Formwork, Isolation, Settings, Spelling, Status, measure};
//! use formwork_grammar::{Limits, SchemaOptions};
//! use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
//!
//! let mut tokens: Vec<Token> =
//!     (0..128).map(|b| Token { bytes: vec![b], kind: TokenKind::Text }).collect();
//! tokens.push(Token { bytes: vec![], kind: TokenKind::Control });
//! let tokenizer = Tokenizer::greedy(Vocabulary::new(tokens, vec![TokenId(128)])?);
//!
//! let json = concat!(
//!     r#"{"schema": {"type": "boolean"}, "#,
//!     r#""tests": [{"valid": true, "data": true}, {"valid": false, "data": 1}]}"#
//! );
//! let case = Case::parse("boolean", json.as_bytes(), &tokenizer, Spelling::Compact)?;
//! let settings = Settings {
//!     options: SchemaOptions::accept(),
//!     limits: Limits::default(),
//!     isolation: Isolation::Test,
//! };
//! let engine = Formwork::new(&tokenizer, settings)?;
//! let outcome = measure(&engine, &case);
//! assert_eq!(outcome.status, Status::Pass);
//! assert_eq!(outcome.mask_us.len(), 4 + 1 + 1); // `t` `r` `u` `e` and the end, then `1` refused
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! # Timing
//! Setting up the sequence of an instance, with caches empty or copied, does not count as mask
//! time. Its time is reported as *start*, so that no cost is hidden there. Reading files and
//! tokenizing texts are not timed.

mod case;
mod engine;
mod files;
mod formwork;
mod outcome;
mod run;
mod spelling;
mod summary;
#[cfg(test)]
mod tests;

pub use case::{Case, Instance};
pub use engine::{Engine, Isolation, Refusal, Sequence};
pub use files::{CaseFile, find};
pub use formwork::{Formwork, FormworkSequence, Settings};
pub use outcome::{InstanceCounts, Outcome, Status};
pub use run::{Cases, measure, run};
pub use spelling::Spelling;
pub use summary::{Counts, RefusalCount, Report, Summary};
