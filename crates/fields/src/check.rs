//! Checks of a definition. Every output of a checked definition can be generated, except that its
//! grammar may exceed the limits for compilation.

use std::collections::{HashMap, HashSet};

use crate::builder::DefinitionBuilder;
use crate::decimal::{Decimals, WHOLE};
use crate::error::{FieldsError, Problem};
use crate::field::{
    Array, Branch, Choice, Composite, Described, Int, Kind, Member, Scalar, Template, Text, Variant,
};
use crate::path::Path;
use crate::read::NESTING;

/// Maximum number of fields in a definition. Every option of a choice counts as a field.
const FIELDS: usize = 20_000;

/// Maximum number of named structures.
const DEFINITIONS: usize = 1000;

/// Largest allowed bound of a length, in characters.
const LENGTH: usize = 1_000_000;

/// Largest allowed bound of an item count.
const ITEMS: usize = 1_000_000;

/// Smallest and largest allowed weight.
const WEIGHT: (f64, f64) = (1e-9, 1e9);

/// Smallest and largest allowed probability. A member that is always present is required, and a
/// member that is never present should not be declared.
const PROBABILITY: (f64, f64) = (1e-9, 0.999_999_999);

/// Checks a definition. Returns the first error found.
pub(crate) fn check(definition: &DefinitionBuilder) -> Result<(), FieldsError> {
    let DefinitionBuilder { root, definitions, .. } = definition;
    if definitions.len() > DEFINITIONS {
        let problem =
            Problem::Count { key: "the number of definitions", given: definitions.len(), limit: DEFINITIONS };
        return Err(Path::root().error(problem));
    }
    let mut names = HashMap::new();
    for (name, kind) in definitions {
        let path = Path::definition(name);
        if !is_identifier(name) {
            return Err(path.error(Problem::DefinitionName));
        }
        if names.insert(name.as_str(), kind).is_some() {
            return Err(path.error(Problem::DuplicateName));
        }
    }
    let mut checker = Checker { names: &names, count: 0 };
    checker.kind(root, &Path::root())?;
    for (name, kind) in definitions {
        checker.kind(kind, &Path::definition(name))?;
    }
    recursion(definitions)
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

struct Checker<'d> {
    names: &'d HashMap<&'d str, &'d Kind>,
    /// Number of fields visited so far, compared with [`FIELDS`].
    count: usize,
}

impl Checker<'_> {
    fn kind(&mut self, kind: &Kind, path: &Path<'_>) -> Result<(), FieldsError> {
        if path.depth() > NESTING {
            return Err(path.error(Problem::Nesting { limit: NESTING }));
        }
        let kind = match kind {
            Kind::Described(described) => description(described).map_err(|problem| path.error(problem))?,
            other => other,
        };
        self.count += 1 + if let Kind::Choice(choice) = kind { choice.options.len() } else { 0 };
        if self.count > FIELDS {
            return Err(path.error(Problem::Fields { limit: FIELDS }));
        }
        let problem = match kind {
            Kind::Composite(composite) => return self.composite(composite, path),
            Kind::Variant(variant) => return self.variant(variant, path),
            Kind::Array(array) => {
                array_bounds(array).map_err(|problem| path.error(problem))?;
                return self.kind(&array.element, &path.element());
            }
            Kind::Boolean => Ok(()),
            Kind::Int(int) => int_bounds(int),
            Kind::Float(float) => Decimals::of(float).map(|_| ()),
            Kind::String(text) => lengths(text),
            Kind::Choice(choice) => options(choice),
            Kind::Constant(value) => scalar("value", value),
            Kind::Template(template) => places(template),
            Kind::Ref(name) if self.names.contains_key(name.as_str()) => Ok(()),
            Kind::Ref(name) => Err(Problem::Unresolved { name: name.clone() }),
            Kind::Described(_) => Err(Problem::DescribedTwice),
        };
        problem.map_err(|problem| path.error(problem))
    }

    fn composite(&mut self, composite: &Composite, path: &Path<'_>) -> Result<(), FieldsError> {
        let mut names = HashSet::new();
        for (index, member) in composite.fields.iter().enumerate() {
            if member.name.is_empty() {
                return Err(path.name_or_index(None, index).error(Problem::EmptyName));
            }
            let path = path.name(&member.name);
            if !names.insert(&member.name) {
                return Err(path.error(Problem::DuplicateName));
            }
            probability(member).map_err(|problem| path.error(problem))?;
            self.kind(&member.kind, &path)?;
        }
        Ok(())
    }

    fn variant(&mut self, variant: &Variant, path: &Path<'_>) -> Result<(), FieldsError> {
        if variant.variants.is_empty() {
            return Err(path.error(Problem::NoVariants));
        }
        structure_weights(variant).map_err(|problem| path.error(problem))?;
        let mut names = HashSet::new();
        for (index, Branch { name, kind }) in variant.variants.iter().enumerate() {
            match name.as_deref() {
                Some("") => return Err(path.name_or_index(None, index).error(Problem::EmptyName)),
                None if !variant.untagged => {
                    return Err(path.name_or_index(None, index).error(Problem::Untagged));
                }
                _ => {}
            }
            let path = path.name_or_index(name.as_deref(), index);
            if name.as_ref().is_some_and(|name| !names.insert(name)) {
                return Err(path.error(Problem::DuplicateName));
            }
            self.kind(kind, &path)?;
        }
        Ok(())
    }
}

