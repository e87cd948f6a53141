//! Reading of answers by a schema, and the prompt that asks a model to repair an answer.
//!
//! ```text
//! answer ──► XML made JSON ──► the value found ──► checked by its schema ──► it fits
//!                                                     │ errors by their places, hints
//!                                                     ▼
//!                                                  prompt for a repair
//! ```
//!
//! A [`Shape`] combines a schema with the rules for reading texts by the schema.
//! [`Shape::tool_calls`] is the predefined envelope `{toolCalls, content, needsMoreWork}`. A
//! [`Reading`] has the value in a text and its errors, and [`repair_prompt`] shows a model both.
//!
//! ```
//! use formwork_adapt::repair::Shape;
//! let shape = Shape::tool_calls();
//! let bad = shape.read(r#"{"toolCalls": [{"name": 7, "arguments": {}}]}"#);
//! assert_eq!(bad.errors, [r#"Field "toolCalls.0.name": Expected string, got number"#]);
//! let good = shape.read(r#"{"toolCalls": [{"name": "now", "arguments": {}}]}"#);
//! assert!(good.is_valid() && bad.is_worse_than(&good) && !good.loses(&bad));
//! ```
//!
//! # Out of scope
//! The module sends no requests. The caller sends the prompt and keeps the better of two readings.

mod adapted;
mod calls;
mod content;
mod drafts;
mod envelope;
mod error;
mod format;
mod hints;
mod prompt;
mod shape;
mod words;
mod xml;

pub use envelope::{Envelope, EnvelopeCall};
pub use error::RepairError;
pub use prompt::{SHOWN, repair_prompt};
pub use shape::{Reading, Shape};
pub use words::{dotted, first_errors};

/// Returns the names of the members of calls in other forms, if `schema` is the envelope's schema. An
/// object with such a member is an answer as well.
pub(crate) fn names_of_calls(schema: &serde_json::Value) -> impl Iterator<Item = &'static str> {
    let is_envelope = *schema == envelope::schema();
    calls::names().filter(move |_| is_envelope)
}

/// Returns the first `limit` characters of `text`, followed by `...` if the text is longer.
pub fn truncated(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
