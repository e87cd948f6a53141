//! Chat templates: how a conversation is written down for a model.
//!
//! Models carry a Jinja template that was written for Python's `jinja2` as `transformers` sets it up, so
//! [`JinjaTemplate`] gives it the same surroundings: the same whitespace rules, Python's methods on strings, lists and
//! dictionaries, `raise_exception`, `strftime_now`, a `tojson` with Python's layout, and `tools` and `documents` that are
//! there but `none`. A model without a template gets [`PlainTemplate`].
//!
//! A template comes with the model file and is not trusted: it sees nothing but its variables, has a bounded number of
//! steps and bounded recursion, and its output is bounded. What is not bounded is the memory of a string that a template
//! builds up by doubling it.

mod clock;
mod jinja;
mod json;
mod python;

pub use jinja::JinjaTemplate;

use formwork_lm::{ChatInput, ChatTemplate, Message, TemplateError};

/// The template of a model that has none: every message's content in order, blank lines in between, and nothing else, so
/// that a base model continues the text.
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
