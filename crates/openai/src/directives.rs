//! `/v1/directives`: a chat that answers with directives of the types in the request.

use serde_json::{Map, Value};

use crate::error::Problem;
use crate::request::{Fields, Place};
use crate::{ChatRequest, RequestError};

/// Maximum number of defined, allowed or required types, and of aliases.
const MAX_TYPES: usize = 256;
/// Maximum number of repairs in each mode.
const MAX_REPAIRS: usize = 8;
/// Chat fields that a directives request sets itself, so callers may not send them.
const DECIDED: [&str; 15] = [
    "grammar",
    "guided_choice",
    "guided_json",
    "guided_regex",
    "function_call",
    "functions",
    "logprobs",
    "n",
    "on_unsupported_schema",
    "parallel_tool_calls",
    "response_format",
    "stream",
    "stream_options",
    "tool_choice",
    "tools",
];

/// A request for directives.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectivesRequest {
    /// The chat request without the fields of directives.
    pub chat: ChatRequest,
    /// The messages as the caller sent them.
    pub messages: Vec<Value>,
    /// The other chat fields as the caller sent them, without `model`.
    pub fields: Map<String, Value>,
    /// The defined types; if empty, all types are allowed.
    pub definitions: Vec<DirectiveDefinition>,
    /// Instructions for the model about all types.
    pub instructions: Option<String>,
    /// Types that may occur; `None` allows all defined types.
    pub allowed_types: Option<Vec<String>>,
    /// Additional aliases, as pairs of alias and type.
    pub type_aliases: Vec<(String, String)>,
    /// Types that must occur in the answer.
    pub require: Vec<String>,
    /// Modes to try in this order, at least one; `None` uses the default modes.
    pub modes: Option<Vec<DirectiveMode>>,
    /// Maximum number of repairs of an answer in each mode.
    pub repair_retries: Option<usize>,
    /// Maximum number of bytes of an answer that are parsed, at least 1.
    pub max_bytes: Option<usize>,
    /// Name of the JSON Schema sent to the model.
    pub schema_name: Option<String>,
    /// Additional instructions about the output.
    pub output_instructions: Option<String>,
    /// True if the mode's `response_format` is enforced; false if the model is only told about the
    /// mode in the prompt.
    pub inject_response_format: bool,
    /// True if the response lists each chat request made for this one.
    pub include_plans: bool,
}

/// A type of directive.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectiveDefinition {
    /// Name of the type.
    pub kind: String,
    /// Description of the type.
    pub description: String,
    /// Other names of the type.
    pub aliases: Vec<String>,
    /// JSON Schema of the payload: an object or a boolean.
    pub payload_schema: Option<Value>,
    /// Instructions for the model on when and how to use the type.
    pub instructions: Option<String>,
    /// True if payloads are patches.
    pub patch: bool,
}

/// Enforcement of the directive format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectiveMode {
    /// Constrained by the JSON Schema of the directives.
    JsonSchema,
    /// Constrained to any JSON object.
    JsonObject,
    /// Unconstrained; only the prompt asks for directives.
    PromptOnly,
}

impl DirectiveMode {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "json_schema" => Some(Self::JsonSchema),
            "json_object" => Some(Self::JsonObject),
            "prompt_only" => Some(Self::PromptOnly),
            _ => None,
        }
    }
}

