use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Body;

/// The name of the envelope's schema in requests.
pub(super) const NAME: &str = "tool_calls";

/// The envelope in which a model calls tools or answers where it has no tools of its own.
///
/// ```
/// use formwork_protocol::repair::Envelope;
/// let envelope: Envelope = serde_json::from_str(r#"{"toolCalls": [{"name": "now", "arguments": {}}], "needsMoreWork": true}"#)?;
/// assert_eq!(envelope.tool_calls[0].name, "now");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Envelope {
    /// The tools to call, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<EnvelopeCall>,
    /// What is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Whether the model wants to go on afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_more_work: Option<bool>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnvelopeCall {
    /// The tool's name.
    pub name: String,
    /// What it is given.
    pub arguments: Body,
}

/// The envelope's schema. All fields may be left out, and others are let be.
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
