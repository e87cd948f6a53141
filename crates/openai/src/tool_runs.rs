//! `/v1/tools/run`: a conversation in which the server calls tools until the model answers.

use serde_json::{Map, Value};

use crate::RequestError;
use crate::error::Problem;
use crate::request::{Fields, Place};

/// Maximum number of entries in each list of names and tools.
const MAX_TOOLS: usize = 128;
/// Sampling parameters, which become fields of the requests to the model.
const SAMPLING: [&str; 6] = ["temperature", "top_p", "top_k", "min_p", "seed", "max_tokens"];

/// Request for a tool loop.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolRunRequest {
    /// Name of the model.
    pub model: String,
    /// Name of the remote server that answers, in the server's configuration. `None` for the models
    /// of the server itself.
    pub provider: Option<String>,
    /// Conversation at the start of the run, at least one message. The backend checks the messages.
    pub messages: Vec<Value>,
    /// Tools of the run, in addition to those of the MCP servers.
    pub tools: Vec<RunTool>,
    /// Names of MCP servers in the server's configuration, whose tools are added.
    pub mcp: Vec<String>,
    /// Names of the only tools that may be used. `None` for all tools.
    pub allow: Option<Vec<String>>,
    /// Names of tools that must not be used, even if they are allowed.
    pub deny: Vec<String>,
    /// Named sets of options, each overriding the one before.
    pub presets: Vec<String>,
    /// Name of a sampling profile. `None` for the backend's own values.
    pub profile: Option<String>,
    /// Options of the loop, by name. They override the presets. The server checks them.
    pub options: Map<String, Value>,
    /// Sampling parameters of the requests to the model. They override the profile.
    pub sampling: Map<String, Value>,
}

/// Tool of a [`ToolRunRequest`].
#[derive(Clone, PartialEq, Debug)]
pub enum RunTool {
    /// Tool of the server's configuration, by name.
    Hosted(String),
    /// HTTP callback, whose address the server's configuration must allow.
    Callback {
        /// Name of the tool.
        name: String,
        /// Description of the tool for the model.
        description: String,
        /// JSON Schema of the arguments.
        parameters: Value,
        /// Address that receives the arguments.
        url: String,
    },
}

impl ToolRunRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    /// Returns an error if the body is not JSON, lacks a required field, or has an unknown field or a
    /// value of the wrong type.
    pub fn from_json(body: &[u8]) -> Result<Self, RequestError> {
        let mut fields = Fields::from_json(body)?;
        let messages = fields.required("messages")?.list("an array of messages")?;
        if messages.is_empty() {
            return Err(RequestError::field("messages", Problem::Empty));
        }
        let messages = messages.into_iter().map(read_message).collect::<Result<_, _>>()?;
        let mut sampling = Map::new();
        for name in SAMPLING {
            if let Some(value) = fields.read(name, |at| Ok(at.value().clone()))? {
                sampling.insert(name.to_owned(), value);
            }
        }
        let request = Self {
            model: fields.required("model")?.non_empty_string()?,
            provider: fields.read("provider", Place::non_empty_string)?,
            messages,
            tools: fields.read("tools", |at| list("tools", at, read_tool))?.unwrap_or_default(),
            mcp: strings(&mut fields, "mcp")?.unwrap_or_default(),
            allow: strings(&mut fields, "allow")?,
            deny: strings(&mut fields, "deny")?.unwrap_or_default(),
            presets: strings(&mut fields, "presets")?.unwrap_or_default(),
            profile: fields.read("profile", Place::non_empty_string)?,
            options: fields.read("options", Place::map)?.unwrap_or_default(),
            sampling,
        };
        fields.finish()?;
        Ok(request)
    }
}

/// Checks that a message is an object with a role.
fn read_message(at: Place) -> Result<Value, RequestError> {
    let message = at.value().clone();
    at.fields()?.required("role")?.non_empty_string()?;
    Ok(message)
}

fn read_tool(at: Place) -> Result<RunTool, RequestError> {
    if at.is_string() {
        return Ok(RunTool::Hosted(at.non_empty_string()?));
    }
    let mut fields = at.fields()?;
    let tool = RunTool::Callback {
        name: fields.required("name")?.non_empty_string()?,
        description: fields.read("description", Place::string)?.unwrap_or_default(),
        parameters: fields.read("parameters", Place::schema)?.unwrap_or_else(|| Map::new().into()),
        url: fields.required("url")?.non_empty_string()?,
    };
    fields.finish()?;
    Ok(tool)
}

fn strings(fields: &mut Fields, name: &str) -> Result<Option<Vec<String>>, RequestError> {
    fields.read(name, |at| list(name, at, Place::non_empty_string))
}

fn list<T>(
    name: &str,
    at: Place,
    read: impl Fn(Place) -> Result<T, RequestError>,
) -> Result<Vec<T>, RequestError> {
    let places = at.list("an array")?;
    if places.len() > MAX_TOOLS {
        return Err(RequestError::field(name, Problem::TooMany { given: places.len(), limit: MAX_TOOLS }));
    }
    places.into_iter().map(read).collect()
}
