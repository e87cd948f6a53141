use std::io;

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// How an instance is written as JSON text. Characters outside ASCII stand for themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Spelling {
    /// `{"a":[1,2]}`
    #[default]
    Compact,
    /// `{"a": [1, 2]}`, as Python's `json.dumps` writes it, and as models mostly do.
    Spaced,
}

impl Spelling {
    /// The text of `value`.
    ///
    /// ```
    /// use formwork_benches::masks::Spelling;
    /// let value = serde_json::json!({"é": [1, {}], "b": []});
    /// assert_eq!(Spelling::Spaced.write(&value)?, r#"{"é": [1, {}], "b": []}"#);
    /// assert_eq!(Spelling::Compact.write(&value)?, r#"{"é":[1,{}],"b":[]}"#);
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    ///
    /// # Errors
    /// None that a value can cause.
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
