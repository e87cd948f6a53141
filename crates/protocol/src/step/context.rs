use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::Interrupted;
use crate::Body;
use crate::adapt::{Input, ProcessorError};

/// Values by key that one attempt can read and write. At its start, an attempt gets a copy of the
/// step's context.
///
/// If the attempt succeeds, its copy replaces the step's context. Otherwise, the copy is dropped.
/// Clones of a `Context` share the same values, so tools can change the context of their attempt.
#[derive(Clone, Debug, Default)]
pub struct Context(Arc<Mutex<Body>>);

impl Context {
    pub(super) fn of(body: &Body) -> Self {
        Self(Arc::new(Mutex::new(body.clone())))
    }

    /// Returns a copy that does not share its values with this context.
    pub(super) fn copied(&self) -> Self {
        Self::of(&self.body())
    }

    /// Returns a copy of the current values.
    pub fn snapshot(&self) -> Body {
        self.body().clone()
    }

    /// Returns a copy of the value of `key`, or `None` if the key is not set.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.body().get(key).cloned()
    }

    /// Sets the value of `key`.
    pub fn set(&self, key: impl Into<String>, value: impl Into<Value>) {
        self.body().insert(key.into(), value.into());
    }

    /// Removes `key` and returns its value, or `None` if the key was not set.
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
    /// Additional request fields, such as `temperature`. They override the step's own fields.
    pub options: Body,
    /// Text of the plan that the precheck judges.
    ///
    /// If `None`, the precheck uses the text between `<plan>` and `</plan>` in the answer of the
    /// previous attempt. If that has no such text, the precheck uses the newest message that has
    /// one.
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
    /// Text of the model from which the value was parsed.
    pub text: String,
    /// Number of attempts, including the successful one.
    pub attempts: u32,
    /// Number of requests for a repair in the successful attempt.
    pub repairs: u32,
    /// True if the token limit cut off the text. A value was whole, but a text of a step without a
    /// schema may lack its end.
    pub is_truncated: bool,
}

/// Custom stage that can change outputs and use the context. Closures with the signature of
/// [`process`](Self::process) implement this trait.
///
/// In one attempt, a processor may run for several texts: the first answer and each repaired one.
/// Each text gets its own copy of the context. Only the copy of the accepted text is kept.
pub trait StepProcessor: Send + Sync {
    /// Returns the value to use instead of `input.value`, or `None` to keep it.
    ///
    /// # Errors
    /// Returns [`ProcessorError::Fault`] if the processor cannot handle the value. The fault is
    /// recorded, and the value is kept. Returns [`ProcessorError::Interrupt`] to end the run.
    fn process(
        &self,
        input: Input<'_>,
        context: &Context,
    ) -> Result<Option<Value>, ProcessorError<Interrupted>>;

    /// Reports whether the step fails if this processor fails and its input is otherwise valid. The
    /// default is false: the value is kept.
    fn is_required(&self) -> bool {
        false
    }
}

impl<F> StepProcessor for F
where
    F: Fn(Input<'_>, &Context) -> Result<Option<Value>, ProcessorError<Interrupted>> + Send + Sync,
{
    fn process(
        &self,
        input: Input<'_>,
        context: &Context,
    ) -> Result<Option<Value>, ProcessorError<Interrupted>> {
        self(input, context)
    }
}

/// Check of outputs that match their schema. Closures with the signature of
/// [`validate`](Self::validate) implement this trait.
pub trait StepValidator: Send + Sync {
    /// Returns `Ok` to accept the output `value`.
    ///
    /// # Errors
    /// Returns [`ProcessorError::Fault`] to reject the value. The next attempt shows the fault to
    /// the model. Returns [`ProcessorError::Interrupt`] to end the run.
    fn validate(&self, value: &Value, context: &Context) -> Result<(), ProcessorError<Interrupted>>;
}

impl<F> StepValidator for F
where
    F: Fn(&Value, &Context) -> Result<(), ProcessorError<Interrupted>> + Send + Sync,
{
    fn validate(&self, value: &Value, context: &Context) -> Result<(), ProcessorError<Interrupted>> {
        self(value, context)
    }
}
