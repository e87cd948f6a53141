//! Keywords of JSON Schema: which ones a schema has, and which ones an error is about.

use std::collections::BTreeSet;

use serde_json::Value;

/// Name of the row about a plain schema, which tests whether a server reads schemas at all.
pub const ANY_SCHEMA: &str = "(any schema)";

/// Keywords whose value is an object of schemas.
const MAPS: [&str; 7] = [
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "$defs",
    "definitions",
    "discriminator",
];
/// Keywords whose value is an array of schemas, or may be one.
const LISTS: [&str; 5] = ["anyOf", "oneOf", "allOf", "prefixItems", "items"];
/// Keywords whose value is a schema.
const SCHEMAS: [&str; 11] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
];
/// All keywords that values can violate, in the order of the table.
pub(super) const ALL: [&str; 41] = [
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if/then/else",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
];

/// Returns the name of a keyword in results. `None` if no value can violate the keyword.
fn named(keyword: &str) -> Option<&str> {
    match keyword {
        "if" | "then" | "else" => Some("if/then/else"),
        _ => ALL.contains(&keyword).then_some(keyword),
    }
}

/// Returns the name of a `format` in results.
pub(super) fn format_name(format: &str) -> String {
    format!("format: {format}")
}

/// Reports whether a user may call the keyword `known` by `name`: by its name in results, by `format`
/// for any format, and by each of `if`, `then` and `else`.
pub(super) fn is_called(known: &str, name: &str) -> bool {
    let of_format = name == "format" && known.starts_with("format: ");
    known == name || of_format || named(name) == Some(known)
}

/// Reports whether the outermost level of a schema has a keyword, by its name in results.
pub(super) fn is_at_top(schema: &Value, name: &str) -> bool {
    let mut keys = schema.as_object().into_iter().flat_map(serde_json::Map::keys);
    keys.any(|key| named(key) == Some(name) || (key == "format" && name.starts_with("format: ")))
}

/// Returns the keywords of a schema that values can violate, at all levels.
pub(super) fn of_schema(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![schema];
    while let Some(schema) = left.pop() {
        for (keyword, value) in schema.as_object().into_iter().flatten() {
            match (keyword.as_str(), value) {
                ("format", Value::String(format)) => {
                    found.insert(format_name(format));
                }
                _ => found.extend(named(keyword).map(str::to_owned)),
            }
            match value {
                Value::Object(schemas) if MAPS.contains(&keyword.as_str()) => left.extend(schemas.values()),
                Value::Object(_) if SCHEMAS.contains(&keyword.as_str()) => left.push(value),
                Value::Array(schemas) if LISTS.contains(&keyword.as_str()) => left.extend(schemas),
                _ => {}
            }
        }
    }
    found
}

/// Returns the keywords on a path of evaluation, such as `/properties/a/maximum`, from the outermost
/// one to the violated one. Names of properties and indices are skipped.
pub(super) fn on_path(path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut steps = path.split('/').skip(1).peekable();
    while let Some(step) = steps.next() {
        let keyword = step.replace("~1", "/").replace("~0", "~");
        found.extend(named(&keyword).map(str::to_owned));
        let is_index = |step: &&str| step.bytes().all(|byte| byte.is_ascii_digit());
        if MAPS.contains(&keyword.as_str())
            || (LISTS.contains(&keyword.as_str()) && steps.peek().is_some_and(is_index))
        {
            steps.next();
        }
    }
    found
}

/// Reports whether a message names a keyword. A name that is also an English word, such as `required`,
/// counts only in quotes, on a path, or in a list after the word "keyword".
pub(super) fn mentions(message: &str, keyword: &str) -> bool {
    if let Some(format) = keyword.strip_prefix("format: ") {
        let is_format = |before: &str| {
            let before = before.trim_end_matches([':', ' ', '=']).to_lowercase();
            before.ends_with("format") || before.ends_with("formats")
        };
        let has_format = message.to_lowercase().contains("format");
        return has_format
            && words(message, format).any(|(before, after)| is_quoted(before, after) || is_format(before));
    }
    keyword.split('/').any(|word| {
        let is_name = word.contains('$') || word.bytes().any(|byte| byte.is_ascii_uppercase());
        words(message, word).any(|(before, after)| {
            is_name || is_quoted(before, after) || is_listed(before) || after.starts_with(" keyword")
        })
    })
}

/// Reports whether a message has `word` as a whole word.
pub(super) fn has_word(message: &str, word: &str) -> bool {
    words(message, word).next().is_some()
}

