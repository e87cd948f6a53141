//! Parser for JSON from users, with a limit on the nesting depth.
//!
//! By default, `serde_json` rejects values nested deeper than 127 levels with a syntax error.
//! Without this limit, a deeply nested text overflows the stack.
//!
//! This crate raises the limit to [`NESTING`] levels. It first scans the bytes to measure the
//! depth, and rejects a deeper text with an error about nesting.

use serde::de::DeserializeOwned;
use thiserror::Error;

/// Maximum nesting depth of arrays and objects. The limit is needed because reading, writing and
/// dropping a value take stack space for each level.
pub const NESTING: usize = 1024;

/// Error from reading JSON. The message contains the line and column.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct JsonError(#[from] Kind);

#[derive(Debug, Error)]
enum Kind {
    #[error("not valid JSON: {0}")]
    Syntax(#[source] serde_json::Error),
    /// The text is valid JSON, but does not match the expected type.
    #[error("{0}")]
    Data(serde_json::Error),
    #[error("nested deeper than the limit of {NESTING} levels at line {line} column {column}")]
    Nesting { line: usize, column: usize },
    #[error("beyond the range of numbers, which ends at about 1.8e308, at line {} column {}", .0.line(), .0.column())]
    Range(#[source] serde_json::Error),
}

/// Parses a JSON text, which must contain exactly one value.
///
/// ```
/// let deep = "[".repeat(300) + &"]".repeat(300);
/// assert!(formwork_json::from_str::<serde_json::Value>(&deep).is_ok());
/// let deeper = "[".repeat(1_000_000);
/// let error = formwork_json::from_str::<serde_json::Value>(&deeper).unwrap_err();
/// assert_eq!(error.to_string(), "nested deeper than the limit of 1024 levels at line 1 column 1025");
/// ```
///
/// # Errors
/// Returns an error if the text is not JSON, does not match `T`, or is nested deeper than
/// [`NESTING`] levels. Also returns an error if a number is beyond the range of a double.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    from_slice(text.as_bytes())
}

/// Parses a JSON text given as bytes, which must contain exactly one value.
///
/// # Errors
/// Returns an error in the same cases as [`from_str`], or if the bytes are not UTF-8.
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> Result<T, JsonError> {
    check_nesting(text, false)?;
    let mut reader = serde_json::Deserializer::from_slice(text);
    reader.disable_recursion_limit();
    let value = T::deserialize(&mut reader).map_err(JsonError::of_reader)?;
    reader.end().map_err(JsonError::of_reader)?;
    Ok(value)
}

/// Parses the JSON value at the start of `text`, and ignores the text after the value.
///
/// Returns the value and the number of bytes up to its end. Returns `None` if the text consists of
/// whitespace only.
///
/// # Errors
/// Returns an error in the same cases as [`from_str`] for the value alone.
pub fn from_start<T: DeserializeOwned>(text: &str) -> Result<Option<(T, usize)>, JsonError> {
    check_nesting(text.as_bytes(), true)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    let mut values = reader.into_iter::<T>();
    let value = values.next().transpose().map_err(JsonError::of_reader)?;
    Ok(value.map(|value| (value, values.byte_offset())))
}

/// Returns an error if brackets outside of strings are nested deeper than [`NESTING`] levels. If
/// `first` is true, checks only the first value.
fn check_nesting(text: &[u8], first: bool) -> Result<(), JsonError> {
    let (mut depth, mut in_string, mut escaped) = (0usize, false, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b' ' | b'\t' | b'\n' | b'\r' => continue,
            _ => {}
        }
        if depth > NESTING {
            let before = &text[..at];
            let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            let line = before.split(|&byte| byte == b'\n').count();
            return Err(Kind::Nesting { line, column: at - start + 1 }.into());
        }
        if first && depth == 0 && !in_string {
            break;
        }
    }
    Ok(())
}

impl JsonError {
    fn of_reader(error: serde_json::Error) -> Self {
        let is_range = error.is_syntax() && error.to_string().starts_with("number out of range");
        match error.is_data() {
            true => Kind::Data(error).into(),
            false if is_range => Kind::Range(error).into(),
            false => Kind::Syntax(error).into(),
        }
    }

    /// Returns the nesting limit if the text exceeds it. Returns `None` for other errors.
    pub const fn nesting_limit(&self) -> Option<usize> {
        match self.0 {
            Kind::Nesting { .. } => Some(NESTING),
            Kind::Syntax(_) | Kind::Data(_) | Kind::Range(_) => None,
        }
    }

    /// Returns the line and column of the error, both starting at 1. Columns count bytes.
    pub fn place(&self) -> (usize, usize) {
        match &self.0 {
            Kind::Syntax(error) | Kind::Data(error) | Kind::Range(error) => (error.line(), error.column()),
            Kind::Nesting { line, column } => (*line, *column),
        }
    }

    /// Returns the message without line and column.
    pub fn problem(&self) -> String {
        match &self.0 {
            Kind::Syntax(error) | Kind::Data(error) => before_place(&error.to_string()),
            other => before_place(&other.to_string()),
        }
    }
}

fn before_place(message: &str) -> String {
    let end = message.rfind(" at line ").unwrap_or(message.len());
    message[..end].trim_end_matches(',').to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn reads_texts_up_to_the_limit_on_a_small_stack() {
        let reader = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
            let deep = format!("{}1{}", "{\"a\":[".repeat(NESTING / 2), "]}".repeat(NESTING / 2));
            let value: Value = from_str(&deep).expect("within the limit");
            assert_eq!(value.clone().to_string(), deep);
        });
        reader.expect("a thread").join().expect("no overflow");
    }

    #[test]
    fn names_the_place_where_nesting_passes_the_limit() {
        let error = from_str::<Value>(&format!("\n{}", "[".repeat(1 << 20))).expect_err("too deep");
        assert_eq!((error.place(), error.nesting_limit()), ((2, NESTING + 1), Some(NESTING)));
        assert_eq!(error.problem(), "nested deeper than the limit of 1024 levels");
        // Brackets in strings are text. A string continues after an escaped quote.
        let text = format!("\"{}\\\"{}\"", "[".repeat(2000), "{".repeat(2000));
        assert!(from_str::<Value>(&text).is_ok());
    }

    #[test]
    fn reports_syntax_and_range_with_their_place() {
        let error = from_str::<Value>("[1,").expect_err("not closed");
        assert_eq!(error.to_string(), "not valid JSON: EOF while parsing a value at line 1 column 3");
        assert_eq!(error.problem(), "EOF while parsing a value");
        let error = from_str::<Value>("[1e400]").expect_err("too large");
        assert_eq!(error.problem(), "beyond the range of numbers, which ends at about 1.8e308");
        assert!(from_slice::<Value>(b"\"\xff\"").is_err());
        assert!(from_str::<Value>("1 2").is_err());
    }

    #[test]
    fn reads_the_value_that_a_text_begins_with() {
        let deep = "[".repeat(2000);
        let (value, len) =
            from_start::<Value>(&format!(" {{\"a\": \"}}\"}} {deep}")).expect("JSON").expect("a value");
        assert_eq!((value, len), (json!({"a": "}"}), 11));
        assert!(from_start::<Value>(&format!(" {deep}")).expect_err("too deep").nesting_limit().is_some());
        assert!(from_start::<Value>(" \n").expect("no value").is_none());
    }
}
