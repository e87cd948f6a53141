//! Functions that build fields in Rust, one for each kind.
//!
//! ```
//! use formwork_fields::Definition;
//! use formwork_fields::builder::{choice, composite, field, int, string};
//! let character = Definition::new(
//!     "Character",
//!     composite([
//!         field("name", string(3, 20)),
//!         field("age", int(0, 120)),
//!         field("class", choice(["warrior", "mage", "rogue"])),
//!         field("title", string(1, 30)).optional(),
//!     ]),
//! )?;
//! assert!(character.validate(r#"{"name": "Ava", "age": 25, "class": "mage"}"#).is_empty());
//! # Ok::<(), formwork_fields::FieldsError>(())
//! ```

use crate::field::{
    Array, Branch, Choice, Composite, Float, Int, Kind, Member, Scalar, Template, Text, Variant,
};
use crate::{Characters, Definition, FieldsError};

/// Creates an integer field. Both bounds are inclusive.
pub const fn int(min: i64, max: i64) -> Int {
    Int { min: Some(min), max: Some(max) }
}

/// Creates a decimal number field. Both bounds are inclusive. See [`Float::decimals`] for the
/// number of digits.
pub const fn float(min: f64, max: f64) -> Float {
    Float { min: Some(min), max: Some(max), decimals: None }
}

/// Creates a string field of `min` to `max` characters.
pub const fn string(min: usize, max: usize) -> Text {
    Text { min_length: min, max_length: Some(max), characters: None }
}

/// Creates a field that allows only the values in `options`.
pub fn choice<S: Into<Scalar>>(options: impl IntoIterator<Item = S>) -> Choice {
    Choice { options: options.into_iter().map(Into::into).collect(), weights: Vec::new() }
}

/// Creates a choice field from pairs of an allowed value and its weight. Only the ratio of the
/// weights matters: weights of 3 and 1 mean shares of 75% and 25%.
pub fn weighted<S: Into<Scalar>>(options: impl IntoIterator<Item = (S, f64)>) -> Choice {
    let (options, weights) = options.into_iter().map(|(option, weight)| (option.into(), weight)).unzip();
    Choice { options, weights }
}

/// Creates a field whose value is `true` or `false`.
pub const fn boolean() -> Kind {
    Kind::Boolean
}

/// Creates a field with a fixed value.
pub fn constant(value: impl Into<Scalar>) -> Kind {
    Kind::Constant(value.into())
}

/// Creates an object field. Members are written in the given order.
pub fn composite(fields: impl IntoIterator<Item = Member>) -> Composite {
    Composite { fields: fields.into_iter().collect() }
}

/// Creates a required member of an object, called `name`. Use [`Member::optional`] to make the
/// member optional.
pub fn field(name: impl Into<String>, kind: impl Into<Kind>) -> Member {
    Member { name: name.into(), kind: kind.into(), optional: false, probability: None }
}

/// Creates a tagged variant: one of several structures, written as `{"tag": structure}`.
pub fn variant<N: Into<String>, K: Into<Kind>>(variants: impl IntoIterator<Item = (N, K)>) -> Variant {
    let branch = |(name, kind): (N, K)| Branch { name: Some(name.into()), kind: kind.into() };
    Variant { variants: variants.into_iter().map(branch).collect(), untagged: false, weights: Vec::new() }
}

/// Creates a tagged variant from triples of a tag, a structure and its weight. Only the ratio of
/// the weights matters.
///
/// ```
/// use formwork_fields::Definition;
/// use formwork_fields::builder::{boolean, int, weighted_variant};
/// let event = weighted_variant([("hit", int(1, 9).into(), 3.0), ("miss", boolean(), 1.0)]);
/// let template = Definition::new("event", event)?.template();
/// assert!(template.starts_with("\"<choose one of the following structures, with shares of 75%, 25%>"));
/// # Ok::<(), formwork_fields::FieldsError>(())
/// ```
pub fn weighted_variant<N: Into<String>>(variants: impl IntoIterator<Item = (N, Kind, f64)>) -> Variant {
    let split = |(name, kind, weight)| ((name, kind), weight);
    let (variants, weights): (Vec<_>, _) = variants.into_iter().map(split).unzip();
    Variant { weights, ..variant(variants) }
}

/// Creates an untagged variant: one of several structures without names. To give the structures
/// names in error messages, create a tagged variant and call [`Variant::untagged`].
pub fn untagged<K: Into<Kind>>(variants: impl IntoIterator<Item = K>) -> Variant {
    let branch = |kind: K| Branch { name: None, kind: kind.into() };
    Variant { variants: variants.into_iter().map(branch).collect(), untagged: true, weights: Vec::new() }
}

/// Creates a string field with fixed text. Each `<generated>` in `template` stands for a generated
/// text of `min` to `max` characters.
pub fn template(template: impl Into<String>, min: usize, max: usize) -> Template {
    Template { template: template.into(), text: string(min, max) }
}

/// Creates a list field of `min` to `max` items.
pub fn array(min: usize, max: usize, element: impl Into<Kind>) -> Array {
    Array { element: Box::new(element.into()), min_items: min, max_items: Some(max) }
}

