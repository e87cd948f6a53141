//! Hostile inputs of every kind. The same kind, seed and number give the same input.

mod fields;
mod mixed;
mod multiply;
mod mutate;
mod notations;

use anyhow::{Context, Result};
use fastrand::Rng;
use serde_json::{Value, json};

/// Notation of an input, with the options to compile it with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A JSON Schema with the default options.
    Schema,
    /// A JSON Schema with [`SchemaOptions::accept`](formwork_grammar::SchemaOptions::accept).
    SchemaAccept,
    /// A JSON Schema that allows one spelling of each value, but any member order and any layout.
    SchemaAny,
    /// A JSON Schema that allows every spelling, with members in declared order and an indented
    /// layout.
    SchemaPretty,
    /// A JSON Schema with other documents: `{"schema": …, "remotes": {"URI": …}}`.
    Remotes,
    Gbnf,
    Regex,
    FieldsJson,
    FieldsYaml,
    FieldsToml,
}

impl Kind {
    /// All kinds. Schemas are listed more than once, so they are generated more often.
    pub(crate) const ALL: &[Self] = &[
        Self::Schema,
        Self::SchemaAccept,
        Self::Gbnf,
        Self::Schema,
        Self::SchemaAny,
        Self::FieldsJson,
        Self::SchemaAccept,
        Self::Regex,
        Self::Remotes,
        Self::Schema,
        Self::FieldsYaml,
        Self::SchemaAccept,
        Self::Gbnf,
        Self::SchemaPretty,
        Self::FieldsToml,
    ];

