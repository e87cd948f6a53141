use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Name of the envelope's schema in requests.
pub(super) const NAME: &str = "tool_calls";

/// Envelope for tool calls and text, used with models that do not support tools natively.
///
/// ```
/// use formwork_adapt::repair::Envelope;
/// let envelope: Envelope = serde_json::from_str(
///     r#"{"toolCalls": [{"name": "now", "arguments": {}}], "needsMoreWork": true}"#,
/// )?;
/// assert_eq!(envelope.tool_calls[0].name, "now");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Envelope {
    /// Tool calls, in the order of execution.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<EnvelopeCall>,
    /// Text for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// True if the model wants to continue after the tool results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_more_work: Option<bool>,
}

/// A tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnvelopeCall {
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call.
    pub arguments: Map<String, Value>,
}

/// Returns the envelope's JSON Schema. All fields are optional, and additional fields are allowed.
pub(super) fn schema() -> Value {
    let call = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "minLength": 1, "examples": ["tool_name"] },
            "arguments": { "type": "object" },
        },
        "required": ["name", "arguments"],
    });
    json!({
        "type": "object",
        "properties": {
            "toolCalls": { "type": "array", "items": call },
            "content": { "type": "string", "examples": ["Your response text here"] },
            "needsMoreWork": { "type": "boolean" },
        },
    })
}
