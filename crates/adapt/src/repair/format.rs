//! Required formats of schemas, as they are shown to a model.
//!
//! A format looks like a value, with a placeholder such as `<string>` for each part that a model
//! has to choose. A copied format is therefore no answer: it is not JSON.

use std::collections::HashSet;
use std::fmt::Write;

use serde_json::Value;

use super::{Shape, truncated};
use crate::schema;

/// Maximum nesting depth of a format. Deeper values are shown as `{...}` or `[...]`.
const DEPTH: usize = 6;
/// Maximum length of a format. A longer format is rendered with less depth and finally truncated.
const LENGTH: usize = 4000;
/// Maximum number of characters of a description, a scalar or a limit.
const DESCRIPTION: usize = 100;

/// Returns the noun for an answer of this shape, such as `JSON object`.
pub(super) fn name(shape: &Shape) -> &'static str {
    match shape.kind() {
        Some("object") => "JSON object",
        Some("array") => "JSON array",
        _ => "JSON value",
    }
}

/// Renders the format of a schema, with less depth if the format would be too long.
pub(super) fn required(schema: &Value, has_samples: bool) -> String {
    let writer = |depth| Writer::new(schema, has_samples).written(schema, depth);
    let mut text = String::new();
    for depth in (1..=DEPTH).rev() {
        text = writer(depth);
        if text.len() <= LENGTH {
            return text;
        }
    }
    truncated(&text, LENGTH)
}

struct Writer<'a> {
    root: &'a Value,
    /// True for the envelope, whose format has samples instead of placeholders. Its arguments are
    /// `{...}`, so that it is not JSON either.
    has_samples: bool,
    text: String,
}

impl<'a> Writer<'a> {
    const fn new(root: &'a Value, has_samples: bool) -> Self {
        Self { root, has_samples, text: String::new() }
    }

    fn written(mut self, schema: &'a Value, depth: usize) -> String {
        self.value(schema, depth, 0, true);
        self.text
    }

    /// Reports whether rendering can stop, because the sample is much longer than the limit.
    fn is_full(&self) -> bool {
        self.text.len() > LENGTH * 4
    }

    fn value(&mut self, schema: &'a Value, depth: usize, indent: usize, is_root: bool) {
        if self.is_full() {
            return;
        }
        let schema = schema::resolved(self.root, schema);
        if let Some(scalar) = self.scalar(schema) {
            self.text.push_str(&scalar);
            return;
        }
        match schema::kind(self.root, schema) {
            Some("object") => self.object(schema, depth, indent, is_root),
            Some("array") => self.array(schema, depth, indent),
            _ => self.branches(schema, depth, indent),
        }
    }

    /// Returns the value that the schema prescribes, or the placeholder of a scalar.
    fn scalar(&self, schema: &Value) -> Option<String> {
        let list = |name: &str| schema.get(name).and_then(Value::as_array);
        let shown = |value: &Value| truncated(&value.to_string(), DESCRIPTION);
        if let Some(value) = schema.get("const") {
            return Some(shown(value));
        }
        if let Some(options) = list("enum") {
            let options: Vec<String> = options.iter().map(Value::to_string).collect();
            return Some(match options.as_slice() {
                [only] => truncated(only, DESCRIPTION),
                several => format!("<one of {}>", truncated(&several.join(", "), DESCRIPTION)),
            });
        }
        let sample = list("examples").and_then(|values| values.first()).or_else(|| schema.get("default"));
        let kind = schema::kind(self.root, schema);
        match (sample, kind) {
            (Some(sample), _) if self.has_samples => Some(shown(sample)),
            (None, Some("boolean")) if self.has_samples => Some("false".to_owned()),
            (Some(sample), _) => Some(format!("<such as {}>", shown(sample))),
            (None, Some("boolean")) => Some("<true or false>".to_owned()),
            (None, Some("null")) => Some("null".to_owned()),
            (None, Some(kind @ ("string" | "integer" | "number"))) => Some(format!("<{kind}>")),
            (None, _) => None,
        }
    }

    fn object(&mut self, schema: &'a Value, depth: usize, indent: usize, is_root: bool) {
        let fields = schema::properties(self.root, schema);
        let Some(depth) = depth.checked_sub(1).filter(|_| !fields.is_empty()) else {
            self.text.push_str("{...}");
            return;
        };
        let required: HashSet<&str> = schema::required(self.root, schema).into_iter().collect();
        let remarks: Vec<String> =
            fields.iter().map(|(name, field)| self.remark(field, required.contains(name))).collect();
        // An object without remarks fits on one line.
        let is_short = !is_root && remarks.iter().all(String::is_empty);
        self.text.push('{');
        for (at, ((name, field), remark)) in fields.iter().zip(&remarks).enumerate() {
            if self.is_full() {
                return;
            }
            let comma = if at + 1 < fields.len() { "," } else { "" };
            if is_short {
                let _ = write!(self.text, "{}{}: ", if at > 0 { " " } else { "" }, Value::from(*name));
            } else {
                let _ = write!(self.text, "\n{:1$}{2}: ", "", indent + 2, Value::from(*name));
            }
            self.value(field, depth, indent + 2, false);
            self.text.push_str(comma);
            if !remark.is_empty() {
                let _ = write!(self.text, "  // {remark}");
            }
        }
        if !is_short {
            let _ = write!(self.text, "\n{:1$}", "", indent);
        }
        self.text.push('}');
    }

    fn array(&mut self, schema: &'a Value, depth: usize, indent: usize) {
        match (schema.get("items"), depth.checked_sub(1)) {
            (Some(items @ Value::Object(_)), Some(depth)) => {
                self.text.push('[');
                self.value(items, depth, indent, false);
                self.text.push(']');
            }
            _ => self.text.push_str("[...]"),
        }
    }

