//! Import of numbers, strings, constants and enums.

use serde_json::{Map, Value};

use super::{Pointer, Read, known};
use crate::characters;
use crate::decimal::{Decimals, fraction_digits, plain};
use crate::field::{Float, Int, Kind, Scalar, Text};

/// Converts a value of a `const` or `enum`. Returns an error if the schema has a `type` that the
/// value does not match.
pub(super) fn typed(value: &Value, schema: &Map<String, Value>, at: &Pointer) -> Read<Scalar> {
    let scalar = match value {
        Value::Bool(value) => Scalar::from(*value),
        Value::String(value) => Scalar::from(value.as_str()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => number.into(),
            (None, Some(number)) => number.into(),
            (None, None) => return Err(at.inexpressible("a number this large")),
        },
        Value::Null => return Err(at.inexpressible("null")),
        Value::Array(_) | Value::Object(_) => return Err(at.inexpressible("a constant list or object")),
    };
    let is_typed = match schema.get("type").map(Value::as_str) {
        None => true,
        Some(Some("string")) => matches!(scalar, Scalar::String(_)),
        Some(Some("boolean")) => matches!(scalar, Scalar::Boolean(_)),
        Some(Some("integer")) => matches!(scalar, Scalar::Integer(_)),
        Some(Some("number")) => matches!(scalar, Scalar::Integer(_) | Scalar::Number(_)),
        Some(_) => false,
    };
    if is_typed { Ok(scalar) } else { Err(at.malformed("type", "a type that matches the value")) }
}

/// Returns the number that allows exactly `options`: at least three decimals in ascending order, each
/// one unit of the last place apart. Returns `None` for other options. The export lists such numbers.
pub(super) fn listed(options: &[Scalar]) -> Option<Float> {
    let value = |option: &Scalar| match option {
        Scalar::Integer(value) => Some(*value as f64),
        Scalar::Number(value) => Some(*value),
        _ => None,
    };
    let values: Vec<f64> = options.iter().map(value).collect::<Option<_>>()?;
    let [min, _, .., max] = values[..] else { return None };
    let decimals = values.iter().copied().map(fraction_digits).max().filter(|&decimals| decimals > 0)?;
    let float = Float { min: Some(min), max: Some(max), decimals: Some(decimals) };
    let Decimals { low, high, digits } = Decimals::of(&float).ok()?;
    let is_listed = |(units, value): (i64, &f64)| plain(units, digits).parse() == Ok(*value);
    (low.abs_diff(high) + 1 == values.len() as u64 && (low..=high).zip(&values).all(is_listed))
        .then_some(float)
}

/// Returns the bounds of an integer `format` such as `uint8`, clamped to the range of `i64`.
/// Returns `None` for other formats.
fn format_bounds(format: &str) -> Option<(i64, i64)> {
    Some(match format {
        "int8" => (i8::MIN.into(), i8::MAX.into()),
        "int16" => (i16::MIN.into(), i16::MAX.into()),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        "int64" | "int128" | "int" => (i64::MIN, i64::MAX),
        "uint8" => (0, u8::MAX.into()),
        "uint16" => (0, u16::MAX.into()),
        "uint32" => (0, u32::MAX.into()),
        "uint64" | "uint128" | "uint" => (0, i64::MAX),
        _ => return None,
    })
}

pub(super) fn integer(schema: &Map<String, Value>, at: &Pointer) -> Read<Kind> {
    known(schema, &["type", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], at)?;
    let format = match schema.get("format") {
        None => None,
        Some(format) => {
            let bounds = format.as_str().and_then(format_bounds);
            Some(bounds.ok_or_else(|| at.keyword("format"))?)
        }
    };
    let least =
        [bound(schema, "minimum", 0, at)?, bound(schema, "exclusiveMinimum", 1, at)?, format.map(|f| f.0)];
    let most =
        [bound(schema, "maximum", 0, at)?, bound(schema, "exclusiveMaximum", -1, at)?, format.map(|f| f.1)];
    let min = least.into_iter().flatten().max().filter(|&min| min != i64::MIN);
    let max = most.into_iter().flatten().min().filter(|&max| max != i64::MAX);
    Ok(Int { min, max }.into())
}

