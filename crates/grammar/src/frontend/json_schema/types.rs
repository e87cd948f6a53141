//! Suggestions for unknown type names.

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
