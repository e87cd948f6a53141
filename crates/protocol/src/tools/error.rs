use thiserror::Error;

/// Error in the setup of tools. Failures during a run are part of its record instead.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct ToolsError(#[from] Box<Kind>);

#[derive(Debug, Error)]
pub(crate) enum Kind {
    #[error("`{given}` is no name for a tool: {reason}")]
    Name { given: String, reason: &'static str },
    #[error("two tools are called `{name}`")]
    Duplicate { name: String },
    #[error("tool `{name}`: its parameters must be a JSON Schema of type object")]
    NoObject { name: String },
    #[error("tool `{name}`: its parameters are not a JSON Schema: {reason}")]
    Schema { name: String, reason: String },
    #[error("there is no {kind} transform `{given}`; there are {known}")]
    Transform { kind: &'static str, given: String, known: String },
    #[error("a preset of tool calling: {reason}")]
    Preset { reason: String },
    #[error("the command of a tool is empty")]
    NoCommand,
    #[error("`{given}` is not the URL of an MCP server: {reason}")]
    Url { given: String, reason: String },
    #[error("the MCP server `{server}` could not be started: {reason}")]
    Start { server: String, reason: String },
    #[error("the MCP server `{server}` gives no tools: {reason}")]
    Connect { server: String, reason: String },
    #[error("the replay departs from the record at turn {turn}: {reason}")]
    Departs { turn: usize, reason: String },
}

impl From<Kind> for ToolsError {
    fn from(kind: Kind) -> Self {
        Self(Box::new(kind))
    }
}
