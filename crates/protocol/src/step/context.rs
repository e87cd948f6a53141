use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::Body;
use crate::adapt::{Input, ProcessorError};

/// The context of one attempt: a copy, which takes the place of the step's once the attempt has succeeded, and is dropped otherwise.
/// Clones share it, so that tools and processors may use it.
#[derive(Clone, Debug, Default)]
pub struct Context(Arc<Mutex<Body>>);

impl Context {
    pub(super) fn of(body: &Body) -> Self {
        Self(Arc::new(Mutex::new(body.clone())))
    }

    /// One of its own, with the same in it.
    pub(super) fn copied(&self) -> Self {
        Self::of(&self.body())
    }

    /// All that is in it now.
    pub fn snapshot(&self) -> Body {
        self.body().clone()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Value> {
        self.body().get(key).cloned()
    }

    /// Sets the value of a key.
    pub fn set(&self, key: impl Into<String>, value: impl Into<Value>) {
        self.body().insert(key.into(), value.into());
    }

    /// Takes a key out.
    pub fn remove(&self, key: &str) -> Option<Value> {
        self.body().remove(key)
    }

    pub(super) fn body(&self) -> MutexGuard<'_, Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a step is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepInput {
    /// The conversation so far, between the step's system message and its prompt.
    pub messages: Vec<Value>,
    /// Further fields of requests, such as `temperature`.
    pub options: Body,
    /// How the step is going to be done, for the precheck. Without one a `<plan>` in the messages counts.
    pub plan: Option<String>,
}

impl StepInput {
    /// One thing that the user says.
    pub fn of_user(text: impl Into<String>) -> Self {
        let message = serde_json::json!({ "role": "user", "content": text.into() });
        Self { messages: vec![message], ..Self::default() }
    }
}

/// What a step gives.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOutput {
    /// The value; the text itself, where the step has no schema.
    pub value: Value,
    /// The text that it was made of.
    pub text: String,
    /// How many attempts it took.
    pub attempts: u32,
    /// How many repairs, in the last of them.
    pub repairs: u32,
}

/// Something that is done to outputs, with the context at hand. A closure is one, too.
///
/// It may be asked about several texts of one attempt, each time with a copy of the context; that of the text that is taken counts.
pub trait StepProcessor: Send + Sync {
    /// The value in place of the one that there is, or none to leave it as it is.
    ///
    /// # Errors
    /// With a fault, which is reported and leaves the value as it is; or with what stops everything.
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

/// Checks outputs that fit their schema. A closure does, too.
pub trait StepValidator: Send + Sync {
    /// Nothing, if the value will do.
    ///
    /// # Errors
    /// With a fault, of which the next attempt is told; or with what stops everything.
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
