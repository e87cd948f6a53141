//! Import of objects and lists, and the check that the branches of a `oneOf` are disjoint.

use serde_json::{Map, Value};

use super::{Pointer, Read, Reader, known, scalars};
use crate::field::{Array, Branch, Composite, Kind, Member, Scalar, Variant};

impl Reader<'_> {
    pub(super) fn object(&mut self, schema: &Map<String, Value>, at: &Pointer) -> Read<Kind> {
        known(schema, &["type", "properties", "required", "additionalProperties"], at)?;
        if schema.get("additionalProperties").is_some_and(|more| !more.is_boolean()) {
            return Err(at.keyword("additionalProperties"));
        }
        let required = match schema.get("required") {
            None => Vec::new(),
            Some(names) => names_of(names).ok_or_else(|| at.malformed("required", "a list of names"))?,
        };
        let none = Map::new();
        let properties = match schema.get("properties") {
            None => &none,
            Some(Value::Object(properties)) => properties,
            Some(_) => return Err(at.malformed("properties", "an object")),
        };
        if required.iter().any(|name| !properties.contains_key(*name)) {
            return Err(at.inexpressible("a required member without a schema"));
        }
        let mut fields = Vec::with_capacity(properties.len());
        for (name, property) in properties {
            let optional = !required.contains(&name.as_str());
            let at = at.then("properties").then(name);
            // An optional member that may be `null` is omitted instead of being `null`.
            let kind = match not_null(property).filter(|_| optional) {
                Some(property) => self.kind(&property, &at)?,
                None => self.kind(property, &at)?,
            };
            fields.push(Member { name: name.clone(), kind, optional, probability: None });
        }
        Ok(Composite { fields }.into())
    }

    pub(super) fn array(&mut self, schema: &Map<String, Value>, at: &Pointer) -> Read<Kind> {
        known(schema, &["type", "items", "minItems", "maxItems", "uniqueItems"], at)?;
        if schema.get("uniqueItems").is_some_and(|unique| unique != &Value::Bool(false)) {
            return Err(at.keyword("uniqueItems"));
        }
        let min_items = scalars::count(schema, "minItems", at)?.unwrap_or(0);
        let max_items = scalars::count(schema, "maxItems", at)?;
        let items =
            schema.get("items").ok_or_else(|| at.inexpressible("a list without an `items` schema"))?;
        let element = Box::new(self.kind(items, &at.then("items"))?);
        Ok(Array { element, min_items, max_items }.into())
    }
}

fn names_of(list: &Value) -> Option<Vec<&str>> {
    list.as_array()?.iter().map(Value::as_str).collect()
}

/// Returns the schema without `null` in its types, enum values or branches. Returns `None` if the
/// schema does not allow `null`, or if `null` cannot be removed.
fn not_null(schema: &Value) -> Option<Value> {
    let mut schema = schema.as_object()?.clone();
    if let Some(Value::Array(types)) = schema.get("type") {
        let [one, other] = types.as_slice() else { return None };
        let kept = [one, other].into_iter().find(|name| *name != "null")?.clone();
        if one != "null" && other != "null" {
            return None;
        }
        // An `enum` beside a nullable type may list `null` as a value.
        if let Some(Value::Array(options)) = schema.get_mut("enum") {
            options.retain(|option| !option.is_null());
        }
        schema.insert("type".to_owned(), kept);
        return Some(schema.into());
    }
    if !schema.contains_key("type")
        && let Some(Value::Array(options)) = schema.get_mut("enum")
    {
        let before = options.len();
        options.retain(|option| !option.is_null());
        let is_less = options.len() < before && !options.is_empty();
        return is_less.then(|| schema.into());
    }
    let keyword = ["anyOf", "oneOf"].into_iter().find(|keyword| schema.contains_key(*keyword))?;
    let branches = schema.get(keyword)?.as_array()?;
    let null = serde_json::json!({ "type": "null" });
    let kept: Vec<Value> = branches.iter().filter(|branch| **branch != null).cloned().collect();
    if kept.len() == branches.len() {
        return None;
    }
    schema.insert(keyword.to_owned(), kept.into());
    Some(schema.into())
}

