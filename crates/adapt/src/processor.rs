use std::convert::Infallible;

use serde_json::Value;

/// A custom stage that runs after the built-in stages.
///
/// Closures with the signature of [`process`](Self::process) are processors as well. A returned
/// value is validated against the whole schema. `I` is the type of interruptions, which the adapter
/// returns unchanged. By default, a processor cannot interrupt the adaptation.
///
/// ```
/// use formwork_adapt::{AdaptOptions, Adapter, Input, ProcessorError};
/// use serde_json::{Value, json};
///
/// let adapter = Adapter::new(&json!({"type": "object", "required": ["name"]}), AdaptOptions::minimal())?;
/// let rename = |input: Input<'_>| -> Result<Option<Value>, ProcessorError> {
///     let title = input.value.and_then(|value| value.get("title"));
///     Ok(title.map(|title| json!({ "name": title })))
/// };
/// let adaptation = adapter.adapt_with(r#"{"title": "Emma"}"#, &[&rename])?;
/// assert_eq!(adaptation.value(), Some(&json!({"name": "Emma"})));
///
/// let stop = |_: Input<'_>| Err(ProcessorError::Interrupt("the user left"));
/// assert_eq!(adapter.adapt_with("{}", &[&stop]).unwrap_err(), "the user left");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Processor<I = Infallible> {
    /// Returns the name used in reports.
    #[allow(clippy::unnecessary_literal_bound, reason = "implementations may return a name of their own")]
    fn name(&self) -> &str {
        "custom"
    }

    /// Returns a replacement for the value, or `None` to keep the value.
    ///
    /// # Errors
    /// A [`ProcessorError::Fault`] is reported and keeps the value. A [`ProcessorError::Interrupt`]
    /// ends the adaptation.
    fn process(&self, input: Input<'_>) -> Result<Option<Value>, ProcessorError<I>>;
}

impl<I, F: Fn(Input<'_>) -> Result<Option<Value>, ProcessorError<I>>> Processor<I> for F {
    fn process(&self, input: Input<'_>) -> Result<Option<Value>, ProcessorError<I>> {
        self(input)
    }
}

/// Input of a processor.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The original text.
    pub text: &'a str,
    /// Value after the previous stages, or `None` if the text could not be read.
    pub value: Option<&'a Value>,
    /// Schema that the value must match.
    pub schema: &'a Value,
}

/// Error of a processor. `I` is the type of interruptions.
#[derive(Debug)]
pub enum ProcessorError<I = Infallible> {
    /// The processor cannot handle this value.
    Fault {
        /// Place of the fault, as a JSON pointer.
        path: String,
        /// Reason for the fault.
        message: String,
    },
    /// The adaptation must end, regardless of the value.
    Interrupt(I),
}

impl<I> ProcessorError<I> {
    /// Creates a fault of the value.
    pub fn fault(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Fault { path: path.into(), message: message.into() }
    }
}
