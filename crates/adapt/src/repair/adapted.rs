//! Reading of texts that are adapted if they are invalid.

use super::shape::TOOL_CALLS;
use super::{Reading, Shape};
use crate::{Adaptation, Adapter, object};

impl Shape {
    /// Reads the value in a text, and adapts the text if the value is invalid.
    ///
    /// The adapter must be of the same schema. Its result is only used if it is better than the
    /// text's own value and loses no content.
    ///
    /// At tolerance 2, a text that ends inside its value is closed there. Without
    /// [`allow_truncated`](crate::AdaptOptions::allow_truncated), the reading is then invalid and
    /// [`is_truncated`](Reading::is_truncated).
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
        let is_allowed = adapter.options().allow_truncated;
        if adaptation.is_truncated() && !is_allowed {
            return self.closed(as_it_is, &adaptation);
        }
        let Some(value) = adaptation.value() else { return as_it_is };
        let Ok((value, has_calls)) = self.converted(value.clone()) else { return as_it_is };
        let mut reading = self.check(value);
        reading.written = adaptation.written().filter(|_| !has_calls);
        reading.adapted = adaptation.transforms().map(str::to_owned).collect();
        reading.is_truncated = adaptation.is_truncated() && !reading.is_valid();
        reading.adapted.extend(has_calls.then(|| TOOL_CALLS.to_owned()));
        // An object without content must not replace a text that can stand for the answer.
        let is_silent = self.of_text(text).is_some() && !reading.is_telling();
        if !is_silent && as_it_is.is_worse_than(&reading) && !reading.loses(&as_it_is) {
            reading
        } else {
            as_it_is
        }
    }
    /// Returns the reading of a text that was closed at its end, or `as_it_is` if that has a value.
    fn closed(&self, as_it_is: Reading, adaptation: &Adaptation) -> Reading {
        let value = adaptation.value().filter(|_| as_it_is.value.is_none());
        let Some(Ok((value, false))) = value.map(|value| self.converted(value.clone())) else {
            return as_it_is;
        };
        let mut reading = self.check(value);
        let cut = adaptation.violations().iter().find(|violation| violation.keyword == "truncated");
        let message = cut.map_or("the text ends inside the value", |cut| cut.message.as_str());
        reading.errors.push(message.to_owned());
        reading.written = adaptation.written();
        reading.adapted = adaptation.transforms().map(str::to_owned).collect();
        reading.content = as_it_is.content;
        reading.is_truncated = true;
        reading
    }
}
