use serde_json::Value;

use super::fields::{Fields, Place};
use super::structural_tag::{self, StructuralTags};
use crate::RequestError;
use crate::error::Problem;

/// Format that an output must match. Each format is given by another request field.
#[derive(Clone, PartialEq, Debug)]
pub enum Format {
    /// `response_format` of type `json_object`: any JSON object.
    JsonObject,
    /// JSON that matches a schema, from `response_format`, `guided_json` or `text`.
    JsonSchema {
        /// Schema to match: an object or a boolean.
        schema: Value,
        /// Path of the schema in the request, such as `guided_json`.
        field: &'static str,
    },
    /// `response_format` of type `structural_tag`: free text that contains constrained tags.
    StructuralTags(StructuralTags),
    /// `grammar`: text that matches a GBNF grammar.
    Gbnf(String),
    /// `guided_regex`: a regular expression that the whole output must match.
    Regex(String),
    /// `guided_choice`: one of several texts. There is at least one.
    Choice(Vec<String>),
}

impl Format {
    /// Returns the path of the request field that gives the format.
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

/// Treatment of undeclared members in generated objects. A member is undeclared if its schema has
/// `properties` and does not mention its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Undeclared {
    /// Only declared members, and members that a keyword requires, are generated.
    #[default]
    Omit,
    /// Any members may be generated, as JSON Schema allows.
    Allow,
}

/// Parses the field `undeclared`. The default is [`Undeclared::Omit`].
pub(crate) fn read_undeclared(fields: &mut Fields) -> Result<Undeclared, RequestError> {
    let known = |name: &str| match name {
        "omit" => Some(Undeclared::Omit),
        "allow" => Some(Undeclared::Allow),
        _ => None,
    };
    Ok(fields.read("undeclared", |at| at.one_of(known, "omit and allow"))?.unwrap_or_default())
}

/// Parses the format of the output. Returns `None` if no field gives a format.
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

/// Parses the object `json_schema` and returns its schema. `name` and `description` have no effect.
/// The schema is enforced even if `strict` is false.
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
