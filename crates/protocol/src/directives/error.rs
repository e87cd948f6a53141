use thiserror::Error;

/// Why types of directives, or names for them, cannot be as they are given. The message begins with the place.
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

    /// Where it is, such as `definitions[1].aliases[0]`, with a JSON pointer after it where a schema is at fault.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What is wrong, without the place.
    pub fn problem(&self) -> String {
        self.problem.to_string()
    }
}
