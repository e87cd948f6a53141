use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::error::{Fault, RegistryError};
use super::{Issue, Registry, names};

/// Checks a payload. The first argument is the canonical name of its type. Returns an empty list if
/// the payload is valid.
pub type PayloadValidator = Arc<dyn Fn(&str, &Map<String, Value>) -> Vec<Issue> + Send + Sync>;

/// Normalizes the payload of a type before it is checked.
pub type PayloadNormalizer = Arc<dyn Fn(&str, &mut Map<String, Value>) + Send + Sync>;

/// Default of the maximum size of an answer, in bytes.
const MAX_BYTES: usize = 200_000;

/// Options that define valid answers to a [`RunRequest`](super::RunRequest).
#[derive(Clone)]
pub struct StructuredOutputOptions {
    registry: Registry,
    allowed: Option<Vec<String>>,
    aliases: BTreeMap<String, String>,
    pub(super) payload_validator: Option<PayloadValidator>,
    pub(super) payload_normalizer: Option<PayloadNormalizer>,
    /// Maximum size of an answer, in bytes; 200,000 by default. A larger answer is rejected.
    pub max_bytes: usize,
    schema_name: String,
    /// Additional instructions about types and payloads.
    pub output_instructions: Option<String>,
    /// True if requests state the mode in `response_format`; true by default.
    pub inject_response_format: bool,
}

impl StructuredOutputOptions {
    /// Allows all types of `registry` under all their names.
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            allowed: None,
            aliases: BTreeMap::new(),
            payload_validator: None,
            payload_normalizer: None,
            max_bytes: MAX_BYTES,
            schema_name: super::schema::NAME.to_owned(),
            output_instructions: None,
            inject_response_format: true,
        }
    }

    /// Allows only these types. An empty list allows none.
    ///
    /// # Errors
    /// Returns an error if a name is empty or has surrounding whitespace, or if it is missing from
    /// a non-empty registry.
    pub fn with_allowed_types<T: Into<String>>(
        mut self,
        types: impl IntoIterator<Item = T>,
    ) -> Result<Self, RegistryError> {
        let types: Vec<String> = types.into_iter().map(Into::into).collect();
        for (at, name) in types.iter().enumerate() {
            names::well_formed(name, || format!("allowed_types[{at}]"))?;
        }
        self.allowed = Some(self.known_types("allowed_types", types)?);
        Ok(self)
    }

    /// Adds aliases, as pairs of an alias and its type. They override the registry's aliases.
    ///
    /// # Errors
    /// Returns an error if a name is empty or has surrounding whitespace, or if an alias is itself
    /// a type. A type that is missing from a non-empty registry is also an error.
    pub fn with_type_aliases<A: Into<String>, T: Into<String>>(
        mut self,
        aliases: impl IntoIterator<Item = (A, T)>,
    ) -> Result<Self, RegistryError> {
        for (alias, kind) in aliases {
            let (alias, kind) = (alias.into(), kind.into());
            let place = || format!("type_aliases.{alias}");
            names::well_formed(&alias, place)?;
            names::well_formed(&kind, place)?;
            self.check_type(&kind, place)?;
            if self.registry.get(&alias).is_some() {
                return Err(RegistryError::new(place(), Fault::AliasIsType { alias: alias.clone() }));
            }
            self.aliases.insert(alias, kind);
        }
        Ok(self)
    }

    /// Sets the app's own check of payloads, which runs after the schema check.
    #[must_use]
    pub fn with_payload_validator(
        mut self,
        check: impl Fn(&str, &Map<String, Value>) -> Vec<Issue> + Send + Sync + 'static,
    ) -> Self {
        self.payload_validator = Some(Arc::new(check));
        self
    }

    /// Sets a change that is applied to payloads before all checks, such as
    /// [`patch::normalize_payload`](super::patch::normalize_payload).
    #[must_use]
    pub fn with_payload_normalizer(
        mut self,
        change: impl Fn(&str, &mut Map<String, Value>) + Send + Sync + 'static,
    ) -> Self {
        self.payload_normalizer = Some(Arc::new(change));
        self
    }

    /// Sets the schema's name in requests; `directives` by default.
    ///
    /// # Errors
    /// Returns an error unless the name has 1 to 64 ASCII letters, digits, `_` and `-`, as
    /// providers require.
    pub fn with_schema_name(mut self, name: impl Into<String>) -> Result<Self, RegistryError> {
        let name = name.into();
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            return Err(RegistryError::new("schema_name", Fault::SchemaName { name }));
        }
        self.schema_name = name;
        Ok(self)
    }

    /// Sets additional instructions about types and payloads.
    #[must_use]
    pub fn with_output_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.output_instructions = Some(instructions.into());
        self
    }

    /// Returns the registry of types.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the schema's name in requests.
    pub fn schema_name(&self) -> &str {
        &self.schema_name
    }

    /// Returns the allowed types, or `None` if any type is allowed.
    pub fn allowed(&self) -> Option<Vec<String>> {
        let defined = || Some(self.registry.types()).filter(|types| !types.is_empty());
        self.allowed.clone().or_else(defined)
    }

    /// Returns all aliases with their types.
    pub(super) fn aliases(&self) -> BTreeMap<String, String> {
        let mut aliases: BTreeMap<_, _> = self.registry.type_aliases().into_iter().collect();
        aliases.extend(self.aliases.clone());
        aliases
    }

    /// Returns `given` if all names are types of the registry. `place` is the name of the checked
    /// field in errors.
    ///
    /// # Errors
    /// Returns an error if a name is missing from a non-empty registry.
    pub fn known_types(&self, place: &str, given: Vec<String>) -> Result<Vec<String>, RegistryError> {
        for (at, name) in given.iter().enumerate() {
            self.check_type(name, || format!("{place}[{at}]"))?;
        }
        Ok(given)
    }

    /// Checks that a name is a type of the registry. A registry without types accepts any name.
    fn check_type(&self, name: &str, place: impl Fn() -> String) -> Result<(), RegistryError> {
        if self.registry.definitions().is_empty() || self.registry.get(name).is_some() {
            return Ok(());
        }
        Err(RegistryError::new(place(), Fault::NoType { name: name.to_owned() }))
    }
}

