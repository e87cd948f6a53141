//! The kinds of fields, as data.

use crate::Characters;

/// What stands for a generated text in a [`Template`].
pub const PLACE: &str = "<generated>";

/// What a value may be.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// A whole number.
    Int(Int),
    /// A decimal number.
    Float(Float),
    /// A string of any text.
    String(Text),
    /// One of several values.
    Choice(Choice),
    /// `true` or `false`.
    Boolean,
    /// One value.
    Constant(Scalar),
    /// An object with these members.
    Composite(Composite),
    /// One of several structures.
    Variant(Variant),
    /// A string with fixed and generated parts.
    Template(Template),
    /// A list.
    Array(Array),
    /// The structure that the definition has under this name.
    Ref(String),
    /// Any of these, with a hint for who writes the value.
    Described(Described),
}

/// A kind with a hint. It changes no value: it is in the template and the schema only.
#[derive(Clone, PartialEq, Debug)]
pub struct Described {
    /// What the value is to be, in words.
    pub description: String,
    /// What it may be. It has no further description of its own.
    pub kind: Box<Kind>,
}

impl Kind {
    /// Itself without its description, if it has one.
    pub fn plain(&self) -> &Self {
        match self {
            Self::Described(described) => &described.kind,
            other => other,
        }
    }

    /// Its description.
    pub fn description(&self) -> Option<&str> {
        match self {
            Self::Described(described) => Some(&described.description),
            _ => None,
        }
    }

    /// Itself with this description, instead of any that it has.
    #[must_use]
    pub fn describe(self, description: impl Into<String>) -> Self {
        let kind = match self {
            Self::Described(described) => described.kind,
            other => Box::new(other),
        };
        Self::Described(Described { description: description.into(), kind })
    }
}

/// A whole number within bounds, both included. Without one it is that of 64 bits.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Int {
    /// The least.
    pub min: Option<i64>,
    /// The greatest.
    pub max: Option<i64>,
}

/// A decimal number within bounds, both included.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Float {
    /// The least. Without it, or without a greatest, the numbers reach as far as 64-bit floats tell all of them apart: to
    /// 1,000,000,000,000,000 units of the last decimal, and to 9,007,199,254,740,991 where there are no decimals.
    pub min: Option<f64>,
    /// The greatest.
    pub max: Option<f64>,
    /// The most digits after the point. Without it 2, or as many as the bounds have.
    pub decimals: Option<u32>,
}

/// A string by its length in characters: Unicode's, an escape being one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Text {
    /// The fewest characters.
    pub min_length: usize,
    /// The most characters.
    pub max_length: Option<usize>,
    /// The characters that it may have; without it all of [`Characters::default`].
    pub characters: Option<Characters>,
}

/// A string whose template has one or more [`PLACE`]s; each becomes a text by the bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    /// The fixed text, with places.
    pub template: String,
    /// What comes to each place.
    pub text: Text,
}

impl Template {
    /// The fixed texts before, between and after the places.
    pub(crate) fn literals(&self) -> Vec<&str> {
        self.template.split(PLACE).collect()
    }
}

/// A value without parts.
#[derive(Clone, PartialEq, Debug)]
pub enum Scalar {
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// Any other finite number. Whole ones are written as such, so use [`Scalar::from`].
    Number(f64),
    /// A string.
    String(String),
}

/// One of several values.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The values.
    pub options: Vec<Scalar>,
    /// How likely each is, in any unit: none, or one for each option.
    pub weights: Vec<f64>,
}

/// An object. Members come in this order, and no others do.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Composite {
    /// The members.
    pub fields: Vec<Member>,
}

/// A member of an object.
#[derive(Clone, PartialEq, Debug)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// What its value may be.
    pub kind: Kind,
    /// Whether it may be left out.
    pub optional: bool,
}

/// One of several structures, which come as `{"name": structure}`, or as themselves where it is untagged.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// The structures.
    pub variants: Vec<Branch>,
    /// Whether the structures come without their names.
    pub untagged: bool,
}

/// A structure of a [`Variant`].
#[derive(Clone, PartialEq, Debug)]
pub struct Branch {
    /// Its tag, which an untagged variant can do without.
    pub name: Option<String>,
    /// The structure.
    pub kind: Kind,
}

/// A list by the number of its items.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// What each item may be.
    pub element: Box<Kind>,
    /// The fewest items.
    pub min_items: usize,
    /// The most items.
    pub max_items: Option<usize>,
}

impl Scalar {
    /// The value as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Boolean(value) => (*value).into(),
            Self::Integer(value) => (*value).into(),
            Self::Number(value) => (*value).into(),
            Self::String(value) => value.as_str().into(),
        }
    }

    /// The canonical JSON text: of a number, its plain decimal notation.
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
    /// Whole numbers become integers: JSON does not tell `2.0` from `2`.
    fn from(value: f64) -> Self {
        // 2^53 may be what a larger number was rounded to.
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
