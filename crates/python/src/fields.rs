//! Definitions of fields.

use formwork_fields::{CSharpOptions, Definition, Format, SchemaOptions};
use formwork_grammar::Limits;
use pyo3::prelude::*;

use crate::grammar::PyGrammar;
use crate::{error, json};

/// A definition of fields: typed values with bounds, options and weights.
#[pyclass(name = "Fields", module = "formwork", frozen)]
pub(crate) struct PyFields {
    inner: Definition,
}

#[pymethods]
impl PyFields {
    /// text: the definition.
    /// format: `json`, `yaml`, `toml`, `csharp` or `json-schema`.
    #[new]
    #[pyo3(signature = (text, format = "json"))]
    fn new(py: Python<'_>, text: &str, format: &str) -> PyResult<Self> {
        let format = read_format(format)?;
        let inner = py.detach(|| Definition::parse(text, format));
        Ok(Self { inner: inner.map_err(|error| error::option(py, error))? })
    }

    /// Returns the template that tells a model what to write.
    fn template(&self) -> String {
        self.inner.template()
    }

    /// Returns the grammar in GBNF.
    fn gbnf(&self) -> String {
        self.inner.gbnf()
    }

    /// Compiles the grammar.
    fn grammar(&self, py: Python<'_>) -> PyResult<PyGrammar> {
        let compiled = py.detach(|| self.inner.grammar(&Limits::default()));
        Ok(PyGrammar { inner: compiled.map_err(|error| error::grammar(py, &error))? })
    }

    /// Returns the JSON Schema as a dict.
    #[pyo3(signature = (*, multiple_of = false))]
    fn schema<'py>(&self, py: Python<'py>, multiple_of: bool) -> PyResult<Bound<'py, PyAny>> {
        json::to_python(py, &self.inner.schema_with(SchemaOptions { multiple_of }))
    }

    /// Returns C# classes for the values.
    #[pyo3(signature = (namespace = "Formwork".to_owned()))]
    fn csharp(&self, py: Python<'_>, namespace: String) -> PyResult<String> {
        self.inner.csharp(&CSharpOptions { namespace }).map_err(|error| error::option(py, error))
    }

    /// Returns the errors of a JSON text. The list is empty if the text is valid.
    fn validate(&self, py: Python<'_>, text: &str) -> Vec<String> {
        py.detach(|| self.inner.validate(text).iter().map(ToString::to_string).collect())
    }

    /// Returns the definition in another format.
    fn convert(&self, py: Python<'_>, format: &str) -> PyResult<String> {
        self.inner.to_text(read_format(format)?).map_err(|error| error::option(py, error))
    }
}

fn read_format(name: &str) -> PyResult<Format> {
    Ok(match name {
        "json" => Format::Json,
        "yaml" => Format::Yaml,
        "toml" => Format::Toml,
        "csharp" => Format::CSharp,
        "json-schema" => Format::JsonSchema,
        _ => {
            let known = "json, yaml, toml, csharp, json-schema";
            let message = format!("unknown format `{name}`; expected one of {known}");
            return Err(Python::attach(|py| error::option(py, message)));
        }
    })
}
