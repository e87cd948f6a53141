use formwork_grammar::{Part, Undeclared};
use serde_json::Value;

use super::fields::{Fields, Place};
use super::structural_tag;
use crate::RequestError;
use crate::error::Problem;

/// A format that an output must match.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Format {
    /// Description of the outputs, which `Grammar::of_parts` compiles.
    pub part: Part,
    /// Request field that holds the format, such as `response_format` or `guided_json`.
    pub field: &'static str,
}

impl Format {
    /// Creates the format of any JSON object.
    pub(crate) const fn json_object() -> Self {
        Self { part: Part::JsonObject, field: "response_format" }
    }

    /// Creates the format of JSON that matches `schema`, an object or a boolean.
    pub(crate) fn json_schema(schema: Value, field: &'static str) -> Self {
        Self { part: Part::Json(schema.into()), field }
    }
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
        ("grammar", |at| Ok(Some(Format { part: Part::Gbnf(at.non_empty_string()?), field: "grammar" }))),
        ("guided_json", |at| Ok(Some(Format::json_schema(at.schema_or_text()?, "guided_json")))),
        ("guided_regex", |at| Ok(Some(Format { part: Part::Regex(at.string()?), field: "guided_regex" }))),
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
            Type::JsonObject => Some(Format::json_object()),
            Type::StructuralTag => {
                let part = Part::Tags(structural_tag::read(&mut fields)?);
                Some(Format { part, field: "response_format" })
            }
            Type::JsonSchema => {
                let schema = read_json_schema(fields.required("json_schema")?.fields()?)?;
                Some(Format::json_schema(schema, "response_format.json_schema.schema"))
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
    let choices = choices.into_iter().map(Place::string).collect::<Result<_, _>>()?;
    Ok(Format { part: Part::Choices(choices), field: "guided_choice" })
}