/// Returns the texts before and after each occurrence of a whole word.
fn words<'m>(message: &'m str, word: &'m str) -> impl Iterator<Item = (&'m str, &'m str)> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    message.match_indices(word).filter_map(move |(at, _)| {
        let (before, after) = (&message[..at], &message[at + word.len()..]);
        (!before.ends_with(is_part) && !after.starts_with(is_part)).then_some((before, after))
    })
}

/// Reports whether a word is in quotes, or the last part of a path such as `/properties/a/required`.
fn is_quoted(before: &str, after: &str) -> bool {
    const QUOTES: [char; 9] = ['\'', '"', '`', '\\', '“', '”', '‘', '’', '´'];
    (before.ends_with(QUOTES) && after.starts_with(QUOTES))
        || (before.ends_with(['/', '.']) && !before.ends_with(". ") && !after.starts_with('/'))
}

/// Reports whether a word is in a list after "keyword" or "keywords", such as `keywords: minimum, not`.
fn is_listed(before: &str) -> bool {
    let lower = before.to_lowercase();
    let Some((_, list)) = lower.rsplit_once("keyword") else { return false };
    let list = list.strip_prefix('s').unwrap_or(list);
    let names = list.split(|c: char| c.is_whitespace() || ",:".contains(c)).filter(|name| !name.is_empty());
    let mut names = names.map(|name| name.trim_matches(['\'', '"', '`']));
    names.all(|name| ["and", "or"].contains(&name) || ALL.iter().any(|known| known.to_lowercase() == name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_keywords_at_all_levels_but_no_property_names() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "t",
            "properties": { "maximum": { "type": "integer", "minimum": 1 }, "d": { "format": "date" } },
            "anyOf": [{ "items": { "pattern": "a" } }, { "prefixItems": [{ "const": { "enum": [1] } }] }],
            "if": { "required": ["d"] },
            "then": { "not": { "maxItems": 1 } },
            "$defs": { "x": { "uniqueItems": true } },
        });
        let found: Vec<String> = of_schema(&schema).into_iter().collect();
        let wanted = [
            "anyOf",
            "const",
            "format: date",
            "if/then/else",
            "items",
            "maxItems",
            "minimum",
            "not",
            "pattern",
            "prefixItems",
            "properties",
            "required",
            "type",
            "uniqueItems",
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn finds_keywords_on_a_path() {
        for (path, wanted) in [
            ("", vec![]),
            ("/properties/maximum/type", vec!["properties", "type"]),
            ("/properties/a~1b/items/minimum", vec!["properties", "items", "minimum"]),
            ("/prefixItems/0/$ref/enum", vec!["prefixItems", "$ref", "enum"]),
            ("/anyOf", vec!["anyOf"]),
            ("/allOf/1/if/then/required", vec!["allOf", "if/then/else", "if/then/else", "required"]),
            ("/patternProperties/^x/format", vec!["patternProperties", "format"]),
        ] {
            assert_eq!(on_path(path), wanted, "{path}");
        }
    }

    #[test]
    fn a_message_names_keywords_in_quotes_and_lists() {
        for (message, keyword, wanted) in [
            ("'minLength' is not permitted", "minLength", true),
            ("'minLength' is not permitted", "min", false),
            ("keyword `not` is unsupported", "not", true),
            ("unknown format \"date-time\"", "format: date-time", true),
            ("unknown format \"date-time\"", "format: date", false),
            ("`then` is unsupported", "if/then/else", true),
            ("$ref is unsupported", "$ref", true),
            ("minLength is not permitted", "minLength", true),
            ("Unsupported keyword: pattern", "pattern", true),
            ("Unsupported keywords: minimum, not and maximum", "maximum", true),
            ("the keyword minimum is required", "required", false),
            ("the minimum keyword is unsupported", "minimum", true),
            ("error at /properties/value/not", "not", true),
            ("{\\\"keyword\\\": \\\"required\\\"}", "required", true),
            ("'seed' is not supported, the field is required", "not", false),
            ("'seed' is not supported, the field is required", "required", false),
            ("if the schema contains items of this type, then retry", "if/then/else", false),
            ("if the schema contains items of this type, then retry", "contains", false),
            ("Unsupported format: time", "format: time", true),
            ("the time format is wrong", "format: time", false),
        ] {
            assert_eq!(mentions(message, keyword), wanted, "{message} {keyword}");
        }
    }
}
