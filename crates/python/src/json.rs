//! Conversion between JSON and Python's values.

use pyo3::prelude::*;
use pyo3::types::PyType;
use serde::Serialize;
use serde_json::Value;

/// Returns the JSON text of a value. A text stays as it is, a Pydantic class gives its schema, and an instance
/// gives its fields.
pub(crate) fn text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = value.extract::<String>() {
        return Ok(text);
    }
    let value = if value.hasattr("model_json_schema")? && value.is_instance_of::<PyType>() {
        value.call_method0("model_json_schema")?
    } else if value.hasattr("model_dump")? {
        value.call_method0("model_dump")?
    } else {
        value.clone()
    };
    value.py().import("json")?.call_method1("dumps", (value,))?.extract()
}

/// Returns the JSON value of a Python value other than a text.
pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    let text: String = value.py().import("json")?.call_method1("dumps", (value,))?.extract()?;
    serde_json::from_str(&text).map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))
}

/// Returns the Python value of plain data.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value)
        .map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}
