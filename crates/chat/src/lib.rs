//! How a model writes an answer: what it thinks, what it says, and the tools that it calls.
//!
//! Each family of models has its own way of writing calls, and its chat template knows it. A [`ChatFormat`] is found by
//! having the template write down a call and looking where its name and its arguments went ([`ChatFormat::of`]). The same
//! format then makes three things, which is why they agree:
//!
//! - the conversation as the template wants it, tools and earlier calls included ([`ChatFormat::input`]);
//! - the grammar of a whole answer ([`ChatFormat::answer`]): thoughts, then content or calls, then the end;
//! - the [`Reader`], which makes content, thoughts and calls of the text again, piece by piece as it comes.
//!
//! A template that knows nothing of tools gets them in the system message, and calls in `<tool_call>` tags, so that any
//! model can be made to call one.
//!
//! # What is not here
//! No wire types and no sampling. Formats in which arguments are not JSON (a tag for each parameter) are not read: such
//! models are told of the `<tool_call>` tags, too.

mod answer;
mod conversation;
mod format;
mod harmony;
mod probe;
mod reader;
mod tags;
mod tool;

pub use answer::Content;
pub use format::{ChatFormat, Thoughts};
pub use reader::{Delta, Reader};
pub use tool::{Tool, Tools};
