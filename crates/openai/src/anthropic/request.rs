use serde_json::{Map, Value};

use super::content;
use crate::error::Problem;
use crate::request::{
    ChatMessage, Fields, Parameters, Place, Role, add_effort, check_neutral_messages, read_any_object,
    read_content, read_format, read_model, read_of_anthropic, read_stop, read_thinking, read_undeclared,
    take_without_effect,
};
use crate::{ChatRequest, Format, IgnoredFields, RequestError, StreamOptions};

/// Request to `/v1/messages` or `/v1/messages/count_tokens`.
#[derive(Clone, PartialEq, Debug)]
pub struct MessagesRequest {
    /// The request, converted to a chat request. Its answer continues a last message of the assistant.
    pub chat: ChatRequest,
    /// True if the answer must not contain the text of thoughts (`thinking.display` is `omitted`).
    pub hides_thoughts: bool,
}

impl MessagesRequest {
    /// Parses the body of a request. `max_tokens` may be absent; the rest of the context is then allowed.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unsupported field or
    /// value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?.ignoring();
        let model = read_model(&mut fields)?;
        let mut messages = Vec::new();
        if let Some(system) = fields.read("system", read_content)? {
            messages.push(ChatMessage::new(Role::System, system));
        }
        let given = fields.required("messages")?;
        let place = given.clone();
        messages.extend(content::read_messages(given)?);
        if messages.iter().all(|message| message.role == Role::System) {
            return Err(place.error(Problem::Empty));
        }
        let mut variables = fields.read("chat_template_kwargs", Place::map)?.unwrap_or_default();
        let (budget, hides_thoughts) = read_thinking(&mut fields, &mut variables)?.budget_and_hiding();
        let format = read_formats(&mut fields, &mut variables)?;
        let mut parameters = Parameters::read(&mut fields)?;
        parameters.reasoning_budget = parameters.reasoning_budget.or(budget);
        if let Some(stop) = fields.read("stop_sequences", read_stop)? {
            parameters.stop.extend(stop);
        }
        let mut chat = ChatRequest {
            model,
            continues: messages.last().is_some_and(ChatMessage::may_be_continued),
            messages,
            stream: fields.read("stream", Place::bool)?.unwrap_or(false).then(StreamOptions::default),
            parameters,
            logprobs: None,
            mask_view: None,
            tools: read_of_anthropic(&mut fields)?,
            has_functions: false,
            any_object: read_any_object(&mut fields)?,
            format,
            undeclared: read_undeclared(&mut fields)?,
            decisions: None,
            schema_in_prompt: fields.read("schema_in_prompt", Place::bool)?.unwrap_or(true),
            chat_template_kwargs: variables,
            ignored: IgnoredFields::default(),
        };
        if let Some(at) = fields.take("thread") {
            // A client that gets this error sends whole conversations from then on.
            return Err(at.error(Problem::Thread));
        }
        // These concern hosts: where a request runs, and what they keep or call for it. A prompt is never
        // shortened here, whatever `context_management` allows.
        for name in
            ["cache_control", "container", "context_management", "inference_geo", "mcp_servers", "speed"]
        {
            fields.ignore(name);
        }
        take_without_effect(&mut fields);
        check_neutral_messages(&mut fields)?;
        chat.ignored = fields.finish_request()?;
        if chat.parameters.n != 1 {
            return Err(RequestError::field("n", Problem::NotNeutral { accepted: "1", hint: "" }));
        }
        Ok(Self { chat, hides_thoughts })
    }
}

/// Parses `output_config`, its older name `output_format`, and the constraints by the names of other
/// servers. At most one format may be given. An effort becomes a variable of the template.
fn read_formats(
    fields: &mut Fields,
    variables: &mut Map<String, Value>,
) -> Result<Option<Format>, RequestError> {
    let config = fields.read("output_config", |at| {
        let mut config = at.fields()?;
        if let Some(effort) = config.take("effort") {
            add_effort(&effort, variables)?;
        }
        let format = config.read("format", |at| read_schema(at, "output_config.format.schema"))?;
        config.finish_strictly()?;
        Ok(format)
    })?;
    let older = fields.read("output_format", |at| read_schema(at, "output_format.schema"))?;
    let others = read_format(fields)?;
    let mut given = [config.flatten(), older, others].into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(first), Some(second)) => {
            Err(RequestError::field(second.field, Problem::Conflict { other: first.field }))
        }
        (format, _) => Ok(format),
    }
}

fn read_schema(at: Place, field: &'static str) -> Result<Format, RequestError> {
    let mut fields = at.fields()?;
    fields.required("type")?.one_of(|name| (name == "json_schema").then_some(()), "json_schema")?;
    let schema = fields.required("schema")?.schema()?;
    fields.take("name");
    fields.finish_strictly()?;
    Ok(Format::json_schema(schema, field))
}
