//! Validation errors in words that a model can act on.

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};
use serde_json::Value;

use super::content::Marks;
use super::truncated;
use crate::coerce::{Base, Branches, FlatSchema};
use crate::tape::pointer_token;

/// Maximum number of errors shown to a model.
const ERRORS: usize = 10;
/// Maximum number of characters of a value in a message.
const VALUE: usize = 60;
/// Maximum number of characters of a list of names or values, or of a validator's message.
const LONGEST: usize = 400;
/// Maximum nesting of `anyOf` and `oneOf` branches whose errors are reported.
const DEPTH: usize = 4;

/// Validation errors of a value.
#[derive(Default)]
pub(super) struct Told {
    /// Messages, each with its place.
    pub(super) errors: Vec<String>,
    /// Places that are wrong, and places that must be empty.
    pub(super) marks: Marks,
}

/// Returns all errors of `value`, which must be invalid.
pub(super) fn told(flat: Option<&FlatSchema>, value: &Value) -> Told {
    let mut told = Told::default();
    if let Some(flat) = flat {
        match flat.errors(value) {
            Ok(errors) => errors.for_each(|error| told.tell(flat, &error, Base::default(), DEPTH)),
            Err(too_long) => told.say("", &too_long.message),
        }
    }
    // An invalid value always has an error, even if none can be described.
    if told.errors.is_empty() {
        told.say("", "Value does not match the schema");
        told.marks.wrong.insert(String::new());
    }
    told
}

/// Returns the errors to show to a model: the first ones, and the number of the others.
pub fn first_errors(errors: &[String]) -> Vec<String> {
    let mut told: Vec<String> = errors.iter().take(ERRORS).cloned().collect();
    if errors.len() > ERRORS {
        told.push(format!("and {} more", errors.len() - ERRORS));
    }
    told
}

/// Formats a JSON pointer for a message, with its parts joined by dots: `toolCalls.0.name`.
pub fn dotted(pointer: &str) -> String {
    let parts = pointer.split('/').skip(1);
    parts.map(|part| part.replace("~1", "/").replace("~0", "~")).collect::<Vec<_>>().join(".")
}

