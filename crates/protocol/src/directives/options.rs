use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::error::{Fault, RegistryError};
use super::{Issue, Registry, Requirement, names};

/// Function of the app that checks a payload.
///
/// Its arguments are the canonical name of the directive's type and the payload. The result has one
/// issue for each problem, and is empty if the payload is valid.
pub type PayloadValidator = Arc<dyn Fn(&str, &Map<String, Value>) -> Vec<Issue> + Send + Sync>;

/// Function that changes a payload in place before the payload is checked.
///
/// Its arguments are the canonical name of the directive's type and the payload.
pub type PayloadNormalizer = Arc<dyn Fn(&str, &mut Map<String, Value>) + Send + Sync>;

/// Default of [`StructuredOutputOptions::max_bytes`].
const MAX_BYTES: usize = 200_000;

/// Options of a [`RunRequest`](super::RunRequest): they define which answers are valid, and how the
/// request describes such answers to the model.
#[derive(Clone)]
pub struct StructuredOutputOptions {
    registry: Registry,
    allowed: Option<Vec<String>>,
    aliases: BTreeMap<String, String>,
    required: Vec<Requirement>,
    pub(super) payload_validator: Option<PayloadValidator>,
    pub(super) payload_normalizer: Option<PayloadNormalizer>,
    /// Maximum size of an answer, in bytes; 200,000 by default. A larger answer is rejected.
    pub max_bytes: usize,
    /// Maximum number of directives of all types together. An answer with more of them is repaired.
    /// `None` sets no maximum.
    pub max_directives: Option<usize>,
    /// Maximum number of characters of `assistant_text`. A longer text is repaired. `None` sets no
    /// maximum.
    pub max_text_length: Option<usize>,
    schema_name: String,
    /// Additional text about types and payloads, for the model. Requests add this text to the end
    /// of the system message.
    pub output_instructions: Option<String>,
    /// True to send a `response_format` in modes that have one; true by default. If false, only the
    /// instructions in the system message describe the envelope.
    pub inject_response_format: bool,
}

