//! Chat templates, which format a conversation as a prompt for a model.
//!
//! Models contain Jinja templates that are written for Python's `jinja2` and the environment of
//! `transformers`. [`JinjaTemplate`] provides the same environment:
//!
//! - The rules for whitespace are the same.
//! - Strings, lists and dictionaries have Python's methods. A template can change the lists that it makes.
//! - The functions `raise_exception` and `strftime_now` exist. The filter `tojson` uses Python's
//!   layout.
//! - The variables `tools` and `documents` are `none` by default.
//!
//! [`PlainTemplate`] is for models that have no template.
//!
//! A template is part of a model file and is not trusted. It can only access its variables. The
//! number of steps, the recursion depth and the output size are limited. However, a template can
//! use much memory by repeatedly doubling a string, because the memory of a string is not limited.

mod clock;
mod jinja;
mod json;
mod lists;
mod python;

pub use jinja::JinjaTemplate;

use formwork_lm::{ChatInput, ChatTemplate, Message, TemplateError};

/// Template for models that have no template. The prompt consists of the contents of all messages
/// in order, separated by blank lines.
///
/// A base model then continues this text.
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
