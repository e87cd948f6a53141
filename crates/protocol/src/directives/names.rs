//! Resolves the `type` in a model's directive to the canonical name of a type. Aliases are
//! accepted, and also names that differ only in case and separators.

use std::collections::HashMap;

use super::error::{Fault, RegistryError};
use super::{Definition, StructuredOutputOptions};

/// Checks that the types and aliases in `definitions` are well formed and unique. The name of a
/// type cannot be an alias.
pub(super) fn check(definitions: &[Definition]) -> Result<(), RegistryError> {
    let mut types = HashMap::new();
    for (at, definition) in definitions.iter().enumerate() {
        let place = || format!("definitions[{at}].type");
        well_formed(&definition.kind, place)?;
        if types.insert(definition.kind.as_str(), at).is_some() {
            return Err(RegistryError::new(place(), Fault::SameType { name: definition.kind.clone() }));
        }
    }
    let mut aliases: HashMap<&str, &str> = HashMap::new();
    for (at, definition) in definitions.iter().enumerate() {
        for (number, alias) in definition.aliases.iter().enumerate() {
            let place = || format!("definitions[{at}].aliases[{number}]");
            well_formed(alias, place)?;
            if types.contains_key(alias.as_str()) {
                return Err(RegistryError::new(place(), Fault::AliasIsType { alias: alias.clone() }));
            }
            if let Some(other) = aliases.insert(alias, &definition.kind) {
                let (alias, other) = (alias.clone(), other.to_owned());
                return Err(RegistryError::new(place(), Fault::SameAlias { alias, other }));
            }
        }
    }
    Ok(())
}

/// Checks that `name` is not empty and has no surrounding whitespace. `place` returns the place of
/// the name, for errors.
pub(super) fn well_formed(name: &str, place: impl Fn() -> String) -> Result<(), RegistryError> {
    if name.trim().is_empty() {
        return Err(RegistryError::new(place(), Fault::Empty));
    }
    if name.trim() != name {
        return Err(RegistryError::new(place(), Fault::Whitespace { name: name.to_owned() }));
    }
    Ok(())
}

/// Lookup tables for the names of types: one for the allowed types, and one for all other known
/// types.
pub(super) struct Names {
    /// True if there is a list of allowed types. Otherwise an unknown name is accepted as a type.
    closed: bool,
    /// Names of the allowed types.
    allowed: Folded,
    /// Names of known types that are not allowed.
    other: Folded,
}

/// Result of resolving the `type` of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Canonical name of an allowed type.
    Type(String),
    /// Canonical name of a known type that is not allowed.
    NotAllowed(String),
    /// The name matches no known type, or is ambiguous.
    Unknown,
}

impl Names {
    pub(super) fn new(options: &StructuredOutputOptions) -> Self {
        let allowed_types = options.allowed();
        let (mut allowed, mut other) = (Folded::default(), Folded::default());
        let is_allowed = |kind: &String| allowed_types.as_ref().is_none_or(|allowed| allowed.contains(kind));
        for kind in allowed_types.iter().flatten() {
            allowed.add_type(kind);
        }
        for kind in options.registry().types().iter().filter(|kind| !is_allowed(kind)) {
            other.add_type(kind);
        }
        for (alias, kind) in options.aliases() {
            if is_allowed(&kind) { &mut allowed } else { &mut other }.add_alias(&alias, &kind);
        }
        Self { closed: allowed_types.is_some(), allowed, other }
    }

    /// Resolves `given`, the `type` of a directive. Surrounding whitespace is ignored.
    pub(super) fn meaning(&self, given: &str) -> Meaning {
        let given = given.trim();
        if let Some(kind) = self.allowed.get(given) {
            return Meaning::Type(kind.to_owned());
        }
        match self.other.get(given) {
            Some(kind) => Meaning::NotAllowed(kind.to_owned()),
            None if self.closed || given.is_empty() => Meaning::Unknown,
            None => Meaning::Type(given.to_owned()),
        }
    }
}

/// Lookup table from names to types. A lookup first tries exact type names, then exact aliases, and
/// then names that differ only in case and separators.
#[derive(Default)]
struct Folded {
    /// Canonical names of the types.
    types: Vec<String>,
    /// Map from each alias to its type.
    aliases: HashMap<String, String>,
    /// Map from the folded names ([`fold`]) of types and aliases to their types. The value is
    /// `None` if the folded name belongs to several types.
    variants: HashMap<String, Option<String>>,
}