impl StructuredOutputOptions {
    /// Creates options that allow every type of `registry`, by its name or by an alias. If
    /// `registry` has no definitions, any type is allowed.
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            allowed: None,
            aliases: BTreeMap::new(),
            required: Vec::new(),
            payload_validator: None,
            payload_normalizer: None,
            max_bytes: MAX_BYTES,
            max_directives: None,
            max_text_length: None,
            schema_name: super::schema::NAME.to_owned(),
            output_instructions: None,
            inject_response_format: true,
        }
    }

    /// Restricts the allowed types to `types`, which are names and not aliases. An empty list
    /// allows no type at all.
    ///
    /// # Errors
    /// Returns an error if a name is empty or has surrounding whitespace. If the registry has
    /// definitions, a name without a definition is also an error.
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

    /// Returns the options with the allowed type `name` as the only one.
    pub(super) fn with_type(&self, name: &str) -> Self {
        Self { allowed: Some(vec![name.to_owned()]), ..self.clone() }
    }

    /// Adds aliases, given as pairs of an alias and its type, such as `("toast", "ui.toast")`. A
    /// pair overrides the same alias in the registry.
    ///
    /// # Errors
    /// Returns an error if a name is empty or has surrounding whitespace, or if an alias is the
    /// name of a type. If the registry has definitions, a type without a definition is also an
    /// error.
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

    /// Requires directives of these types. An answer without them is repaired. A backend that
    /// enforces payload schemas also enforces the requirements while it generates.
    ///
    /// # Errors
    /// Returns an error if a type is unknown, not allowed or given twice, or if a minimum is above
    /// its maximum.
    pub fn with_required(
        mut self,
        required: impl IntoIterator<Item = Requirement>,
    ) -> Result<Self, RegistryError> {
        let required: Vec<_> = required.into_iter().collect();
        let allowed = self.allowed();
        for (at, requirement) in required.iter().enumerate() {
            let place = || format!("require[{at}]");
            let name = requirement.kind.clone();
            names::well_formed(&name, place)?;
            self.check_type(&name, place)?;
            if allowed.as_ref().is_some_and(|allowed| !allowed.contains(&name)) {
                return Err(RegistryError::new(place(), Fault::RequiredNotAllowed { name }));
            }
            if required[..at].iter().any(|other| other.kind == name) {
                return Err(RegistryError::new(place(), Fault::RequiredTwice { name }));
            }
            if requirement.max.is_some_and(|max| max < requirement.min) {
                return Err(RegistryError::new(place(), Fault::RequiredRange { name }));
            }
        }
        self.required = required;
        Ok(self)
    }

    /// Returns the required directives.
    pub fn required(&self) -> &[Requirement] {
        &self.required
    }

    /// Sets the app's own check of payloads; see [`PayloadValidator`] for the arguments and the
    /// result of `check`. The check runs only on payloads that match their JSON Schema.
    #[must_use]
    pub fn with_payload_validator(
        mut self,
        check: impl Fn(&str, &Map<String, Value>) -> Vec<Issue> + Send + Sync + 'static,
    ) -> Self {
        self.payload_validator = Some(Arc::new(check));
        self
    }

    /// Sets a function that changes payloads before all checks; see [`PayloadNormalizer`] for the
    /// arguments of `change`. An example is `|_, payload| patch::normalize_payload(payload)`, with
    /// [`patch::normalize_payload`](super::patch::normalize_payload).
    #[must_use]
    pub fn with_payload_normalizer(
        mut self,
        change: impl Fn(&str, &mut Map<String, Value>) + Send + Sync + 'static,
    ) -> Self {
        self.payload_normalizer = Some(Arc::new(change));
        self
    }

    /// Sets the value of `json_schema.name` in requests; `directives` by default.
    ///
    /// # Errors
    /// Returns an error unless `name` consists of 1 to 64 ASCII letters, digits, `_` and `-`, as
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

    /// Sets additional text about types and payloads, for the model. Requests add this text to the
    /// end of the system message.
    #[must_use]
    pub fn with_output_instructions(mut self, instructions: impl Into<String>) -> Self {
        self.output_instructions = Some(instructions.into());
        self
    }

    /// Returns the registry of types.
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the value of `json_schema.name` in requests.
    pub fn schema_name(&self) -> &str {
        &self.schema_name
    }

    /// Returns the names of the allowed types. Without [`Self::with_allowed_types`], all types of
    /// the registry are allowed. Returns `None` if any type is allowed because the registry has no
    /// definitions.
    pub fn allowed(&self) -> Option<Vec<String>> {
        let defined = || Some(self.registry.types()).filter(|types| !types.is_empty());
        self.allowed.clone().or_else(defined)
    }

    /// Returns a map from each alias to its type. An alias of these options overrides the same
    /// alias in the registry.
    pub(super) fn aliases(&self) -> BTreeMap<String, String> {
        let mut aliases: BTreeMap<_, _> = self.registry.type_aliases().into_iter().collect();
        aliases.extend(self.aliases.clone());
        aliases
    }

    /// Returns `given` unchanged if the registry defines every type in it. A registry without
    /// definitions accepts any name.
    ///
    /// `place` names the list in errors. For example, the place `require` gives errors at
    /// `require[0]`.
    ///
    /// # Errors
    /// Returns an error if the registry has definitions and a name in `given` is not one of its
    /// types.
    pub fn known_types(&self, place: &str, given: Vec<String>) -> Result<Vec<String>, RegistryError> {
        for (at, name) in given.iter().enumerate() {
            self.check_type(name, || format!("{place}[{at}]"))?;
        }
        Ok(given)
    }

    /// Checks that the registry defines the type `name`. A registry without definitions accepts any
    /// name. `place` returns the place of the name, for errors.
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