fn description(described: &Described) -> Result<&Kind, Problem> {
    if described.description.is_empty() { Err(Problem::EmptyDescription) } else { Ok(&described.kind) }
}

fn int_bounds(int: &Int) -> Result<(), Problem> {
    match (int.min, int.max) {
        (Some(min), Some(max)) if min > max => {
            Err(Problem::Bounds { min: min.to_string(), max: max.to_string() })
        }
        _ => Ok(()),
    }
}

fn lengths(text: &Text) -> Result<(), Problem> {
    let limit = LENGTH;
    if text.min_length > limit {
        return Err(Problem::Count { key: "min_length", given: text.min_length, limit });
    }
    match text.max_length {
        Some(given) if given > limit => Err(Problem::Count { key: "max_length", given, limit }),
        Some(max) if text.min_length > max => Err(Problem::Lengths { min: text.min_length, max }),
        _ => Ok(()),
    }
}

fn array_bounds(array: &Array) -> Result<(), Problem> {
    let limit = ITEMS;
    if array.min_items > limit {
        return Err(Problem::Count { key: "min_items", given: array.min_items, limit });
    }
    match array.max_items {
        Some(given) if given > limit => Err(Problem::Count { key: "max_items", given, limit }),
        Some(max) if array.min_items > max => Err(Problem::Items { min: array.min_items, max }),
        _ => Ok(()),
    }
}

fn places(template: &Template) -> Result<(), Problem> {
    if template.literals().len() < 2 {
        return Err(Problem::NoPlace);
    }
    lengths(&template.text)
}

fn scalar(key: &'static str, value: &Scalar) -> Result<(), Problem> {
    match *value {
        Scalar::Number(given) if !given.is_finite() => Err(Problem::NotFinite { key, given }),
        // Larger whole numbers may have been rounded already.
        Scalar::Number(given) if given.abs() > WHOLE as f64 => Err(Problem::Large { given }),
        _ => Ok(()),
    }
}

fn options(choice: &Choice) -> Result<(), Problem> {
    if choice.options.is_empty() {
        return Err(Problem::NoOptions);
    }
    let mut texts = HashSet::new();
    for option in &choice.options {
        scalar("options", option)?;
        // JSON does not distinguish `2.0` from `2`.
        let option = match option {
            Scalar::Number(value) => Scalar::from(*value).text(),
            other => other.text(),
        };
        if !texts.insert(option.clone()) {
            return Err(Problem::DuplicateOption { option });
        }
    }
    let (weights, options) = (choice.weights.len(), choice.options.len());
    if weights != 0 && weights != options {
        return Err(Problem::Weights { weights, options });
    }
    weight_bounds(&choice.weights)
}

fn structure_weights(variant: &Variant) -> Result<(), Problem> {
    let (weights, structures) = (variant.weights.len(), variant.variants.len());
    match weights {
        0 => Ok(()),
        _ if variant.untagged => Err(Problem::UntaggedWeights),
        _ if weights != structures => Err(Problem::StructureWeights { weights, structures }),
        _ => weight_bounds(&variant.weights),
    }
}

fn weight_bounds(weights: &[f64]) -> Result<(), Problem> {
    let (least, most) = WEIGHT;
    match weights.iter().find(|weight| !(least..=most).contains(*weight)) {
        Some(&given) => Err(Problem::Weight { given, least, most }),
        None => Ok(()),
    }
}

fn probability(member: &Member) -> Result<(), Problem> {
    let (least, most) = PROBABILITY;
    match member.probability {
        Some(_) if !member.optional => Err(Problem::RequiredProbability),
        Some(given) if !(least..=most).contains(&given) => Err(Problem::Probability { given, least, most }),
        _ => Ok(()),
    }
}

/// Checks the references between structures. Returns an error if a structure has only infinite
/// values, or if it refers to itself without an object or list in between.
///
/// For example, an object with a required member of its own type has only infinite values.
fn recursion(definitions: &[(String, Kind)]) -> Result<(), FieldsError> {
    let mut finite: HashSet<&str> = HashSet::new();
    loop {
        let before = finite.len();
        for (name, kind) in definitions {
            if !finite.contains(name.as_str()) && is_finite(kind, &finite) {
                finite.insert(name);
            }
        }
        if finite.len() == before {
            break;
        }
    }
    if let Some((name, kind)) = definitions.iter().find(|(name, _)| !finite.contains(name.as_str())) {
        return Err(endless(kind, &Path::definition(name), &finite));
    }
    let kinds: HashMap<&str, &Kind> = definitions.iter().map(|(name, kind)| (name.as_str(), kind)).collect();
    let mut done = HashSet::new();
    for (name, _) in definitions {
        circle(name, &kinds, &mut Vec::new(), &mut done)?;
    }
    Ok(())
}

