use std::ffi::{CString, c_char};
use std::ptr;

use formwork_grammar::GrammarError;

use crate::failure::Failure;
use crate::guard;

/// Result of a function that can fail.
#[repr(i32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FormworkStatus {
    /// The function succeeded.
    Ok = 0,
    /// A required pointer is NULL.
    NullPointer = 1,
    /// An argument is out of range or unknown, or a buffer is too short.
    InvalidArgument = 2,
    /// A text is not UTF-8.
    NotUtf8 = 3,
    /// A text is not JSON. The error has line and column.
    NotJson = 4,
    /// The grammar is malformed, or cannot be enforced exactly.
    Grammar = 5,
    /// The schema is valid, but no value satisfies it.
    Unsatisfiable = 6,
    /// The grammar exceeds one of the limits in `FormworkOptions`.
    Limit = 7,
    /// The vocabulary or tokenizer is malformed, or cannot encode a text.
    Vocabulary = 8,
    /// The grammar does not allow the token here. The matcher is unchanged.
    NotAllowed = 9,
    /// The vocabulary cannot spell any completion of the output.
    NoCompletion = 10,
    /// A defect of the library, or the system refused a thread.
    Internal = 11,
}

/// Description of a failure. Shareable between threads.
pub struct FormworkError {
    status: FormworkStatus,
    message: CString,
    pointer: Option<CString>,
    keyword: Option<CString>,
    excerpt: Option<CString>,
    /// Line and column, or zeros.
    place: (usize, usize),
}

impl From<Failure> for FormworkError {
    fn from(failure: Failure) -> Self {
        let grammar = match &failure {
            Failure::Grammar(error) => Some(error),
            _ => None,
        };
        let pointer = match &failure {
            Failure::Tags { pointer, .. } => Some(pointer.as_str()),
            _ => grammar.and_then(|error| error.pointer()),
        };
        let place = match &failure {
            Failure::NotJson(error) => Some(error.place()),
            _ => grammar.and_then(GrammarError::line_column),
        };
        Self {
            status: failure.status(),
            message: c_text(&failure.to_string()),
            pointer: pointer.map(c_text),
            keyword: grammar.and_then(|error| error.keyword()).map(c_text),
            excerpt: grammar.and_then(GrammarError::excerpt).as_deref().map(c_text),
            place: place.unwrap_or_default(),
        }
    }
}

/// Converts to a C string. NUL, which can come from a quoted source, becomes U+2400.
fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{2400}")).unwrap_or_default()
}

fn start(text: Option<&CString>) -> *const c_char {
    text.map_or(ptr::null(), |text| text.as_ptr())
}

/// Returns the status that the failed function returned, or `FORMWORK_STATUS_OK` for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_error_status(error: Option<&FormworkError>) -> FormworkStatus {
    error.map_or(FormworkStatus::Ok, |error| error.status)
}

/// Returns the message: one line of UTF-8 that names the place. Returns NULL for NULL.
///
/// The text lives as long as the error.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_error_message(error: Option<&FormworkError>) -> *const c_char {
    start(error.map(|error| &error.message))
}

/// Returns the JSON pointer of the place in a schema or in structural tags, for example
/// "/properties/age/minimum". Returns NULL if the error is not about such a place.
///
/// The text lives as long as the error.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_error_pointer(error: Option<&FormworkError>) -> *const c_char {
    start(error.and_then(|error| error.pointer.as_ref()))
}

/// Returns the keyword of the schema, for example "minimum", or "schema" for a whole subschema.
/// Returns NULL if the error is not about a schema.
///
/// The text lives as long as the error.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_error_keyword(error: Option<&FormworkError>) -> *const c_char {
    start(error.and_then(|error| error.keyword.as_ref()))
}

/// Returns the line of a GBNF or Lark source, and below it a line with a caret under the column.
/// Returns NULL for all other errors.
///
/// The text lives as long as the error.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_error_excerpt(error: Option<&FormworkError>) -> *const c_char {
    start(error.and_then(|error| error.excerpt.as_ref()))
}

/// Returns the line of an error in a GBNF, Lark or JSON text, starting at 1. Returns 0 if the error
/// has no line.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_error_line(error: Option<&FormworkError>) -> usize {
    error.map_or(0, |error| error.place.0)
}

/// Returns the column of an error in a GBNF, Lark or JSON text, starting at 1. Returns 0 if the
/// error has no column.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_error_column(error: Option<&FormworkError>) -> usize {
    error.map_or(0, |error| error.place.1)
}

/// Frees an error and its texts. Accepts NULL.
#[unsafe(no_mangle)]
pub extern "C" fn formwork_error_free(error: Option<Box<FormworkError>>) {
    guard::free(error);
}
