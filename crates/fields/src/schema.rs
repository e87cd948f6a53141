//! JSON Schemas (draft 2020-12) of definitions.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::Characters;
use crate::Definition;
use crate::decimal::{Decimals, plain};
use crate::field::{Array, Choice, Composite, Float, Int, Kind, Scalar, Template, Text, Variant};
use crate::path::Path;

/// Pattern of texts that end with a line break.
pub(crate) const LAST_LINE_BREAK: &str = "\\n$";

/// Largest number of values of a number that a schema lists.
const VALUES: u64 = 50_000;

/// Largest number of values of all numbers that a schema lists.
const ALL_VALUES: u64 = 200_000;

/// Options for the JSON Schema of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SchemaOptions {
    /// True if the schema writes the step of a number as `multipleOf`.
    ///
    /// Validators that compute with floats reject valid values by this keyword: 0.3 / 0.1 is not
    /// whole. By default, the schema therefore lists the values of a number. It omits the step of a
    /// number with too many values ([`Definition::open_steps`]).
    pub multiple_of: bool,
}

/// Returns the JSON Schema of a definition, with the paths of the numbers whose step is omitted.
pub(crate) fn schema(definition: &Definition, options: SchemaOptions) -> (Value, Vec<String>) {
    let mut writer = Writer { options, listed: 0, open: Vec::new() };
    let mut schema = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema" });
    let root = writer.kind(definition.root(), &Path::root());
    if let (Some(members), Value::Object(root)) = (schema.as_object_mut(), root) {
        if let Some(name) = definition.name() {
            members.insert("title".to_owned(), name.into());
        }
        members.extend(root);
        if !definition.definitions().is_empty() {
            let structure = |(name, structure): &(String, Kind)| {
                (name.clone(), writer.kind(structure, &Path::definition(name)))
            };
            let structures: Map<String, Value> = definition.definitions().iter().map(structure).collect();
            members.insert("$defs".to_owned(), structures.into());
        }
    }
    (schema, writer.open)
}

struct Writer {
    options: SchemaOptions,
    /// Number of listed values so far, compared with [`ALL_VALUES`].
    listed: u64,
    /// Paths of numbers whose step is omitted.
    open: Vec<String>,
}

impl Writer {
    fn kind(&mut self, kind: &Kind, path: &Path<'_>) -> Value {
        let mut schema = self.plain_kind(kind.plain(), path);
        if let (Some(description), Value::Object(members)) = (kind.description(), &mut schema) {
            members.insert("description".to_owned(), description.into());
        }
        schema
    }

    fn plain_kind(&mut self, kind: &Kind, path: &Path<'_>) -> Value {
        match kind {
            Kind::Int(Int { min, max }) => {
                let (min, max) = (min.unwrap_or(i64::MIN), max.unwrap_or(i64::MAX));
                json!({ "type": "integer", "minimum": min, "maximum": max })
            }
            Kind::Float(float) => self.number(float, path),
            Kind::String(text) => string(text),
            Kind::Choice(Choice { options, .. }) => {
                json!({ "enum": options.iter().map(Scalar::to_json).collect::<Vec<_>>() })
            }
            Kind::Boolean => json!({ "type": "boolean" }),
            Kind::Constant(value) => json!({ "const": value.to_json() }),
            Kind::Composite(composite) => self.object(composite, path),
            Kind::Variant(variant) => self.one_of(variant, path),
            Kind::Template(template) => filled(template),
            Kind::Array(array) => self.list(array, path),
            Kind::Ref(name) => json!({ "$ref": format!("#/$defs/{name}") }),
            // A checked kind has at most one description.
            Kind::Described(described) => self.plain_kind(&described.kind, path),
        }
    }

    fn number(&mut self, float: &Float, path: &Path<'_>) -> Value {
        // The range of a checked definition contains a number.
        let Ok(Decimals { low, high, digits: decimals }) = Decimals::of(float) else { return json!(false) };
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let count = low.abs_diff(high) + 1;
        // Validators compute the remainder of a division by 1 exactly.
        let has_step = self.options.multiple_of || decimals == 0;
        if !has_step && count <= VALUES && self.listed + count <= ALL_VALUES {
            self.listed += count;
            let value =
                |units| Scalar::from(plain(units, decimals).parse::<f64>().unwrap_or_default()).to_json();
            return json!({ "type": "number", "enum": (low..=high).map(value).collect::<Vec<_>>() });
        }
        let bound = |given: Option<f64>, units| match given {
            Some(given) => Scalar::from(given).to_json(),
            None => read(&plain(units, decimals)),
        };
        let mut schema = json!({
            "type": "number",
            "minimum": bound(float.min, low),
            "maximum": bound(float.max, high),
        });
        if has_step {
            schema["multipleOf"] = read(&plain(1, decimals));
        } else {
            let noun = if decimals == 1 { "decimal" } else { "decimals" };
            schema["$comment"] = format!("at most {decimals} {noun}").into();
            self.open.push(path.to_string());
        }
        schema
    }

    fn object(&mut self, composite: &Composite, path: &Path<'_>) -> Value {
        let members = composite.fields.iter();
        let members =
            members.map(|member| (member.name.clone(), self.kind(&member.kind, &path.name(&member.name))));
        let members = members.collect::<Map<_, _>>();
        let required =
            composite.fields.iter().filter(|member| !member.optional).map(|member| member.name.as_str());
        json!({
            "type": "object",
            "properties": members,
            "required": required.collect::<Vec<_>>(),
            "additionalProperties": false,
        })
    }

    fn one_of(&mut self, variant: &Variant, path: &Path<'_>) -> Value {
        let branches = variant.variants.iter().enumerate().map(|(index, branch)| {
            let schema = self.kind(&branch.kind, &path.name_or_index(branch.name.as_deref(), index));
            match branch.name.as_deref().filter(|_| !variant.untagged) {
                Some(name) => json!({
                    "type": "object",
                    "properties": { name: schema },
                    "required": [name],
                    "additionalProperties": false,
                }),
                None => schema,
            }
        });
        json!({ "anyOf": branches.collect::<Vec<_>>() })
    }

    fn list(&mut self, array: &Array, path: &Path<'_>) -> Value {
        let mut schema = json!({ "type": "array", "items": self.kind(&array.element, &path.element()) });
        if array.min_items > 0 {
            schema["minItems"] = array.min_items.into();
        }
        if let Some(max) = array.max_items {
            schema["maxItems"] = max.into();
        }
        schema
    }
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
    if text.characters.as_ref().is_some_and(|set| !set.contains('\n')) {
        forbid_last_line_break(&mut schema);
    }
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
    if !may_end_with_line_break(template) {
        forbid_last_line_break(&mut schema);
    }
    schema
}

/// Forbids a line break at the end of a string. Python reads `$` in a pattern as the end of the
/// string or the place before a last line break.
fn forbid_last_line_break(schema: &mut Value) {
    schema["not"] = json!({ "pattern": LAST_LINE_BREAK });
}

/// Reports whether a value of a template may end with a line break.
pub(crate) fn may_end_with_line_break(template: &Template) -> bool {
    let is_allowed = template.text.characters.as_ref().is_none_or(|set| set.contains('\n'));
    for (index, literal) in template.literals().into_iter().enumerate().rev() {
        if !literal.is_empty() {
            return literal.ends_with('\n');
        }
        let has_place = index > 0;
        if has_place && is_allowed {
            return true;
        }
        if has_place && template.text.min_length > 0 {
            return false;
        }
    }
    false
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
mod tests;
