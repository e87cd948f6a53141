//! Protocols that ask a model by a Python callable.

use std::sync::{Arc, Mutex, PoisonError};

use formwork_adapt::{AdaptOptions, AnyOfStrategy, OutputProcessing, Tolerance};
use formwork_protocol::repair::{RepairOptions, Repairer, Shape};
use formwork_protocol::{
    Answer, BackendError, Body, Capabilities, ChatBackend, Chunks, Plan, PromptRunner, ScriptedBackend,
};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::adapt::named;
use crate::app::without_model;
use crate::{error, json};

/// Name of the model in requests to a callable that needs none.
const MODEL: &str = "model";

/// A backend that calls a Python function with the request. The function returns the text of the answer, or
/// the body of a chat completion.
struct Callback {
    ask: Py<PyAny>,
    capabilities: Capabilities,
    /// The exception that ended the run.
    raised: Mutex<Option<PyErr>>,
}

impl Callback {
    fn new(ask: Py<PyAny>) -> Arc<Self> {
        Arc::new(Self { ask, capabilities: Capabilities::all(), raised: Mutex::new(None) })
    }

    /// Calls the function. An exception ends the run, and is kept for [`Callback::finish`].
    fn call(&self, body: &Body) -> Result<Value, BackendError> {
        let called = Python::attach(|py| {
            py.check_signals()?;
            let answer = self.ask.bind(py).call1((json::to_python(py, body)?,))?;
            match answer.extract::<String>() {
                Ok(text) => Ok(ScriptedBackend::says(&text)),
                Err(_) => json::from_python(&answer),
            }
        });
        called.map_err(|error| {
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            BackendError::cancelled()
        })
    }

    /// Returns the exception of the function, or else the result of the run.
    fn finish<T>(&self, result: Result<T, String>) -> PyResult<T> {
        match self.raised.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(raised) => Err(raised),
            None => result.map_err(PyRuntimeError::new_err),
        }
    }
}

impl ChatBackend for Callback {
    fn name(&self) -> &'static str {
        "callback"
    }

    fn chat<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Answer, BackendError>> {
        let answer = self.call(body).map(|body| Answer { body, attempts: 1, retried: Vec::new() });
        ready(answer).boxed()
    }

    fn stream<'a>(&'a self, body: &'a Body) -> BoxFuture<'a, Result<Chunks, BackendError>> {
        async move { ScriptedBackend::new([self.call(body)]).stream(body).await }.boxed()
    }

    fn known_capabilities(&self, _: &str) -> Option<Capabilities> {
        Some(self.capabilities)
    }

    fn capabilities<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Capabilities, BackendError>> {
        ready(Ok(self.capabilities)).boxed()
    }
}

/// Runs `POST /v1/directives` with a callable as the model. Returns the result as a dict.
#[pyfunction]
pub(crate) fn run_directives<'py>(
    py: Python<'py>,
    request: &Bound<'py, PyAny>,
    ask: Py<PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut request = json::from_python(request)?;
    if let Some(request) = request.as_object_mut() {
        request.entry("model").or_insert_with(|| json!(MODEL));
    }
    let (app, backend) = (without_model()?, Callback::new(ask));
    let asked: Arc<dyn ChatBackend> = Arc::clone(&backend) as _;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let body = request.to_string();
    let result =
        py.detach(|| runtime.block_on(formwork_server::run_directives(&app, asked, body.as_bytes())));
    let result = backend.finish(Ok(result))?.map_err(|error| error::option(py, error))?;
    json::to_python(py, &result)
}

/// Repairs an answer with a callable as the model. Returns the answer as a dict.
///
/// schema: a dict, a Pydantic model, or JSON text.
/// text: the answer, or None to ask the model first.
/// ask: called with the request as a dict; returns the text of the answer.
#[pyfunction]
#[pyo3(signature = (
    schema, text, ask, *, prompt = "Answer with JSON.", max_attempts = 2, level = "full", tolerant = 1,
    strict = false
))]
pub(crate) fn repair<'py>(
    py: Python<'py>,
    schema: &Bound<'py, PyAny>,
    text: Option<&str>,
    ask: Py<PyAny>,
    prompt: &str,
    max_attempts: u32,
    level: &str,
    tolerant: u8,
    strict: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let schema: Value = serde_json::from_str(&json::text(schema)?)
        .map_err(|error| error::grammar_message(py, format!("the schema is not JSON: {error}")))?;
    let level: OutputProcessing = named("level", level)?;
    let tolerance = Tolerance::try_from(tolerant).map_err(|error| error::option(py, error))?;
    let options = AdaptOptions::of_level(level).with_tolerance(tolerance);
    let options = AdaptOptions { anyof_strategy: AnyOfStrategy::Unique, ..options };
    let shape = Shape::of_schema(schema, "answer").map_err(|error| error::option(py, error))?;
    let backend = Callback::new(ask);
    let prompts = PromptRunner::new(Arc::clone(&backend) as Arc<dyn ChatBackend>, MODEL);
    let repairer = Repairer::new(prompts, shape)
        .with_adaptation(options)
        .map_err(|error| error::option(py, error))?
        .with_options(RepairOptions { max_attempts, strict, ..RepairOptions::default() });
    let plan = Plan { messages: vec![json!({ "role": "user", "content": prompt })], ..Plan::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = py.detach(|| {
        runtime.block_on(async {
            match text {
                Some(text) => repairer.repair(&plan, text).await,
                None => repairer.ask(&plan).await,
            }
        })
    });
    let answer = backend.finish(answer.map_err(|error| error.to_string()))?;
    json::to_python(py, &answer)
}

/// Runs the `formwork` command. Returns its exit code.
#[pyfunction]
pub(crate) fn run_command(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| formwork_cli::run(arguments))
}
