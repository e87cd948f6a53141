use thiserror::Error;

/// Error in the setup of tools, presets or MCP connections, or in a replay. Failures during a run
/// are part of its record ([`ToolRun`](super::ToolRun)) instead.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct ToolsError(#[from] Box<Kind>);

#[derive(Debug, Error)]
#[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "some errors are of MCP servers"))]
pub(crate) enum Kind {
    #[error("invalid tool name `{given}`: {reason}")]
    Name { given: String, reason: &'static str },
    #[error("duplicate tool `{name}`")]
    Duplicate { name: String },
    #[error("tool `{name}`: the parameters must be a JSON Schema of type object")]
    NoObject { name: String },
    #[error("tool `{name}`: the parameters are not a valid JSON Schema: {reason}")]
    Schema { name: String, reason: String },
    #[error("unknown {kind} transform `{given}`; expected one of {known}")]
    Transform { kind: &'static str, given: String, known: String },
    #[error("invalid tool preset: {reason}")]
    Preset { reason: String },
    #[error("the tool's command is empty")]
    NoCommand,
    #[error("invalid tool URL `{given}`: {reason}")]
    ToolUrl { given: String, reason: String },
    #[error("the tool's key contains characters that are not allowed in a header")]
    ToolKey,
    #[error("invalid MCP server URL `{given}`: {reason}")]
    Url { given: String, reason: String },
    #[error("the MCP server `{server}` could not be started: {reason}")]
    Start { server: String, reason: String },
    #[error("cannot use the MCP server `{server}`: {reason}")]
    Connect { server: String, reason: String },
    #[error("the replay differs from the record in turn {turn}: {reason}")]
    Departs { turn: usize, reason: String },
}

impl From<Kind> for ToolsError {
    fn from(kind: Kind) -> Self {
        Self(Box::new(kind))
    }
}
