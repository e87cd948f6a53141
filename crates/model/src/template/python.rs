//! Functions that correct differences between Python and minijinja with its Python compatibility
//! layer.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::lists;

/// Calls the method `name` of a value as Python does, for values of built-in types.
pub(super) fn method(
    state: &mut State,
    value: &Value,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Error> {
    match (name, value.as_str()) {
        ("title", Some(text)) if arguments.is_empty() => Ok(Value::from(title(text))),
        _ => unknown_method_callback(state, value, name, arguments).map_err(|error| {
            let is_unknown = error.kind() == ErrorKind::UnknownMethod;
            lists::unknown_method(value, name).filter(|_| is_unknown).unwrap_or(error)
        }),
    }
}

/// Implements Python's `str.title`: the first letter of each word becomes upper case, and all other
/// letters become lower case. A word is a sequence of letters.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for letter in text.chars() {
        if inside {
            out.extend(letter.to_lowercase());
        } else {
            out.extend(letter.to_uppercase());
        }
        inside = letter.is_alphabetic();
    }
    out
}

/// Implements the test `iterable`. `none` is not iterable as in Python, although minijinja treats
/// it as an empty sequence.
pub(super) fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// Implements the test `sequence`: a value with a length and indices. An undefined value counts as
/// a sequence, as in `jinja2`.
pub(super) fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map | ValueKind::Undefined)
}
