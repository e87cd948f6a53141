use thiserror::Error;

/// Error in a directive type, an alias or an option. The message begins with the place.
///
/// ```
/// use formwork_protocol::directives::{Definition, Registry};
/// let twice = vec![Definition::new("ui.toast"), Definition::new("ui.toast")];
/// let error = Registry::new(twice).unwrap_err();
/// assert_eq!(error.place(), "definitions[1].type");
/// assert_eq!(error.to_string(), "definitions[1].type: `ui.toast` is defined already");
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
    #[error("`{name}` has whitespace around it")]
    Whitespace { name: String },
    #[error("`{name}` is defined already")]
    SameType { name: String },
    #[error("`{alias}` is a type itself")]
    AliasIsType { alias: String },
    #[error("`{alias}` stands for `{other}` already")]
    SameAlias { alias: String, other: String },
    #[error("there is no type `{name}`")]
    NoType { name: String },
    #[error("a payload is an object, so its schema is an object and its `type`, if it has one, is `object`")]
    NotOfObjects,
    #[error("not a JSON Schema that can be checked: {reason}")]
    Schema { reason: String },
    #[error("`{name}` is not 1 to 64 letters, digits, `_` and `-`")]
    SchemaName { name: String },
}

impl RegistryError {
    pub(super) fn new(place: impl Into<String>, problem: Fault) -> Self {
        Self { place: place.into(), problem: Box::new(problem) }
    }

    /// Returns the place of the error, such as `definitions[1].aliases[0]`. A JSON pointer follows
    /// if a schema is invalid.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the message without the place.
    pub fn problem(&self) -> String {
        self.problem.to_string()
    }
}
