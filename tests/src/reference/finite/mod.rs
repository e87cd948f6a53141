//! A recognizer of JSON Schema that supports every keyword, for schemas with finitely many values.
//!
//! For each schema, the recognizer enumerates all texts. `values` lists the values that one
//! confining keyword allows, such as `enum`. `valid` keeps the values that the whole schema accepts.
//! `spell` writes each value as sequences of symbols, and `tree` stores the sequences. A text can
//! be completed exactly if it is a prefix of a spelling of one of the sequences. No separate test
//! of satisfiability is needed.
//!
//! One character stands for many: [`OTHER`] in a value is any character outside the [`ALPHABET`].
//! Schemas cannot distinguish characters outside the alphabet. Their words, names and patterns use
//! the alphabet only. A character class contains some letters of the alphabet, or all characters
//! except some letters. The set of short strings is therefore finite.
//!
//! If the schema contains `uniqueItems`, two occurrences of [`OTHER`] may be equal or different
//! characters. Strings are then not enumerated, except the empty string and listed ones.
//!
//! The recognizer does not support `format`, numbers without bounds, strings without a maximum
//! length, objects open to more than one undeclared name, and references between documents.
//! [`json_schema`](super::json_schema) supports some of these.

mod containers;
mod pattern;
mod spell;
mod tree;
mod valid;
mod values;

use formwork_grammar::SchemaOptions;
use serde_json::Value;

pub use tree::{Position, Tree};
use valid::Validator;

/// Characters that schemas may mention in words, names and patterns.
pub const ALPHABET: [char; 4] = ['a', 'b', 'é', '"'];

/// Stands in values for any character outside the [`ALPHABET`].
pub const OTHER: char = '\u{e000}';

/// Maximum number of values that a schema or a subschema may have.
const MOST_VALUES: usize = 1500;

/// Maximum number of texts of a schema. Texts that differ only in whitespace of variable length, or
/// in the spelling of strings and numbers, count once.
const MOST_TEXTS: usize = 5000;

/// The values that a schema accepts, and their texts.
pub struct Reference {
    /// Values of the schema. The character [`OTHER`] in a string stands for any character outside
    /// the [`ALPHABET`].
    pub values: Vec<Value>,
    /// Texts of the values, with numbers as plain decimals. A grammar for the schema must accept
    /// all of these.
    pub tree: Tree,
    /// Texts of the values, with numbers also in scientific notation if the profile allows it. A
    /// grammar for the schema must accept no other texts. The schema's keywords about numbers
    /// determine which of these numbers it accepts.
    pub widest: Tree,
}

impl Reference {
    /// Enumerates the values and texts that `schema` accepts. Returns `None` if its keywords do not
    /// confine the values, or if there are too many values or texts.
    pub fn new(schema: &Value, options: &SchemaOptions) -> Option<Self> {
        let validator = Validator::new(schema);
        let values = values::Values::new(&validator).of(schema)?;
        let mut tree = Tree::new(options.profile);
        let mut count = 0;
        for value in &values {
            let texts = spell::texts(value, *options);
            count += texts.len();
            if count > MOST_TEXTS {
                return None;
            }
            for text in texts {
                tree.insert(text);
            }
        }
        Some(Self { values, widest: tree.with_scientific(), tree })
    }

    /// Returns the positions in [`Reference::tree`] after `text`. The result is empty if no text of
    /// the schema begins with `text`.
    pub fn after(&self, text: &[u8]) -> Vec<Position> {
        self.tree.after(text)
    }
}

/// Reports whether a schema accepts a value. The recognizer depends on this function, so tests
/// compare it with another validator.
pub fn is_valid(schema: &Value, value: &Value) -> bool {
    Validator::new(schema).accepts(schema, value)
}
