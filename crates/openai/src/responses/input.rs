use serde_json::{Map, Value, json};

use super::items::{ItemReader, Items, as_messages, take_tools};
use super::stored::{Earlier, NothingStored, StoredItems};
use crate::error::Problem;
use crate::request::{
    ChatMessage, Fields, Namespaces, Parameters, Place, Role, TokenLimit, add_verbosity,
    check_neutral_response, read_any_object, read_json_schema, read_model, read_thinking,
    read_tools_of_response, read_top_logprobs, read_undeclared, take_without_effect,
};
use crate::{ChatRequest, DecisionScope, Format, IgnoredFields, RequestError, StreamOptions};

/// Request to `/v1/responses`.
#[derive(Clone, PartialEq, Debug)]
pub struct ResponseRequest {
    /// The request, converted to a chat request.
    pub chat: ChatRequest,
    /// Tools in namespaces.
    pub namespaces: Namespaces,
    /// Fields that the response repeats. Fields that the request lacks have their default values.
    pub repeated: Map<String, Value>,
    /// Items of the request itself, in the form in which they are listed. The `id` is empty if the request
    /// has none.
    pub input: Vec<Map<String, Value>>,
    /// Response or conversation that the request continues.
    pub earlier: Option<Earlier>,
    /// True if the response is to be stored. This is the default.
    pub store: bool,
}

/// Returns the default values of the fields that the response repeats.
fn repeated_defaults() -> Map<String, Value> {
    let defaults = json!({
        "instructions": null, "max_output_tokens": null, "metadata": {}, "parallel_tool_calls": true,
        "previous_response_id": null, "reasoning": { "effort": null, "summary": null }, "temperature": 1.0,
        "text": { "format": { "type": "text" } }, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "top_logprobs": 0, "truncation": "disabled", "user": null,
    });
    match defaults {
        Value::Object(defaults) => defaults,
        _ => Map::new(),
    }
}

impl ResponseRequest {
    /// Parses the body of a request that refers to no stored items.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown or
    /// unsupported field or value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        Self::with_stored(body, &mut NothingStored)
    }

    /// Parses the body of a request that may refer to stored items.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`ResponseRequest::from_json`], and if an id is unknown.
    pub fn with_stored(body: &[u8], stored: &mut dyn StoredItems) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let mut repeated = repeated_defaults();
        for (name, value) in &mut repeated {
            if let Some(given) = fields.get(name) {
                value.clone_from(given);
            }
        }
        let model = read_model(&mut fields)?;
        let mut messages = Vec::new();
        if let Some(instructions) = fields.read("instructions", Place::string)? {
            messages.push(ChatMessage::new(Role::System, instructions));
        }
        let mut reader = ItemReader::new(stored);
        let (mut said, mut stored, mut earlier) = (Vec::new(), Vec::new(), None);
        if let Some((found, at)) = read_earlier(&mut fields)? {
            said = reader.before(&found, &at)?;
            stored = take_tools(&mut said);
            if let Earlier::Conversation(id) = &found {
                repeated.insert("conversation".to_owned(), json!({ "id": id }));
            }
            earlier = Some(found);
        }
        let input = fields.take("input");
        let problem = if input.is_some() { Problem::Empty } else { Problem::Missing };
        let Items { parsed, listed } = input.map(|at| reader.read(at)).transpose()?.unwrap_or_default();
        said.extend(parsed);
        let added = take_tools(&mut said);
        let said = as_messages(said);
        if said.is_empty() {
            return Err(RequestError::field("input", problem));
        }
        messages.extend(said);
        let store = fields.read("store", Place::bool)?.unwrap_or(true);
        let mut variables = fields.read("chat_template_kwargs", Place::map)?.unwrap_or_default();
        let budget = read_thinking(&mut fields, &mut variables)?.budget();
        let format = fields.read("text", |at| read_text(at, &mut variables))?.flatten();
        let limit = fields.read("max_output_tokens", Place::positive)?;
        let (tools, namespaces) = read_tools_of_response(&mut fields, stored, added)?;
        let mut chat = ChatRequest {
            model,
            messages,
            continues: false,
            has_functions: false,
            stream: fields.read("stream", Place::bool)?.unwrap_or(false).then(StreamOptions::default),
            parameters: Parameters::read(&mut fields)?,
            logprobs: read_logprobs(&mut fields)?,
            mask_view: None,
            tools,
            any_object: read_any_object(&mut fields)?,
            decisions: DecisionScope::read(&mut fields, format.as_ref())?,
            format,
            undeclared: read_undeclared(&mut fields)?,
            schema_in_prompt: fields.read("schema_in_prompt", Place::bool)?.unwrap_or(true),
            chat_template_kwargs: variables,
            ignored: IgnoredFields::default(),
        };
        chat.parameters.reasoning_budget = chat.parameters.reasoning_budget.or(budget);
        let field = "max_output_tokens";
        chat.parameters.max_tokens =
            limit.map(|tokens| TokenLimit { tokens, field }).or(chat.parameters.max_tokens);
        take_neutral(&mut fields)?;
        chat.ignored = fields.finish_request()?;
        if chat.parameters.n != 1 {
            return Err(RequestError::field("n", Problem::NotNeutral { accepted: "1", hint: "" }));
        }
        Ok(Self { chat, namespaces, repeated, input: listed, earlier, store })
    }
}

