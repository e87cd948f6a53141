//! A schema that tells where it is broken without telling of every branch.
//!
//! Of `anyOf` and `oneOf` the validator tells the errors of all branches, and of the branches in them, whether anybody reads them or
//! not. In a schema of trees that is exponential in the depth of the value: 9 s for three branches and twelve levels. So errors are
//! asked of a schema that means the same with each such keyword as a condition, `{"if": {"anyOf": […]}, "else": false}`: whether a
//! condition holds is decided in linear time, and then there is one error, of `else`. The branches are asked when they are tried.

use std::collections::HashMap;
use std::sync::OnceLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, ValidationError, Validator, ValidatorMap};
use serde_json::{Map, Value, json};

use super::super::report::Violation;
use super::super::tape::pointer_token;

/// The keywords whose value is a schema, or a list of them.
const SCHEMAS: [&str; 15] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// The keywords whose value is an object of schemas.
const MAPS: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];
/// The keywords that become conditions.
const BRANCHES: [&str; 2] = ["anyOf", "oneOf"];

/// A keyword that became a condition.
pub(crate) struct Branches {
    pub(crate) keyword: &'static str,
    /// Where the schema is that it was in.
    pub(super) part: String,
    /// Where its branches are now.
    pub(super) place: String,
    pub(crate) count: usize,
}

/// The validators that tell errors.
pub(crate) struct Flat {
    validator: Validator,
    schema: Value,
    /// The validators of the schema's parts, made when a branch is tried.
    parts: OnceLock<Option<ValidatorMap>>,
    /// The conditions, by the pointers of their `else`.
    branches: HashMap<String, Branches>,
}

impl Flat {
    /// Of a schema that is one. Where conditions are not known (before draft 7), or references lead into branches, the schema stays as
    /// it is, and no branch is tried.
    pub(crate) fn new(schema: &Value) -> Option<Self> {
        let mut branches = HashMap::new();
        let mut flat = schema.clone();
        let has_conditions = !matches!(Draft::default().detect(schema), Draft::Draft4 | Draft::Draft6);
        if has_conditions && !has_reference_into_branches(schema) {
            flatten(&mut flat, "", &mut branches);
        }
        let validator = jsonschema::validator_for(&flat).ok()?;
        Some(Self { validator, schema: flat, parts: OnceLock::new(), branches })
    }

    /// What is wrong with a value.
    pub(crate) fn errors<'v>(&'v self, value: &'v Value) -> impl Iterator<Item = ValidationError<'v>> {
        self.validator.iter_errors(value)
    }

    /// The validators of the schema's parts, by pointer.
    pub(super) fn parts(&self) -> Option<&ValidatorMap> {
        self.parts.get_or_init(|| jsonschema::validator_map_for(&self.schema).ok()).as_ref()
    }

    /// The branches that an error at `pointer` is about.
    pub(crate) fn branches(&self, pointer: &str) -> Option<&Branches> {
        self.branches.get(pointer)
    }

    /// What each branch tells of a value, with the place of its schema.
    pub(crate) fn tried<'v>(
        &'v self,
        branches: &Branches,
        value: &'v Value,
    ) -> Option<Vec<(String, Vec<ValidationError<'v>>)>> {
        let parts = self.parts()?;
        let tried = |index| {
            let place = format!("{}/{index}", branches.place);
            let errors = parts.get(&format!("#{place}"))?.iter_errors(value).collect();
            Some((place, errors))
        };
        (0..branches.count).map(tried).collect()
    }

    /// Keyword and message of an error, as if the schema were the given one.
    pub(in super::super) fn words(&self, error: &ValidationError<'_>, pointer: &str) -> (String, String) {
        match (error.kind(), self.branches(pointer)) {
            (ValidationErrorKind::FalseSchema, Some(branches)) => {
                let how = if branches.keyword == "anyOf" { "any" } else { "exactly one" };
                let message = format!(
                    "the value is not valid under {how} of the {} schemas of `{}`",
                    branches.count, branches.keyword
                );
                (branches.keyword.to_owned(), message)
            }
            (kind, _) => (kind.keyword().to_owned(), error.masked_with("the value").to_string()),
        }
    }

    /// An error of the whole schema as a violation.
    pub(crate) fn violation(&self, error: &ValidationError<'_>) -> Violation {
        let (keyword, message) = self.words(error, error.schema_path().as_str());
        Violation::new(error.instance_path().as_str(), &keyword, message)
    }
}

