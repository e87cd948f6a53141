//! JSON Schemas (draft 2020-12) of definitions.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::Characters;
use crate::Definition;
use crate::decimal::{Decimals, plain};
use crate::field::{Array, Choice, Composite, Float, Int, Kind, Scalar, Template, Text, Variant};

/// Returns the JSON Schema of a definition.
pub(crate) fn schema(definition: &Definition) -> Value {
    let mut schema = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema" });
    if let (Some(members), Value::Object(root)) = (schema.as_object_mut(), kind(definition.root())) {
        if let Some(name) = definition.name() {
            members.insert("title".to_owned(), name.into());
        }
        members.extend(root);
        if !definition.definitions().is_empty() {
            let structure = |(name, structure): &(String, Kind)| (name.clone(), kind(structure));
            let structures: Map<String, Value> = definition.definitions().iter().map(structure).collect();
            members.insert("$defs".to_owned(), structures.into());
        }
    }
    schema
}

fn kind(kind: &Kind) -> Value {
    let mut schema = plain_kind(kind.plain());
    if let (Some(description), Value::Object(members)) = (kind.description(), &mut schema) {
        members.insert("description".to_owned(), description.into());
    }
    schema
}

fn plain_kind(kind: &Kind) -> Value {
    match kind {
        Kind::Int(Int { min, max }) => {
            let (min, max) = (min.unwrap_or(i64::MIN), max.unwrap_or(i64::MAX));
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        Kind::Float(float) => number(float),
        Kind::String(text) => string(text),
        Kind::Choice(Choice { options, .. }) => {
            json!({ "enum": options.iter().map(Scalar::to_json).collect::<Vec<_>>() })
        }
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Constant(value) => json!({ "const": value.to_json() }),
        Kind::Composite(composite) => object(composite),
        Kind::Variant(variant) => one_of(variant),
        Kind::Template(template) => filled(template),
        Kind::Array(array) => list(array),
        Kind::Ref(name) => json!({ "$ref": format!("#/$defs/{name}") }),
        // A checked kind has at most one description.
        Kind::Described(described) => plain_kind(&described.kind),
    }
}

fn number(float: &Float) -> Value {
    // The range of a checked definition contains a number. The bounds and `multipleOf` are written
    // as exact decimals. A validator that reads them as floats may compute `multipleOf`
    // imprecisely.
    let Ok(Decimals { low, high, digits: decimals }) = Decimals::of(float) else { return json!(false) };
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    let bound = |given: Option<f64>, units| match given {
        Some(given) => Scalar::from(given).to_json(),
        None => read(&plain(units, decimals)),
    };
    json!({
        "type": "number",
        "minimum": bound(float.min, low),
        "maximum": bound(float.max, high),
        "multipleOf": read(&plain(1, decimals)),
    })
}

fn string(text: &Text) -> Value {
    let mut schema = json!({ "type": "string" });
    if text.min_length > 0 {
        schema["minLength"] = text.min_length.into();
    }
    if let Some(max) = text.max_length {
        schema["maxLength"] = max.into();
    }
    schema["pattern"] = format!("^{}*$", class(text)).into();
    schema
}

/// Returns the schema of a template string. The schema contains a `pattern` with the fixed texts.
///
/// If the template has a single place, `minLength` and `maxLength` of the whole string bound the
/// length of the generated text. Validators check these keywords faster than a counted repetition
/// in the pattern.
fn filled(template: &Template) -> Value {
    let text = &template.text;
    let literals = template.literals();
    let is_single = literals.len() == 2;
    let counts = match (text.min_length, text.max_length) {
        _ if is_single => "*".to_owned(),
        (0, None) => "*".to_owned(),
        (min, None) => format!("{{{min},}}"),
        (min, Some(max)) => format!("{{{min},{max}}}"),
    };
    let literals: Vec<String> = literals.into_iter().map(escaped).collect();
    let pattern = format!("^{}$", literals.join(&format!("{}{counts}", class(text))));
    let mut schema = json!({ "type": "string" });
    if is_single {
        let fixed: usize = template.literals().iter().map(|literal| literal.chars().count()).sum();
        schema["minLength"] = (fixed + text.min_length).into();
        if let Some(max) = text.max_length {
            schema["maxLength"] = (fixed + max).into();
        }
    }
    schema["pattern"] = pattern.into();
    schema
}

fn object(composite: &Composite) -> Value {
    let members = composite.fields.iter().map(|member| (member.name.clone(), kind(&member.kind)));
    let required =
        composite.fields.iter().filter(|member| !member.optional).map(|member| member.name.as_str());
    json!({
        "type": "object",
        "properties": members.collect::<Map<_, _>>(),
        "required": required.collect::<Vec<_>>(),
        "additionalProperties": false,
    })
}

fn one_of(variant: &Variant) -> Value {
    let branch = |branch: &crate::field::Branch| match branch.name.as_deref().filter(|_| !variant.untagged) {
        Some(name) => json!({
            "type": "object",
            "properties": { name: kind(&branch.kind) },
            "required": [name],
            "additionalProperties": false,
        }),
        None => kind(&branch.kind),
    };
    json!({ "anyOf": variant.variants.iter().map(branch).collect::<Vec<_>>() })
}

fn list(array: &Array) -> Value {
    let mut schema = json!({ "type": "array", "items": kind(&array.element) });
    if array.min_items > 0 {
        schema["minItems"] = array.min_items.into();
    }
    if let Some(max) = array.max_items {
        schema["maxItems"] = max.into();
    }
    schema
}

/// Returns a regex class such as `[a-z]` for the allowed characters of a text. Without a character
/// set, the class contains tab, line break and all characters from U+0020 on.
fn class(text: &Text) -> String {
    let all = Characters::default();
    let set = text.characters.as_ref().unwrap_or(&all);
    let outside = set.complement();
    let negated = set.ranges().last().is_some_and(|last| last.1 == char::MAX);
    let mut class = String::from(if negated { "[^" } else { "[" });
    for &(low, high) in if negated { &outside } else { set.ranges() } {
        push(low, &mut class);
        if low < high {
            class.push('-');
            push(high, &mut class);
        }
    }
    class.push(']');
    class
}

/// Escapes `text` so that a regex matches the text literally.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '^' | '$' | '\\' | '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' => {
                pattern.extend(['\\', c]);
            }
            _ => push_plain(c, &mut pattern),
        }
    }
    pattern
}

