//! Import of JSON Schemas, in particular of schemas that `schemars` generates for Rust types.
//!
//! Every value of the resulting definition is valid under the schema. Where the schema allows more
//! than fields can express, the definition is stricter:
//!
//! - Objects have named members only.
//! - Numbers have a limited number of decimals, as in [`Float`](crate::field::Float).
//! - Integers have 64 bits.
//! - An optional member that may be `null` is omitted instead of being `null`.
//!
//! A schema that fields cannot express is rejected. So is any schema with a keyword that would not
//! be enforced. The error contains the JSON pointer. Descriptions become descriptions of fields.

mod containers;
mod scalars;
mod template;

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::builder::{DefinitionBuilder, reference};
use crate::error::{Fault, FieldsError, SchemaProblem};
use crate::field::{Branch, Choice, Kind, Scalar, Variant};
use crate::read::NESTING;

type Read<T> = Result<T, FieldsError>;

/// Keywords that do not restrict values. They are accepted in every schema.
const ANNOTATIONS: [&str; 13] = [
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$anchor",
];

/// Converts a JSON Schema to an unchecked definition.
pub(crate) fn definition(schema: &Value) -> Read<DefinitionBuilder> {
    let mut reader = Reader { root: schema, names: HashMap::new(), structures: Vec::new() };
    let mut root = reader.kind(schema, &Pointer::default())?;
    // Reading a structure may add further structures.
    let mut definitions = Vec::new();
    while let Some((target, name)) = reader.structures.get(definitions.len()).cloned() {
        let kind = if target.is_empty() {
            std::mem::replace(&mut root, reference(name.clone()))
        } else {
            let found = schema.pointer(&target).ok_or_else(|| unresolved(&target))?;
            reader.kind(found, &Pointer { path: target.clone(), depth: 0 })?
        };
        definitions.push((name, kind));
    }
    let name = schema.get("title").and_then(Value::as_str).map(ToOwned::to_owned);
    Ok(DefinitionBuilder { name, root, definitions })
}

fn unresolved(target: &str) -> FieldsError {
    let problem = SchemaProblem::Unresolved { target: format!("#{target}") };
    Fault::Schema { pointer: target.to_owned(), problem }.into()
}

/// Location in the imported schema, as a JSON pointer with its number of steps.
#[derive(Clone, Default)]
struct Pointer {
    path: String,
    depth: usize,
}

impl Pointer {
    fn then(&self, step: &str) -> Self {
        let step = step.replace('~', "~0").replace('/', "~1");
        Self { path: format!("{}/{step}", self.path), depth: self.depth + 1 }
    }

    fn error(&self, problem: SchemaProblem) -> FieldsError {
        Fault::Schema { pointer: self.path.clone(), problem }.into()
    }

    fn keyword(&self, keyword: &str) -> FieldsError {
        self.error(SchemaProblem::Keyword { keyword: keyword.to_owned() })
    }

    fn malformed(&self, keyword: &'static str, expected: &'static str) -> FieldsError {
        self.error(SchemaProblem::Malformed { keyword, expected })
    }

    fn inexpressible(&self, what: &'static str) -> FieldsError {
        self.error(SchemaProblem::Inexpressible { what })
    }
}

struct Reader<'s> {
    root: &'s Value,
    /// Structure names by JSON pointer, for the targets of all references read so far.
    names: HashMap<String, String>,
    /// JSON pointers and names of the same structures, in order of first reference.
    structures: Vec<(String, String)>,
}