/// Reports whether a kind has a finite value, given that every structure named in `finite` has one.
fn is_finite(kind: &Kind, finite: &HashSet<&str>) -> bool {
    match kind.plain() {
        Kind::Ref(name) => finite.contains(name.as_str()),
        Kind::Composite(composite) => {
            composite.fields.iter().all(|member| member.optional || is_finite(&member.kind, finite))
        }
        Kind::Variant(variant) => variant.variants.iter().any(|branch| is_finite(&branch.kind, finite)),
        Kind::Array(array) => array.min_items == 0 || is_finite(&array.element, finite),
        _ => true,
    }
}

/// Replaces numbers by their normal form, so that equal numbers are equal in Rust too. Whole
/// numbers become [`Scalar::Integer`], and -0.0 becomes 0.0.
pub(crate) fn normalise(definition: &mut DefinitionBuilder) {
    let structures = definition.definitions.iter_mut().map(|(_, kind)| kind);
    for kind in structures.chain([&mut definition.root]) {
        normalise_kind(kind);
    }
}

fn normalise_kind(kind: &mut Kind) {
    let scalar = |scalar: &mut Scalar| {
        if let Scalar::Number(value) = *scalar {
            *scalar = value.into();
        }
    };
    match kind {
        Kind::Float(float) => {
            for bound in [&mut float.min, &mut float.max].into_iter().flatten() {
                // Adding zero turns -0.0 into 0.0.
                *bound += 0.0;
            }
        }
        Kind::Choice(choice) => choice.options.iter_mut().for_each(scalar),
        Kind::Constant(value) => scalar(value),
        Kind::Composite(composite) => {
            composite.fields.iter_mut().for_each(|member| normalise_kind(&mut member.kind));
        }
        Kind::Variant(variant) => {
            variant.variants.iter_mut().for_each(|branch| normalise_kind(&mut branch.kind));
        }
        Kind::Array(array) => normalise_kind(&mut array.element),
        Kind::Described(described) => normalise_kind(&mut described.kind),
        Kind::Int(_) | Kind::String(_) | Kind::Boolean | Kind::Template(_) | Kind::Ref(_) => {}
    }
}

/// Returns an error for the first reference that leaves `kind` without a finite value. Must only be
/// called if `kind` has no finite value.
fn endless(kind: &Kind, path: &Path<'_>, finite: &HashSet<&str>) -> FieldsError {
    match kind.plain() {
        Kind::Ref(name) => path.error(Problem::Endless { name: name.clone() }),
        Kind::Composite(composite) => {
            let is_endless = |kind| !is_finite(kind, finite);
            let member = composite.fields.iter().find(|member| !member.optional && is_endless(&member.kind));
            member.map_or_else(
                || path.error(Problem::NoVariants),
                |member| endless(&member.kind, &path.name(&member.name), finite),
            )
        }
        Kind::Variant(variant) => variant.variants.first().map_or_else(
            || path.error(Problem::NoVariants),
            |branch| endless(&branch.kind, &path.name_or_index(branch.name.as_deref(), 0), finite),
        ),
        Kind::Array(array) => endless(&array.element, &path.element(), finite),
        _ => path.error(Problem::NoVariants),
    }
}

/// Returns an error if the structure `name` refers to itself through references that stand for a
/// whole value.
///
/// `open` contains the structures whose references are being followed. `done` contains all
/// structures visited so far.
fn circle<'d>(
    name: &'d str,
    kinds: &HashMap<&'d str, &'d Kind>,
    open: &mut Vec<&'d str>,
    done: &mut HashSet<&'d str>,
) -> Result<(), FieldsError> {
    if open.contains(&name) {
        return Err(Path::definition(name).error(Problem::Circular { name: name.to_owned() }));
    }
    if !done.insert(name) {
        return Ok(());
    }
    open.push(name);
    let mut bare = Vec::new();
    if let Some(kind) = kinds.get(name) {
        bare_references(kind, &mut bare);
    }
    for next in bare {
        circle(next, kinds, open, done)?;
    }
    open.pop();
    Ok(())
}

/// Appends to `found` the structures that `kind` refers to directly: as a reference, or through a
/// structure of an untagged variant.
fn bare_references<'d>(kind: &'d Kind, found: &mut Vec<&'d str>) {
    match kind.plain() {
        Kind::Ref(name) => found.push(name),
        Kind::Variant(variant) if variant.untagged => {
            for branch in &variant.variants {
                bare_references(&branch.kind, found);
            }
        }
        _ => {}
    }
}