/// Appends the character `c` to a regex class, escaped if necessary.
fn push(c: char, class: &mut String) {
    match c {
        '\\' | ']' | '[' | '^' | '-' => class.extend(['\\', c]),
        _ => push_plain(c, class),
    }
}

fn push_plain(c: char, out: &mut String) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        _ if c.is_control() => {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "\\u{:04X}", u32::from(c));
        }
        _ => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::builder::{
        array, composite, constant, field, float, int, reference, string, template, untagged, variant,
        weighted,
    };
    use crate::field::{Float, Int, Kind};
    use crate::{Definition, DefinitionBuilder};

    fn schema(kind: impl Into<Kind>) -> Value {
        let mut schema = Definition::new("x", kind).expect("well-formed").schema();
        let members = schema.as_object_mut().expect("an object");
        assert_eq!(
            members.shift_remove("$schema"),
            Some(json!("https://json-schema.org/draft/2020-12/schema"))
        );
        assert_eq!(members.shift_remove("title"), Some(json!("x")));
        schema
    }

    #[test]
    fn writes_numbers_as_given() {
        assert_eq!(schema(int(-1, 5)), json!({ "type": "integer", "minimum": -1, "maximum": 5 }));
        assert_eq!(
            schema(Int::default()),
            json!({ "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX })
        );
        let percent = schema(float(0.5, 1.0));
        assert_eq!(percent.to_string(), r#"{"type":"number","minimum":0.5,"maximum":1,"multipleOf":0.01}"#);
        assert_eq!(schema(float(0.0, 1.0).decimals(0))["multipleOf"], json!(1));
        let open = schema(Float { min: Some(0.0), ..Float::default() });
        assert_eq!(open["maximum"], json!(1e13));
    }

    #[test]
    fn strings_become_patterns() {
        assert_eq!(
            schema(string(0, 5)),
            json!({ "type": "string", "maxLength": 5, "pattern": "^[^\\u0000-\\u0008\\u000B-\\u001F]*$" })
        );
        assert_eq!(
            schema(string(1, 5).of("a-z\\]^-".parse().expect("a set")))["pattern"],
            "^[\\-\\]-\\^a-z]*$"
        );
        assert_eq!(
            schema(template("a.b <generated>?", 2, 5).of("a-z".parse().expect("a set"))),
            json!({ "type": "string", "minLength": 7, "maxLength": 10, "pattern": "^a\\.b [a-z]*\\?$" })
        );
        assert_eq!(
            schema(template("<generated>-<generated>", 2, 5).of("a-z".parse().expect("a set")))["pattern"],
            "^[a-z]{2,5}-[a-z]{2,5}$"
        );
    }

    #[test]
    fn objects_allow_no_undeclared_members() {
        let pair =
            composite([field("a", weighted([("x", 1.0), ("y", 2.0)])), field("b", constant(1)).optional()]);
        assert_eq!(
            schema(pair),
            json!({
                "type": "object",
                "properties": { "a": { "enum": ["x", "y"] }, "b": { "const": 1 } },
                "required": ["a"],
                "additionalProperties": false,
            })
        );
        let tagged = schema(variant([("a", Kind::Boolean), ("b", constant(1))]));
        assert_eq!(tagged["anyOf"][1]["properties"], json!({ "b": { "const": 1 } }));
        assert_eq!(
            schema(untagged([Kind::Boolean, constant(1)])),
            json!({ "anyOf": [{ "type": "boolean" }, { "const": 1 }] })
        );
        let list =
            DefinitionBuilder::new(reference("list")).define("list", array(0, 2, reference("list"))).build();
        let list = list.expect("it can end").schema();
        assert_eq!(list["$ref"], "#/$defs/list");
        assert_eq!(
            list["$defs"]["list"],
            json!({ "type": "array", "items": { "$ref": "#/$defs/list" }, "maxItems": 2 })
        );
    }
}
