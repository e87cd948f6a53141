//! Body of `POST /v1/chat/completions`.

mod client_tools;
mod custom;
mod fields;
mod format;
mod ignored;
mod message;
mod namespaces;
mod neutral;
mod parameters;
mod structural_tag;
mod thinking;
mod tools;

use formwork_chat::Tools;
use formwork_grammar::{Part, Undeclared};
use serde_json::{Map, Value};

pub(crate) use fields::{Fields, Place, shortened};
pub use format::Format;
pub(crate) use format::{read as read_format, read_json_schema, read_undeclared};
pub use ignored::IgnoredFields;
pub use message::{ChatMessage, Role, ToolCall};
pub(crate) use message::{IMAGE, Images, read_arguments, read_calls, read_content, read_parts};
pub use namespaces::Namespaces;
pub(crate) use namespaces::read_name as read_tool_name;
pub use parameters::{Dry, Parameters, StreamOptions, TokenLimit};
pub(crate) use parameters::{read_logprobs, read_stop, read_stream, read_top_logprobs};
pub use structural_tag::structural_tag;
pub(crate) use thinking::read as read_thinking;
pub(crate) use tools::{
    DeclaredTools, ToolForm, read as read_tools, read_any_object, read_of_anthropic,
    read_of_response as read_tools_of_response, read_tools as read_declared_tools,
};

use crate::error::Problem;
use crate::{DecisionScope, RequestError, mask_view};

/// Request for a chat completion.
#[derive(Clone, PartialEq, Debug)]
pub struct ChatRequest {
    /// Name under which the server offers the model. Empty if the request has none.
    pub model: String,
    /// Messages of the conversation, oldest first. There is at least one.
    pub messages: Vec<ChatMessage>,
    /// True if the answer continues the last message, which is the assistant's, has content and calls no
    /// tools. An extension.
    pub continues: bool,
    /// Streaming options. `None` if the response is not streamed.
    pub stream: Option<StreamOptions>,
    /// Generation parameters.
    pub parameters: Parameters,
    /// Number of likely tokens to report for each position, besides the generated token. If `None`,
    /// no log-probabilities are reported.
    pub logprobs: Option<usize>,
    /// Number of likely tokens to report with what the constraint did to each token of the output. If `None`,
    /// this is not reported. An extension.
    pub mask_view: Option<usize>,
    /// Tools that the model may call, after applying `tool_choice`. Empty if `tool_choice` is `none`.
    pub tools: Tools,
    /// True if the tools come from `functions`, so that an answer has its call in `function_call`.
    pub has_functions: bool,
    /// True if the arguments of a tool may be any JSON object when its schema cannot be enforced. If
    /// false, such a tool is an error. If `None`, the server decides. An extension.
    pub any_object: Option<bool>,
    /// Format that the output must match. `None` if any text is allowed.
    pub format: Option<Format>,
    /// Choices within the output whose probabilities are reported. `None` reports none. An extension.
    pub decisions: Option<DecisionScope>,
    /// Treatment of undeclared members in generated objects. An extension.
    pub undeclared: Undeclared,
    /// True if the prompt describes `format` to the model. This is the default. An extension.
    pub schema_in_prompt: bool,
    /// Additional variables for the chat template. An extension.
    pub chat_template_kwargs: Map<String, Value>,
    /// Fields of the request that have no effect.
    pub ignored: IgnoredFields,
}