impl Reader<'_> {
    /// Converts a schema to a kind, with the schema's description.
    fn kind(&mut self, schema: &Value, at: &Pointer) -> Read<Kind> {
        let kind = self.plain(schema, at)?;
        let description = schema.get("description").and_then(Value::as_str).map(str::trim);
        Ok(match description.filter(|description| !description.is_empty()) {
            Some(description) => kind.describe(description),
            None => kind,
        })
    }

    fn plain(&mut self, schema: &Value, at: &Pointer) -> Read<Kind> {
        // One level of fields takes up to two levels of a schema: a keyword and its value.
        if at.depth > 2 * NESTING {
            return Err(at.error(SchemaProblem::Nesting { limit: NESTING }));
        }
        let Some(schema) = schema.as_object() else {
            return Err(at.inexpressible(if schema == &Value::Bool(true) {
                "a schema that accepts any value"
            } else {
                "a schema that accepts no value"
            }));
        };
        if !at.path.is_empty() && schema.contains_key("$id") {
            // `$id` changes the base URI of all references below.
            return Err(at.keyword("$id"));
        }
        if let Some(target) = schema.get("$ref") {
            known(schema, &["$ref"], at)?;
            return self.reference(target, at);
        }
        if let Some(value) = schema.get("const") {
            known(schema, &["const", "type"], at)?;
            return Ok(Kind::Constant(scalars::typed(value, schema, &at.then("const"))?));
        }
        if let Some(options) = schema.get("enum") {
            known(schema, &["enum", "type"], at)?;
            let at = at.then("enum");
            let options = options.as_array().ok_or_else(|| at.malformed("enum", "a list"))?;
            let option = |(index, option): (usize, &Value)| {
                scalars::typed(option, schema, &at.then(&index.to_string()))
            };
            let options: Vec<Scalar> = options.iter().enumerate().map(option).collect::<Read<_>>()?;
            if let Some(float) = scalars::listed(&options) {
                return Ok(float.into());
            }
            return Ok(Choice { options, weights: Vec::new() }.into());
        }
        for keyword in ["oneOf", "anyOf", "allOf"] {
            if let Some(branches) = schema.get(keyword) {
                known(schema, &[keyword], at)?;
                let at = at.then(keyword);
                let branches = branches.as_array().filter(|branches| !branches.is_empty());
                let branches = branches.ok_or_else(|| at.malformed(keyword, "a non-empty list"))?;
                return self.branches(keyword, branches, &at);
            }
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => self.object(schema, at),
            Some("array") => self.array(schema, at),
            Some("string") => scalars::string(schema, at),
            Some("integer") => scalars::integer(schema, at),
            Some("number") => scalars::number(schema, at),
            Some("boolean") => known(schema, &["type"], at).map(|()| Kind::Boolean),
            Some("null") => Err(at.inexpressible("null")),
            _ if schema
                .get("type")
                .and_then(Value::as_array)
                .is_some_and(|types| types.contains(&"null".into())) =>
            {
                Err(at.inexpressible("null"))
            }
            _ if schema.contains_key("type") => Err(at.malformed("type", "the name of one type")),
            _ => match schema.keys().find(|keyword| !ANNOTATIONS.contains(&keyword.as_str())) {
                Some(keyword) => Err(at.keyword(keyword)),
                None => Err(at.inexpressible("a schema that accepts any value")),
            },
        }
    }

    fn reference(&mut self, target: &Value, at: &Pointer) -> Read<Kind> {
        let target = target.as_str().ok_or_else(|| at.malformed("$ref", "a string"))?;
        let not_found = || at.error(SchemaProblem::Unresolved { target: target.to_owned() });
        let pointer = target.strip_prefix('#').ok_or_else(not_found)?;
        let pointer = decoded(pointer).ok_or_else(not_found)?;
        if self.root.pointer(&pointer).is_none() {
            return Err(not_found());
        }
        let outer = pointer.match_indices('/').skip(1).map(|(end, _)| &pointer[..end]);
        if outer.filter_map(|outer| self.root.pointer(outer)).any(|outer| outer.get("$id").is_some()) {
            return Err(at.inexpressible("a reference into a schema with an `$id`"));
        }
        if let Some(name) = self.names.get(&pointer) {
            return Ok(reference(name.as_str()));
        }
        let title = self.root.get("title").and_then(Value::as_str).unwrap_or("root");
        let name = if pointer.is_empty() { title } else { pointer.rsplit('/').next().unwrap_or_default() };
        let name = self.fresh(name);
        self.names.insert(pointer.clone(), name.clone());
        self.structures.push((pointer, name.clone()));
        Ok(reference(name))
    }

    /// Returns `name`, with invalid characters replaced, if no structure has this name. Otherwise
    /// appends a number, as in `name-2`.
    fn fresh(&self, name: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let name: String = name.chars().map(plain).collect();
        let name = if name.is_empty() { "structure".to_owned() } else { name };
        let is_taken = |name: &str| self.structures.iter().any(|(_, known)| known == name);
        let numbered = (2usize..).map(|number| format!("{name}-{number}"));
        let mut names = [name.clone()].into_iter().chain(numbered);
        names.find(|name| !is_taken(name)).unwrap_or(name)
    }

    fn branches(&mut self, keyword: &str, branches: &[Value], at: &Pointer) -> Read<Kind> {
        let mut kinds = Vec::with_capacity(branches.len());
        for (index, branch) in branches.iter().enumerate() {
            kinds.push(self.kind(branch, &at.then(&index.to_string()))?);
        }
        match keyword {
            "allOf" if kinds.len() > 1 => return Err(at.inexpressible("`allOf` with more than one schema")),
            "oneOf" if !containers::are_apart(branches, &kinds) => {
                return Err(at.inexpressible("a `oneOf` with branches that may overlap"));
            }
            _ => {}
        }
        if kinds.len() == 1 {
            return Ok(kinds.remove(0));
        }
        if let Some(options) = scalar_options(&kinds) {
            let choice = Kind::from(Choice { options, weights: Vec::new() });
            return Ok(match descriptions(&kinds) {
                Some(descriptions) => choice.describe(descriptions),
                None => choice,
            });
        }
        Ok(containers::tagged(&kinds).unwrap_or_else(|| {
            let branch = |kind| Branch { name: None, kind };
            Variant { variants: kinds.into_iter().map(branch).collect(), untagged: true, weights: Vec::new() }
                .into()
        }))
    }
}