impl fmt::Debug for StructuredOutputOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StructuredOutputOptions")
            .field("types", &self.registry.types())
            .field("allowed", &self.allowed)
            .field("aliases", &self.aliases)
            .field("max_bytes", &self.max_bytes)
            .field("schema_name", &self.schema_name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directives::Definition;

    fn options() -> StructuredOutputOptions {
        let types = vec![Definition::new("ui.toast"), Definition::new("ui.show_form")];
        StructuredOutputOptions::new(Registry::new(types).expect("a registry"))
    }

    fn told(refused: Result<StructuredOutputOptions, RegistryError>) -> String {
        refused.expect_err("refused").to_string()
    }

    #[test]
    fn rejects_unknown_names_with_their_place() {
        assert_eq!(
            told(options().with_allowed_types(["ui.toast", "toast"])),
            "allowed_types[1]: unknown type `toast`; expected a type of the registry"
        );
        assert_eq!(
            told(options().with_type_aliases([("toast", "ui.tost")])),
            "type_aliases.toast: unknown type `ui.tost`; expected a type of the registry"
        );
        assert_eq!(
            told(options().with_type_aliases([("ui.toast", "ui.show_form")])),
            "type_aliases.ui.toast: alias `ui.toast` is already the name of a type"
        );
        assert_eq!(
            told(options().with_schema_name("a b")),
            "schema_name: invalid schema name `a b`; expected 1 to 64 letters, digits, `_` and `-`"
        );
    }

    #[test]
    fn allows_all_types_by_default() {
        assert_eq!(options().allowed(), Some(vec!["ui.toast".to_owned(), "ui.show_form".to_owned()]));
        let one = options().with_allowed_types(["ui.toast"]).expect("a type");
        assert_eq!(one.allowed(), Some(vec!["ui.toast".to_owned()]));
        assert_eq!(StructuredOutputOptions::new(Registry::default()).allowed(), None);
    }

    #[test]
    fn later_aliases_take_precedence() {
        let definition = Definition { aliases: vec!["show".to_owned()], ..Definition::new("ui.toast") };
        let registry = Registry::new(vec![definition, Definition::new("ui.show_form")]).expect("a registry");
        let options = StructuredOutputOptions::new(registry).with_type_aliases([("show", "ui.show_form")]);
        assert_eq!(options.expect("aliases").aliases()["show"], "ui.show_form");
    }
}
