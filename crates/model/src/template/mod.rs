//! Chat templates, which format a conversation as a model's prompt.
//!
//! Models come with Jinja templates that are written for Python's `jinja2`, with the environment of
//! `transformers`. [`JinjaTemplate`] provides the same environment. It has the same whitespace
//! rules, and Python's methods of strings, lists and dictionaries. It provides `raise_exception`,
//! `strftime_now`, and `tojson` with Python's layout. `tools` and `documents` are `none` by
//! default. [`PlainTemplate`] is for models without a template.
//!
//! A template comes with the model file and is not trusted. It can access only its variables. Its
//! steps, recursion depth and output size are limited. The memory of a string that a template
//! builds by repeated doubling is not limited.

mod clock;
mod jinja;
mod json;
mod python;

pub use jinja::JinjaTemplate;

use formwork_lm::{ChatInput, ChatTemplate, Message, TemplateError};

/// Template for models without one: the contents of all messages in order, separated by blank
/// lines.
///
/// A base model then continues the text.
///
/// ```
/// use formwork_lm::{ChatInput, ChatTemplate, Message};
/// use formwork_model::template::PlainTemplate;
/// let messages = vec![Message::new("system", "Facts about rivers."), Message::new("user", "The Nile is")];
/// let text = PlainTemplate.render(&ChatInput { messages, ..ChatInput::default() })?;
/// assert_eq!(text, "Facts about rivers.\n\nThe Nile is");
/// # Ok::<(), formwork_lm::TemplateError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainTemplate;

impl ChatTemplate for PlainTemplate {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        let contents: Vec<&str> = input.messages.iter().map(Message::text).collect();
        Ok(contents.join("\n\n"))
    }
}
