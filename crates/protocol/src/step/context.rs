use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::Body;
use crate::adapt::{Input, ProcessorError};

/// Context of one attempt: a copy of the step's context.
///
/// The copy replaces the step's context if the attempt succeeds and is dropped otherwise. Clones
/// share the same copy, so tools and processors can use it.
#[derive(Clone, Debug, Default)]
pub struct Context(Arc<Mutex<Body>>);

impl Context {
    pub(super) fn of(body: &Body) -> Self {
        Self(Arc::new(Mutex::new(body.clone())))
    }

    /// Returns an independent copy.
    pub(super) fn copied(&self) -> Self {
        Self::of(&self.body())
    }

    /// Returns a copy of the current content.
    pub fn snapshot(&self) -> Body {
        self.body().clone()
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.body().get(key).cloned()
    }

    /// Sets the value of a key.
    pub fn set(&self, key: impl Into<String>, value: impl Into<Value>) {
        self.body().insert(key.into(), value.into());
    }

    /// Removes a key and returns its value.
    pub fn remove(&self, key: &str) -> Option<Value> {
        self.body().remove(key)
    }

    pub(super) fn body(&self) -> MutexGuard<'_, Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Input of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepInput {
    /// Conversation so far, placed between the step's system message and its prompt.
    pub messages: Vec<Value>,
    /// Further request fields, such as `temperature`.
    pub options: Body,
    /// Plan for the step, judged by the precheck.
    ///
    /// If absent, the precheck takes the `<plan>` of the last failed answer or of the newest
    /// message that has one.
    pub plan: Option<String>,
}

impl StepInput {
    /// Creates an input with a single user message.
    pub fn of_user(text: impl Into<String>) -> Self {
        let message = serde_json::json!({ "role": "user", "content": text.into() });
        Self { messages: vec![message], ..Self::default() }
    }
}

/// Output of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOutput {
    /// The parsed value, or the text itself if the step has no schema.
    pub value: Value,
    /// Text from which the value was parsed.
    pub text: String,
    /// Number of attempts, including the successful one.
    pub attempts: u32,
    /// Number of repairs in the last attempt.
    pub repairs: u32,
}

/// Changes outputs, with access to the context. Closures implement this trait.
///
/// A processor may see several texts in one attempt, each with its own copy of the context. Only
/// the copy of the accepted text is kept.
pub trait StepProcessor: Send + Sync {
    /// Returns the value to use instead, or `None` to keep the input.
    ///
    /// # Errors
    /// Returns an error if the processor finds a fault or interrupts the run. A fault is reported
    /// and keeps the value unchanged.
    fn process(&self, input: Input<'_>, context: &Context) -> Result<Option<Value>, ProcessorError>;
}

impl<F> StepProcessor for F
where
    F: Fn(Input<'_>, &Context) -> Result<Option<Value>, ProcessorError> + Send + Sync,
{
    fn process(&self, input: Input<'_>, context: &Context) -> Result<Option<Value>, ProcessorError> {
        self(input, context)
    }
}

/// Checks outputs that match their schema. Closures implement this trait.
pub trait StepValidator: Send + Sync {
    /// Accepts or rejects the value.
    ///
    /// # Errors
    /// Returns an error if the value has a fault or the run must end. The next attempt receives the
    /// fault.
    fn validate(&self, value: &Value, context: &Context) -> Result<(), ProcessorError>;
}

impl<F> StepValidator for F
where
    F: Fn(&Value, &Context) -> Result<(), ProcessorError> + Send + Sync,
{
    fn validate(&self, value: &Value, context: &Context) -> Result<(), ProcessorError> {
        self(value, context)
    }
}
