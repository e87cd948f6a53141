//! Adaptation of texts to a schema.

use formwork_adapt::{AdaptOptions, Adapter, AnyOfStrategy, OutputProcessing, Prefer, Tolerance};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{error, json};

/// Fits texts to a schema, as far as this is possible without guessing.
#[pyclass(name = "Adapter", module = "formwork", frozen)]
pub(crate) struct PyAdapter {
    inner: Adapter,
}

#[pymethods]
impl PyAdapter {
    /// schema: a dict, a Pydantic model, or JSON text.
    /// level: `off`, `minimal` or `full`.
    /// tolerant: 0 for JSON, 1 for notations like JSON5, 2 for broken JSON.
    /// `anyof_strategy`: `first-pass` or `unique`.
    /// prefer: `only`, `first`, `last` or `largest`.
    #[new]
    #[pyo3(signature = (
        schema, *, level = "minimal", tolerant = 0, anyof_strategy = "first-pass", prefer = "only",
        allow_truncated = false
    ))]
    fn new(
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        level: &str,
        tolerant: u8,
        anyof_strategy: &str,
        prefer: &str,
        allow_truncated: bool,
    ) -> PyResult<Self> {
        let schema: Value = serde_json::from_str(&json::text(schema)?)
            .map_err(|error| error::grammar_message(py, format!("the schema is not JSON: {error}")))?;
        let level: OutputProcessing = named("level", level)?;
        let anyof_strategy: AnyOfStrategy = named("anyof_strategy", anyof_strategy)?;
        let prefer: Prefer = named("prefer", prefer)?;
        let tolerance = Tolerance::try_from(tolerant).map_err(|error| error::option(py, error))?;
        let options = AdaptOptions::of_level(level).with_tolerance(tolerance);
        let options = AdaptOptions { anyof_strategy, prefer, allow_truncated, ..options };
        let inner = py.detach(|| Adapter::new(&schema, options)).map_err(|error| error::option(py, error))?;
        Ok(Self { inner })
    }

    /// Adapts a text. Returns a dict with `valid`, `value`, `errors`, `truncated` and `transforms`.
    fn adapt<'py>(&self, py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyDict>> {
        let adaptation = py.detach(|| self.inner.adapt(text));
        let result = PyDict::new(py);
        result.set_item("valid", adaptation.is_valid())?;
        let value = adaptation.value().map(|value| json::to_python(py, value)).transpose()?;
        result.set_item("value", value)?;
        let errors: Vec<String> = adaptation.violations().iter().map(ToString::to_string).collect();
        result.set_item("errors", errors)?;
        result.set_item("truncated", adaptation.is_truncated())?;
        let transforms: Vec<&str> = adaptation.transforms().collect();
        result.set_item("transforms", transforms)?;
        Ok(result)
    }
}

/// Reads the value of an option from its name.
pub(crate) fn named<T: DeserializeOwned>(option: &str, name: &str) -> PyResult<T> {
    serde_json::from_value(Value::from(name))
        .map_err(|error| Python::attach(|py| error::option(py, format!("{option}: {error}"))))
}
