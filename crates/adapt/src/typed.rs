//! Decoding of texts into Rust types.

use serde::de::DeserializeOwned;

use super::report::{Adaptation, Violation};
use super::tape::{Place, Tape};
use super::{Adapter, Held};

impl Adapter {
    /// Validates a text against the schema and decodes it into a Rust type.
    ///
    /// If the text is already valid, no [`Value`](serde_json::Value) is built. Otherwise the text
    /// is adapted first.
    ///
    /// ```
    /// use formwork_adapt::{AdaptOptions, Adapter};
    /// #[derive(serde::Deserialize)]
    /// struct Count { count: u32 }
    ///
    /// let schema = serde_json::json!({
    ///     "type": "object",
    ///     "properties": {"count": {"type": "integer", "maximum": 50}},
    /// });
    /// let adapter = Adapter::new(&schema, AdaptOptions::minimal())?;
    /// assert_eq!(adapter.decode::<Count>(r#"{"count": 42}"#).expect("valid").count, 42);
    /// assert_eq!(adapter.decode::<Count>(r#"{"count": "42"}"#).expect("adapted").count, 42);
    /// assert!(adapter.decode::<Count>(r#"{"count": 51}"#).is_err());
    /// # Ok::<(), formwork_adapt::AdaptError>(())
    /// ```
    ///
    /// # Errors
    /// Returns the adaptation if the value is invalid, or if `T` cannot be deserialized from the
    /// value. The latter is a violation with the keyword `type`.
    pub fn decode<T: DeserializeOwned>(&self, text: &str) -> Result<T, Box<Adaptation>> {
        if self.holds(text)
            && let Ok(value) = serde_json::from_str(text)
        {
            return Ok(value);
        }
        let mut adaptation = self.adapt(text);
        if !adaptation.is_valid {
            return Err(Box::new(adaptation));
        }
        let refused = match &adaptation.held {
            // Decoding from the text keeps all digits of the numbers.
            Held::Document(document, _) => serde_json::from_str(document.text()),
            _ => T::deserialize(adaptation.value().unwrap_or(&serde_json::Value::Null)),
        };
        refused.map_err(|error| {
            adaptation.is_valid = false;
            adaptation.violations.push(Violation::new("", "type", error.to_string()));
            Box::new(adaptation)
        })
    }

    /// Reports whether the text is a valid value without adaptation. Builds no value and collects
    /// no errors.
    pub fn holds(&self, text: &str) -> bool {
        let limits = &self.options.limits;
        text.len() <= limits.max_bytes
            && Tape::parse(text, self.options.syntax()).is_ok_and(|tape| tape.is_valid(&self.on_tapes))
    }
}

/// Decodes JSON directly into a Rust type, without a schema and without adaptation.
///
/// This is the fastest way if the type alone describes the data.
///
/// ```
/// use formwork_adapt::from_text;
/// assert_eq!(from_text::<Vec<u8>>("[1, 2]"), Ok(vec![1, 2]));
/// let violation = from_text::<Vec<u8>>("[1, -2]").unwrap_err();
/// assert_eq!(violation.to_string(), "line 1, column 6: invalid value: integer `-2`, expected u8");
/// ```
///
/// # Errors
/// Returns a violation with the position and the reason if the text is not JSON or does not match
/// the type.
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, Violation> {
    serde_json::from_str(text).map_err(|error| {
        let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
        let offset = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
        let Place { line, column } = Place::of(text, offset);
        let told = error.to_string();
        let reason = told.rsplit_once(" at line ").map_or(told.as_str(), |(reason, _)| reason);
        let keyword = if error.is_data() { "type" } else { "syntax" };
        Violation::new("", keyword, format!("line {line}, column {column}: {reason}"))
    })
}
