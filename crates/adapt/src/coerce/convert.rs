//! Conversion of one value to one of several types.

use jsonschema::JsonType;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use crate::options::{Allow, Conversion};
use crate::tape::{Fault, Syntax, SyntaxError, Tape, number, number_length};

/// Requirement that a converted value must meet.
pub(super) enum Wanted<'e> {
    /// The value must have one of these types.
    Types(Vec<JsonType>),
    /// The value must equal one of these values.
    Values(&'e [Value]),
}

/// Result of converting a value.
pub(super) enum Converted {
    To(Value, Conversion),
    Nothing,
    /// Several conversions are possible. Holds the message.
    Ambiguous(String),
    /// The result would exceed the nesting limit.
    TooDeep,
}

/// Limits on the conversion of a value.
#[derive(Clone, Copy)]
pub(super) struct Allowed<'a> {
    pub(super) conversions: &'a Allow,
    /// Maximum nesting depth of the result.
    pub(super) depth: usize,
}

/// Returns the requirement of an error: the types, or the listed values if `by_value` is true.
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

/// Converts `value` if the allowed conversions give exactly one value that meets all requirements.
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
            match Tape::parse(text.trim(), Syntax::up_to(depth)) {
                Ok(list) => meanings.push((list.value(), Conversion::StrToList)),
                Err(SyntaxError { fault: Fault::Depth { .. }, .. }) => return Converted::TooDeep,
                Err(_) => {
                    let message = "the text looks like an array, but is not a JSON array";
                    return Converted::Ambiguous(message.to_owned());
                }
            }
        }
    }
    let is_list = meanings.iter().any(|(_, conversion)| *conversion == Conversion::StrToList);
    if takes_arrays && !is_list && !value.is_array() && allow.has(Conversion::Wrap) {
        if value.is_null() {
            return Converted::Ambiguous("ambiguous: null could mean [] or [null]".to_owned());
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
            Converted::Ambiguous(format!(
                "ambiguous: the value could mean {}, and the schema accepts {which}",
                told.join(" or ")
            ))
        }
    }
}

/// Describes a converted value in a message: a scalar as JSON, an array in words.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        other => other.to_string(),
    }
}

/// Parses a string that consists of exactly one scalar.
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

/// Returns the nesting depth of a value. The recursion is bounded by the nesting limit of texts.
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
        // Listed values do not show which array is meant.
        Wanted::Values(_) => false,
    }
}

/// Reports whether a value meets a requirement.
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

/// Reports whether a requirement allows the target type of a conversion.
fn names(wanted: &Wanted<'_>, conversion: Conversion) -> bool {
    let Wanted::Types(types) = wanted else { return true };
    match conversion {
        Conversion::StrToInt => types.contains(&JsonType::Integer),
        Conversion::StrToFloat => types.contains(&JsonType::Number),
        Conversion::StrToBool => types.contains(&JsonType::Boolean),
        Conversion::StrToList | Conversion::Wrap => types.contains(&JsonType::Array),
    }
}