impl DirectivesRequest {
    /// Parses a request's body.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown or
    /// unsupported field or value. Also returns an error for a field that directives set
    /// themselves.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?;
        if let Some(name) = DECIDED.into_iter().find(|name| fields.get(name).is_some()) {
            return Err(RequestError::field(name, Problem::Decided));
        }
        let (definitions, instructions) = fields.read("registry", read_registry)?.unwrap_or_default();
        let allowed_types = fields.read("allowed_types", |at| strings(at, "allowed_types"))?;
        let type_aliases = fields.read("type_aliases", read_aliases)?.unwrap_or_default();
        let require = fields.read("require", |at| strings(at, "require"))?.unwrap_or_default();
        let modes = fields.read("modes", read_modes)?;
        let repair_retries = fields.read("repair_retries", |at| read_repairs(&at))?;
        let max_bytes = fields.read("max_bytes", Place::positive)?;
        let schema_name = fields.read("schema_name", Place::non_empty_string)?;
        let output_instructions = fields.read("output_instructions", Place::string)?;
        let inject_response_format = fields.read("inject_response_format", Place::bool)?.unwrap_or(true);
        let include_plans = fields.read("include_plans", Place::bool)?.unwrap_or(false);
        let mut given = fields.unread().clone();
        let chat = ChatRequest::of(fields)?;
        given.shift_remove("model");
        let messages = given.shift_remove("messages").and_then(|messages| match messages {
            Value::Array(messages) => Some(messages),
            _ => None,
        });
        Ok(Self {
            chat,
            messages: messages.unwrap_or_default(),
            fields: given,
            definitions,
            instructions,
            allowed_types,
            type_aliases,
            require,
            modes,
            repair_retries,
            max_bytes,
            schema_name,
            output_instructions,
            inject_response_format,
            include_plans,
        })
    }
}

type Registry = (Vec<DirectiveDefinition>, Option<String>);

fn read_registry(at: Place) -> Result<Registry, RequestError> {
    let mut fields = at.fields()?;
    let places = fields.required("definitions")?.list("an array of types")?;
    let given = places.len();
    if given > MAX_TYPES {
        let problem = Problem::TooMany { given, limit: MAX_TYPES };
        return Err(RequestError::field("registry.definitions", problem));
    }
    let definitions = places.into_iter().map(read_definition).collect::<Result<_, _>>()?;
    let instructions = fields.read("instructions", Place::string)?;
    fields.finish()?;
    Ok((definitions, instructions))
}

fn read_definition(at: Place) -> Result<DirectiveDefinition, RequestError> {
    let mut fields = at.fields()?;
    let definition = DirectiveDefinition {
        kind: fields.required("type")?.non_empty_string()?,
        description: fields.read("description", Place::string)?.unwrap_or_default(),
        aliases: fields.read("aliases", |at| strings(at, "aliases"))?.unwrap_or_default(),
        payload_schema: fields.read("payload_schema", Place::schema)?,
        instructions: fields.read("instructions", Place::string)?,
        patch: fields.read("patch", Place::bool)?.unwrap_or(false),
    };
    fields.finish()?;
    Ok(definition)
}

fn strings(at: Place, field: &str) -> Result<Vec<String>, RequestError> {
    let places = at.list("an array of strings")?;
    if places.len() > MAX_TYPES {
        return Err(RequestError::field(field, Problem::TooMany { given: places.len(), limit: MAX_TYPES }));
    }
    places.into_iter().map(Place::non_empty_string).collect()
}

fn read_aliases(at: Place) -> Result<Vec<(String, String)>, RequestError> {
    let entries = at.entries()?;
    if entries.len() > MAX_TYPES {
        let problem = Problem::TooMany { given: entries.len(), limit: MAX_TYPES };
        return Err(RequestError::field("type_aliases", problem));
    }
    entries.into_iter().map(|(alias, at)| Ok((alias, at.non_empty_string()?))).collect()
}

fn read_modes(at: Place) -> Result<Vec<DirectiveMode>, RequestError> {
    const NAMES: &str = "json_schema, json_object and prompt_only";
    let places = at.list("an array of modes")?;
    match places.len() {
        0 => Err(RequestError::field("modes", Problem::Empty)),
        1..=3 => places.into_iter().map(|at| at.one_of(DirectiveMode::from_name, NAMES)).collect(),
        given => Err(RequestError::field("modes", Problem::TooMany { given, limit: 3 })),
    }
}

fn read_repairs(at: &Place) -> Result<usize, RequestError> {
    let range = "0..=8";
    let given = at.integer(0, range)?;
    let within = usize::try_from(given).ok().filter(|&given| given <= MAX_REPAIRS);
    within.ok_or_else(|| at.error(Problem::Range { given: given.to_string(), range }))
}
