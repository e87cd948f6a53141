//! Keywords of JSON Schema: which ones a schema has, and which ones an error is about.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{Case, StructuredTrial, Verdict};

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
const ALL: [&str; 41] = [
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

/// Overall result for a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeywordVerdict {
    /// At least one probe was enforced, and no answer or refusal says otherwise.
    Enforced,
    /// At least one answer violates the keyword.
    Ignored,
    /// At least one request was refused because of the keyword, and no answer violates it.
    Refused,
    /// No probe tested the keyword, but the answers of other cases satisfy it.
    Kept,
    /// The trials do not show whether the keyword is enforced.
    Inconclusive,
}

impl KeywordVerdict {
    /// Returns the name in results, such as `enforced`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
            Self::Kept => "kept",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Results for one keyword and one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeywordRow {
    /// Name of the keyword, such as `maximum`, `format: date` or `if/then/else`.
    pub keyword: String,
    /// Name of the model.
    pub model: String,
    /// Overall result.
    pub verdict: KeywordVerdict,
    /// Number of probes that were enforced.
    pub enforced: usize,
    /// Number of answers that violate the keyword.
    pub ignored: usize,
    /// Number of requests that were refused because of the keyword.
    pub refused: usize,
    /// Number of probes that show nothing about the keyword.
    pub inconclusive: usize,
    /// Number of answers to cases without `violates` that satisfy the keyword.
    pub kept: usize,
}

impl KeywordRow {
    fn overall(&self) -> KeywordVerdict {
        match self {
            Self { ignored: 1.., .. } => KeywordVerdict::Ignored,
            Self { refused: 1.., .. } => KeywordVerdict::Refused,
            Self { enforced: 1.., .. } => KeywordVerdict::Enforced,
            Self { inconclusive: 0, kept: 1.., .. } => KeywordVerdict::Kept,
            _ => KeywordVerdict::Inconclusive,
        }
    }
}

/// Adds the result of one trial to a row.
fn count(case: &Case, trial: &StructuredTrial, row: &mut KeywordRow) {
    if let (Some(verdict), Some(probed)) = (trial.verdict, case.violates.as_ref()) {
        if *probed == row.keyword {
            match verdict {
                Verdict::Enforced => row.enforced += 1,
                Verdict::Ignored => row.ignored += 1,
                Verdict::Refused => row.refused += 1,
                Verdict::Inconclusive => row.inconclusive += 1,
            }
        }
        return;
    }
    let is_violated = trial.violations.iter().any(|violation| violation.keyword == row.keyword);
    let is_judged = trial.valid.is_some() && trial.complete == Some(true);
    let reason = trial.failure.as_ref().map_or("", |failure| failure.message.as_str());
    if is_judged && is_violated {
        row.ignored += 1;
    } else if is_judged && (trial.valid == Some(true) || !trial.violations.is_empty()) {
        row.kept += 1;
    } else if trial.refused && mentions(reason, &row.keyword) {
        row.refused += 1;
    }
}

/// Reports whether a message names a keyword as a whole word.
pub(super) fn mentions(message: &str, keyword: &str) -> bool {
    let words: Vec<&str> = match keyword.strip_prefix("format: ") {
        Some(format) => vec!["format", format],
        None => keyword.split('/').collect(),
    };
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '$');
    let has = |word: &str| {
        message.match_indices(word).any(|(at, _)| {
            !message[..at].ends_with(is_part) && !message[at + word.len()..].starts_with(is_part)
        })
    };
    if keyword.starts_with("format: ") {
        words.iter().all(|word| has(word))
    } else {
        words.iter().any(|word| has(word))
    }
}

/// Returns a row for each keyword and model that has trials, in the order of
/// [`ALL`].
pub(super) fn table(cases: &[Case], models: &[String], trials: &[StructuredTrial]) -> Vec<KeywordRow> {
    let of_case = |case: &Case| match &case.violates {
        Some(probed) => BTreeSet::from([probed.clone()]),
        None => of_schema(&case.schema),
    };
    let sets: std::collections::HashMap<&str, (&Case, BTreeSet<String>)> =
        cases.iter().map(|case| (case.id.as_str(), (case, of_case(case)))).collect();
    let place = |keyword: &str| {
        let name = keyword.split(": ").next().unwrap_or(keyword);
        ALL.iter().position(|known| *known == name).map_or(0, |at| at + 1)
    };
    let mut names: Vec<String> = sets.values().flat_map(|(_, set)| set.iter().cloned()).collect();
    names.sort_by(|one, other| (place(one), one).cmp(&(place(other), other)));
    names.dedup();
    let mut rows = Vec::new();
    for keyword in names {
        for model in models {
            let mut row = KeywordRow {
                keyword: keyword.clone(),
                model: model.clone(),
                verdict: KeywordVerdict::Inconclusive,
                enforced: 0,
                ignored: 0,
                refused: 0,
                inconclusive: 0,
                kept: 0,
            };
            let of_model = trials.iter().filter(|trial| trial.key.model == *model);
            let mut any = false;
            for trial in of_model {
                let Some((case, set)) = sets.get(trial.key.case.as_str()) else { continue };
                if set.contains(&keyword) {
                    any = true;
                    count(case, trial, &mut row);
                }
            }
            if any {
                row.verdict = row.overall();
                rows.push(row);
            }
        }
    }
    rows
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
    fn a_message_names_keywords_as_whole_words() {
        for (message, keyword, wanted) in [
            ("'minLength' is not permitted", "minLength", true),
            ("'minLength' is not permitted", "min", false),
            ("keyword `not` is unsupported", "not", true),
            ("unknown format \"date-time\"", "format: date-time", true),
            ("unknown format \"date-time\"", "format: date", false),
            ("`then` is unsupported", "if/then/else", true),
            ("$ref is unsupported", "$ref", true),
        ] {
            assert_eq!(mentions(message, keyword), wanted, "{message} {keyword}");
        }
    }
}