impl Told {
    /// Reports an error. If the error is about branches, reports the errors of the closest branch
    /// instead.
    fn tell(&mut self, flat: &FlatSchema, error: &ValidationError<'_>, base: Base<'_>, depth: usize) {
        let place = format!("{}{}", base.value, error.instance_path());
        let keyword = base.keyword(error);
        let branches =
            flat.branches(&keyword).filter(|_| matches!(error.kind(), ValidationErrorKind::FalseSchema));
        if let Some(branches) = branches {
            // The repaired value may match any of the branches.
            self.marks.wrong.insert(place.clone());
            return self.tell_branches(flat, (branches, error), &place, depth);
        }
        self.mark(error, &place);
        if let Some(branch) = branch(error).filter(|_| depth > 0) {
            for error in branch {
                self.tell(flat, error, base, depth - 1);
            }
            return;
        }
        match error.kind() {
            ValidationErrorKind::Required { property } => {
                let name = pointer_token(property.as_str().unwrap_or_default()).into_owned();
                let kind = property.as_str().and_then(|name| flat.kind_of_member(&keyword, name));
                let missing = || "Required, but missing".to_owned();
                let words = kind.map_or_else(missing, |kind| format!("Expected {kind}, got undefined"));
                self.say(&format!("{place}/{name}"), &words);
            }
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let keys = truncated(&unexpected.join(", "), LONGEST);
                match place.as_str() {
                    "" => self.errors.push(format!("Object has unrecognized keys: {keys}")),
                    place => self.say(place, &format!("Object has unrecognized keys: {keys}")),
                }
            }
            kind => self.say(&place, &words(kind, error)),
        }
    }

    fn tell_branches(
        &mut self,
        flat: &FlatSchema,
        (branches, error): (&Branches, &ValidationError<'_>),
        place: &str,
        depth: usize,
    ) {
        let tried = if depth > 0 { flat.tried(branches, error.instance()) } else { None };
        let tried = tried.unwrap_or_default();
        if tried.iter().filter(|(_, errors)| errors.is_empty()).count() > 1 {
            let many = format!("Value matches more than one of the {} schemas of `oneOf`", branches.count);
            return self.say(place, &many);
        }
        let Some((schema, errors)) = nearest(&tried, |(_, errors)| errors, "") else {
            let none =
                format!("Value matches none of the {} schemas of `{}`", branches.count, branches.keyword);
            return self.say(place, &none);
        };
        for error in errors {
            self.tell(flat, error, Base { value: place, schema }, depth - 1);
        }
    }

    /// Adds a message about a place.
    fn say(&mut self, place: &str, words: &str) {
        self.errors.push(match place {
            "" => format!("The whole value: {words}"),
            place => format!("Field \"{}\": {words}", dotted(place)),
        });
    }

    /// Marks the places that an error shows to be wrong or unwanted.
    fn mark(&mut self, error: &ValidationError<'_>, place: &str) {
        match error.kind() {
            // A missing part does not make the present parts wrong.
            ValidationErrorKind::Required { .. }
            | ValidationErrorKind::MinItems { .. }
            | ValidationErrorKind::MinProperties { .. }
            | ValidationErrorKind::Contains => {}
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let places = unexpected.iter().map(|name| format!("{place}/{}", pointer_token(name)));
                self.marks.unwanted.extend(places);
            }
            ValidationErrorKind::FalseSchema => {
                self.marks.unwanted.insert(place.to_owned());
            }
            _ => {
                self.marks.wrong.insert(place.to_owned());
            }
        }
    }
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
            let options = truncated(&options.join(", "), LONGEST);
            format!("Expected one of {options}, got {}", shortened(given))
        }
        ValidationErrorKind::Constant { expected_value } => {
            format!("Expected {}, got {}", shortened(expected_value), shortened(given))
        }
        ValidationErrorKind::Minimum { limit } => format!("Value is too small (min: {limit})"),
        ValidationErrorKind::ExclusiveMinimum { limit } => {
            format!("Value is too small (must be more than {limit})")
        }
        ValidationErrorKind::MinLength { limit }
        | ValidationErrorKind::MinItems { limit }
        | ValidationErrorKind::MinProperties { limit } => format!("Value is too small (min: {limit})"),
        ValidationErrorKind::Maximum { limit } => format!("Value is too large (max: {limit})"),
        ValidationErrorKind::ExclusiveMaximum { limit } => {
            format!("Value is too large (must be less than {limit})")
        }
        ValidationErrorKind::MaxLength { limit }
        | ValidationErrorKind::MaxItems { limit }
        | ValidationErrorKind::MaxProperties { limit } => format!("Value is too large (max: {limit})"),
        ValidationErrorKind::Pattern { pattern } => format!("Value does not match the pattern {pattern}"),
        ValidationErrorKind::Format { format } => format!("Value is not a valid {format}"),
        ValidationErrorKind::UniqueItems => "Items must differ from each other".to_owned(),
        ValidationErrorKind::FalseSchema => "Nothing is allowed here".to_owned(),
        _ => truncated(&error.masked_with("the value").to_string(), LONGEST),
    }
}

/// Returns the errors of the closest branch, if the error holds the errors of every branch.
fn branch<'a>(error: &'a ValidationError<'_>) -> Option<&'a [ValidationError<'static>]> {
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) =
        error.kind()
    else {
        return None;
    };
    nearest(context, |errors| errors, error.instance_path().as_str()).map(Vec::as_slice)
}

/// Returns the branch with the fewest errors. A branch for a type other than the type of the value
/// at `place` is skipped.
fn nearest<'a, 'e: 'a, T>(
    branches: &'a [T],
    errors: impl Fn(&'a T) -> &'a Vec<ValidationError<'e>>,
    place: &str,
) -> Option<&'a T> {
    let is_other = |error: &ValidationError<'_>| {
        matches!(error.kind(), ValidationErrorKind::Type { .. }) && error.instance_path().as_str() == place
    };
    let meant = branches.iter().filter(|&branch| {
        let errors = errors(branch);
        !errors.is_empty() && !errors.iter().any(is_other)
    });
    meant.min_by_key(|&branch| errors(branch).len())
}

fn expected(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(kind) => kind.as_str().to_owned(),
        TypeKind::Multiple(kinds) => kinds.iter().map(JsonType::as_str).collect::<Vec<_>>().join(" or "),
    }
}

fn shortened(value: &Value) -> String {
    truncated(&value.to_string(), VALUE)
}
