//! One value into one of some types.

use jsonschema::JsonType;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use super::super::options::{Allow, Conversion};
use super::super::tape::{Tape, number, number_length};

/// What a value may become.
pub(super) enum Wanted {
    /// A value of one of these types.
    Types(Vec<JsonType>),
    /// One of these values.
    Values(Vec<Value>),
}

/// What came of a value.
pub(super) enum Converted {
    To(Value, Conversion),
    Nothing,
    /// Why it could be several.
    Ambiguous(String),
}

/// What an error says that a value should be: of a type, or with `by_value` one of those that are listed.
pub(super) fn wanted(kind: &ValidationErrorKind, by_value: bool) -> Option<Wanted> {
    match kind {
        ValidationErrorKind::Type { kind: TypeKind::Single(one) } if !by_value => {
            Some(Wanted::Types(vec![*one]))
        }
        ValidationErrorKind::Type { kind: TypeKind::Multiple(several) } if !by_value => {
            Some(Wanted::Types(several.iter().collect()))
        }
        ValidationErrorKind::Enum { options } if by_value => options.as_array().cloned().map(Wanted::Values),
        ValidationErrorKind::Constant { expected_value } if by_value => {
            Some(Wanted::Values(vec![expected_value.as_ref().clone()]))
        }
        _ => None,
    }
}

/// The one value that `value` can become to be all that is wanted.
pub(super) fn convert(value: &Value, wanted: &[Wanted], allow: &Allow) -> Converted {
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
            let Some(list) = list(text) else {
                return Converted::Ambiguous("this looks like an array, but is not one in JSON".to_owned());
            };
            meanings.push((list, Conversion::StrToList));
        }
    }
    let is_list = meanings.iter().any(|(_, conversion)| *conversion == Conversion::StrToList);
    if takes_arrays && !is_list && !value.is_array() && allow.has(Conversion::Wrap) {
        if value.is_null() {
            return Converted::Ambiguous("null could be an empty array, or one with null in it".to_owned());
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

fn list(text: &str) -> Option<Value> {
    Tape::parse(text.trim(), usize::MAX).ok().map(|tape| tape.value()).filter(Value::is_array)
}

fn takes(wanted: &Wanted, kind: JsonType) -> bool {
    match wanted {
        Wanted::Types(types) => types.contains(&kind),
        // Which array is meant cannot be told from values.
        Wanted::Values(_) => false,
    }
}

/// Whether a value is what is wanted.
fn conforms(wanted: &Wanted, new: &Value) -> bool {
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
fn names(wanted: &Wanted, conversion: Conversion) -> bool {
    let Wanted::Types(types) = wanted else { return true };
    match conversion {
        Conversion::StrToInt => types.contains(&JsonType::Integer),
        Conversion::StrToFloat => types.contains(&JsonType::Number),
        Conversion::StrToBool => types.contains(&JsonType::Boolean),
        Conversion::StrToList | Conversion::Wrap => types.contains(&JsonType::Array),
    }
}