/// The place of the keyword that an error is about. The validator of a part tells it from that part on, unless it went through a
/// reference.
pub(crate) fn keyword_place(part: &str, error: &ValidationError<'_>) -> String {
    let is_within = error.evaluation_path() == error.schema_path();
    format!("{}{}", if is_within { part } else { "" }, error.schema_path())
}

fn has_reference_into_branches(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => members.iter().any(|(name, value)| {
            let leads_there =
                |reference: &str| reference.contains("/anyOf/") || reference.contains("/oneOf/");
            (name == "$ref" && value.as_str().is_some_and(leads_there)) || has_reference_into_branches(value)
        }),
        Value::Array(items) => items.iter().any(has_reference_into_branches),
        _ => false,
    }
}

/// Makes conditions of the branches in a schema at `place`, and in all schemas in it.
fn flatten(schema: &mut Value, place: &str, found: &mut HashMap<String, Branches>) {
    let Value::Object(keywords) = schema else { return };
    conditions(keywords, place, found);
    for (keyword, value) in keywords {
        let place = format!("{place}/{}", pointer_token(keyword));
        match value {
            Value::Object(members) if MAPS.contains(&keyword.as_str()) => {
                for (name, schema) in members {
                    flatten(schema, &format!("{place}/{}", pointer_token(name)), found);
                }
            }
            Value::Array(items) if SCHEMAS.contains(&keyword.as_str()) => {
                items
                    .iter_mut()
                    .enumerate()
                    .for_each(|(index, item)| flatten_item(item, &place, index, found));
            }
            value if SCHEMAS.contains(&keyword.as_str()) => flatten(value, &place, found),
            _ => {}
        }
    }
}

fn flatten_item(item: &mut Value, place: &str, index: usize, found: &mut HashMap<String, Branches>) {
    // The `if` of a condition only says whether it holds; its own keyword stays what it is, and the branches in it are flattened.
    let place = format!("{place}/{index}");
    let condition = found.contains_key(&format!("{place}/else"));
    let branches = item.get_mut("if").and_then(Value::as_object_mut).filter(|_| condition);
    let Some((keyword, Value::Array(schemas))) = branches.and_then(|branches| branches.iter_mut().next())
    else {
        return flatten(item, &place, found);
    };
    for (index, schema) in schemas.iter_mut().enumerate() {
        flatten(schema, &format!("{place}/if/{keyword}/{index}"), found);
    }
}

/// Moves the branches of one schema into conditions of its `allOf`.
fn conditions(keywords: &mut Map<String, Value>, place: &str, found: &mut HashMap<String, Branches>) {
    for keyword in BRANCHES {
        let Some(count) = keywords.get(keyword).and_then(Value::as_array).map(Vec::len) else { continue };
        let all = keywords.entry("allOf").or_insert_with(|| json!([]));
        let Some(index) = all.as_array().map(Vec::len) else { continue };
        let Some(schemas) = keywords.shift_remove(keyword) else { continue };
        if let Some(Value::Array(all)) = keywords.get_mut("allOf") {
            all.push(json!({ "if": { keyword: schemas }, "else": false }));
        }
        let part = place.to_owned();
        let condition = format!("{place}/allOf/{index}");
        let place = format!("{condition}/if/{keyword}");
        found.insert(format!("{condition}/else"), Branches { keyword, part, place, count });
    }
}
