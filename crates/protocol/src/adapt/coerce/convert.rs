//! One value into one of some types.

use jsonschema::JsonType;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use super::super::options::{Allow, Conversion};
use super::super::tape::{Fault, SyntaxError, Tape, number, number_length};

/// What a value may become.
pub(super) enum Wanted<'e> {
    /// A value of one of these types.
    Types(Vec<JsonType>),
    /// One of these values.
    Values(&'e [Value]),
}

/// What came of a value.
pub(super) enum Converted {
    To(Value, Conversion),
    Nothing,
    /// Why it could be several.
    Ambiguous(String),
    /// It would nest deeper than values may.
    TooDeep,
}

/// What may be made of a value.
#[derive(Clone, Copy)]
pub(super) struct Allowed<'a> {
    pub(super) conversions: &'a Allow,
    /// How deep it may nest.
    pub(super) depth: usize,
}

/// What an error says that a value should be: of a type, or with `by_value` one of those that are listed.
pub(super) fn wanted(kind: &ValidationErrorKind, by_value: bool) -> Option<Wanted<'_>> {
    match kind {
        ValidationErrorKind::Type { kind: TypeKind::Single(one) } if !by_value => {
            Some(Wanted::Types(vec![*one]))
        }
        ValidationErrorKind::Type { kind: TypeKind::Multiple(several) } if !by_value => {
            Some(Wanted::Types(several.iter().collect()))
        }
        ValidationErrorKind::Enum { options } if by_value => {
            options.as_array().map(|values| Wanted::Values(values))
        }
        ValidationErrorKind::Constant { expected_value } if by_value => {
            Some(Wanted::Values(std::slice::from_ref(&**expected_value)))
        }
        _ => None,
    }
}

/// The one value that `value` can become to be all that is wanted.
pub(super) fn convert(value: &Value, wanted: &[Wanted<'_>], allowed: Allowed<'_>) -> Converted {
    let Allowed { conversions: allow, depth } = allowed;
    let mut meanings: Vec<(Value, Conversion)> = Vec::new();
    let takes_arrays = wanted.iter().all(|wanted| takes(wanted, JsonType::Array));
    if let Value::String(text) = value {
        for conversion in [Conversion::StrToInt, Conversion::StrToFloat, Conversion::StrToBool] {
            let new = if allow.has(conversion) { scalar(text, conversion) } else { None };
            if let Some(new) = new
                && wanted.iter().all(|wanted| conforms(wanted, &new))
                && wanted.iter().any(|wanted| names(wanted, conversion))
                && meanings.iter().all(|(known, _)| *known != new)
            {
                meanings.push((new, conversion));
            }
        }
        if takes_arrays && looks_like_list(text) && allow.has(Conversion::StrToList) {
            match Tape::parse(text.trim(), depth) {
                Ok(list) => meanings.push((list.value(), Conversion::StrToList)),
                Err(SyntaxError { fault: Fault::Depth { .. }, .. }) => return Converted::TooDeep,
                Err(_) => {
                    let message = "this looks like an array, but is not one in JSON";
                    return Converted::Ambiguous(message.to_owned());
                }
            }
        }
    }
    let is_list = meanings.iter().any(|(_, conversion)| *conversion == Conversion::StrToList);
    if takes_arrays && !is_list && !value.is_array() && allow.has(Conversion::Wrap) {
        if value.is_null() {
            return Converted::Ambiguous("null could be an empty array, or one with null in it".to_owned());
        }
        if nesting(value) >= depth {
            return Converted::TooDeep;
        }
        meanings.push((Value::Array(vec![value.clone()]), Conversion::Wrap));
    }
    match meanings.len() {
        0 => Converted::Nothing,
        1 => meanings.pop().map_or(Converted::Nothing, |(new, conversion)| Converted::To(new, conversion)),
        _ => {
            let told: Vec<String> = meanings.iter().map(|(meaning, _)| shown(meaning)).collect();
            let which = if told.len() == 2 { "both" } else { "all" };
            Converted::Ambiguous(format!("this could be {}: the schema takes {which}", told.join(" or ")))
        }
    }
}

/// A scalar, or only what another value is.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array of it".to_owned(),
        other => other.to_string(),
    }
}

/// What a string says, if it says exactly that.
fn scalar(text: &str, conversion: Conversion) -> Option<Value> {
    let literal = number_length(text.as_bytes()).filter(|(length, _)| *length == text.len());
    match (conversion, text) {
        (Conversion::StrToInt, text) => {
            literal.filter(|(_, is_integer)| *is_integer).and_then(|_| number(text)).map(Value::Number)
        }
        (Conversion::StrToFloat, text) => literal.and_then(|_| number(text)).map(Value::Number),
        (Conversion::StrToBool, "true" | "1") => Some(true.into()),
        (Conversion::StrToBool, "false" | "0") => Some(false.into()),
        _ => None,
    }
}

fn looks_like_list(text: &str) -> bool {
    let text = text.trim();
    text.starts_with('[') && text.ends_with(']')
}

/// How deep a value nests, which is no deeper than values may.
fn nesting(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(nesting).max().unwrap_or(0),
        _ => 0,
    }
}

fn takes(wanted: &Wanted<'_>, kind: JsonType) -> bool {
    match wanted {
        Wanted::Types(types) => types.contains(&kind),
        // Which array is meant cannot be told from values.
        Wanted::Values(_) => false,
    }
}

/// Whether a value is what is wanted.
fn conforms(wanted: &Wanted<'_>, new: &Value) -> bool {
    match wanted {
        Wanted::Types(types) => match new {
            Value::Bool(_) => types.contains(&JsonType::Boolean),
            Value::Number(_) if types.contains(&JsonType::Number) => true,
            Value::Number(number) => types.contains(&JsonType::Integer) && !number.is_f64(),
            _ => false,
        },
        Wanted::Values(values) => values.iter().any(|value| jsonschema::json::cmp::equal(value, new)),
    }
}

/// Whether a conversion's own type is among those that are wanted.
fn names(wanted: &Wanted<'_>, conversion: Conversion) -> bool {
    let Wanted::Types(types) = wanted else { return true };
    match conversion {
        Conversion::StrToInt => types.contains(&JsonType::Integer),
        Conversion::StrToFloat => types.contains(&JsonType::Number),
        Conversion::StrToBool => types.contains(&JsonType::Boolean),
        Conversion::StrToList | Conversion::Wrap => types.contains(&JsonType::Array),
    }
}
