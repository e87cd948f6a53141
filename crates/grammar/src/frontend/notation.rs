//! Notations: how the arguments of a call are written where they are not one JSON text.

use super::parts::Part;
use crate::argument_types::{Names, RawSection, ValueType};

/// The way in which a format of calls writes an object and the values in it.
///
/// Every value of a schema has one text in a notation. For example, a notation may write each member
/// as `<parameter=NAME>`, the value and `</parameter>`, where a string is raw text and an array is
/// JSON.
///
/// # Limitations
/// A notation cannot write every schema. Examples are names that contain the text after a name, and
/// `enum` strings that contain the text after a value. Another one is a bound on the number of
/// undeclared members outside of nested JSON.
///
/// If several types have the empty text, it stands for the first of an empty string, array, object and
/// `null` that a value may be; the others cannot be written. If names are repeated, rules cannot
/// require that an undeclared name is repeated exactly.
/// Compilation fails for such schemas, with an error for which
/// [`GrammarError::is_notation`](crate::GrammarError::is_notation) is true.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Notation {
    /// Texts around the members of an object.
    pub object: Brackets,
    /// Texts around all items of an array. Only used below the first level.
    pub array: Brackets,
    /// Text before the name of a member.
    pub name_open: Part,
    /// Text after the name that is repeated after the value, as in `<name>value</name>`. `None` if names
    /// are not repeated.
    pub name_close: Option<Part>,
    /// Name with which an item of an array is written like a member. `None` if items have no names.
    pub item_name: Option<String>,
    /// Names that members may have.
    pub names: Names,
    /// Texts around the value of a member, by the type of the value in the order of
    /// [`ValueType::ALL`].
    pub around: [Around; 6],
    /// Form of strings.
    pub strings: Strings,
    /// Texts of `null` and booleans.
    pub literals: Literals,
    /// Form of the arrays and objects inside of this object.
    pub nested: Nested,
}

/// Texts around the parts of an array or object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Brackets {
    /// Text before the first part.
    pub open: Part,
    /// Text between two parts.
    pub separator: Part,
    /// Text after the last part.
    pub close: Part,
    /// The whole text without any part.
    pub empty: Part,
}

/// Texts around the value of a member.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Around {
    /// Text between the name and the value.
    pub before: Part,
    /// Text after the value. A repeated name comes after this text.
    pub after: Part,
}

/// Strings in a notation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Strings {
    /// The characters of the string, without escapes, up to the text after the value. The string must
    /// not contain any of the texts in `avoid`.
    ///
    /// If the value may have another type, a string that reads like a value of this type cannot be
    /// written. See [`ArgumentTypes`](crate::ArgumentTypes).
    Raw {
        /// Texts that strings must not contain. The first one begins or is the text after the value.
        avoid: Vec<String>,
        /// Text with which arrays and objects begin. `None` if they begin with a bracket of JSON.
        nested_open: Option<String>,
        /// Another form, which all strings may have.
        section: Option<RawSection>,
    },
    /// The characters of the string, without escapes, between two texts.
    Quoted {
        /// Text before the string.
        open: Part,
        /// Text after the string.
        close: Part,
        /// Texts that strings must not contain.
        avoid: Vec<String>,
    },
    /// A JSON string.
    Json,
    /// A literal of Python between single quotes.
    Python,
}

/// Texts of values without structure. The first text of each list is preferred; the others are also
/// allowed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Literals {
    /// Texts of `null`.
    pub null: Vec<String>,
    /// Texts of `false`.
    pub no: Vec<String>,
    /// Texts of `true`.
    pub yes: Vec<String>,
}

/// Arrays and objects inside of an object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Nested {
    /// They are JSON.
    Json,
    /// They have the same notation.
    Same,
    /// They have another notation.
    Other(Box<Notation>),
    /// Arrays have another notation, also for the objects in them. Objects are JSON.
    OtherArrays(Box<Notation>),
}

impl Notation {
    /// Returns the texts around a value of the type `kind`.
    pub const fn around(&self, kind: ValueType) -> &Around {
        &self.around[kind as usize]
    }
}

impl Literals {
    /// The texts of JSON.
    pub fn json() -> Self {
        Self { null: vec!["null".to_owned()], no: vec!["false".to_owned()], yes: vec!["true".to_owned()] }
    }
}
