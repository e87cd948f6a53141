//! Validation errors without the errors of every branch.
//!
//! For `anyOf` and `oneOf`, the validator reports the errors of all branches and of all nested
//! branches. For a tree schema, this takes exponential time in the depth of the value: 9 s for 3
//! branches and 12 levels. Errors are therefore computed by an equivalent schema, in which each
//! such keyword is a condition: `{"if": {"anyOf": […]}, "else": false}`. A condition is evaluated
//! in linear time, and a failed condition gives a single error, from `else`. The errors of a branch
//! are computed only when the branch is tried.

use std::collections::HashMap;
use std::sync::OnceLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, ErrorIterator, ValidationError, Validator, ValidatorMap};
use serde_json::{Map, Value, json};

use crate::report::Violation;
use crate::schema;
use crate::subschemas::subschemas_mut;
use crate::tape::pointer_token;

/// Keywords that are rewritten as conditions.
const BRANCHES: [&str; 2] = ["anyOf", "oneOf"];

/// Maximum total size of the JSON pointers of all values, in bytes.
///
/// Each error holds its full pointer. 1,000 errors below a name of 1 MB would otherwise take 1 GB.
const PLACES: usize = 64 << 20;

/// An `anyOf` or `oneOf` that was rewritten as a condition.
pub(crate) struct Branches {
    pub(crate) keyword: &'static str,
    /// Pointer to the schema that contained the keyword.
    pub(super) part: String,
    /// Pointer to the list of branches in the rewritten schema.
    pub(super) place: String,
    pub(crate) count: usize,
}

/// Schema that reports its violations in linear time, without the errors of every branch.
///
/// ```
/// use formwork_adapt::FlatSchema;
/// let schema = serde_json::json!({"anyOf": [{"type": "string"}, {"type": "array"}]});
/// let flat = FlatSchema::new(&schema).expect("a schema");
/// let violations = flat.violations(&7.into());
/// assert_eq!(violations[0].to_string(), "the value is not valid under any of the 2 schemas of `anyOf`");
/// ```
pub struct FlatSchema {
    validator: Validator,
    schema: Value,
    /// Validators of the subschemas, created when the first branch is tried.
    parts: OnceLock<Option<ValidatorMap>>,
    /// Rewritten keywords, by the pointer of their `else`.
    branches: HashMap<String, Branches>,
}

impl FlatSchema {
    /// Rewrites and compiles a valid schema.
    ///
    /// The schema stays unchanged if its draft has no conditions (before draft 7) or if a reference
    /// leads into a branch. No branch is tried in this case. Returns `None` if the schema is
    /// invalid.
    pub fn new(schema: &Value) -> Option<Self> {
        let mut branches = HashMap::new();
        let mut flat = schema.clone();
        let has_conditions = !matches!(Draft::default().detect(schema), Draft::Draft4 | Draft::Draft6);
        if has_conditions && !has_reference_into_branches(schema) {
            flatten(&mut flat, "", &mut branches);
        }
        let validator = schema::validator(&flat).ok()?;
        Some(Self { validator, schema: flat, parts: OnceLock::new(), branches })
    }

    /// Returns all violations of a value, or a single one if the pointers of its values are too
    /// large in total.
    pub fn violations(&self, value: &Value) -> Vec<Violation> {
        match self.errors(value) {
            Ok(errors) => errors.map(|error| self.violation(&error)).collect(),
            Err(too_long) => vec![too_long],
        }
    }

    /// Returns the validation errors of a value.
    ///
    /// # Errors
    /// Returns a violation if the pointers of the values are too large in total.
    pub(crate) fn errors<'v>(&'v self, value: &'v Value) -> Result<ErrorIterator<'v>, Violation> {
        errors(&self.validator, value)
    }

    /// Returns the validators of the subschemas, by pointer.
    pub(super) fn parts(&self) -> Option<&ValidatorMap> {
        self.parts
            .get_or_init(|| jsonschema::options().should_validate_formats(true).build_map(&self.schema).ok())
            .as_ref()
    }

    /// Returns the type of the member `name` of an object whose schema has the keyword at the pointer
    /// `keyword`, if there is a single type.
    pub(crate) fn kind_of_member(&self, keyword: &str, name: &str) -> Option<&str> {
        let (place, _) = keyword.rsplit_once('/')?;
        let mut schema = &self.schema;
        for token in place.split('/').skip(1) {
            schema = match token {
                "$ref" => schema::resolved(&self.schema, schema),
                token => schema.pointer(&format!("/{token}"))?,
            };
        }
        schema::kind(&self.schema, schema.get("properties")?.get(name)?)
    }

    /// Returns the rewritten keyword whose `else` is at `pointer`.
    pub(crate) fn branches(&self, pointer: &str) -> Option<&Branches> {
        self.branches.get(pointer)
    }

    /// Returns the errors of each branch for a value, with the pointer of the branch.
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

    /// Returns the keyword and the message of an error, as the original schema would report them.
    pub(crate) fn words(&self, error: &ValidationError<'_>, pointer: &str) -> (String, String) {
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

    /// Converts an error of the whole schema to a violation.
    pub(crate) fn violation(&self, error: &ValidationError<'_>) -> Violation {
        let (keyword, message) = self.words(error, error.schema_path().as_str());
        Violation::new(error.instance_path().as_str(), &keyword, message)
    }
}

/// Returns the errors of a value by the validator of a subschema.
///
/// # Errors
/// Returns a violation if the pointers of the values are too large in total.
pub(super) fn errors<'v>(validator: &'v Validator, value: &'v Value) -> Result<ErrorIterator<'v>, Violation> {
    if places(value, 0, PLACES).is_some() {
        return Ok(validator.iter_errors(value));
    }
    let message = format!("the JSON pointers of all values exceed {} MiB in total", PLACES >> 20);
    Err(Violation::new("", "limit", message))
}

/// Subtracts the sizes of the pointers of `value` and all values inside from `left`.
///
/// `length` is the size of the pointer of `value`. Returns `None` if `left` is too small. The
/// recursion is bounded by the nesting limit of texts.
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

/// Returns the pointer of the keyword that an error is about.
///
/// A subschema's validator reports pointers relative to the subschema, except after following a
/// reference.
pub(super) fn keyword_place(part: &str, error: &ValidationError<'_>) -> String {
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

/// Rewrites the branches in a schema at `place` and in all its subschemas.
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

/// Rewrites a subschema. In a condition created by [`conditions`], only the branches are rewritten,
/// because the keyword in `if` must stay.
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

/// Moves the `anyOf` and `oneOf` of one schema into conditions in its `allOf`.
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
