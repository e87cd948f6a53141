//! Sample values of schemas, as they are shown to a model.

use std::collections::HashSet;
use std::fmt::Write;

use serde_json::Value;

use super::{Shape, truncated};
use crate::schema;

/// Maximum nesting depth of a sample. Deeper values are shown as `{...}` or `[...]`.
const DEPTH: usize = 6;
/// Maximum length of a sample. A longer sample is rendered with less depth and finally truncated.
const LENGTH: usize = 4000;
/// Maximum number of characters of a description, a sample scalar or a limit.
const DESCRIPTION: usize = 100;

/// Returns the noun for an answer of this shape, such as `JSON object`.
pub(super) fn name(shape: &Shape) -> &'static str {
    match shape.kind() {
        Some("object") => "JSON object",
        Some("array") => "JSON array",
        _ => "JSON value",
    }
}

/// Renders the sample of a schema, with less depth if the sample would be too long.
pub(super) fn required(schema: &Value) -> String {
    let sample = |depth| Writer { root: schema, text: String::new() }.written(schema, depth);
    let mut text = String::new();
    for depth in (1..=DEPTH).rev() {
        text = sample(depth);
        if text.len() <= LENGTH {
            return text;
        }
    }
    truncated(&text, LENGTH)
}

struct Writer<'a> {
    root: &'a Value,
    text: String,
}

impl<'a> Writer<'a> {
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
        if let Some(sample) = sample(schema) {
            self.text.push_str(&sample);
            return;
        }
        match schema::kind(self.root, schema) {
            Some("object") => self.object(schema, depth, indent, is_root),
            Some("array") => self.array(schema, depth, indent),
            Some("string") => self.text.push_str("\"text\""),
            Some("integer") => self.text.push('0'),
            Some("number") => self.text.push_str("0.0"),
            Some("boolean") => self.text.push_str("false"),
            Some("null") => self.text.push_str("null"),
            _ => self.branches(schema, depth, indent),
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
        parts.extend(kind.filter(|kind| ["integer", "number", "boolean"].contains(kind)).map(str::to_owned));
        if let Some(options) =
            schema.get("enum").and_then(Value::as_array).filter(|options| options.len() > 1)
        {
            let options: Vec<String> = options.iter().map(Value::to_string).collect();
            parts.push(truncated(&format!("one of {}", options.join(", ")), DESCRIPTION));
        }
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

/// Returns a sample given by the schema: `const`, the first of `examples` or `enum`, or `default`.
fn sample(schema: &Value) -> Option<String> {
    let first = |name: &str| schema.get(name).and_then(Value::as_array).and_then(|values| values.first());
    let given = schema.get("const").or_else(|| first("examples")).or_else(|| first("enum"));
    given.or_else(|| schema.get("default")).map(|value| truncated(&value.to_string(), DESCRIPTION))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_envelope_has_the_documented_format() {
        insta::assert_snapshot!(required(Shape::tool_calls().schema()), @r#"
        {
          "toolCalls": [{"name": "tool_name", "arguments": {...}}],  // optional
          "content": "Your response text here",  // optional
          "needsMoreWork": false  // optional boolean
        }
        "#);
    }

    #[test]
    fn every_schema_has_a_sample() {
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
        insta::assert_snapshot!(Writer { root: &schema, text: String::new() }.written(&schema, 2), @r#"
        {
          "count": 0,  // integer min 1 max 9: How many of them.
          "kind": "a",  // one of "a", "b"
          "where": {
            "x": 0.0,  // number
            "y": 0.0  // optional number
          },
          "more": "text" | null,
          "mixed": <string or integer>,
          "tree": {
            "count": 0,  // integer min 1 max 9: How many of them.
            "kind": "a",  // one of "a", "b"
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
    fn shows_large_schemas_less_deeply() {
        let mut schema = json!({ "type": "string" });
        for _ in 0..8 {
            let fields: serde_json::Map<String, Value> =
                (0..4).map(|at| (format!("field_{at}"), schema.clone())).collect();
            schema = json!({ "type": "object", "properties": fields });
        }
        let text = required(&schema);
        assert!(text.len() <= LENGTH + 3 && text.contains("{...}"), "{text}");
    }
}