impl ChatRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown or
    /// unsupported field or value.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        Self::of(Fields::from_json(body)?.ignoring())
    }

    /// Parses the body of a request that is already a JSON object.
    ///
    /// # Errors
    /// Returns an error in the same cases as [`ChatRequest::from_json`], except that the body is
    /// JSON.
    pub fn from_fields(body: Map<String, Value>) -> Result<Self, RequestError> {
        Self::of(Fields::of_fields(body).ignoring())
    }

    pub(crate) fn of(mut fields: Fields) -> Result<Self, RequestError> {
        let model = read_model(&mut fields)?;
        Self::read(model, fields)
    }

    /// Parses all fields of a request except `model`, whose value is given.
    pub(crate) fn read(model: String, mut fields: Fields) -> Result<Self, RequestError> {
        let messages = message::read_all(fields.required("messages")?)?;
        let continues = read_continues(&mut fields, &messages)?;
        let functions = tools::read_functions(&mut fields)?;
        let mut request = Self {
            model,
            messages: messages.all,
            continues,
            stream: read_stream(&mut fields)?,
            parameters: Parameters::read(&mut fields)?,
            logprobs: read_logprobs(&mut fields)?,
            mask_view: mask_view::read(&mut fields)?,
            has_functions: functions.is_some(),
            tools: match functions {
                Some(functions) => functions,
                None => tools::read(&mut fields, ToolForm::Nested)?,
            },
            any_object: read_any_object(&mut fields)?,
            format: format::read(&mut fields)?,
            decisions: None,
            undeclared: read_undeclared(&mut fields)?,
            schema_in_prompt: fields.take("schema_in_prompt").map(Place::bool).transpose()?.unwrap_or(true),
            chat_template_kwargs: read_template_variables(&mut fields)?,
            ignored: IgnoredFields::default(),
        };
        request.decisions = DecisionScope::read(&mut fields, request.format.as_ref())?;
        let budget = thinking::read(&mut fields, &mut request.chat_template_kwargs)?.budget();
        request.parameters.reasoning_budget = request.parameters.reasoning_budget.or(budget);
        take_without_effect(&mut fields);
        check_neutral_chat(&mut fields)?;
        request.ignored = fields.finish_request()?;
        let tags = matches!(&request.format, Some(Format { part: Part::Tags(_), .. }));
        if tags && !request.tools.tools.is_empty() {
            let field = request.format.as_ref().map_or("response_format", |format| format.field);
            return Err(RequestError::field(field, Problem::Conflict { other: "tools" }));
        }
        Ok(request)
    }
}

/// Parses `continue_final_message` and `add_generation_prompt`. Returns true if the answer continues the
/// last message.
fn read_continues(fields: &mut Fields, messages: &message::Messages) -> Result<bool, RequestError> {
    let prompts = fields.take("add_generation_prompt");
    let asks = fields.take("continue_final_message");
    let is_true = |at: &Option<Place>| at.clone().map(Place::bool).transpose();
    let asked = match (is_true(&asks)?, is_true(&prompts)?) {
        (Some(true), Some(true)) => {
            let problem = Problem::Conflict { other: "add_generation_prompt" };
            return Err(RequestError::field("continue_final_message", problem));
        }
        (asked, prompts) => asked == Some(true) || prompts == Some(false),
    };
    let may_continue = messages.all.last().is_some_and(ChatMessage::may_be_continued);
    match asks.or(prompts) {
        Some(at) if asked && !may_continue => Err(at.error(Problem::NotAnAnswer)),
        _ if messages.is_begun && !may_continue => Err(RequestError::field("messages", Problem::NotAnAnswer)),
        _ => Ok(asked || messages.is_begun),
    }
}

/// Marks the unsupported fields of a completion request as read. Returns an error if the value of
/// one is not neutral.
pub(crate) fn check_neutral_completion(fields: &mut Fields) -> Result<(), RequestError> {
    neutral::check(fields, &neutral::COMPLETION)?;
    check_of_others(fields)
}

/// Marks the unsupported fields of a chat request as read. Returns an error if the value of one is not
/// neutral.
pub(crate) fn check_neutral_chat(fields: &mut Fields) -> Result<(), RequestError> {
    neutral::check(fields, &neutral::CHAT)?;
    check_of_others(fields)
}

/// Marks the unsupported fields of a request to `/api/generate` as read. Returns an error if the value of
/// one is not neutral.
pub(crate) fn check_neutral_generate(fields: &mut Fields) -> Result<(), RequestError> {
    neutral::check(fields, &neutral::GENERATE)
}

