//! Constrained decoding for language models.
//!
//! Given a grammar, a vocabulary and the tokens generated so far, this crate computes the exact set
//! of allowed next tokens. A token is allowed if at least one valid completion of the output exists
//! after it.
//!
//! * A [`Grammar`] is compiled from a JSON Schema, GBNF, Lark, a regular expression, a list of
//!   choices, structural tags or [`Part`]s. A grammar is immutable and describes bytes, so every vocabulary
//!   can use it.
//! * A [`Constraint`] binds a grammar to a [`Vocabulary`](formwork_vocab::Vocabulary). The
//!   constraint owns the caches that all its matchers share.
//! * A [`Matcher`] follows one sequence, token by token, and returns the mask of allowed tokens at
//!   each position.
//!
//! ```
//! use std::sync::Arc;
//! use formwork_grammar::{Constraint, Grammar, Limits};
//! use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
//!
//! let text = |s: &str| Token { bytes: s.into(), kind: TokenKind::Text };
//! let end = Token { bytes: vec![], kind: TokenKind::Control };
//! let tokens = vec![text("y"), text("ye"), text("es"), text("no"), end];
//! let vocabulary = Vocabulary::new(tokens, vec![TokenId(4)])?;
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
//! # Scope
//! This crate performs no I/O, trains no tokenizers, and does not sample tokens by their
//! probability. No input makes this crate panic. A grammar that cannot be enforced exactly is
//! refused with an error that names the place.

mod argument_types;
mod buckets;
mod byte_set;
mod choice_points;
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
mod python;
mod regular;
mod rule_reader;
mod shared_cache;
mod tokens;
mod warning;

pub use argument_types::{ArgumentTypes, Names, RawSection, ValuePlace, ValueType, ValueTypes};
pub use byte_set::ByteSet;
pub use choice_points::{ChoiceKind, ChoiceOption, ChoicePoint, ChoiceReader, OptionValue};
pub use constraint::Constraint;
pub use error::GrammarError;
pub use frontend::gbnf::spelling as gbnf;
pub use frontend::json_schema::Remotes;
pub use frontend::notation::{Around, Brackets, Literals, Nested, Notation, Strings};
pub use frontend::part_cache::PartCache;
pub use frontend::parts::{Part, Trigger};
pub use frontend::schema::Schema;
pub use frontend::tags::{StructuralTag, StructuralTags, TagContent};
pub use grammar::{Grammar, Mismatch, Recognizer};
pub use limits::Limits;
pub use matcher::guide::{Follower, Guide};
pub use matcher::samples::Samples;
pub use matcher::{Explanation, Matcher, NotAllowed, Rejection};
pub use options::{Formats, Layout, Order, Profile, SchemaOptions, Undeclared};
pub use python::python_string;
pub use rule_reader::RuleReader;
pub use warning::Warning;

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
