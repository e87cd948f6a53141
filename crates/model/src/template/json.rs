//! Filter `tojson`, as in `transformers`: Python's `json.dumps` with `ensure_ascii=False`.

use std::io::{self, Write};

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Formats `value` as JSON. The arguments `ensure_ascii`, `indent`, `separators` and `sort_keys`
/// have the same meaning as in `json.dumps`.
#[allow(clippy::needless_pass_by_value, reason = "a filter takes its arguments by value")]
pub(super) fn tojson(value: &Value, arguments: Kwargs) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "cannot convert an undefined value to JSON"));
    }
    let indent = indent(arguments.get("indent")?)?;
    let comma = if indent.is_some() { "," } else { ", " };
    let (item_separator, key_separator) = match arguments.get::<Option<Vec<String>>>("separators")?.as_deref()
    {
        None => (comma.to_owned(), ": ".to_owned()),
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => {
            return Err(Error::new(ErrorKind::InvalidOperation, "separators must be a list of two strings"));
        }
    };
    let ensure_ascii = arguments.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let sort_keys = arguments.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    arguments.assert_all_used()?;

    let layout = Python { indent, item_separator, key_separator, ensure_ascii, depth: 0, filled: false };
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, layout);
    let written = if sort_keys {
        serde_json::to_value(value).and_then(|value| sorted(value).serialize(&mut serializer))
    } else {
        value.serialize(&mut serializer)
    };
    written.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

/// Returns the indentation of one level, from the argument `indent`. Returns `None` if everything
/// is to be on one line.
fn indent(given: Option<Value>) -> Result<Option<String>, Error> {
    match given {
        None => Ok(None),
        Some(value) if value.is_none() => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Ok(Some(" ".repeat(i64::try_from(value)?.clamp(0, MAX_INDENT) as usize))),
        },
    }
}

/// Maximum indentation of one level, in spaces.
const MAX_INDENT: i64 = 32;

fn sorted(value: serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Array(items) => items.into_iter().map(sorted).collect(),
        serde_json::Value::Object(map) => {
            let mut entries: Vec<_> = map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            serde_json::Value::Object(entries.into_iter().collect())
        }
        scalar => scalar,
    }
}

/// Formatter with the layout of Python's `json.dumps`.
struct Python {
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    ensure_ascii: bool,
    depth: usize,
    /// True if the innermost open array or object has an element.
    filled: bool,
}

impl Python {
    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        writer.write_all(bracket)
    }

    fn element<W: ?Sized + Write>(&self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(self.item_separator.as_bytes())?;
        }
        self.line(writer)
    }

    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.filled {
            self.line(writer)?;
        }
        writer.write_all(bracket)
    }

    fn line<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        let Some(indent) = &self.indent else { return Ok(()) };
        writer.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| writer.write_all(indent.as_bytes()))
    }
}

impl Formatter for Python {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.element(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.element(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.key_separator.as_bytes())
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float(value).as_bytes())
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if !self.ensure_ascii {
            return writer.write_all(fragment.as_bytes());
        }
        for letter in fragment.chars() {
            if (' '..='~').contains(&letter) {
                write!(writer, "{letter}")?;
            } else {
                let mut units = [0; 2];
                letter
                    .encode_utf16(&mut units)
                    .iter()
                    .try_for_each(|unit| write!(writer, "\\u{unit:04x}"))?;
            }
        }
        Ok(())
    }
}

/// Formats a float like Python's `repr`, with the shortest digits that parse to the same float.
/// From 1e-4 to 1e16, no exponent is used.
fn float(value: f64) -> String {
    let scientific = format!("{value:e}");
    match scientific
        .split_once('e')
        .and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?)))
    {
        Some((digits, exponent)) if value != 0.0 && !(-4..16).contains(&exponent) => {
            format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        }
        _ => format!("{value:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_read_as_python_writes_them() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (1e-4, "0.0001"),
            (1.25e-5, "1.25e-05"),
            (-2.5e-100, "-2.5e-100"),
        ];
        for (value, text) in cases {
            assert_eq!(float(value), text);
        }
    }
}
