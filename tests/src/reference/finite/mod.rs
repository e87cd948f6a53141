//! A recognizer of JSON Schema that supports every keyword, for schemas with finitely many values.
//!
//! A schema whose own keywords leave finitely many values is judged by enumerating its texts.
//! [`values`] lists the values that the confining keywords leave. [`valid`] keeps the values that
//! the whole schema accepts. [`spell`] writes each value as sequences of symbols, and the sequences
//! form a [`tree`]. A text can be completed exactly if it is a prefix of a spelling of one of the
//! sequences. No separate test of satisfiability is needed.
//!
//! One character stands for many: [`OTHER`] in a value is any character outside the [`ALPHABET`].
//! Schemas cannot distinguish the characters outside. Their words, names and patterns use the
//! alphabet only, and their classes contain some of its letters or all except some. Short strings
//! of free text are therefore finite, too.
//!
//! Where `uniqueItems` compares values, one character cannot stand for many. Free text does not
//! count as confined there.
//!
//! Not supported are `format`, numbers without bounds, strings without a maximum length, objects
//! open to more than one undeclared name, and references between documents.
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

/// Stands for every character outside the [`ALPHABET`].
pub const OTHER: char = '\u{e000}';

/// Maximum number of values of a schema, and of each of its subschemas.
const MOST_VALUES: usize = 1500;

/// Maximum number of texts, not counting whitespace and different spellings of scalars.
const MOST_TEXTS: usize = 5000;

/// The values and texts of a schema.
pub struct Reference {
    /// Values of the schema; [`OTHER`] stands for any other character.
    pub values: Vec<Value>,
    /// Texts of the values. A grammar accepts at least these.
    pub tree: Tree,
    /// The same with numbers in scientific notation, if the profile has these. A grammar accepts no
    /// other texts. Which of these numbers it accepts depends on the keywords about numbers.
    pub widest: Tree,
}

impl Reference {
    /// Enumerates the values and texts that `schema` accepts. Returns `None` if its keywords do not
    /// confine the values, or leave too many.
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

    /// Returns the positions in the tree after `text`, or none if no text of the schema begins with `text`.
    pub fn after(&self, text: &[u8]) -> Vec<Position> {
        self.tree.after(text)
    }
}

/// Reports whether a schema accepts a value. The recognizer relies on this judgement, so tests
/// compare it with another validator.
pub fn is_valid(schema: &Value, value: &Value) -> bool {
    Validator::new(schema).accepts(schema, value)
}
