//! Keywords of JSON Schema: which ones a schema has, and which ones an error is about.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::{Case, StructuredTrial, Verdict, Violation};

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
    /// Number of answers with text around the JSON value, such as a fence. Their values count above.
    pub not_closed: usize,
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

/// Results of a model that decide how its other trials count.
#[derive(Default)]
struct Control {
    /// True if a request with a schema was answered: a refusal of another one is about its schema.
    is_answered: bool,
    /// True if the answer to a plain schema is not its JSON: the server reads no schemas.
    is_ignored: bool,
    /// Keywords that probes show as enforced.
    enforced: BTreeSet<String>,
}

impl Control {
    /// Returns the results of a model. Without a trial of the plain schema, any answer counts.
    fn of(trials: &[(&Case, &StructuredTrial)]) -> Self {
        let probes = |name: &str| {
            let name = name.to_owned();
            trials
                .iter()
                .filter(move |(case, _)| case.violates.as_ref() == Some(&name))
                .map(|(_, trial)| trial)
        };
        let is_answered = |trial: &StructuredTrial| trial.valid.is_some();
        let mut plain = probes(ANY_SCHEMA).peekable();
        let is_answered = match plain.peek() {
            Some(_) => plain.any(|trial| is_answered(trial)),
            None => trials.iter().any(|(_, trial)| is_answered(trial)),
        };
        let is_ignored = probes(ANY_SCHEMA).any(|trial| trial.verdict == Some(Verdict::Ignored));
        let probed: BTreeSet<&String> =
            trials.iter().filter_map(|(case, _)| case.violates.as_ref()).collect();
        let is_enforced = |keyword: &&String| {
            let direct = |trial: &StructuredTrial| {
                trial.verdict == Some(Verdict::Ignored) && is_direct(trial, keyword)
            };
            probes(keyword).any(|trial| trial.verdict == Some(Verdict::Enforced))
                && !probes(keyword).any(|trial| direct(trial))
        };
        let enforced = probed.into_iter().filter(is_enforced).cloned().collect();
        Self { is_answered, is_ignored, enforced }
    }

    /// Returns the verdict of a probe. A refusal counts only if the server accepts other schemas. A
    /// violation of another keyword inside of the probed one, such as `enum` in `propertyNames`,
    /// counts only if the server enforces that keyword elsewhere.
    fn verdict(&self, verdict: Verdict, keyword: &str, trial: &StructuredTrial) -> Verdict {
        let is_inner = |inner: &Violation| self.enforced.contains(&inner.keyword);
        match verdict {
            Verdict::Refused if keyword != ANY_SCHEMA && !self.is_answered => Verdict::Inconclusive,
            Verdict::Ignored
                if !(self.is_ignored
                    || keyword == ANY_SCHEMA
                    || is_direct(trial, keyword)
                    || trial.violations.iter().any(is_inner)) =>
            {
                Verdict::Inconclusive
            }
            other => other,
        }
    }
}

/// Reports whether an answer violates the keyword itself, or has no JSON value.
fn is_direct(trial: &StructuredTrial, keyword: &str) -> bool {
    trial.violations.is_empty() || trial.violations.iter().any(|violation| violation.keyword == keyword)
}

/// Adds the result of one trial to a row.
fn count(case: &Case, trial: &StructuredTrial, control: &Control, row: &mut KeywordRow) {
    if let (Some(verdict), Some(probed)) = (trial.verdict, case.violates.as_ref()) {
        if *probed == row.keyword {
            match control.verdict(verdict, probed, trial) {
                Verdict::Enforced => row.enforced += 1,
                Verdict::Ignored => row.ignored += 1,
                Verdict::Refused => row.refused += 1,
                Verdict::Inconclusive => row.inconclusive += 1,
            }
            row.not_closed += usize::from(is_not_closed(trial));
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
    row.not_closed += usize::from(is_not_closed(trial));
}

/// Reports whether a complete answer has text around its JSON value.
fn is_not_closed(trial: &StructuredTrial) -> bool {
    let has_value = trial.valid == Some(true) || !trial.violations.is_empty();
    has_value && trial.complete == Some(true) && trial.closed == Some(false)
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
    let controls: std::collections::HashMap<&str, Control> = models
        .iter()
        .map(|model| {
            let of_model = trials.iter().filter(|trial| trial.key.model == *model);
            let with_case = of_model.filter_map(|trial| Some((sets.get(trial.key.case.as_str())?.0, trial)));
            (model.as_str(), Control::of(&with_case.collect::<Vec<_>>()))
        })
        .collect();
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
                not_closed: 0,
            };
            let of_model = trials.iter().filter(|trial| trial.key.model == *model);
            let mut any = false;
            for trial in of_model {
                let Some((case, set)) = sets.get(trial.key.case.as_str()) else { continue };
                if set.contains(&keyword) {
                    any = true;
                    count(case, trial, &controls[model.as_str()], &mut row);
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
