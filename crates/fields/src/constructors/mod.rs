//! Definitions in C# notation: constructor expressions of the field types.
//!
//! ```csharp
//! var schema = new CompositeField("Character", new JsonField[]
//! {
//!     new StringField("name", 3, 20),
//!     new IntField("age", 0, 120) { Optional = true },
//! });
//! ```
//!
//! A text is a list of statements. A declaration gives a name to a field, a list or a literal, and
//! later statements may use the name. A statement without `new` is skipped. The definition is the
//! only field that no other statement uses.
//!
//! The result is a tree in the same form as other formats ([`Node`]). Types and keys are checked in
//! [`crate::read`]. Every error contains a line and a column.

mod convert;
mod lexer;
mod parser;
mod write;

use crate::builder::DefinitionBuilder;
use crate::error::{Fault, FieldsError};
use crate::{Definition, read};

pub(crate) use self::write::definition as to_text;

/// Line and column of a token, both starting at 1. Columns count characters.
type Place = (usize, usize);

/// Error with its place.
struct Wrong {
    place: Place,
    message: String,
}

impl Wrong {
    fn new(place: Place, message: impl Into<String>) -> Self {
        Self { place, message: message.into() }
    }
}

impl From<Wrong> for FieldsError {
    fn from(Wrong { place: (line, column), message }: Wrong) -> Self {
        Fault::Syntax { format: "C#", line, column, message }.into()
    }
}

/// Reads a definition.
///
/// # Errors
/// Returns an error with line and column if the text is malformed, or if the definition is invalid.
pub(crate) fn definition(text: &str) -> Result<Definition, FieldsError> {
    let root = parser::root(lexer::tokens(text)?)?;
    let (node, places) = convert::definition(root)?;
    read::definition(node).and_then(DefinitionBuilder::build).map_err(|error| {
        // The places of fields are looked up by their path. A field inside a literal has none, so
        // the closest enclosing field is used.
        let Some(path) = error.path() else { return error };
        let is_within = |known: &str| {
            known == "$"
                || path
                    .strip_prefix(known)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let known = places.iter().filter(|(known, _)| is_within(known));
        let nearest = known.max_by_key(|(known, _)| if known == "$" { 0 } else { known.len() });
        let place = nearest.map_or((1, 1), |(_, place)| *place);
        Wrong::new(place, error.to_string()).into()
    })
}

/// Returns the signs of a C# text, without names, literals and comments.
#[cfg(test)]
pub(crate) fn signs(text: &str) -> Result<Vec<char>, FieldsError> {
    let sign = |(token, _)| match token {
        lexer::Token::Sign(sign) => Some(sign),
        _ => None,
    };
    Ok(lexer::tokens(text)?.tokens.into_iter().filter_map(sign).collect())
}

#[cfg(test)]
mod tests;
