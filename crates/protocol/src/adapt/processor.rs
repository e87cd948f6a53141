use std::error::Error;

use serde_json::Value;

use super::error::{Interrupted, Interruption};

/// Something of the caller's that is done to values after everything else, and before they are validated.
///
/// A closure is one, too. What it gives in place of the value is validated as strictly as anything.
///
/// ```
/// use formwork_protocol::adapt::{AdaptOptions, Adapter, Input, ProcessorError};
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
/// let stop = |_: Input<'_>| Err(ProcessorError::cancelled("the user left"));
/// assert_eq!(adapter.adapt_with("{}", &[&stop]).unwrap_err().to_string(), "cancelled: the user left");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Processor {
    /// Its name in reports.
    #[allow(clippy::unnecessary_literal_bound, reason = "others have names of their own")]
    fn name(&self) -> &str {
        "custom"
    }

    /// The value in place of the one that there is, or none to leave it as it is.
    ///
    /// # Errors
    /// With a fault, which is reported and leaves the value as it is; or with what stops everything.
    fn process(&self, input: Input<'_>) -> Result<Option<Value>, ProcessorError>;
}

impl<F: Fn(Input<'_>) -> Result<Option<Value>, ProcessorError>> Processor for F {
    fn process(&self, input: Input<'_>) -> Result<Option<Value>, ProcessorError> {
        self(input)
    }
}

/// What a processor is given.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The text that came.
    pub text: &'a str,
    /// The value so far, if it could be read.
    pub value: Option<&'a Value>,
    /// The schema that the value is to have.
    pub schema: &'a Value,
}

/// Why a processor gave no value.
#[derive(Debug)]
pub enum ProcessorError {
    /// It could not do its part with this value.
    Fault {
        /// The place, as a JSON pointer.
        path: String,
        /// Why not.
        message: String,
    },
    /// All must stop, whatever the value is.
    Interrupt(Interrupted),
}

impl ProcessorError {
    /// It could not do its part.
    pub fn fault(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Fault { path: path.into(), message: message.into() }
    }

    /// The caller gave up.
    pub fn cancelled(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::interrupt(Interruption::Cancelled, source)
    }

    /// The run is to be gone on with later.
    pub fn paused(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::interrupt(Interruption::Paused, source)
    }

    /// There is nothing left of a quota.
    pub fn budget_exhausted(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::interrupt(Interruption::BudgetExhausted, source)
    }

    fn interrupt(reason: Interruption, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Interrupt(Interrupted { reason, source: source.into() })
    }
}
