//! What is wrong with a value, in words that a model can act on.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError, Validator};
use serde_json::Value;

/// The most errors that are told.
const ERRORS: usize = 10;
/// The most characters of a value that are told.
const VALUE: usize = 60;
/// How deep branches of `anyOf` and `oneOf` are told.
const DEPTH: usize = 4;

/// All that is wrong with `value`, each with its place.
pub(super) fn errors(validator: &Validator, value: &Value) -> Vec<String> {
    let mut told = Vec::new();
    for error in validator.iter_errors(value) {
        tell(&error, DEPTH, &mut told);
    }
    told
}

/// As many errors as a model is told.
pub(crate) fn first(errors: &[String]) -> Vec<String> {
    let mut told: Vec<String> = errors.iter().take(ERRORS).cloned().collect();
    if errors.len() > ERRORS {
        told.push(format!("and {} more", errors.len() - ERRORS));
    }
    told
}

/// A JSON pointer as it is told, its parts joined by points: `toolCalls.0.name`.
pub(crate) fn named(pointer: &str) -> String {
    let parts = pointer.split('/').skip(1);
    parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect::<Vec<_>>().join(".")
}

fn tell(error: &ValidationError<'_>, depth: usize, told: &mut Vec<String>) {
    let place = named(error.instance_path().as_str());
    if let Some(branch) = branch(error).filter(|_| depth > 0) {
        for error in branch {
            tell(error, depth - 1, told);
        }
        return;
    }
    let words = match error.kind() {
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            let place = if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
            told.push(format!("Field \"{place}\": Required, but missing"));
            return;
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let keys = unexpected.join(", ");
            told.push(match place.as_str() {
                "" => format!("Object has unrecognized keys: {keys}"),
                place => format!("Field \"{place}\": Object has unrecognized keys: {keys}"),
            });
            return;
        }
        kind => words(kind, error),
    };
    told.push(match place.as_str() {
        "" => format!("The whole value: {words}"),
        place => format!("Field \"{place}\": {words}"),
    });
}

fn words(kind: &ValidationErrorKind, error: &ValidationError<'_>) -> String {
    let given = error.instance().as_ref();
    match kind {
        ValidationErrorKind::Type { kind } => {
            format!("Expected {}, got {}", expected(kind), JsonType::from(given).as_str())
        }
        ValidationErrorKind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let options: Vec<String> = options.iter().map(shortened).collect();
            format!("Expected one of {}, got {}", options.join(", "), shortened(given))
        }
        ValidationErrorKind::Constant { expected_value } => {
            format!("Expected {}, got {}", shortened(expected_value), shortened(given))
        }
        ValidationErrorKind::Minimum { limit } => format!("Value is too small (min: {limit})"),
        ValidationErrorKind::ExclusiveMinimum { limit } => {
            format!("Value is too small (must be more than {limit})")
        }
        ValidationErrorKind::MinLength { limit } => format!("Value is too small (min: {limit} characters)"),
        ValidationErrorKind::MinItems { limit } => format!("Value is too small (min: {limit} items)"),
        ValidationErrorKind::MinProperties { limit } => format!("Value is too small (min: {limit} keys)"),
        ValidationErrorKind::Maximum { limit } => format!("Value is too large (max: {limit})"),
        ValidationErrorKind::ExclusiveMaximum { limit } => {
            format!("Value is too large (must be less than {limit})")
        }
        ValidationErrorKind::MaxLength { limit } => format!("Value is too large (max: {limit} characters)"),
        ValidationErrorKind::MaxItems { limit } => format!("Value is too large (max: {limit} items)"),
        ValidationErrorKind::MaxProperties { limit } => format!("Value is too large (max: {limit} keys)"),
        ValidationErrorKind::Pattern { pattern } => format!("Value does not match the pattern {pattern}"),
        ValidationErrorKind::Format { format } => format!("Value is not a valid {format}"),
        ValidationErrorKind::UniqueItems => "Items must differ from each other".to_owned(),
        ValidationErrorKind::FalseSchema => "Nothing is allowed here".to_owned(),
        _ => error.masked_with("the value").to_string(),
    }
}

/// Of the branches that could have been meant the one that is missed by least.
fn branch<'a>(error: &'a ValidationError<'_>) -> Option<&'a [ValidationError<'static>]> {
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) =
        error.kind()
    else {
        return None;
    };
    let place = error.instance_path().as_str();
    // A branch for values of another type was hardly meant.
    let is_other = |errors: &[ValidationError<'_>]| {
        errors.iter().any(|error| {
            matches!(error.kind(), ValidationErrorKind::Type { .. })
                && error.instance_path().as_str() == place
        })
    };
    let meant = context.iter().filter(|errors| !errors.is_empty() && !is_other(errors));
    meant.min_by_key(|errors| errors.len()).map(Vec::as_slice)
}

fn expected(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(kind) => kind.as_str().to_owned(),
        TypeKind::Multiple(kinds) => kinds.iter().map(JsonType::as_str).collect::<Vec<_>>().join(" or "),
    }
}

fn shortened(value: &Value) -> String {
    super::truncated(&value.to_string(), VALUE)
}
