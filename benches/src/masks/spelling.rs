use std::io;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// Spelling of an instance as JSON text. Characters outside ASCII are not escaped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spelling {
    /// No whitespace: `{"a":[1,2]}`
    #[default]
    Compact,
    /// Spaces after commas and colons, as written by Python's `json.dumps` and by most models:
    /// `{"a": [1, 2]}`
    Spaced,
}

impl Spelling {
    /// Returns `value` as JSON text.
    ///
    /// ```
    /// use formwork_benches::masks::Spelling;
    /// let value = serde_json::json!({"é": [1, {}], "b": []});
    /// assert_eq!(Spelling::Spaced.write(&value)?, r#"{"é": [1, {}], "b": []}"#);
    /// assert_eq!(Spelling::Compact.write(&value)?, r#"{"é":[1,{}],"b":[]}"#);
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    /// # Errors
    /// Never fails for a JSON value.
    pub fn write(self, value: &Value) -> Result<String> {
        let mut text = Vec::new();
        match self {
            Self::Compact => value.serialize(&mut Serializer::with_formatter(&mut text, CompactFormatter))?,
            Self::Spaced => value.serialize(&mut Serializer::with_formatter(&mut text, SpacedFormatter))?,
        }
        Ok(String::from_utf8(text)?)
    }
}

struct SpacedFormatter;

impl Formatter for SpacedFormatter {
    fn begin_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
