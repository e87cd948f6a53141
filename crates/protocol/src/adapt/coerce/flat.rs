//! A schema that tells where it is broken without telling of every branch.
//!
//! Of `anyOf` and `oneOf` the validator tells the errors of all branches, and of the branches in them, whether anybody reads them or
//! not. In a schema of trees that is exponential in the depth of the value: 9 s for three branches and twelve levels. So errors are
//! asked of a schema that means the same with each such keyword as a condition, `{"if": {"anyOf": […]}, "else": false}`: whether a
//! condition holds is decided in linear time, and then there is one error, of `else`. The branches are asked when they are tried.

use std::collections::HashMap;
use std::sync::OnceLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, ErrorIterator, ValidationError, Validator, ValidatorMap};
use serde_json::{Map, Value, json};

use super::super::report::Violation;
use super::super::tape::pointer_token;
use crate::subschemas::subschemas_mut;

/// The keywords that become conditions.
const BRANCHES: [&str; 2] = ["anyOf", "oneOf"];

/// The most bytes that the places of all values in a value may have together. Each error has its place in full: a thousand faults
/// below a name of a megabyte would take a gigabyte.
const PLACES: usize = 64 << 20;

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
    ///
    /// # Errors
    /// When its names are too long to tell.
    pub(crate) fn errors<'v>(&'v self, value: &'v Value) -> Result<ErrorIterator<'v>, Violation> {
        errors(&self.validator, value)
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
            let errors = errors(parts.get(&format!("#{place}"))?, value).ok()?.collect();
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

/// What is wrong with a value, by the validator of a part of the schema.
///
/// # Errors
/// When its names are too long to tell.
pub(super) fn errors<'v>(validator: &'v Validator, value: &'v Value) -> Result<ErrorIterator<'v>, Violation> {
    if places(value, 0, PLACES).is_some() {
        return Ok(validator.iter_errors(value));
    }
    let message = format!("the places in it have more than {} MiB in all", PLACES >> 20);
    Err(Violation::new("", "limit", message))
}

/// What is left of so many bytes after the places of all values in one whose own place has `length`; none, if they are too few. A value
/// is as deep as texts may be.
fn places(value: &Value, length: usize, left: usize) -> Option<usize> {
    let left = left.checked_sub(length)?;
    match value {
        Value::Array(items) => items.iter().try_fold(left, |left, item| places(item, length + 2, left)),
        Value::Object(members) => {
            members.iter().try_fold(left, |left, (name, value)| places(value, length + 1 + name.len(), left))
        }
        _ => Some(left),
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
        for (token, schema) in subschemas_mut(keyword, value) {
            let place =
                token.map_or_else(|| place.clone(), |token| format!("{place}/{}", pointer_token(&token)));
            flatten_within(schema, &place, found);
        }
    }
}

/// The `if` of a condition only says whether it holds; its own keyword stays what it is, and the branches in it are flattened.
fn flatten_within(schema: &mut Value, place: &str, found: &mut HashMap<String, Branches>) {
    let condition = found.contains_key(&format!("{place}/else"));
    let branches = schema.get_mut("if").and_then(Value::as_object_mut).filter(|_| condition);
    let Some((keyword, Value::Array(schemas))) = branches.and_then(|branches| branches.iter_mut().next())
    else {
        return flatten(schema, place, found);
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