/// Converts objects with one member each to a tagged variant: the member's name becomes the tag.
///
/// Returns `None` unless every kind is an object with exactly one member, which is required, and
/// the names of these members are different.
pub(super) fn tagged(kinds: &[Kind]) -> Option<Kind> {
    let mut variants: Vec<Branch> = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let Kind::Composite(Composite { fields }) = kind.plain() else { return None };
        let [Member { name, kind: value, optional: false, .. }] = fields.as_slice() else { return None };
        if variants.iter().any(|branch| branch.name.as_ref() == Some(name)) {
            return None;
        }
        // The description of the object moves to its value, unless the value has a description.
        let value = match kind.description().filter(|_| value.description().is_none()) {
            Some(description) => value.clone().describe(description),
            None => value.clone(),
        };
        variants.push(Branch { name: Some(name.clone()), kind: value });
    }
    Some(Variant { variants, untagged: false, weights: Vec::new() }.into())
}

/// Reports whether it is certain that no value is valid in two branches of a `oneOf`. `kinds[i]` is
/// the kind of `branches[i]`.
pub(super) fn are_apart(branches: &[Value], kinds: &[Kind]) -> bool {
    let is_closed = |index: usize| branches[index].get("additionalProperties") == Some(&false.into());
    // A value of `one` is invalid in `other` if it lacks a required member, or has a member that
    // `other` does not allow.
    let is_out = |one: usize, other: usize| {
        let (kind, against) = (kinds[one].plain(), kinds[other].plain());
        has_more(against, kind) || (is_closed(other) && has_more(kind, against))
    };
    let is_apart = |one: usize, other: usize| {
        let (kind, against) = (kinds[one].plain(), kinds[other].plain());
        by_type(kind, against)
            || by_value(kind, against)
            || by_member(kind, against)
            || (is_out(one, other) && is_out(other, one))
    };
    (0..kinds.len()).all(|one| (one + 1..kinds.len()).all(|other| is_apart(one, other)))
}

/// Returns the JSON type of the values of a kind, or `None` if the values may have several types.
/// Integers have the type `number`.
fn type_of(kind: &Kind) -> Option<&'static str> {
    let of_scalar = |scalar: &Scalar| match scalar {
        Scalar::Boolean(_) => "boolean",
        Scalar::Integer(_) | Scalar::Number(_) => "number",
        Scalar::String(_) => "string",
    };
    match kind {
        Kind::Int(_) | Kind::Float(_) => Some("number"),
        Kind::String(_) | Kind::Template(_) => Some("string"),
        Kind::Boolean => Some("boolean"),
        Kind::Composite(_) => Some("object"),
        Kind::Array(_) => Some("array"),
        Kind::Constant(value) => Some(of_scalar(value)),
        Kind::Choice(choice) => {
            let first = choice.options.first().map(of_scalar)?;
            choice.options.iter().all(|option| of_scalar(option) == first).then_some(first)
        }
        Kind::Variant(variant) => (!variant.untagged).then_some("object"),
        Kind::Ref(_) | Kind::Described(_) => None,
    }
}

fn by_type(one: &Kind, other: &Kind) -> bool {
    matches!((type_of(one), type_of(other)), (Some(one), Some(other)) if one != other)
}

/// Returns the values of a constant or choice, or `None` for other kinds.
fn values(kind: &Kind) -> Option<&[Scalar]> {
    match kind {
        Kind::Constant(value) => Some(std::slice::from_ref(value)),
        Kind::Choice(choice) => Some(&choice.options),
        _ => None,
    }
}

fn by_value(one: &Kind, other: &Kind) -> bool {
    match (values(one), values(other)) {
        (Some(one), Some(other)) => !one.iter().any(|value| other.contains(value)),
        _ => false,
    }
}

/// Reports whether two objects require a member of the same name that cannot have the same value in
/// both.
fn by_member(one: &Kind, other: &Kind) -> bool {
    let (Kind::Composite(one), Kind::Composite(other)) = (one, other) else { return false };
    one.fields.iter().filter(|member| !member.optional).any(|member| {
        let twin = other.fields.iter().find(|twin| twin.name == member.name && !twin.optional);
        twin.is_some_and(|twin| {
            let (kind, twin) = (member.kind.plain(), twin.kind.plain());
            by_value(kind, twin) || by_type(kind, twin)
        })
    })
}

/// Reports whether `one` is an object with a required member that the object `other` does not have.
fn has_more(one: &Kind, other: &Kind) -> bool {
    let (Kind::Composite(one), Kind::Composite(other)) = (one, other) else { return false };
    let has = |name: &str| other.fields.iter().any(|member| member.name == name);
    one.fields.iter().any(|member| !member.optional && !has(&member.name))
}
