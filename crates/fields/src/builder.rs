//! Fields in Rust: a function for each kind.
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

/// A whole number, both bounds included.
pub const fn int(min: i64, max: i64) -> Int {
    Int { min: Some(min), max: Some(max) }
}

/// A decimal number, both bounds included; see [`Float::decimals`].
pub const fn float(min: f64, max: f64) -> Float {
    Float { min: Some(min), max: Some(max), decimals: None }
}

/// A string of so many characters.
pub const fn string(min: usize, max: usize) -> Text {
    Text { min_length: min, max_length: Some(max), characters: None }
}

/// One of several values.
pub fn choice<S: Into<Scalar>>(options: impl IntoIterator<Item = S>) -> Choice {
    Choice { options: options.into_iter().map(Into::into).collect(), weights: Vec::new() }
}

/// One of several values, each with how likely it is, in any unit.
pub fn weighted<S: Into<Scalar>>(options: impl IntoIterator<Item = (S, f64)>) -> Choice {
    let (options, weights) = options.into_iter().map(|(option, weight)| (option.into(), weight)).unzip();
    Choice { options, weights }
}

/// `true` or `false`.
pub const fn boolean() -> Kind {
    Kind::Boolean
}

/// One value.
pub fn constant(value: impl Into<Scalar>) -> Kind {
    Kind::Constant(value.into())
}

/// An object.
pub fn composite(fields: impl IntoIterator<Item = Member>) -> Composite {
    Composite { fields: fields.into_iter().collect() }
}

/// A member of an object.
pub fn field(name: impl Into<String>, kind: impl Into<Kind>) -> Member {
    Member { name: name.into(), kind: kind.into(), optional: false }
}

/// One of several structures, each with its tag: `{"tag": structure}`.
pub fn variant<N: Into<String>, K: Into<Kind>>(variants: impl IntoIterator<Item = (N, K)>) -> Variant {
    let branch = |(name, kind): (N, K)| Branch { name: Some(name.into()), kind: kind.into() };
    Variant { variants: variants.into_iter().map(branch).collect(), untagged: false }
}

/// One of several structures, without tags; see [`Variant::untagged`] for such with names.
pub fn untagged<K: Into<Kind>>(variants: impl IntoIterator<Item = K>) -> Variant {
    let branch = |kind: K| Branch { name: None, kind: kind.into() };
    Variant { variants: variants.into_iter().map(branch).collect(), untagged: true }
}

/// A string of fixed text with one or more `<generated>`, each a text of so many characters.
pub fn template(template: impl Into<String>, min: usize, max: usize) -> Template {
    Template { template: template.into(), text: string(min, max) }
}

/// A list of so many items.
pub fn array(min: usize, max: usize, element: impl Into<Kind>) -> Array {
    Array { element: Box::new(element.into()), min_items: min, max_items: Some(max) }
}

/// A value with a hint for who writes it.
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

/// The structure that the definition has under this name.
pub fn reference(name: impl Into<String>) -> Kind {
    Kind::Ref(name.into())
}

impl Int {
    /// A whole number of at least this.
    pub const fn at_least(min: i64) -> Self {
        Self { min: Some(min), max: None }
    }

    /// A whole number of at most this.
    pub const fn at_most(max: i64) -> Self {
        Self { min: None, max: Some(max) }
    }
}

impl Float {
    /// A decimal number of at least this.
    pub const fn at_least(min: f64) -> Self {
        Self { min: Some(min), max: None, decimals: None }
    }

    /// A decimal number of at most this.
    pub const fn at_most(max: f64) -> Self {
        Self { min: None, max: Some(max), decimals: None }
    }

    /// The most digits after the point.
    #[must_use]
    pub const fn decimals(mut self, decimals: u32) -> Self {
        self.decimals = Some(decimals);
        self
    }
}

impl Text {
    /// A string of so many characters or more.
    pub const fn at_least(min: usize) -> Self {
        Self { min_length: min, max_length: None, characters: None }
    }

    /// Of these characters only.
    #[must_use]
    pub fn of(mut self, characters: Characters) -> Self {
        self.characters = Some(characters);
        self
    }
}

impl Variant {
    /// Without tags. The names of its structures stay, for the paths of errors and the rules of the grammar.
    #[must_use]
    pub const fn untagged(mut self) -> Self {
        self.untagged = true;
        self
    }
}

impl Array {
    /// A list of so many items or more.
    pub fn at_least(min: usize, element: impl Into<Kind>) -> Self {
        Self { element: Box::new(element.into()), min_items: min, max_items: None }
    }
}

impl Template {
    /// A string of fixed text with one or more `<generated>`, each a text of so many characters or more.
    pub fn at_least(template: impl Into<String>, min: usize) -> Self {
        Self { template: template.into(), text: Text::at_least(min) }
    }

    /// The generated texts are of these characters only.
    #[must_use]
    pub fn of(mut self, characters: Characters) -> Self {
        self.text.characters = Some(characters);
        self
    }
}

impl Member {
    /// With a hint for who writes its value.
    #[must_use]
    pub fn describe(mut self, description: impl Into<String>) -> Self {
        self.kind = self.kind.describe(description);
        self
    }

    /// It may be left out.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.optional = true;
        self
    }
}

/// A definition with structures of its own.
///
/// ```
/// use formwork_fields::DefinitionBuilder;
/// use formwork_fields::builder::{array, composite, field, reference, string};
/// let folder = composite([field("name", string(1, 20)), field("folders", array(0, 5, reference("folder")))]);
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
    /// What the whole output is.
    pub fn new(root: impl Into<Kind>) -> Self {
        Self { name: None, root: root.into(), definitions: Vec::new() }
    }

    /// The definition's name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// A structure that [`reference`]s stand for.
    #[must_use]
    pub fn define(mut self, name: impl Into<String>, kind: impl Into<Kind>) -> Self {
        self.definitions.push((name.into(), kind.into()));
        self
    }

    /// Checks it.
    ///
    /// # Errors
    /// Where a field contradicts itself; the error has the field's path.
    pub fn build(self) -> Result<Definition, FieldsError> {
        Definition::checked(self)
    }
}
