//! `/v1/directives`: a chat whose answer contains directives of the types that the request defines.

use serde_json::{Map, Value, json};

use crate::error::Problem;
use crate::request::{Fields, Place};
use crate::{ChatRequest, RequestError};

/// Maximum number of entries in each list of a request: definitions, types and aliases.
const MAX_TYPES: usize = 256;
/// Maximum number of required types. It is the number of `contains` that a grammar supports.
const MAX_REQUIRED: usize = 32;
/// Maximum number of required directives, and of characters of a text, that a grammar can count.
const MAX_COUNT: usize = 4096;
/// Maximum value of `repair_retries`.
const MAX_REPAIRS: usize = 8;
/// Chat fields that the server sets itself for directives. A request with one of these fields is
/// rejected.
const DECIDED: [&str; 20] = [
    "ebnf",
    "grammar",
    "guided_choice",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "json_schema",
    "regex",
    "structural_tag",
    "structured_outputs",
    "function_call",
    "functions",
    "logprobs",
    "n",
    "on_unsupported_schema",
    "parallel_tool_calls",
    "response_format",
    "stream_options",
    "tool_choice",
    "tools",
];

/// Name of the provider that stands for the models of the server itself.
const LOCAL: &str = "local";

/// Request for directives.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectivesRequest {
    /// The chat request that the remaining fields describe, checked like any other chat request.
    pub chat: ChatRequest,
    /// Messages as the caller sent them, before parsing.
    pub messages: Vec<Value>,
    /// Other chat fields as the caller sent them, before parsing. Excludes `model` and `messages`.
    pub fields: Map<String, Value>,
    /// Name of the remote server that answers, in the server's configuration. `None` for the models
    /// of the server itself.
    pub provider: Option<String>,
    /// Fields that are added to the requests to the provider, unchecked. Empty without a provider.
    pub request_overrides: Map<String, Value>,
    /// Rules for the answer.
    pub rules: DirectiveRules,
    /// Modes to try, in this order, at least one. If `None`, the default modes are tried.
    pub modes: Option<Vec<DirectiveMode>>,
    /// Maximum number of repair requests in each mode, after an invalid answer. If `None`, the
    /// default applies.
    pub repair_retries: Option<usize>,
    /// Maximum number of chat requests of the run. If `None`, only `modes` and `repair_retries` bound
    /// the number.
    pub max_requests: Option<usize>,
    /// True if a decision about the allowed types comes first, and the answer may only have the likeliest
    /// type. If `None`, the default applies.
    pub type_by_decision: Option<bool>,
    /// True if the response is streamed as server-sent events.
    pub stream: bool,
    /// Name of the JSON Schema in the `response_format` that is sent to the model. If `None`, the
    /// default applies.
    pub schema_name: Option<String>,
    /// Additional instructions about the form of the answer. `None` if the request has no such
    /// instructions.
    pub output_instructions: Option<String>,
    /// True if the `response_format` of the mode is enforced. If false, only the prompt describes
    /// the form of the answer.
    pub inject_response_format: bool,
    /// True if the response must list the chat requests that the server made for this request.
    pub include_plans: bool,
}

/// Rules for an answer with directives.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectiveRules {
    /// Directive types of the request. If empty, directives of any type are allowed.
    pub definitions: Vec<DirectiveDefinition>,
    /// Instructions for the model that concern all types. `None` if the request has no instructions.
    pub instructions: Option<String>,
    /// Names of the types that may occur in the answer. If `None`, all defined types may occur.
    pub allowed_types: Option<Vec<String>>,
    /// Additional names of types, as pairs of the additional name and the type.
    pub type_aliases: Vec<(String, String)>,
    /// Types that must occur in the answer.
    pub require: Vec<RequiredDirective>,
    /// Maximum number of bytes of an answer that are parsed, at least 1. If `None`, the default
    /// applies.
    pub max_bytes: Option<usize>,
    /// Maximum number of directives of all types together. If `None`, there is no maximum.
    pub max_directives: Option<usize>,
    /// Maximum number of characters of `assistant_text`. If `None`, there is no maximum.
    pub max_text_length: Option<usize>,
}

/// Number of directives of one type that an answer must have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequiredDirective {
    /// Name of the type.
    pub kind: String,
    /// Minimum number of directives.
    pub min: usize,
    /// Maximum number of directives. `None` sets no maximum.
    pub max: Option<usize>,
}

/// Body of `POST /v1/directives/parse`: the text of an answer that came from elsewhere.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectivesParseRequest {
    /// Text of the answer.
    pub text: String,
    /// Rules for the answer.
    pub rules: DirectiveRules,
}

impl DirectivesParseRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown field or
    /// an unsupported value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?;
        let request =
            Self { text: fields.required("text")?.string()?, rules: DirectiveRules::read(&mut fields)? };
        fields.finish()?;
        Ok(request)
    }
}

impl DirectiveRules {
    fn read(fields: &mut Fields) -> Result<Self, RequestError> {
        let (definitions, instructions) = fields.read("registry", read_registry)?.unwrap_or_default();
        Ok(Self {
            definitions,
            instructions,
            allowed_types: fields.read("allowed_types", |at| strings(at, "allowed_types"))?,
            type_aliases: fields.read("type_aliases", read_aliases)?.unwrap_or_default(),
            require: fields.read("require", read_required)?.unwrap_or_default(),
            max_bytes: fields.read("max_bytes", Place::positive)?,
            max_directives: fields.read("max_directives", |at| count(&at))?,
            max_text_length: fields.read("max_text_length", |at| count(&at))?,
        })
    }
}

