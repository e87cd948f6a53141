use thiserror::Error;

/// Error in the definition of a directive type, an alias or an option. The message begins with the
/// place of the error.
///
/// ```
/// use formwork_protocol::directives::{Definition, Registry};
/// let twice = vec![Definition::new("ui.toast"), Definition::new("ui.toast")];
/// let error = Registry::new(twice).unwrap_err();
/// assert_eq!(error.place(), "definitions[1].type");
/// assert_eq!(error.to_string(), "definitions[1].type: `ui.toast` is already defined");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}")]
pub struct RegistryError {
    place: String,
    problem: Box<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Fault {
    #[error("a name must not be empty")]
    Empty,
    #[error("`{name}` must not have leading or trailing whitespace")]
    Whitespace { name: String },
    #[error("`{name}` is already defined")]
    SameType { name: String },
    #[error("alias `{alias}` is already the name of a type")]
    AliasIsType { alias: String },
    #[error("alias `{alias}` already belongs to type `{other}`")]
    SameAlias { alias: String, other: String },
    #[error("unknown type `{name}`; expected a type of the registry")]
    NoType { name: String },
    #[error("type `{name}` is required but not allowed; add it to the allowed types")]
    RequiredNotAllowed { name: String },
    #[error("type `{name}` is already required")]
    RequiredTwice { name: String },
    #[error("the minimum number of directives of type `{name}` is above the maximum")]
    RequiredRange { name: String },
    #[error(
        "a payload schema must be an object or `true`, and its `type`, if present, must include `object`"
    )]
    NotOfObjects,
    #[error("invalid JSON Schema: {reason}")]
    Schema { reason: String },
    #[error("invalid schema name `{name}`; expected 1 to 64 letters, digits, `_` and `-`")]
    SchemaName { name: String },
}

impl RegistryError {
    pub(super) fn new(place: impl Into<String>, problem: Fault) -> Self {
        Self { place: place.into(), problem: Box::new(problem) }
    }

    /// Returns the place of the error, such as `definitions[1].aliases[0]`. For an invalid schema,
    /// the place ends with a JSON pointer into the schema, as in
    /// `definitions[0].payload_schema/properties/a/type`.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the message of the error without the place.
    pub fn problem(&self) -> String {
        self.problem.to_string()
    }
}
