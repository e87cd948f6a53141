use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

/// One message of a conversation, as templates see it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// What is said; `None` where tools are called without a word.
    #[serde(default)]
    pub content: Option<String>,
    /// What else templates know of a message: `tool_calls`, `tool_call_id`, `name`, `reasoning_content`.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

impl Message {
    /// A message of `role`.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: Some(content.into()), fields: Map::new() }
    }

    /// What is said, if anything.
    pub fn text(&self) -> &str {
        self.content.as_deref().unwrap_or_default()
    }
}

/// What a template renders.
#[derive(Clone, Debug, Default)]
pub struct ChatInput {
    /// The conversation so far, oldest first.
    pub messages: Vec<Message>,
    /// Whether the text ends where the assistant is to speak.
    pub add_generation_prompt: bool,
    /// Further variables for the template (`chat_template_kwargs`).
    pub variables: Map<String, Value>,
}

/// How a model wants a conversation written down.
pub trait ChatTemplate: Send + Sync {
    /// The prompt text; special tokens in it are meant as such.
    ///
    /// # Errors
    /// When the template refuses the conversation or fails; the message names the line.
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError>;
}

/// Why a template could not be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("chat template: {message}{}", line.map(|line| format!(" (line {line})")).unwrap_or_default())]
pub struct TemplateError {
    /// What went wrong, in the template engine's words or in those of the template's own `raise_exception`.
    pub message: String,
    /// The line of the template, from 1.
    pub line: Option<usize>,
}
