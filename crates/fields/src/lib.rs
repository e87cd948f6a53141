//! Typed field definitions. A JSON structure is declared once and yields a grammar, a prompt
//! template, a JSON Schema and a validator that agree with each other.
//!
//! A [`Definition`] is built in Rust ([`builder`]), read from JSON, YAML or TOML
//! ([`Definition::parse`]), or derived from a Rust type ([`Definition::of`]). Every definition is
//! checked when it is created. A contradictory field is reported as an error with the path of the
//! field.
//!
//! All outputs of a checked definition can be generated without errors, except the grammar.
//! [`Definition::grammar`] fails if the given limits are exceeded. For example, a string of at
//! least 70,000 characters exceeds the default limit of 65,536 bytes for the shortest output.
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
//! The grammar accepts exactly one text for each value, except for trailing zeros of fractions.
//! Trailing zeros are optional, up to the maximum number of decimals. The canonical text follows
//! these rules:
//!
//! - Members are in the order of the definition. Separators are `", "` and `": "`, without other
//!   whitespace.
//! - Integers have no leading zeros, fraction or exponent. Other numbers are in plain decimal
//!   notation. There is no `-0`.
//! - Generated text uses only the escapes `\n`, `\t`, `\"` and `\\`.
//! - Other control characters can occur in names, options, constants and the fixed text of
//!   templates. Each is written as its shortest escape, such as `\r` or `\u0001`.
//!
//! Outputs that `formwork_grammar` constrains by a JSON Schema follow the same rules.
//!
//! The schema and the validator compare values, so they accept any valid JSON spelling. On canonical
//! text, the grammar, the schema and the validator agree. The tests check this on random definitions
//! and values.
//!
//! # The written form
//! The format of definition files is described in `grammars/fields/README.md` of the repository, with
//! examples for each type. Unknown keys are rejected.
//!
//! # Limits
//! - Fields nest to at most 60 levels, which every format can represent.
//! - A definition has at most 20,000 fields, including the options of choices.
//! - At most 1,000 structures can be defined for references.
//! - Bounds of lengths and item counts are at most 1,000,000.
//! - Decimal numbers in a definition must be in the range in which 64-bit floats distinguish all
//!   values. A number with more digits in a validated text counts as its nearest float.
//! - The validator rejects JSON nested deeper than 1,024 levels, and reports at most 100 errors.
//!
//! Options of choices, structures of tagged variants and optional members can have weights. The
//! structures of an untagged variant cannot.

pub mod builder;
mod characters;
mod check;
mod constructors;
mod csharp;
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
pub use csharp::CSharpOptions;
pub use definition::Definition;
pub use error::FieldsError;
pub use field::Kind;
pub use format::Format;
pub use schema::SchemaOptions;
pub use template::TemplateOptions;
pub use validate::Invalid;
pub use weights::{Lead, Weights};

/// Runs the example of the README as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
