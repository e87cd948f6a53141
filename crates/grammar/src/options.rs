/// How a schema is turned into a language of JSON texts.
///
/// The default is what a model should write: one spelling of everything. [`SchemaOptions::accept`] is what a checker
/// should take: every spelling.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SchemaOptions {
    /// Which spellings of a scalar are in the language.
    pub profile: Profile,
    /// The whitespace between the parts of arrays and objects.
    pub layout: Layout,
    /// The order of an object's members.
    pub order: Order,
    /// Whether `format` is enforced.
    pub formats: Formats,
    /// Whether objects may have members that their schema says nothing about.
    pub undeclared: Undeclared,
}

impl SchemaOptions {
    /// Every JSON text of every value that the schema accepts: any escapes, any key order, and any whitespace wherever
    /// JSON allows it, before and after the value too.
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

/// Which spellings of strings and numbers are in the language.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Profile {
    /// One spelling for each value. Characters stand for themselves; `"`, `\` and control characters have their shortest
    /// escape. Integers have no fraction, and numbers have neither an exponent nor more than 15 digits (more only where a
    /// bound of the schema itself has more), and are never `-0`.
    #[default]
    Generate,
    /// Every spelling that JSON has, with exceptions. Where the schema bounds a number, an exponent needs
    /// exactly one digit before the point, which is zero only if all are (`1.5e3`, not `15e2`). Where
    /// the remainder by `multipleOf` matters, exponents are rejected. In an integer, the exponent must not be negative and the
    /// fraction must be zero. Lone surrogates (`"\ud800"`) are rejected: they stand for no string.
    Accept,
}

/// The whitespace in arrays and objects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Layout {
    /// `{"a": [1, 2]}`: one space after each comma and colon.
    #[default]
    Spaced,
    /// `{"a":[1,2]}`: none.
    Compact,
    /// Each item and member on its own line, indented by two spaces per level; empty arrays and objects as `[]` and `{}`.
    Pretty,
    /// With [`Profile::Generate`], up to 16 spaces and line breaks, mixed, wherever one of the other layouts has
    /// whitespace. With [`Profile::Accept`], any whitespace anywhere that JSON allows it.
    Flexible,
}

/// The order of an object's members.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Order {
    /// As the schema declares them: its own `properties`, then those that `allOf`, `$ref` and the taken branch of
    /// `anyOf` or `oneOf` add, then names that are only `required`, then all others.
    #[default]
    Declared,
    /// Any order.
    Any,
}

/// Members that an object's schema neither declares nor speaks about in another way.
///
/// A schema speaks about them with `additionalProperties`, `patternProperties`, `propertyNames` or
/// `unevaluatedProperties`, whatever these say, and if it has no `properties` at all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Undeclared {
    /// They are left out, unless `minProperties` or a negation cannot be met without them. What is left is still
    /// valid.
    #[default]
    Omit,
    /// They may be there, as JSON Schema has it.
    Allow,
}

/// What `format` means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Formats {
    /// Strings must have the format, where the specifications define it.
    #[default]
    Assert,
    /// Nothing: it is an annotation.
    Annotate,
}