    /// Writes the branches of `anyOf` or `oneOf`, or the list of types. Otherwise writes `...`.
    fn branches(&mut self, schema: &'a Value, depth: usize, indent: usize) {
        let named = |name: &str| schema.get(name).and_then(Value::as_array);
        let kinds = schema.get("type").and_then(Value::as_array).into_iter().flatten();
        let kinds: Vec<&str> = kinds.filter_map(Value::as_str).collect();
        match (named("anyOf").or_else(|| named("oneOf")), depth.checked_sub(1)) {
            (Some(branches), Some(depth)) => {
                for (at, branch) in branches.iter().enumerate() {
                    if self.is_full() {
                        return;
                    }
                    if at > 0 {
                        self.text.push_str(" | ");
                    }
                    self.value(branch, depth, indent, false);
                }
            }
            _ if !kinds.is_empty() => {
                let _ = write!(self.text, "<{}>", kinds.join(" or "));
            }
            _ => self.text.push_str("..."),
        }
    }

    /// Returns the remark for a field: optionality, type, limits and description.
    fn remark(&self, field: &'a Value, is_required: bool) -> String {
        let schema = schema::resolved(self.root, field);
        let kind = schema::kind(self.root, schema);
        let mut parts = Vec::new();
        if !is_required {
            parts.push("optional".to_owned());
        }
        let is_shown = |kind: &&str| self.has_samples && *kind == "boolean";
        parts.extend(kind.filter(is_shown).map(str::to_owned));
        let limits = [
            ("minimum", "min"),
            ("exclusiveMinimum", "more than"),
            ("maximum", "max"),
            ("exclusiveMaximum", "less than"),
            ("maxLength", "characters max"),
            ("minItems", "items min"),
            ("maxItems", "items max"),
            ("pattern", "matches"),
            ("format", "format"),
        ];
        for (keyword, word) in limits {
            if let Some(limit) = schema.get(keyword) {
                let limit = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
                parts.push(truncated(&format!("{word} {limit}"), DESCRIPTION));
            }
        }
        let mut remark = parts.join(" ");
        let description = field.get("description").or_else(|| schema.get("description"));
        if let Some(text) = description.and_then(Value::as_str) {
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = write!(
                remark,
                "{}{}",
                if remark.is_empty() { "" } else { ": " },
                truncated(&line, DESCRIPTION)
            );
        }
        remark
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{AdaptOptions, Adapter, Tolerance};

    #[test]
    fn the_envelope_has_the_documented_format() {
        insta::assert_snapshot!(required(Shape::tool_calls().schema(), true), @r#"
        {
          "toolCalls": [{"name": "tool_name", "arguments": {...}}],  // optional
          "content": "Your response text here",  // optional
          "needsMoreWork": false  // optional boolean
        }
        "#);
    }

    #[test]
    fn every_schema_has_a_format() {
        let schema = json!({
            "type": "object",
            "properties": {
                "count": { "type": "integer", "minimum": 1, "maximum": 9, "description": "How many\nof them." },
                "kind": { "enum": ["a", "b"] },
                "where": { "$ref": "#/$defs/place" },
                "more": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
                "mixed": { "type": ["string", "integer"] },
                "tree": { "$ref": "#" },
                "any": {},
            },
            "required": ["count", "kind", "where", "more", "mixed", "any"],
            "$defs": { "place": { "type": "object", "properties": { "x": { "type": "number" }, "y": { "type": "number" } }, "required": ["x"] } },
        });
        insta::assert_snapshot!(Writer::new(&schema, false).written(&schema, 2), @r#"
        {
          "count": <integer>,  // min 1 max 9: How many of them.
          "kind": <one of "a", "b">,
          "where": {
            "x": <number>,
            "y": <number>  // optional
          },
          "more": <string> | null,
          "mixed": <string or integer>,
          "tree": {
            "count": <integer>,  // min 1 max 9: How many of them.
            "kind": <one of "a", "b">,
            "where": {...},
            "more": ...,
            "mixed": <string or integer>,
            "tree": {...},  // optional
            "any": ...
          },  // optional
          "any": ...
        }
        "#);
    }

    #[test]
    fn a_copied_format_is_no_answer() {
        for schema in [
            json!({ "properties": { "a": { "type": "string" }, "b": { "type": "boolean" } }, "required": ["a"] }),
            json!({ "type": "object", "properties": { "n": { "type": "number", "examples": [1.5] } } }),
            json!({ "type": "object", "properties": { "kind": { "enum": ["a", "b"] } } }),
            json!({ "type": "object", "properties": { "kind": { "type": "string", "default": "a" } } }),
            json!({ "type": "array", "items": { "type": "string" } }),
            json!({ "type": ["string", "null"] }),
            Shape::tool_calls().schema().clone(),
        ] {
            let shape = Shape::of_schema(schema.clone(), "s").expect("a schema");
            let is_envelope = schema == *Shape::tool_calls().schema();
            let copied = required(&schema, is_envelope);
            let options = AdaptOptions::full().with_tolerance(Tolerance::Repair);
            let adapter = Adapter::new(&schema, options).expect("a schema");
            for text in [copied.clone(), format!("```json\n{copied}\n```")] {
                assert!(!shape.read_adapted(&adapter, &text).is_valid(), "{text}");
            }
        }
    }

    #[test]
    fn shows_large_schemas_less_deeply() {
        let mut schema = json!({ "type": "string" });
        for _ in 0..8 {
            let fields: serde_json::Map<String, Value> =
                (0..4).map(|at| (format!("field_{at}"), schema.clone())).collect();
            schema = json!({ "type": "object", "properties": fields });
        }
        let text = required(&schema, false);
        assert!(text.len() <= LENGTH + 3 && text.contains("{...}"), "{text}");
    }
}
