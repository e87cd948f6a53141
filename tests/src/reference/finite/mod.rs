//! A recogniser of JSON Schema that knows every keyword, for schemas with finitely many values.
//!
//! A schema whose own keywords leave finitely many values is judged by writing them all down: [`values`] lists the values
//! that the confining keywords leave, [`valid`] keeps those that the whole schema accepts, [`spell`] writes each as a
//! sequence of symbols, and the sequences become a [`tree`]. A text can be finished exactly if it is the beginning of a
//! spelling of one of the sequences, so there is nothing to decide about satisfiability.
//!
//! One character stands for many: [`OTHER`] in a value is any character that is not of the [`ALPHABET`]. Schemas tell
//! apart no others: their words, names and patterns are made of the alphabet, and their classes are of its letters or all
//! but them. So strings of free text are finite, too, as long as they are short.
//!
//! Where `uniqueItems` compares values, that one character will not do, and free text is not confined then.
//!
//! What it does not know: `format`, numbers without bounds, strings without a maximum, objects open to more than one
//! undeclared name, references between documents. [`json_schema`](super::json_schema) has some of these.

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

/// The characters that schemas may mention in words, names and patterns.
pub const ALPHABET: [char; 4] = ['a', 'b', 'é', '"'];

/// Stands for every character that is not of the [`ALPHABET`].
pub const OTHER: char = '\u{e000}';

/// The most values of a schema, and of each place in it.
const MOST_VALUES: usize = 1500;

/// The most texts, white space and spellings of scalars not counted.
const MOST_TEXTS: usize = 5000;

/// The texts of a schema.
pub struct Reference {
    /// Its values; [`OTHER`] stands for any other character.
    pub values: Vec<Value>,
    /// Their texts.
    pub tree: Tree,
}

impl Reference {
    /// Writes down what `schema` accepts; `None` where its keywords do not confine it, or leave too much.
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
        Some(Self { values, tree })
    }

    /// The positions after `text`; none where no text of the schema begins so.
    pub fn after(&self, text: &[u8]) -> Vec<Position> {
        text.iter().fold(self.tree.start(), |positions, &byte| self.tree.step(&positions, byte))
    }
}

/// Whether a schema accepts a value: the judgement that the recogniser rests on, for comparison with that of others.
pub fn is_valid(schema: &Value, value: &Value) -> bool {
    Validator::new(schema).accepts(schema, value)
}
