//! The kinds of fields as plain data, with public members.

use crate::Characters;

/// Placeholder for a generated text in a [`Template`].
pub const PLACE: &str = "<generated>";

/// Kind of a field: the set of values that the field allows.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// Integer within bounds.
    Int(Int),
    /// Decimal number within bounds.
    Float(Float),
    /// String with bounds on its length and characters.
    String(Text),
    /// One of several fixed values.
    Choice(Choice),
    /// `true` or `false`.
    Boolean,
    /// A single fixed value.
    Constant(Scalar),
    /// Object with a fixed list of members.
    Composite(Composite),
    /// One of several structures, with or without tags.
    Variant(Variant),
    /// String with fixed and generated parts.
    Template(Template),
    /// List of items of one kind.
    Array(Array),
    /// Reference to the structure of this name in the definition.
    Ref(String),
    /// Any other kind together with a description.
    Described(Described),
}

/// Kind with a description. The description appears in the template and the schema, but does not
/// change the allowed values.
#[derive(Clone, PartialEq, Debug)]
pub struct Described {
    /// Hint for the model or person that writes the value.
    pub description: String,
    /// The described kind. Must not be [`Kind::Described`].
    pub kind: Box<Kind>,
}

impl Kind {
    /// Returns the kind without its description. A kind without a description is returned as it is.
    pub fn plain(&self) -> &Self {
        match self {
            Self::Described(described) => &described.kind,
            other => other,
        }
    }

    /// Returns the description, or `None` if the kind has none.
    pub fn description(&self) -> Option<&str> {
        match self {
            Self::Described(described) => Some(&described.description),
            _ => None,
        }
    }

    /// Adds a description to the kind. Replaces an existing description.
    #[must_use]
    pub fn describe(self, description: impl Into<String>) -> Self {
        let kind = match self {
            Self::Described(described) => described.kind,
            other => Box::new(other),
        };
        Self::Described(Described { description: description.into(), kind })
    }
}

/// Integer within inclusive bounds. A missing bound defaults to the limit of `i64`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Int {
    /// Smallest allowed value. If `None`, the smallest value is [`i64::MIN`].
    pub min: Option<i64>,
    /// Largest allowed value. If `None`, the largest value is [`i64::MAX`].
    pub max: Option<i64>,
}

/// Decimal number within inclusive bounds.
///
/// A missing bound defaults to the range in which 64-bit floats distinguish all values. This range
/// is ±1,000,000,000,000,000 units of the last decimal place, or ±9,007,199,254,740,991 without
/// decimals.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Float {
    /// Smallest allowed value. If `None`, the default bound described above applies.
    pub min: Option<f64>,
    /// Largest allowed value. If `None`, the default bound described above applies.
    pub max: Option<f64>,
    /// Maximum number of digits after the decimal point, at most 15. If `None`, the bounds
    /// determine the number of digits, with a minimum of 2.
    pub decimals: Option<u32>,
}

/// String with bounds on its length and characters. Length is the number of Unicode characters. An
/// escape sequence counts as one character.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Text {
    /// Minimum length in characters.
    pub min_length: usize,
    /// Maximum length in characters. If `None`, the length is not limited.
    pub max_length: Option<usize>,
    /// Allowed characters. If `None`, the characters of [`Characters::default`] are allowed.
    pub characters: Option<Characters>,
}

/// String whose template contains one or more [`PLACE`]s. Each place stands for a separate
/// generated text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    /// Fixed text that contains the places.
    pub template: String,
    /// Bounds of the text in each place.
    pub text: Text,
}

impl Template {
    /// Returns the fixed texts before, between and after the places. A template with `n` places has
    /// `n + 1` fixed texts, which may be empty.
    pub(crate) fn literals(&self) -> Vec<&str> {
        self.template.split(PLACE).collect()
    }
}

/// Boolean, number or string.
#[derive(Clone, PartialEq, Debug)]
pub enum Scalar {
    /// `true` or `false`.
    Boolean(bool),
    /// Integer of 64 bits.
    Integer(i64),
    /// Finite number that is not whole. Create numbers with [`Scalar::from`], which stores whole
    /// numbers as integers.
    Number(f64),
    /// String of any characters.
    String(String),
}

/// One of several fixed values.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// Allowed values, without duplicates.
    pub options: Vec<Scalar>,
    /// Relative weights of the options, in any unit: empty, or one weight from 1e-9 to 1e9 for each
    /// option.
    pub weights: Vec<f64>,
}

/// Object with a fixed list of members. Other members are not allowed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Composite {
    /// Members, in the order in which they are written. Their names must be unique.
    pub fields: Vec<Member>,
}

/// Member of an object.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// Name of the member. Must not be empty.
    pub name: String,
    /// Kind of the member's value.
    pub kind: Kind,
    /// True if the member may be omitted.
    pub optional: bool,
    /// Probability that an optional member is present, between 0 and 1, for a model that has no
    /// preference. If `None`, the model decides.
    pub probability: Option<f64>,
}

/// One of several structures. Written as `{"name": structure}`, or as the structure alone if
/// `untagged` is true.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// Alternative structures. There must be at least one.
    pub variants: Vec<Branch>,
    /// True if structures are written without their names.
    pub untagged: bool,
    /// Relative weights of the structures, in any unit: empty, or one weight from 1e-9 to 1e9 for
    /// each structure. An untagged variant has no weights.
    pub weights: Vec<f64>,
}

/// Alternative of a [`Variant`].
#[derive(Clone, PartialEq, Debug)]
pub struct Branch {
    /// Tag of the structure. Required unless the variant is untagged.
    pub name: Option<String>,
    /// Kind of the structure.
    pub kind: Kind,
}

/// List with bounds on its number of items.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// Kind of every item.
    pub element: Box<Kind>,
    /// Minimum number of items.
    pub min_items: usize,
    /// Maximum number of items. If `None`, the number is not limited.
    pub max_items: Option<usize>,
}

impl Scalar {
    /// Converts the scalar to a [`serde_json::Value`].
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Boolean(value) => (*value).into(),
            Self::Integer(value) => (*value).into(),
            Self::Number(value) => (*value).into(),
            Self::String(value) => value.as_str().into(),
        }
    }

    /// Returns the scalar as canonical JSON text. Numbers are in plain decimal notation, without an
    /// exponent.
    pub fn text(&self) -> String {
        match self {
            Self::Number(value) => value.to_string(),
            other => other.to_json().to_string(),
        }
    }
}

impl From<bool> for Scalar {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<i32> for Scalar {
    fn from(value: i32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<f64> for Scalar {
    /// Stores whole numbers as integers, because JSON does not distinguish `2.0` from `2`.
    fn from(value: f64) -> Self {
        // From 2^53 on, a float may be the rounded form of another integer.
        let is_whole = value.fract() == 0.0 && value.abs() < 9_007_199_254_740_992.0;
        if is_whole { Self::Integer(value as i64) } else { Self::Number(value) }
    }
}

impl From<&str> for Scalar {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<String> for Scalar {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

macro_rules! kind_from {
    ($($part:ty => $kind:ident),*) => {
        $(impl From<$part> for Kind {
            fn from(part: $part) -> Self {
                Self::$kind(part)
            }
        })*
    };
}

kind_from!(
    Int => Int, Float => Float, Text => String, Choice => Choice, Scalar => Constant, Composite => Composite,
    Variant => Variant, Template => Template, Array => Array, Described => Described
);