impl Folded {
    fn add_type(&mut self, kind: &str) {
        self.types.push(kind.to_owned());
        self.add(kind, kind);
    }

    fn add_alias(&mut self, alias: &str, kind: &str) {
        self.aliases.insert(alias.to_owned(), kind.to_owned());
        self.add(alias, kind);
    }

    fn add(&mut self, name: &str, kind: &str) {
        let entry = self.variants.entry(fold(name)).or_insert_with(|| Some(kind.to_owned()));
        if entry.as_deref() != Some(kind) {
            *entry = None;
        }
    }

    fn get(&self, given: &str) -> Option<&str> {
        let exact = self.types.iter().find(|kind| *kind == given).or_else(|| self.aliases.get(given));
        let folded = || self.variants.get(&fold(given)).and_then(Option::as_ref);
        exact.or_else(folded).map(String::as_str)
    }
}

/// Returns the letters and digits of `name` in lower case: `ui.Show_Form` gives `uishowform`. A
/// name without letters and digits is returned unchanged.
fn fold(name: &str) -> String {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    if letters.is_empty() { name.to_owned() } else { letters }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directives::Registry;

    fn options(definitions: &[(&str, &[&str])]) -> StructuredOutputOptions {
        let definition = |&(kind, aliases): &(&str, &[&str])| Definition {
            aliases: aliases.iter().map(|&alias| alias.to_owned()).collect(),
            ..Definition::new(kind)
        };
        let registry = Registry::new(definitions.iter().map(definition).collect()).expect("a registry");
        StructuredOutputOptions::new(registry)
    }

    fn is(kind: &str) -> Meaning {
        Meaning::Type(kind.to_owned())
    }

    #[test]
    fn accepts_superficial_variants_of_a_name() {
        let names = Names::new(&options(&[("ui.show_form", &["show_form"]), ("ui.toast", &["notify"])]));
        for given in [
            "ui.show_form",
            "ui_show_form",
            "ui-show-form",
            "UI.Show_Form",
            "uiShowForm",
            " ui.show_form\n",
            "ui/show form",
            "show_form",
            "showForm",
        ] {
            assert_eq!(names.meaning(given), is("ui.show_form"), "{given}");
        }
        assert_eq!(names.meaning("NOTIFY"), is("ui.toast"));
        for given in ["", "form", "ui.show_forms", "toast", "...", "ui"] {
            assert_eq!(names.meaning(given), Meaning::Unknown, "{given}");
        }
    }

    #[test]
    fn rejects_ambiguous_names() {
        let names = Names::new(&options(&[("ui.show_form", &[]), ("ui.showform", &[]), ("a", &["b-c"])]));
        assert_eq!(names.meaning("ui.showform"), is("ui.showform"));
        assert_eq!(names.meaning("ui.show_form"), is("ui.show_form"));
        assert_eq!(names.meaning("ui-show-form"), Meaning::Unknown);
        let names = Names::new(&options(&[("b.c", &[]), ("a", &["b-c"])]));
        assert_eq!(
            names.meaning("b-c"),
            is("a"),
            "an alias wins over what differs from a type superficially"
        );
        assert_eq!((names.meaning("b.c"), names.meaning("b_c")), (is("b.c"), Meaning::Unknown));
    }

    #[test]
    fn accepts_only_allowed_types() {
        let options = options(&[("ui.show_form", &["form"]), ("ui.showform", &["other"])]);
        let options = options.with_allowed_types(["ui.show_form"]).expect("types");
        let names = Names::new(&options);
        // Only one allowed type matches.
        assert_eq!(names.meaning("ui-show-form"), is("ui.show_form"));
        let not = Meaning::NotAllowed("ui.showform".to_owned());
        assert_eq!((names.meaning("other"), names.meaning("ui.toast")), (not, Meaning::Unknown));
    }

    #[test]
    fn without_types_accepts_any_name() {
        let options = StructuredOutputOptions::new(Registry::default());
        let names = Names::new(&options);
        assert_eq!((names.meaning(" any.thing "), names.meaning(" ")), (is("any.thing"), Meaning::Unknown));
        let options = options.with_type_aliases([("toast", "ui.toast")]).expect("aliases");
        assert_eq!(Names::new(&options).meaning("toast"), is("ui.toast"));
    }
}
