use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

/// A chat message, in the form that chat templates receive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Message {
    /// Role of the speaker: `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// Text of the message. `None` if the message has no text, for example if it only calls tools.
    #[serde(default)]
    pub content: Option<String>,
    /// Other members of the message that templates use: `tool_calls`, `tool_call_id`, `name`,
    /// `reasoning_content`.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Message {
    /// Creates a message with text and no other fields.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: Some(content.into()), fields: Map::new() }
    }

    /// Returns the text of the message, or an empty string if the message has no text.
    pub fn text(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }
}

/// Input of a [`ChatTemplate`].
#[derive(Clone, Debug, Default)]
pub struct ChatInput {
    /// Messages of the conversation, oldest first.
    pub messages: Vec<Message>,
    /// True if the prompt must end with the header of an assistant message, so that the model
    /// writes the message.
    pub add_generation_prompt: bool,
    /// Additional variables for the template, from the request's `chat_template_kwargs`.
    pub variables: Map<String, Value>,
}

/// Chat template of a model. Formats a conversation as a prompt for this model.
pub trait ChatTemplate: Send + Sync {
    /// Renders the prompt. The caller must encode special tokens that the prompt spells, such as
    /// `<|im_start|>`, as special tokens.
    ///
    /// # Errors
    /// Returns an error if the template rejects the conversation or fails. The error contains the
    /// line of the template, if known.
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError>;

    /// Returns the source text of the template, in Jinja's language. `None` if it has none.
    fn source(&self) -> Option<&str> {
        None
    }

    /// Returns the `response_template` of the tokenizer's configuration, which describes how `transformers`
    /// reads answers. `None` if there is none.
    fn response_template(&self) -> Option<&Value> {
        None
    }
}

/// Error from compiling or rendering a chat template.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("chat template: {message}{}", line.map(|line| format!(" (line {line})")).unwrap_or_default())]
pub struct TemplateError {
    /// Message of the template engine, or the text passed to the template's `raise_exception`.
    pub message: String,
    /// Line of the template, starting at 1. `None` if the line is not known.
    pub line: Option<usize>,
}
