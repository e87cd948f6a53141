//! Reading of strict JSON without adaptation and without loss of data.

use serde_json::Value;

use super::extract;
use super::report::Violation;
use super::tape::{Syntax, SyntaxError, Tape, number_length};

/// Error of a text that is not a value.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// Place in the value as a JSON pointer, and a message with the position in the text.
    pub(crate) violation: Violation,
    /// Reason without the position, if the text is well-formed but refused. Reasons are a repeated
    /// name, a number out of range and too deep nesting.
    pub(crate) refusal: Option<String>,
    /// The number that fits neither 64 bits nor a double, if this is the reason.
    pub(crate) number: Option<String>,
}

/// Parses a text that is a single JSON value, with optional whitespace around the value.
pub(crate) fn read(text: &str) -> Result<Value, Box<Unreadable>> {
    match Tape::parse(text, Syntax::up_to(usize::MAX)) {
        Ok(tape) => Ok(tape.value()),
        Err(error) => Err(Box::new(Unreadable::new(extract::violation(text, 0, &error), text, &error))),
    }
}

impl Unreadable {
    /// Creates the error of a text from the violation that describes its syntax error.
    pub(crate) fn new(violation: Violation, text: &str, error: &SyntaxError) -> Self {
        let refusal = error.fault.is_refusal().then(|| error.fault.to_string());
        let literal = text.get(error.offset..).filter(|_| refusal.is_some());
        let number = literal
            .and_then(|rest| number_length(rest.as_bytes()).map(|(length, _)| rest[..length].to_owned()));
        Self { violation, refusal, number }
    }
}
