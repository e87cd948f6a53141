//! Constrained decoding: given a grammar, a vocabulary and the tokens so far, the exact set of next tokens after which a
//! valid completion still exists.
//!
//! A [`Grammar`] is compiled from a JSON Schema, GBNF, a regular expression or a list of choices. It is immutable and
//! knows bytes only. A [`Constraint`] binds it to a [`Vocabulary`](formwork_vocab::Vocabulary) and owns the caches that
//! all its [`Matcher`]s share; a matcher follows one sequence, token by token.
//!
//! ```
//! use std::sync::Arc;
//! use formwork_grammar::{Constraint, Grammar, Limits};
//! use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
//!
//! let text = |s: &str| Token { bytes: s.into(), kind: TokenKind::Text };
//! let end = Token { bytes: vec![], kind: TokenKind::Control };
//! let vocabulary = Vocabulary::new(vec![text("y"), text("ye"), text("es"), text("no"), end], vec![TokenId(4)])?;
//! let grammar = Grammar::choices(&["yes", "no"], &Limits::default())?;
//! let mut matcher = Constraint::new(&grammar, Arc::new(vocabulary))?.matcher();
//! let ids = |m: &mut formwork_grammar::Matcher| m.mask().iter().map(|t| t.0).collect::<Vec<_>>();
//! assert_eq!(ids(&mut matcher), [0, 1, 3]);
//! matcher.commit(TokenId(0))?;
//! assert_eq!(ids(&mut matcher), [2]);
//! matcher.commit(TokenId(2))?;
//! assert_eq!(ids(&mut matcher), [4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is not here
//! No I/O, no tokenizer training, no sampling of tokens by their probability. Nothing in this crate panics on input: a grammar that cannot be enforced
//! exactly is an error that names the place.

mod byte_set;
mod constraint;
mod error;
mod frontend;
mod grammar;
mod ir;
mod ledger;
mod limits;
mod machine;
mod mask;
mod matcher;
mod options;
mod regular;
mod tokens;
mod warning;

pub use byte_set::ByteSet;
pub use constraint::Constraint;
pub use error::GrammarError;
pub use frontend::json_schema::Remotes;
pub use frontend::parts::{Part, Trigger};
pub use frontend::tags::{StructuralTag, StructuralTags, TagContent};
pub use grammar::{Grammar, Mismatch, Recognizer};
pub use limits::Limits;
pub use matcher::guide::{Follower, Guide};
pub use matcher::samples::Samples;
pub use matcher::{Explanation, Matcher, NotAllowed, Rejection};
pub use options::{Formats, Layout, Order, Profile, SchemaOptions, Undeclared};
pub use warning::Warning;
