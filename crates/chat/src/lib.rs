//! Chat formats: the text form of thoughts, content and tool calls in a model's answers.
//!
//! Each family of models writes calls in its own way, which its chat template defines.
//! [`ChatFormat::of`] renders a probe call with the template and locates the call's name and
//! arguments in the result. This format determines three things, which therefore always agree:
//!
//! - the conversation as the template's input, including tools and earlier calls
//!   ([`ChatFormat::input`]);
//! - the grammar of a whole answer: thoughts, then content or calls, then the end
//!   ([`ChatFormat::answer`]);
//! - the [`Reader`], which splits streamed text into content, thoughts and calls.
//!
//! If a template does not support tools, the system message describes them, and calls are written
//! in `<tool_call>` tags. So any model can call tools.
//!
//! # Limitations
//! The crate has no wire types and does not sample. Models whose formats are not found get the `<tool_call>`
//! tags as well.

mod answer;
mod arguments;
mod conversation;
pub mod decision;
mod declarations;
mod describe;
mod format;
mod harmony;
mod named;
mod numbering;
mod probe;
mod reader;
mod response_template;
mod tags;
mod thinking;
mod tool;
mod turns;

pub use answer::Content;
pub use describe::Description;
pub use format::{ChatFormat, ContentMark, Thoughts};
pub use probe::JsonReason;
pub use reader::{Delta, Reader};
pub use tool::{CustomInput, Tool, Tools};
pub use turns::{BegunPrompt, render, render_begun};
