use serde_json::Value;

use super::fields::{Fields, Place};
use super::structural_tag::{self, StructuralTags};
use crate::RequestError;
use crate::error::Problem;

/// A format that an output must match.
#[derive(Clone, PartialEq, Debug)]
pub enum Format {
    /// `response_format` of type `json_object`: any JSON object.
    JsonObject,
    /// JSON that matches a schema.
    JsonSchema {
        /// The schema: an object or a boolean.
        schema: Value,
        /// Request field of the schema, such as `response_format` or `guided_json`.
        field: &'static str,
    },
    /// `response_format` of type `structural_tag`.
    StructuralTags(StructuralTags),
    /// `grammar`: a GBNF grammar.
    Gbnf(String),
    /// `guided_regex`: a regular expression that the whole output must match.
    Regex(String),
    /// `guided_choice`: one of these texts; at least one.
    Choice(Vec<String>),
}

impl Format {
    /// Returns the request field that holds the format.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::JsonObject | Self::StructuralTags(_) => "response_format",
            Self::JsonSchema { field, .. } => field,
            Self::Gbnf(_) => "grammar",
            Self::Regex(_) => "guided_regex",
            Self::Choice(_) => "guided_choice",
        }
    }
}

/// Undeclared members in generated objects: names that a schema with `properties` does not mention.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Undeclared {
    /// Generate only members that are declared or that a keyword requires.
    #[default]
    Omit,
    /// Generate any members, as JSON Schema allows.
    Allow,
}

/// Parses `undeclared`, an extension.
pub(crate) fn read_undeclared(fields: &mut Fields) -> Result<Undeclared, RequestError> {
    let known = |name: &str| match name {
        "omit" => Some(Undeclared::Omit),
        "allow" => Some(Undeclared::Allow),
        _ => None,
    };
    Ok(fields.read("undeclared", |at| at.one_of(known, "omit and allow"))?.unwrap_or_default())
}

/// Parses the format from the one field that gives it.
///
/// # Errors
/// Returns an error if more than one field gives a format.
pub(crate) fn read(fields: &mut Fields) -> Result<Option<Format>, RequestError> {
    type Reader = fn(Place) -> Result<Option<Format>, RequestError>;
    const READERS: [(&str, Reader); 5] = [
        ("response_format", read_response_format),
        ("grammar", |at| Ok(Some(Format::Gbnf(at.non_empty_string()?)))),
        ("guided_json", |at| {
            Ok(Some(Format::JsonSchema { schema: at.schema_or_text()?, field: "guided_json" }))
        }),
        ("guided_regex", |at| Ok(Some(Format::Regex(at.string()?)))),
        ("guided_choice", |at| read_choice(at).map(Some)),
    ];
    let mut found: Option<(&str, Format)> = None;
    for (name, read) in READERS {
        let Some(at) = fields.take(name) else { continue };
        let Some(format) = read(at)? else { continue };
        if let Some((other, _)) = found {
            return Err(RequestError::field(name, Problem::Conflict { other }));
        }
        found = Some((name, format));
    }
    Ok(found.map(|(_, format)| format))
}

fn read_response_format(at: Place) -> Result<Option<Format>, RequestError> {
    enum Type {
        Text,
        JsonObject,
        JsonSchema,
        StructuralTag,
    }
    let known = |name: &str| match name {
        "text" => Some(Type::Text),
        "json_object" => Some(Type::JsonObject),
        "json_schema" => Some(Type::JsonSchema),
        "structural_tag" => Some(Type::StructuralTag),
        _ => None,
    };
    let mut fields = at.fields()?;
    let format =
        match fields.required("type")?.one_of(known, "text, json_object, json_schema and structural_tag")? {
            Type::Text => None,
            Type::JsonObject => Some(Format::JsonObject),
            Type::StructuralTag => Some(Format::StructuralTags(structural_tag::read(&mut fields)?)),
            Type::JsonSchema => {
                let schema = read_json_schema(fields.required("json_schema")?.fields()?)?;
                Some(Format::JsonSchema { schema, field: "response_format.json_schema.schema" })
            }
        };
    fields.finish()?;
    Ok(format)
}

/// Parses the schema within `json_schema`. The name and the description have no effect, and the
/// schema is enforced even if `strict` is false.
pub(crate) fn read_json_schema(mut fields: Fields) -> Result<Value, RequestError> {
    fields.required("name")?.string()?;
    fields.take("description").map(Place::string).transpose()?;
    fields.take("strict").map(Place::bool).transpose()?;
    let schema = fields.required("schema")?.schema()?;
    fields.finish()?;
    Ok(schema)
}

fn read_choice(at: Place) -> Result<Format, RequestError> {
    let choices = at.list("an array of strings")?;
    if choices.is_empty() {
        return Err(RequestError::field("guided_choice", Problem::Empty));
    }
    Ok(Format::Choice(choices.into_iter().map(Place::string).collect::<Result<_, _>>()?))
}