/// Reads the bound `keyword` of an integer, rounded to the nearest allowed integer. Returns `None`
/// if the keyword is missing.
///
/// `beyond` is added to a bound that is a whole number: 1 for an exclusive minimum, -1 for an
/// exclusive maximum, otherwise 0.
///
/// A bound that excludes no `i64` becomes the limit of `i64`. A bound that excludes every `i64` is
/// an error.
fn bound(schema: &Map<String, Value>, keyword: &'static str, beyond: i64, at: &Pointer) -> Read<Option<i64>> {
    let Some(value) = schema.get(keyword) else { return Ok(None) };
    let none = || at.inexpressible("integers of more than 64 bits");
    if let Some(value) = value.as_i64() {
        return value.checked_add(beyond).map(Some).ok_or_else(none);
    }
    let value = value.as_f64().ok_or_else(|| at.malformed(keyword, "a number"))?;
    let is_least = keyword == "minimum" || keyword == "exclusiveMinimum";
    let inwards = if is_least { value.ceil() } else { value.floor() };
    // 2^63 is `i64::MAX` + 1, and -2^63 is `i64::MIN`.
    let beyond_all = 9_223_372_036_854_775_808.0;
    match (inwards >= beyond_all, inwards < -beyond_all) {
        (false, false) => {
            let beyond = if value.fract() == 0.0 { beyond } else { 0 };
            (inwards as i64).checked_add(beyond).map(Some).ok_or_else(none)
        }
        (is_above, _) if is_above == is_least => Err(none()),
        (true, _) => Ok(Some(i64::MAX)),
        (false, _) => Ok(Some(i64::MIN)),
    }
}

pub(super) fn number(schema: &Map<String, Value>, at: &Pointer) -> Read<Kind> {
    known(schema, &["type", "format", "minimum", "maximum", "multipleOf"], at)?;
    if schema.get("format").is_some_and(|format| format != "float" && format != "double") {
        return Err(at.keyword("format"));
    }
    let bound = |keyword: &'static str| match schema.get(keyword) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| at.malformed(keyword, "a number")),
    };
    let decimals = match schema.get("multipleOf") {
        None => None,
        Some(unit) => {
            let is_unit = |decimals: &u32| format!("1e-{decimals}").parse::<f64>().ok() == unit.as_f64();
            Some(
                (0..=15)
                    .find(is_unit)
                    .ok_or_else(|| at.malformed("multipleOf", "a power of ten from 1e-15 to 1"))?,
            )
        }
    };
    Ok(Float { min: bound("minimum")?, max: bound("maximum")?, decimals }.into())
}

pub(super) fn string(schema: &Map<String, Value>, at: &Pointer) -> Read<Kind> {
    known(schema, &["type", "minLength", "maxLength", "pattern", "not"], at)?;
    let filled = schema.get("pattern").and_then(Value::as_str).filter(|pattern| class(pattern).is_none());
    if let Some(pattern) = filled
        && let Some(template) = super::template::template(pattern, schema, at)?
    {
        return Ok(template);
    }
    let characters = match schema.get("pattern") {
        None => None,
        Some(pattern) => {
            let class = pattern.as_str().and_then(class).ok_or_else(|| at.keyword("pattern"))?;
            Some(class).filter(|set| *set != crate::Characters::default())
        }
    };
    let excludes = characters.as_ref().is_some_and(|set: &crate::Characters| !set.contains('\n'));
    // A class of characters without a line break excludes such texts already.
    if schema.get("not").is_some_and(|not| !(excludes && is_last_line_break(not))) {
        return Err(at.keyword("not"));
    }
    let min_length = count(schema, "minLength", at)?.unwrap_or(0);
    Ok(Text { min_length, max_length: count(schema, "maxLength", at)?, characters }.into())
}

/// Returns the character set of a `pattern` of the form `^[…]*$`. Returns `None` for other
/// patterns, and for classes that [`Characters`](crate::Characters) cannot express.
fn class(pattern: &str) -> Option<crate::Characters> {
    class_set(pattern.strip_prefix("^[")?.strip_suffix("]*$")?)
}

/// Reports whether the schema of `not` is the one with which the export forbids a last line break.
pub(super) fn is_last_line_break(not: &Value) -> bool {
    *not == serde_json::json!({ "pattern": crate::schema::LAST_LINE_BREAK })
}

/// Returns the characters of a class without its brackets. Returns `None` for a class that
/// [`Characters`](crate::Characters) cannot express.
pub(super) fn class_set(class: &str) -> Option<crate::Characters> {
    // Convert `\uXXXX` to `\u{XXXX}`. The parser rejects escapes such as `\d`.
    let mut source = String::new();
    let mut rest = class.chars();
    while let Some(c) = rest.next() {
        source.push(c);
        if c != '\\' {
            continue;
        }
        let escaped = rest.next()?;
        source.push(escaped);
        if escaped == 'u' {
            let digits: String = rest.by_ref().take(4).collect();
            if digits.len() != 4 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            source.extend(["{", &digits, "}"]);
        }
    }
    characters::parse(&source).ok()
}

pub(super) fn count(schema: &Map<String, Value>, keyword: &'static str, at: &Pointer) -> Read<Option<usize>> {
    let count = |value: &Value| {
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        count.ok_or_else(|| at.malformed(keyword, "a non-negative integer"))
    };
    schema.get(keyword).map(count).transpose()
}
