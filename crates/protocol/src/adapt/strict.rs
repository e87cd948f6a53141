//! JSON as it is, for who adapts nothing and loses nothing.

use serde_json::Value;

use super::extract;
use super::report::Violation;
use super::tape::{Tape, number_length};

/// Why a text is not a value.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// The place in the value, as a JSON pointer, and the place in the text with the reason.
    pub(crate) violation: Violation,
    /// The reason alone, where the text is JSON, and refused all the same: a name comes twice, a number fits nowhere, it is too deep.
    pub(crate) refusal: Option<String>,
    /// The number that neither 64 bits nor a double hold, where that is the reason.
    pub(crate) number: Option<String>,
}

/// The value of a text that is JSON with blanks around it.
pub(crate) fn read(text: &str) -> Result<Value, Box<Unreadable>> {
    let error = match Tape::parse(text, usize::MAX) {
        Ok(tape) => return Ok(tape.value()),
        Err(error) => error,
    };
    let refusal = error.fault.is_refusal().then(|| error.fault.to_string());
    let literal = text.get(error.offset..).filter(|_| refusal.is_some());
    let number =
        literal.and_then(|rest| number_length(rest.as_bytes()).map(|(length, _)| rest[..length].to_owned()));
    Err(Box::new(Unreadable { violation: extract::violation(text, 0, &error), refusal, number }))
}
