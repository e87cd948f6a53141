//! Reading of texts that are adapted if they are invalid.

use super::shape::TOOL_CALLS;
use super::{Reading, Shape};
use crate::{Adapter, object};

impl Shape {
    /// Reads the value in a text, and adapts the text if the value is invalid.
    ///
    /// The adapter must be of the same schema. Its result is only used if it is better than the
    /// text's own value and loses no content.
    ///
    /// ```
    /// use formwork_adapt::repair::Shape;
    /// use formwork_adapt::{AdaptOptions, Adapter};
    /// let schema = serde_json::json!({"type": "object", "properties": {"count": {"type": "integer"}}});
    /// let adapter = Adapter::new(&schema, AdaptOptions::full())?;
    /// let shape = Shape::of_schema(schema, "order")?;
    /// let reading = shape.read_adapted(&adapter, r#"{"count": "2",}"#);
    /// assert!(reading.is_valid());
    /// assert_eq!(reading.adapted(), ["trailing-comma", "str->int"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_adapted(&self, adapter: &Adapter, text: &str) -> Reading {
        let as_it_is = self.read(text);
        if as_it_is.is_valid() || as_it_is.is_final {
            return as_it_is;
        }
        // Adapts only the value that the shape found, because the rest of the text may contain
        // examples.
        let found = as_it_is.written().filter(|_| as_it_is.is_telling());
        let adaptation = adapter.adapt(found.unwrap_or_else(|| object::without_thoughts(text)));
        if adaptation.is_truncated() && !adapter.options().allow_truncated {
            return as_it_is;
        }
        let Some(value) = adaptation.value() else { return as_it_is };
        let Ok((value, has_calls)) = self.converted(value.clone()) else { return as_it_is };
        let mut reading = self.check(value);
        reading.written = adaptation.written().filter(|_| !has_calls);
        reading.adapted = adaptation.transforms().map(str::to_owned).collect();
        reading.adapted.extend(has_calls.then(|| TOOL_CALLS.to_owned()));
        // An object without content must not replace a text that can stand for the answer.
        let is_silent = self.of_text(text).is_some() && !reading.is_telling();
        if !is_silent && as_it_is.is_worse_than(&reading) && !reading.loses(&as_it_is) {
            reading
        } else {
            as_it_is
        }
    }
}
