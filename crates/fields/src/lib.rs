//! Fields: a JSON structure declared once, from which a grammar, a prompt template, a JSON Schema and a validator are made that
//! agree.
//!
//! A [`Definition`] is built in Rust ([`builder`]), read from JSON, YAML or TOML ([`Definition::parse`]), or taken from a Rust type
//! ([`Definition::of`]). It is checked when it is made: what contradicts itself is an error with the path of the field. Of a checked
//! definition everything can be made; only [`Definition::grammar`] may exceed the limits that it is given, as with a string of at
//! least 70,000 characters, which is longer than the 65,536 bytes that the shortest output may have by default.
//!
//! ```
//! use formwork_fields::{Definition, Format};
//! use formwork_grammar::Limits;
//! let definition = Definition::parse(
//!     "
//! name: Character
//! fields:
//!   - { name: name, type: string, min_length: 3, max_length: 20 }
//!   - { name: age, type: int, min: 0, max: 120 }
//!   - { name: class, type: choice, options: [warrior, mage, rogue] }
//! ",
//!     Format::Yaml,
//! )?;
//! assert_eq!(
//!     definition.template(),
//!     r#"{
//!   "name": "<string of 3–20 characters>",
//!   "age": "<integer between 0–120>",
//!   "class": "<choice between [\"warrior\", \"mage\", \"rogue\"]>"
//! }"#
//! );
//! let grammar = definition.grammar(&Limits::default())?;
//! let text = r#"{"name": "Ava", "age": 25, "class": "mage"}"#;
//! assert!(grammar.accepts(text.as_bytes()) && definition.validate(text).is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Canonical text
//! The grammar takes one text of each value, but for zeros at the end of a fraction: members in the order of the definition, `", "`
//! and `": "` between, no other blanks; integers without leading zeros, fraction or exponent, other numbers in plain decimal notation,
//! no `-0`; generated text with the escapes `\n`, `\t`, `\"` and `\\` only, and in names, options, constants and the fixed text of
//! templates the shortest escape of each other control character, such as `\r` and `\u0001`. This is how `formwork_grammar` writes
//! values of a schema. The schema and the validator take values, however they are spelt. On canonical text the three say the same,
//! which the tests check on random definitions and values.
//!
//! # The written form
//! It is described in `grammars/fields/README.md`, type by type, with examples. Every key is read or refused.
//!
//! # Limits
//! Fields nest to 60 levels, which all formats can be read to; a definition has at most 20,000 of them, options of choices included,
//! and 1,000 structures for references; lengths and numbers of items are at most 1,000,000. Numbers beyond those that 64-bit floats
//! tell apart are refused in definitions, and where a text has one, it is validated as what it is rounded to. JSON that is nested
//! deeper than 127 levels is not read by the validator, which tells at most 100 errors.
//!
//! Weights belong to the options of choices. Whether an optional member comes, and which structure of a variant, is not weighted.

pub mod builder;
mod characters;
mod check;
mod decimal;
mod definition;
mod error;
pub mod field;
mod format;
mod gbnf;
mod import;
mod node;
mod path;
mod read;
mod schema;
mod template;
mod validate;
mod weights;
mod write;

pub use builder::DefinitionBuilder;
pub use characters::Characters;
pub use definition::Definition;
pub use error::FieldsError;
pub use field::Kind;
pub use format::Format;
pub use template::TemplateOptions;
pub use validate::Invalid;
pub use weights::Weights;
