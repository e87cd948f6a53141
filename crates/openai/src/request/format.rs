use std::sync::Arc;

use formwork_fields::{Definition, FieldsError, Format as Notation, TemplateOptions};
use formwork_grammar::{Part, Undeclared};
use serde_json::Value;

use super::fields::{Fields, Place};
use super::structural_tag;
use crate::RequestError;
use crate::error::Problem;

/// Maximum size in bytes of the text of a definition of fields, and of its template.
const DEFINITION_BYTES: usize = 256 << 10;
/// Maximum size in bytes of the grammar of a definition.
const GRAMMAR_BYTES: usize = 1 << 20;
/// Maximum number of weights among which one decides.
const WEIGHTS: usize = 1000;

/// A format that an output must match.
#[derive(Clone, PartialEq, Debug)]
pub struct Format {
    /// Description of the outputs, which `Grammar::of_parts` compiles.
    pub part: Part,
    /// Request field that holds the format, such as `response_format` or `guided_json`.
    pub field: &'static str,
    /// The typed fields, if the request gives a definition of them.
    pub typed: Option<Arc<TypedFields>>,
}

/// The typed fields that an output must have.
#[derive(Clone, PartialEq, Debug)]
pub struct TypedFields {
    /// The definition. [`Format::part`] has its grammar.
    pub definition: Definition,
    /// Form of the outputs for the prompt, with placeholders. It leaves out the weights, which a guide applies.
    pub template: String,
}

impl Format {
    pub(crate) const fn new(part: Part, field: &'static str) -> Self {
        Self { part, field, typed: None }
    }

    /// Returns true if the outputs are JSON text.
    pub fn is_json(&self) -> bool {
        self.typed.is_some() || self.part.is_json()
    }

    /// Creates the format of any JSON object.
    pub(crate) const fn json_object() -> Self {
        Self::new(Part::JsonObject, "response_format")
    }