    const NAMES: &[(Self, &'static str)] = &[
        (Self::Schema, "schema"),
        (Self::SchemaAccept, "schema-accept"),
        (Self::SchemaAny, "schema-any"),
        (Self::SchemaPretty, "schema-pretty"),
        (Self::Remotes, "remotes"),
        (Self::Gbnf, "gbnf"),
        (Self::Regex, "regex"),
        (Self::FieldsJson, "fields-json"),
        (Self::FieldsYaml, "fields-yaml"),
        (Self::FieldsToml, "fields-toml"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(kind, _)| *kind == self).map_or("schema", |(_, name)| name)
    }

    pub(crate) fn of(name: &str) -> Result<Self> {
        let known = Self::NAMES.iter().find(|(_, known)| *known == name);
        known.map(|(kind, _)| *kind).with_context(|| {
            let names: Vec<_> = Self::NAMES.iter().map(|(_, name)| *name).collect();
            format!("unknown kind `{name}`; expected one of {}", names.join(", "))
        })
    }
}

/// An input for a child process.
pub(crate) struct Input {
    /// Name of the generator that produced the input.
    pub(crate) generator: &'static str,
    pub(crate) bytes: Vec<u8>,
}

/// Maximum size of an input in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Generates the input with this number.
pub(crate) fn generate(kind: Kind, seed: u64, number: usize) -> Input {
    let place = Kind::NAMES.iter().position(|(known, _)| *known == kind).unwrap_or(0) as u64;
    let mixed = (seed << 40 ^ place << 32 ^ number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let rng = &mut Rng::with_seed(mixed);
    let (generator, mut bytes) = match kind {
        Kind::Schema | Kind::SchemaAccept | Kind::SchemaAny | Kind::SchemaPretty => {
            let (generator, schema) = schema(rng);
            (generator, text_of(&schema))
        }
        Kind::Remotes => {
            let (generator, schema) = remotes(rng);
            (generator, text_of(&schema))
        }
        Kind::Gbnf => notations::gbnf(rng),
        Kind::Regex => notations::regex(rng),
        Kind::FieldsJson => fields::json(rng),
        Kind::FieldsYaml => fields::yaml(rng),
        Kind::FieldsToml => fields::toml(rng),
    };
    if bytes.len() > MAX_BYTES {
        let mut end = MAX_BYTES;
        while end > 0 && !bytes.is_char_boundary(end) {
            end -= 1;
        }
        bytes.truncate(end);
    }
    Input { generator, bytes: bytes.into_bytes() }
}

fn schema(rng: &mut Rng) -> (&'static str, Value) {
    let (generator, schema) = match rng.u32(..10) {
        0..3 => ("mixed", mixed::schema(rng)),
        3..8 => multiply::schema(rng),
        _ => ("mutated", mutate::schema(rng)),
    };
    if text_of(&schema).len() > MAX_BYTES { ("mixed", mixed::schema(rng)) } else { (generator, schema) }
}

/// Generates a schema whose definitions are spread over documents that refer to each other.
fn remotes(rng: &mut Rng) -> (&'static str, Value) {
    let count = size(rng, 60);
    let uri = |at: usize| format!("https://example.com/{at}/schema.json");
    let mut remotes = serde_json::Map::new();
    for at in 0..count {
        let mut document = if rng.bool() { mixed::schema(rng) } else { multiply::schema(rng).1 };
        if text_of(&document).len() > MAX_BYTES / count.max(4) {
            document = json!({"type": "object"});
        }
        if let Some(object) = document.as_object_mut() {
            let to = if rng.bool() { (at + 1) % count } else { rng.usize(..count) };
            let reference = match rng.u32(..4) {
                0 => uri(to),
                1 => format!("../{to}/schema.json"),
                2 => format!("{}#/properties/a", uri(to)),
                _ => "#".to_owned(),
            };
            match rng.u32(..3) {
                0 => drop(object.insert("$ref".to_owned(), json!(reference))),
                1 => drop(object.insert("properties".to_owned(), json!({"a": {"$ref": reference}}))),
                _ => drop(object.insert("items".to_owned(), json!({"anyOf": [{"$ref": reference}, {}]}))),
            }
            if rng.u32(..4) == 0 {
                object.insert("$id".to_owned(), json!(uri(at)));
            }
        }
        remotes.insert(uri(at), document);
    }
    let schema = json!({"$ref": uri(0), "properties": {"b": {"$ref": uri(count - 1)}}});
    ("remotes", json!({"schema": schema, "remotes": remotes}))
}

fn text_of(schema: &Value) -> String {
    let mut text = String::new();
    write_value(schema, &mut text);
    text
}

/// Writes JSON of any depth without recursion.
fn write_value(value: &Value, text: &mut String) {
    enum Piece<'v> {
        Value(&'v Value),
        Text(String),
    }
    let mut left = vec![Piece::Value(value)];
    while let Some(piece) = left.pop() {
        match piece {
            Piece::Text(piece) => text.push_str(&piece),
            Piece::Value(Value::Array(items)) => {
                left.push(Piece::Text("]".to_owned()));
                for (at, item) in items.iter().enumerate().rev() {
                    left.push(Piece::Value(item));
                    left.push(Piece::Text(if at > 0 { "," } else { "" }.to_owned()));
                }
                text.push('[');
            }
            Piece::Value(Value::Object(members)) => {
                left.push(Piece::Text("}".to_owned()));
                for (at, (name, member)) in members.iter().enumerate().rev() {
                    left.push(Piece::Value(member));
                    let comma = if at > 0 { "," } else { "" };
                    left.push(Piece::Text(format!("{comma}{}:", Value::String(name.clone()))));
                }
                text.push('{');
            }
            Piece::Value(scalar) => text.push_str(&scalar.to_string()),
        }
    }
}

/// Returns a number from 1 to `max`, with logarithms distributed uniformly.
fn size(rng: &mut Rng, max: usize) -> usize {
    let digits = (max as f64).ln();
    ((rng.f64() * digits).exp() as usize).clamp(1, max)
}

fn pick<T: Copy>(rng: &mut Rng, items: &[T]) -> T {
    items[rng.usize(..items.len())]
}
