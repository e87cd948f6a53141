//! Suggestions for unknown names of types and keywords.

use std::borrow::Cow;

use crate::error::SchemaProblem;

const NAMES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// For each JSON type, names that programming languages and databases use for the type.
const OTHERS: [(&str, &[&str]); 7] = [
    ("string", &["str", "text", "varchar", "char", "date", "datetime", "uuid", "enum"]),
    ("number", &["float", "float32", "float64", "double", "decimal", "numeric", "real"]),
    ("integer", &["int", "int32", "int64", "uint", "uint32", "uint64", "long", "short", "bigint", "byte"]),
    ("boolean", &["bool", "flag"]),
    ("object", &["dict", "dictionary", "map", "struct", "record", "hash", "json"]),
    ("array", &["list", "tuple", "set", "sequence", "vector"]),
    ("null", &["none", "nil", "undefined", "void", "nonetype"]),
];

/// Returns the error for the unknown type `given`. The error suggests a JSON type if `given` is
/// similar to its name or is a common synonym.
pub(super) fn unknown_type(given: &str) -> SchemaProblem {
    SchemaProblem::UnknownType { given: given.chars().take(40).collect(), meant: meant(given) }
}

fn meant(given: &str) -> Option<&'static str> {
    let given = given.trim().to_lowercase();
    if given.len() > 12 {
        return None;
    }
    let other = OTHERS.iter().find(|(_, names)| names.contains(&&*given)).map(|&(name, _)| name);
    other.or_else(|| NAMES.into_iter().find(|name| distance(name, &given) <= 2))
}

/// Keywords that have an effect, except `not`, which `note` resembles.
const KEYWORDS: [&str; 46] = [
    "$dynamicRef",
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "disallow",
    "divisibleBy",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "extends",
    "format",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "$defs",
    "definitions",
];

/// Returns the reason for the warning about an unknown keyword. The reason suggests a keyword if one is
/// similar.
pub(super) fn unknown_keyword(given: &str) -> Cow<'static, str> {
    match meant_keyword(given) {
        Some(name) => format!("this keyword is unknown (did you mean `{name}`?)").into(),
        None => "this keyword is unknown".into(),
    }
}

fn meant_keyword(given: &str) -> Option<&'static str> {
    // Shorter names are similar to many others, and no keyword is longer.
    if !(4..=24).contains(&given.len()) {
        return None;
    }
    let same = |name: &&str| name.eq_ignore_ascii_case(given);
    // The distance is computed for few keywords, so this takes little time.
    let similar = |name: &&str| {
        name.as_bytes().first() == given.as_bytes().first()
            && name.len().abs_diff(given.len()) <= 2
            && distance(name, given) <= 2
    };
    KEYWORDS.into_iter().find(same).or_else(|| KEYWORDS.into_iter().find(similar))
}

/// Returns the number of letters to insert, delete or replace to turn `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_keyword_that_was_meant() {
        let cases = [
            ("enmu", Some("enum")),
            ("tpye", Some("type")),
            ("requierd", Some("required")),
            ("maxlength", Some("maxLength")),
            ("additionalProperty", None),
            ("minLenght", Some("minLength")),
            ("ONEOF", Some("oneOf")),
            ("range", None),
            ("note", None),
            ("x-note", None),
            ("units", None),
            ("an", None),
        ];
        for (given, expected) in cases {
            assert_eq!(meant_keyword(given), expected, "{given}");
        }
    }

    #[test]
    fn suggests_the_type_that_was_meant() {
        let cases = [
            ("str", Some("string")),
            ("String", Some("string")),
            ("strng", Some("string")),
            ("int", Some("integer")),
            ("Interger", Some("integer")),
            ("float", Some("number")),
            ("bool", Some("boolean")),
            ("dict", Some("object")),
            ("list", Some("array")),
            ("None", Some("null")),
            ("file", None),
        ];
        for (given, expected) in cases {
            assert_eq!(meant(given), expected, "{given}");
        }
    }
}