    /// Creates the format of JSON that matches `schema`, an object or a boolean.
    pub(crate) fn json_schema(schema: Value, field: &'static str) -> Self {
        Self::new(Part::Json(schema.into()), field)
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

/// Function that parses a field, and returns `None` if the field asks for no format.
type Reader = fn(Place) -> Result<Option<Format>, RequestError>;

/// Parses the format of the output. Returns `None` if no field gives a format.
///
/// # Errors
/// Returns an error if more than one field gives a format.
pub(crate) fn read(fields: &mut Fields) -> Result<Option<Format>, RequestError> {
    const READERS: [(&str, Reader); 12] = [
        ("response_format", read_response_format),
        ("structured_outputs", read_structured_outputs),
        ("grammar", |at| read_gbnf(at, "grammar").map(Some)),
        ("guided_json", |at| read_schema(at, "guided_json").map(Some)),
        ("guided_regex", |at| read_regex(at, "guided_regex").map(Some)),
        ("guided_choice", |at| read_choice(&at, "guided_choice").map(Some)),
        ("guided_grammar", |at| read_grammar(at, "guided_grammar").map(Some)),
        // SGLang's names, of which llama.cpp has the first one too.
        ("json_schema", |at| read_schema(at, "json_schema").map(Some)),
        ("regex", |at| read_regex(at, "regex").map(Some)),
        ("ebnf", |at| read_gbnf(at, "ebnf").map(Some)),
        ("structural_tag", |at| read_tags(at, "structural_tag").map(Some)),
        ("fields", |at| read_typed(&at, "fields").map(Some)),
    ];
    one_of(fields, &READERS)
}

/// Parses the fields that `readers` name, of which at most one may give a format.
fn one_of(fields: &mut Fields, readers: &[(&'static str, Reader)]) -> Result<Option<Format>, RequestError> {
    let mut found: Option<(&'static str, Format)> = None;
    for &(name, read) in readers {
        let Some(at) = fields.take(name) else { continue };
        let place = at.clone();
        let Some(format) = read(at)? else { continue };
        if let Some((other, _)) = found {
            return Err(place.error(Problem::Conflict { other }));
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
            // llama.cpp and several hosts put a schema here.
            Type::JsonObject => Some(match fields.take("schema") {
                Some(at) => Format::json_schema(at.schema()?, "response_format.schema"),
                None => Format::json_object(),
            }),
            Type::StructuralTag => {
                let part = structural_tag::read(&mut fields)?;
                Some(Format::new(part, "response_format"))
            }
            Type::JsonSchema => Some(if let Some(at) = fields.take("schema") {
                // The form of a request for a response, which llama.cpp takes here too.
                for name in ["name", "description", "strict"] {
                    fields.ignore(name);
                }
                Format::json_schema(at.schema()?, "response_format.schema")
            } else {
                let schema = read_json_schema(fields.required("json_schema")?.fields()?)?;
                Format::json_schema(schema, "response_format.json_schema.schema")
            }),
        };
    fields.finish_strictly()?;
    Ok(format)
}

/// Parses the object `json_schema` and returns its schema. `name` and `description` have no effect.
/// The schema is enforced even if `strict` is false.
pub(crate) fn read_json_schema(mut fields: Fields) -> Result<Value, RequestError> {
    // Some clients leave out the name.
    fields.take("name").map(Place::string).transpose()?;
    fields.take("description").map(Place::string).transpose()?;
    fields.take("strict").map(Place::bool).transpose()?;
    let schema = fields.required("schema")?.schema()?;
    fields.finish_strictly()?;
    Ok(schema)
}

/// Parses vLLM's `structured_outputs`: one of several constraints, and options.
fn read_structured_outputs(at: Place) -> Result<Option<Format>, RequestError> {
    const READERS: [(&str, Reader); 6] = [
        ("json", |at| read_schema(at, "structured_outputs.json").map(Some)),
        ("regex", |at| read_regex(at, "structured_outputs.regex").map(Some)),
        ("choice", |at| read_choice(&at, "structured_outputs.choice").map(Some)),
        ("grammar", |at| read_grammar(at, "structured_outputs.grammar").map(Some)),
        ("json_object", |at| {
            let format = Format::new(Part::JsonObject, "structured_outputs.json_object");
            Ok(at.bool()?.then_some(format))
        }),
        ("structural_tag", |at| read_tags(at, "structured_outputs.structural_tag").map(Some)),
    ];
    let place = at.clone();
    let mut fields = at.fields()?;
    let format = one_of(&mut fields, &READERS)?.ok_or_else(|| place.error(Problem::Empty))?;
    // Nothing falls back here, undeclared members are omitted, and the layout is fixed.
    for name in [
        "disable_fallback",
        "disable_any_whitespace",
        "disable_additional_properties",
        "_backend",
        "_backend_was_auto",
    ] {
        fields.ignore(name);
    }
    fields.finish_strictly()?;
    Ok(Some(format))
}

fn read_schema(at: Place, field: &'static str) -> Result<Format, RequestError> {
    Ok(Format::json_schema(at.schema_or_text()?, field))
}

/// Parses a definition of fields: an object, or a string with its text in YAML or JSON.
fn read_typed(at: &Place, field: &'static str) -> Result<Format, RequestError> {
    let too_large = |what, limit| at.error(Problem::DefinitionTooLarge { what, limit });
    let text = at.definition()?;
    if text.len() > DEFINITION_BYTES {
        return Err(too_large("bytes of a definition", DEFINITION_BYTES));
    }
    let definition = parsed(&text).map_err(|source| at.error(Problem::Definition(source)))?;
    if definition.widest_weights() > WEIGHTS {
        return Err(too_large("weights of a choice, a variant or the members of an object", WEIGHTS));
    }
    let grammar = definition.gbnf_within(GRAMMAR_BYTES);
    let grammar = grammar.ok_or_else(|| too_large("bytes of the grammar of a definition", GRAMMAR_BYTES))?;
    // The guide applies the weights, so the prompt leaves them out.
    let template = definition.template_within(TemplateOptions { shares: false }, DEFINITION_BYTES);
    let template =
        template.ok_or_else(|| too_large("bytes of the template of a definition", DEFINITION_BYTES))?;
    let typed = Some(Arc::new(TypedFields { definition, template }));
    Ok(Format { typed, ..Format::new(Part::Gbnf(grammar), field) })
}

/// Parses a definition in JSON or YAML. A text that is neither is reported as that which it looks like.
fn parsed(text: &str) -> Result<Definition, FieldsError> {
    if !text.trim_start().starts_with('{') {
        return Definition::parse(text, Notation::Yaml);
    }
    match Definition::parse(text, Notation::Json) {
        Err(error) if error.line_column().is_some() => {
            Definition::parse(text, Notation::Yaml).map_err(|_| error)
        }
        parsed => parsed,
    }
}

fn read_gbnf(at: Place, field: &'static str) -> Result<Format, RequestError> {
    Ok(Format::new(Part::Gbnf(at.non_empty_string()?), field))
}

/// Parses a grammar in GBNF or Lark, which vLLM takes in one field.
fn read_grammar(at: Place, field: &'static str) -> Result<Format, RequestError> {
    let source = at.non_empty_string()?;
    let part = if is_lark(&source) { Part::Lark(source) } else { Part::Gbnf(source) };
    Ok(Format::new(part, field))
}

/// Reports whether a line of `source` defines the rule `start` with a colon, as a Lark grammar must.
fn is_lark(source: &str) -> bool {
    source.lines().any(|line| {
        let rule = line.trim_start().trim_start_matches(['?', '!']).strip_prefix("start");
        rule.is_some_and(|rest| {
            let rest = rest.trim_start();
            rest.starts_with(':') && !rest.starts_with("::=")
        })
    })
}

fn read_regex(at: Place, field: &'static str) -> Result<Format, RequestError> {
    Ok(Format::new(Part::Regex(at.string()?), field))
}

/// Parses structural tags, or a string with their JSON text.
fn read_tags(at: Place, field: &'static str) -> Result<Format, RequestError> {
    let mut fields = at.decoded()?.fields()?;
    if let Some(kind) = fields.take("type") {
        kind.one_of(|name| (name == "structural_tag").then_some(()), "structural_tag")?;
    }
    let part = structural_tag::read(&mut fields)?;
    fields.finish_strictly()?;
    Ok(Format::new(part, field))
}

fn read_choice(at: &Place, field: &'static str) -> Result<Format, RequestError> {
    let choices = at.clone().list("an array of strings")?;
    if choices.is_empty() {
        return Err(at.error(Problem::Empty));
    }
    let choices = choices.into_iter().map(Place::string).collect::<Result<_, _>>()?;
    Ok(Format::new(Part::Choices(choices), field))
}
