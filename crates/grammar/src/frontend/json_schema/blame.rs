//! Finds the keywords that clash in subschemas that no value satisfies.
//!
//! Each keyword of the subschemas becomes a schema of its own, with the siblings that affect its
//! meaning. A keyword is then dropped if the remaining ones still allow no value. The result is a
//! minimal set of keywords that clash.

use serde_json::{Map, Value};

use super::dialect::{Dialect, Draft};
use super::document::Document;
use super::read::Keyword;
use super::{Remotes, child_pointer};
use crate::GrammarError;
use crate::limits::Limits;
use crate::options::SchemaOptions;

/// Maximum number of keywords that are tested. For more keywords, the error names no keywords.
const KEYWORDS: usize = 48;

/// Maximum number of subschemas that are visited from one place, through references and `allOf`.
const PLACES: usize = 64;

/// A keyword, the place of its subschema, and a schema with only this keyword and the siblings that
/// affect its meaning.
struct KeywordSchema {
    place: String,
    keyword: String,
    schema: Value,
}

/// Returns the keywords that clash in the subschemas at `places`, which apply to one value
/// together. Each keyword comes with the place of its subschema. Returns an empty list if the
/// keywords cannot be determined.
pub(super) fn clash(
    document: &mut Document<'_>,
    places: &[String],
    options: SchemaOptions,
) -> Vec<(String, String)> {
    let mut parts = Vec::new();
    for place in places {
        gather(document, place, &mut parts, &mut 0);
    }
    let dialect = document.dialect_at(places.first().map_or("", String::as_str));
    if parts.is_empty() || parts.len() > KEYWORDS || !is_empty(&parts, dialect, options) {
        return Vec::new();
    }
    let mut at = 0;
    while at < parts.len() && parts.len() > 1 {
        let part = parts.remove(at);
        if !is_empty(&parts, dialect, options) {
            parts.insert(at, part);
            at += 1;
        }
    }
    // A `type` can make other keywords clash. Report a `type` only in a pair of keywords.
    if parts.len() > 2 {
        parts.retain(|part| part.keyword != "type");
    }
    parts.into_iter().map(|part| (part.place, part.keyword)).collect()
}

/// Adds to `parts` the keywords of the subschema at `place`, and the keywords that it reaches
/// through `allOf` and references. `visited` counts the subschemas.
fn gather(document: &mut Document<'_>, place: &str, parts: &mut Vec<KeywordSchema>, visited: &mut usize) {
    *visited += 1;
    if *visited > PLACES || parts.len() > KEYWORDS {
        return;
    }
    let Some(value) = document.get(place) else { return };
    let Value::Object(schema) = value else {
        parts.push(KeywordSchema {
            place: place.to_owned(),
            keyword: "schema".to_owned(),
            schema: value.clone(),
        });
        return;
    };
    let Dialect { draft, stated } = document.dialect_at(place);
    let alone = draft <= Draft::D7 && schema.contains_key("$ref");
    for (name, value) in schema {
        let pointer = child_pointer(place, name);
        match (name.as_str(), value) {
            ("$ref", _) => {
                let keyword = Keyword { name, value, pointer, siblings: schema, draft, stated };
                if let Ok(target) = document.follow(place, &keyword) {
                    gather(document, &target, parts, visited);
                }
            }
            _ if alone => {}
            ("allOf", Value::Array(all)) => {
                for at in 0..all.len() {
                    gather(document, &format!("{pointer}/{at}"), parts, visited);
                }
            }
            _ => parts.extend(part(place, name, schema)),
        }
    }
}

/// Returns the keyword `name` of the subschema at `place`, as a schema with the siblings that
/// affect its meaning. Returns `None` for keywords that allow every value by themselves.
fn part(place: &str, name: &str, siblings: &Map<String, Value>) -> Option<KeywordSchema> {
    let beside: &[&str] = match name {
        "$defs" | "definitions" | "$id" | "id" | "$schema" | "$comment" | "title" | "description"
        | "default" | "examples" | "then" | "else" | "minContains" | "maxContains" => return None,
        "if" => &["then", "else"],
        "contains" => &["minContains", "maxContains"],
        "additionalItems" => &["items"],
        "items" => &["prefixItems", "additionalItems"],
        "additionalProperties" => &["properties", "patternProperties"],
        "minimum" => &["exclusiveMinimum"],
        "maximum" => &["exclusiveMaximum"],
        _ => &[],
    };
    let mut schema = Map::new();
    schema.insert(name.to_owned(), siblings.get(name)?.clone());
    for &sibling in beside {
        let Some(value) = siblings.get(sibling) else { continue };
        let value = match (name, value) {
            // Only the names are relevant, not the schemas of the values.
            ("additionalProperties", Value::Object(names)) => {
                names.keys().map(|name| (name.clone(), Value::Object(Map::new()))).collect()
            }
            ("minimum" | "maximum", value) if !value.is_boolean() => continue,
            (_, value) => value.clone(),
        };
        schema.insert(sibling.to_owned(), value);
    }
    Some(KeywordSchema { place: place.to_owned(), keyword: name.to_owned(), schema: Value::Object(schema) })
}

/// Returns true if no value satisfies all of `parts`. Returns false if the limits of this test are
/// too small to find out.
fn is_empty(parts: &[KeywordSchema], dialect: Dialect, options: SchemaOptions) -> bool {
    let all: Vec<Value> = parts.iter().map(|part| part.schema.clone()).collect();
    let mut schema = Map::new();
    if dialect.stated {
        schema.insert("$schema".to_owned(), dialect.draft.uri().into());
    }
    schema.insert("allOf".to_owned(), all.into());
    let limits = Limits { work: 1 << 18, bytes: 8 << 20, ..Limits::default() };
    let compiled = super::compile_plainly(&Value::Object(schema), &Remotes::new(), options, &limits);
    compiled.is_err_and(|error: GrammarError| error.is_unsatisfiable())
}