/// Definition of a directive type.
#[derive(Clone, PartialEq, Debug)]
pub struct DirectiveDefinition {
    /// Name of the type.
    pub kind: String,
    /// Description of the type for the model.
    pub description: String,
    /// Other names of the type, which the model may use too.
    pub aliases: Vec<String>,
    /// JSON Schema of the payload: an object or a boolean. If `None`, any payload is allowed.
    pub payload_schema: Option<Value>,
    /// Instructions for the model about this type, for example when to use it. `None` if there are
    /// none.
    pub instructions: Option<String>,
    /// True if the payload of a directive is a patch: a list of changes to a document.
    pub patch: bool,
}

/// Degree to which the form of the answer is enforced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectiveMode {
    /// The answer is constrained by the JSON Schema of the directives.
    JsonSchema,
    /// The answer is constrained to a JSON object.
    JsonObject,
    /// The answer is not constrained. Only the prompt describes its form.
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
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown or
    /// unsupported field or value. Also returns an error for a chat field that the server sets
    /// itself for directives.
    ///
    /// With a provider, messages may have any content, because the provider may support more than
    /// this server: each message must only be an object with a `role`.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?;
        if let Some(name) = DECIDED.into_iter().find(|name| fields.get(name).is_some()) {
            return Err(RequestError::field(name, Problem::Decided));
        }
        let rules = DirectiveRules::read(&mut fields)?;
        let modes = fields.read("modes", read_modes)?;
        let repair_retries = fields.read("repair_retries", |at| read_repairs(&at))?;
        let max_requests = fields.read("max_requests", Place::positive)?;
        let type_by_decision = fields.read("type_by_decision", Place::bool)?;
        let stream = fields.read("stream", Place::bool)?.unwrap_or(false);
        let schema_name = fields.read("schema_name", Place::non_empty_string)?;
        let output_instructions = fields.read("output_instructions", Place::string)?;
        let inject_response_format = fields.read("inject_response_format", Place::bool)?.unwrap_or(true);
        let include_plans = fields.read("include_plans", Place::bool)?.unwrap_or(false);
        let provider = fields.read("provider", Place::non_empty_string)?;
        let is_remote = provider.as_deref().is_some_and(|name| name != LOCAL);
        let request_overrides = fields.read("request_overrides", |at| read_overrides(at, is_remote))?;
        let mut given = fields.unread().clone();
        let chat = if is_remote { read_remote(fields)? } else { ChatRequest::of(fields)? };
        given.shift_remove("model");
        let messages = given.shift_remove("messages").and_then(|messages| match messages {
            Value::Array(messages) => Some(messages),
            _ => None,
        });
        Ok(Self {
            chat,
            messages: messages.unwrap_or_default(),
            fields: given,
            provider,
            request_overrides: request_overrides.unwrap_or_default(),
            rules,
            modes,
            repair_retries,
            max_requests,
            type_by_decision,
            stream,
            schema_name,
            output_instructions,
            inject_response_format,
            include_plans,
        })
    }
}

/// Parses the chat request to a provider. The content of messages is not checked.
fn read_remote(mut fields: Fields) -> Result<ChatRequest, RequestError> {
    let messages = fields.required("messages")?.list("an array of messages")?;
    if messages.is_empty() {
        return Err(RequestError::field("messages", Problem::Empty));
    }
    for message in messages {
        message.fields()?.required("role")?.non_empty_string()?;
    }
    let mut rest = fields.unread().clone();
    rest.insert("messages".to_owned(), json!([{ "role": "user", "content": "" }]));
    ChatRequest::of(Fields::of_fields(rest))
}

/// Parses fields for a provider, which must not be fields that the server sets itself.
fn read_overrides(at: Place, is_remote: bool) -> Result<Map<String, Value>, RequestError> {
    if !is_remote {
        return Err(at.error(Problem::Needs { other: "provider" }));
    }
    let overrides = at.map()?;
    let decided = DECIDED.into_iter().chain(["model", "messages", "stream"]);
    match decided.into_iter().find(|&name| overrides.contains_key(name)) {
        Some(name) => Err(RequestError::field(format!("request_overrides.{name}"), Problem::Decided)),
        None => Ok(overrides),
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

/// Parses the required types: names, or objects with `type`, `min` and `max`.
fn read_required(at: Place) -> Result<Vec<RequiredDirective>, RequestError> {
    let places = at.list("an array of types")?;
    if places.len() > MAX_REQUIRED {
        let problem = Problem::TooMany { given: places.len(), limit: MAX_REQUIRED };
        return Err(RequestError::field("require", problem));
    }
    let read = |at: Place| {
        if !at.value().is_object() {
            return Ok(RequiredDirective { kind: at.non_empty_string()?, min: 1, max: None });
        }
        let mut fields = at.fields()?;
        let kind = fields.required("type")?.non_empty_string()?;
        let min = fields.read("min", |at| count(&at))?.unwrap_or(1);
        let max = fields.read("max", |at| count(&at))?;
        fields.finish()?;
        Ok(RequiredDirective { kind, min, max })
    };
    places.into_iter().map(read).collect()
}

/// Parses a number of directives or characters.
fn count(at: &Place) -> Result<usize, RequestError> {
    let range = "0..=4096";
    let given = at.integer(0, range)?;
    let within = usize::try_from(given).ok().filter(|&given| given <= MAX_COUNT);
    within.ok_or_else(|| at.error(Problem::Range { given: given.to_string(), range }))
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