/// Marks the unsupported fields of a message as read. Returns an error if the value of one is not
/// neutral.
pub(crate) fn check_neutral_message(fields: &mut Fields) -> Result<(), RequestError> {
    neutral::check(fields, &neutral::MESSAGE)
}

/// Marks the unsupported fields of other servers as read. Returns an error if the value of one is not
/// neutral.
pub(crate) fn check_of_others(fields: &mut Fields) -> Result<(), RequestError> {
    neutral::check(fields, &neutral::OF_OTHERS)
}

/// Marks the unsupported fields of a request for a response as read. Returns an error if the value of
/// one is not neutral.
pub(crate) fn check_neutral_response(fields: &mut Fields) -> Result<(), RequestError> {
    neutral::check(fields, &neutral::RESPONSE)?;
    check_of_others(fields)
}

/// Marks the unsupported fields of a request to Anthropic's API as read. Returns an error if the value
/// of one is not neutral.
pub(crate) fn check_neutral_messages(fields: &mut Fields) -> Result<(), RequestError> {
    neutral::check(fields, &neutral::CHAT)?;
    neutral::check(fields, &neutral::ANTHROPIC)?;
    check_of_others(fields)
}

/// Marks the unsupported fields of a request for embeddings as read. Returns an error if the value of
/// one is not neutral.
pub(crate) fn check_neutral_embedding(fields: &mut Fields) -> Result<(), RequestError> {
    neutral::check(fields, &neutral::EMBEDDING)
}

/// Parses `model`. A request without a name means the only model of the server.
pub(crate) fn read_model(fields: &mut Fields) -> Result<String, RequestError> {
    Ok(fields.read("model", Place::string)?.unwrap_or_default())
}

/// Marks the fields without effect as read.
pub(crate) fn take_without_effect(fields: &mut Fields) {
    for name in neutral::WITHOUT_EFFECT {
        fields.ignore(name);
    }
}

/// Returns the variables for the chat template. They come from `chat_template_kwargs` and from
/// `reasoning_effort`.
fn read_template_variables(fields: &mut Fields) -> Result<Map<String, Value>, RequestError> {
    let mut variables = fields.read("chat_template_kwargs", Place::map)?.unwrap_or_default();
    // Baseten's name.
    for (name, value) in fields.read("chat_template_args", Place::map)?.unwrap_or_default() {
        variables.entry(name).or_insert(value);
    }
    if let Some(effort) = fields.take("reasoning_effort") {
        add_effort(&effort, &mut variables)?;
    }
    if let Some(verbosity) = fields.take("verbosity") {
        add_verbosity(&verbosity, &mut variables)?;
    }
    Ok(variables)
}

/// Adds the variable `verbosity`, unless it is already set. Only templates that know it use it.
pub(crate) fn add_verbosity(at: &Place, variables: &mut Map<String, Value>) -> Result<(), RequestError> {
    let known = |name: &str| ["low", "medium", "high"].into_iter().find(|known| *known == name);
    let verbosity = at.one_of(known, "low, medium and high")?;
    variables.entry("verbosity").or_insert_with(|| verbosity.into());
    Ok(())
}

/// Adds the variable `reasoning_effort`, unless it is already set. The effort `none` also sets
/// `enable_thinking` to false.
pub(crate) fn add_effort(at: &Place, variables: &mut Map<String, Value>) -> Result<(), RequestError> {
    const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    let known = |name: &str| EFFORTS.into_iter().find(|effort| *effort == name);
    let effort = at.one_of(known, "none, minimal, low, medium, high, xhigh and max")?;
    if effort == "none" {
        variables.entry("enable_thinking").or_insert(Value::Bool(false));
    }
    variables.entry("reasoning_effort").or_insert_with(|| effort.into());
    Ok(())
}