/// Parses `previous_response_id` or `conversation`. A request with both is refused. Returns the place of the
/// field too.
fn read_earlier(fields: &mut Fields) -> Result<Option<(Earlier, Place)>, RequestError> {
    match (fields.take("previous_response_id"), fields.take("conversation")) {
        (Some(at), Some(_)) => Err(at.error(Problem::Conflict { other: "conversation" })),
        (Some(at), None) => Ok(Some((Earlier::Response(at.clone().string()?), at))),
        (None, Some(at)) if at.value().is_object() => {
            let mut conversation = at.clone().fields()?;
            let id = conversation.required("id")?.string()?;
            conversation.finish()?;
            Ok(Some((Earlier::Conversation(id), at)))
        }
        (None, Some(at)) => Ok(Some((Earlier::Conversation(at.clone().string()?), at))),
        (None, None) => Ok(None),
    }
}

/// Parses `include` and `top_logprobs`. Returns the number of likely tokens to report, or `None` if no
/// log-probabilities are requested. A number above 0 requests them too.
fn read_logprobs(fields: &mut Fields) -> Result<Option<usize>, RequestError> {
    let asked = fields.read("include", read_include)?.unwrap_or(false);
    let top = fields.read("top_logprobs", |at| read_top_logprobs(&at))?.unwrap_or(0);
    Ok((asked || top > 0).then_some(top))
}

/// Parses `include`. Returns true if the response must contain log-probabilities.
fn read_include(at: Place) -> Result<bool, RequestError> {
    let known = |name: &str| match name {
        "message.output_text.logprobs" => Some(true),
        name => adds_nothing(name).then_some(false),
    };
    let supported = "message.output_text.logprobs, and entries about reasoning and hosted tools";
    let entries = at.list("an array of strings")?;
    entries.iter().try_fold(false, |asked, entry| Ok(entry.one_of(known, supported)? || asked))
}

/// Marks the fields without effect and the unsupported fields as read.
///
/// # Errors
/// Returns an error if the value of an unsupported field is not neutral.
fn take_neutral(fields: &mut Fields) -> Result<(), RequestError> {
    type Check = fn(&Value) -> bool;
    let neutral: [(&str, Check, &str); 3] = [
        ("prompt", |_| false, "null"),
        ("background", |value| *value == false, "false"),
        // A prompt that fits is never cut off. One that does not fit is an error.
        ("truncation", |value| value == "disabled" || value == "auto", "\"disabled\" and \"auto\""),
    ];
    for (name, check, accepted) in neutral {
        if let Some(at) = fields.take(name)
            && !check(at.value())
        {
            return Err(at.error(Problem::NotNeutral { accepted, hint: "" }));
        }
    }
    // It limits the calls of tools that run on the server. There are none here.
    fields.ignore("max_tool_calls");
    // Obfuscation pads a stream against observers who measure packet sizes, which are none here.
    fields.ignore("stream_options");
    take_without_effect(fields);
    check_neutral_response(fields)
}

/// Reports whether an entry of `include` adds nothing to the response. The server never encrypts
/// reasoning and runs no tools of its own, so there is nothing of them that could be included.
fn adds_nothing(included: &str) -> bool {
    let of_hosts = ["web_search", "file_search", "code_interpreter", "computer_call", "reasoning."];
    of_hosts.iter().any(|start| included.starts_with(start))
}

/// Parses the field `text`. Its `format` corresponds to the `response_format` of a chat request,
/// but without the object `json_schema` around the schema. A `verbosity` becomes a variable of the
/// template.
fn read_text(at: Place, variables: &mut Map<String, Value>) -> Result<Option<Format>, RequestError> {
    let mut fields = at.fields()?;
    if let Some(verbosity) = fields.take("verbosity") {
        add_verbosity(&verbosity, variables)?;
    }
    let format = fields.read("format", |at| {
        let mut format = at.fields()?;
        let known =
            |name: &str| ["text", "json_object", "json_schema"].into_iter().find(|known| *known == name);
        let kind = format.required("type")?.one_of(known, "text, json_object and json_schema")?;
        Ok(match kind {
            "json_schema" => Some(Format::json_schema(read_json_schema(format)?, "text.format.schema")),
            kind => {
                format.finish_strictly()?;
                (kind == "json_object").then(Format::json_object)
            }
        })
    })?;
    fields.finish()?;
    Ok(format.flatten())
}