/// Returns the values of all constants and choices in `kinds`, without duplicates. Returns `None`
/// if there is any other kind.
fn scalar_options(kinds: &[Kind]) -> Option<Vec<Scalar>> {
    let mut options: Vec<Scalar> = Vec::new();
    for kind in kinds {
        let more = match kind.plain() {
            Kind::Constant(value) => std::slice::from_ref(value),
            Kind::Choice(choice) => &choice.options,
            _ => return None,
        };
        for option in more {
            if !options.contains(option) {
                options.push(option.clone());
            }
        }
    }
    Some(options)
}

/// Joins the descriptions of constants in the form `value: description; value: description`.
/// Returns `None` if no constant has a description.
fn descriptions(kinds: &[Kind]) -> Option<String> {
    let described = kinds.iter().filter_map(|kind| match kind.plain() {
        Kind::Constant(value) => Some(format!("{}: {}", value.text(), kind.description()?)),
        _ => None,
    });
    let described: Vec<String> = described.collect();
    (!described.is_empty()).then(|| described.join("; "))
}

/// Returns an error if the schema contains a keyword that is neither in `known` nor an annotation.
fn known(schema: &Map<String, Value>, known: &[&str], at: &Pointer) -> Read<()> {
    let is_known = |keyword: &str| known.contains(&keyword) || ANNOTATIONS.contains(&keyword);
    match schema.keys().find(|keyword| !is_known(keyword)) {
        Some(keyword) => Err(at.keyword(keyword)),
        None => Ok(()),
    }
}

/// Decodes the percent escapes of a URI fragment. Returns `None` if an escape is malformed or the
/// result is not UTF-8.
fn decoded(fragment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push((digit()? << 4 | digit()?) as u8);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