/// Adds a description to a field: a hint for the model or person that writes the value.
///
/// ```
/// use formwork_fields::Definition;
/// use formwork_fields::builder::{described, int};
/// let age = Definition::new("age", described("in years", int(0, 120)))?;
/// assert_eq!(age.template(), r#""<integer between 0–120 (in years)>""#);
/// # Ok::<(), formwork_fields::FieldsError>(())
/// ```
pub fn described(description: impl Into<String>, kind: impl Into<Kind>) -> Kind {
    kind.into().describe(description)
}

/// Creates a reference to the structure called `name` in the definition.
pub fn reference(name: impl Into<String>) -> Kind {
    Kind::Ref(name.into())
}

impl Int {
    /// Creates an integer field with a lower bound only.
    pub const fn at_least(min: i64) -> Self {
        Self { min: Some(min), max: None }
    }

    /// Creates an integer field with an upper bound only.
    pub const fn at_most(max: i64) -> Self {
        Self { min: None, max: Some(max) }
    }
}

impl Float {
    /// Creates a decimal number field with a lower bound only.
    pub const fn at_least(min: f64) -> Self {
        Self { min: Some(min), max: None, decimals: None }
    }

    /// Creates a decimal number field with an upper bound only.
    pub const fn at_most(max: f64) -> Self {
        Self { min: None, max: Some(max), decimals: None }
    }

    /// Sets the maximum number of digits after the decimal point, at most 15.
    #[must_use]
    pub const fn decimals(mut self, decimals: u32) -> Self {
        self.decimals = Some(decimals);
        self
    }
}

impl Text {
    /// Creates a string field of at least `min` characters.
    pub const fn at_least(min: usize) -> Self {
        Self { min_length: min, max_length: None, characters: None }
    }

    /// Restricts the string to the characters of the set `characters`.
    #[must_use]
    pub fn of(mut self, characters: Characters) -> Self {
        self.characters = Some(characters);
        self
    }
}

impl Variant {
    /// Makes the variant untagged: a structure is written without its name. The names still appear
    /// in error paths and in the rule names of the grammar.
    #[must_use]
    pub const fn untagged(mut self) -> Self {
        self.untagged = true;
        self
    }
}

impl Array {
    /// Creates a list field of at least `min` items.
    pub fn at_least(min: usize, element: impl Into<Kind>) -> Self {
        Self { element: Box::new(element.into()), min_items: min, max_items: None }
    }
}

impl Template {
    /// Creates a string field with fixed text. Each `<generated>` in `template` stands for a
    /// generated text of at least `min` characters.
    pub fn at_least(template: impl Into<String>, min: usize) -> Self {
        Self { template: template.into(), text: Text::at_least(min) }
    }

    /// Restricts the generated texts to the characters of the set `characters`.
    #[must_use]
    pub fn of(mut self, characters: Characters) -> Self {
        self.text.characters = Some(characters);
        self
    }
}

impl Member {
    /// Adds a description: a hint for the model or person that writes the value.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.kind = self.kind.describe(description);
        self
    }

    /// Makes the member optional.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Makes the member optional. `probability` is the probability that the member is present, for
    /// a model without a preference, between 0 and 1.
    #[must_use]
    pub const fn probability(mut self, probability: f64) -> Self {
        self.optional = true;
        self.probability = Some(probability);
        self
    }
}

/// Builder for a [`Definition`] with named structures, which fields can refer to.
///
/// ```
/// use formwork_fields::DefinitionBuilder;
/// use formwork_fields::builder::{array, composite, field, reference, string};
/// let folder = composite([
///     field("name", string(1, 20)),
///     field("folders", array(0, 5, reference("folder"))),
/// ]);
/// let definition = DefinitionBuilder::new(reference("folder")).define("folder", folder).build()?;
/// assert!(definition.gbnf().contains("folder ::="));
/// # Ok::<(), formwork_fields::FieldsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DefinitionBuilder {
    pub(crate) name: Option<String>,
    pub(crate) root: Kind,
    pub(crate) definitions: Vec<(String, Kind)>,
}

impl DefinitionBuilder {
    /// Starts a definition without a name and without named structures. `root` is the kind of the
    /// whole output.
    pub fn new(root: impl Into<Kind>) -> Self {
        Self { name: None, root: root.into(), definitions: Vec::new() }
    }

    /// Sets the name of the definition, which is the `title` of its JSON Schema.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Adds a named structure as a target for [`reference`]s. Names consist of ASCII letters,
    /// digits, `_` and `-`.
    #[must_use]
    pub fn define(mut self, name: impl Into<String>, kind: impl Into<Kind>) -> Self {
        self.definitions.push((name.into(), kind.into()));
        self
    }

    /// Checks the fields and returns the finished definition.
    ///
    /// # Errors
    /// Returns an error if a field is invalid, for example if its lower bound is above its upper
    /// bound. The error contains the path of the field.
    pub fn build(self) -> Result<Definition, FieldsError> {
        Definition::checked(self)
    }
}
