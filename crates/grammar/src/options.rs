/// Options that decide which JSON texts a grammar of a schema accepts.
///
/// The default is made for generation: each value has exactly one spelling.
/// [`SchemaOptions::accept`] is made for validation: a value may have any spelling.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SchemaOptions {
    /// Allowed spellings of strings and numbers.
    pub profile: Profile,
    /// Allowed white space in arrays and objects.
    pub layout: Layout,
    /// Allowed order of the members of an object.
    pub order: Order,
    /// Effect of the keyword `format`.
    pub formats: Formats,
    /// Decides whether an object may have members that its schema does not mention.
    pub undeclared: Undeclared,
}

impl SchemaOptions {
    /// Returns the options that accept every JSON text of every valid value.
    ///
    /// The texts may have any escapes, any order of members, and any white space that JSON allows,
    /// also around the value. [`Profile::Accept`] lists the exceptions.
    pub const fn accept() -> Self {
        Self {
            profile: Profile::Accept,
            layout: Layout::Flexible,
            order: Order::Any,
            formats: Formats::Assert,
            undeclared: Undeclared::Allow,
        }
    }
}

/// Allowed spellings of strings and numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Profile {
    /// Each value has one spelling.
    ///
    /// In strings, `"`, `\` and control characters have their shortest escape. All other characters
    /// are written without an escape. Integers have no fraction. Numbers have no exponent and at
    /// most 15 digits, and are never `-0`. More digits are allowed only if a bound or divisor in
    /// the schema has more.
    #[default]
    Generate,
    /// Every spelling that JSON allows, with these exceptions:
    ///
    /// * If the schema bounds a number, an exponent requires exactly one digit before the point.
    ///   That digit is zero only if all digits are zero. For example, `1.5e3` is allowed and `15e2`
    ///   is not.
    /// * If a number must be checked against `multipleOf`, exponents are rejected.
    /// * In an integer, the exponent must not be negative and the fraction must be zero.
    /// * Lone surrogates such as `"\ud800"` are rejected, because they stand for no string.
    Accept,
}

/// White space in arrays and objects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Layout {
    /// One space after each comma and colon: `{"a": [1, 2]}`.
    #[default]
    Spaced,
    /// No white space: `{"a":[1,2]}`.
    Compact,
    /// Each item and member on its own line, indented by two spaces per level. Empty arrays and
    /// objects are `[]` and `{}`.
    Pretty,
    /// Flexible white space, depending on the profile.
    ///
    /// With [`Profile::Generate`], up to 16 spaces and line breaks at each position where another
    /// layout has white space. With [`Profile::Accept`], any white space that JSON allows,
    /// also around the whole value.
    Flexible,
    /// As [`Layout::Flexible`], but no white space around the whole value.
    Inside,
}

/// Order of the members of an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Order {
    /// The order in which the schema declares the members.
    ///
    /// 1. The schema's own `properties`.
    /// 2. Members from `allOf`, `$ref` and the chosen branch of `anyOf` or `oneOf`.
    /// 3. Names that are only `required`.
    /// 4. All other members.
    #[default]
    Declared,
    /// Any order.
    Any,
}

/// Treatment of undeclared members: members that the schema of an object does not mention in any
/// way.
///
/// This option has no effect on a schema with `additionalProperties`, `patternProperties`,
/// `propertyNames` or `unevaluatedProperties`, whatever their values are. It also has no effect on
/// a schema without `properties`, or whose `properties` has no entries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Undeclared {
    /// Undeclared members do not occur, unless `minProperties` or a negation requires them. All
    /// outputs remain valid.
    #[default]
    Omit,
    /// Undeclared members may occur, as JSON Schema specifies.
    Allow,
}

/// Treatment of the keyword `format`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Formats {
    /// Strings must have the format, as far as a specification defines the format.
    #[default]
    Assert,
    /// `format` is an annotation without effect.
    Annotate,
}
