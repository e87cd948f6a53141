//! The class `Grammar`.

use std::collections::BTreeMap;

use formwork_grammar::{
    Formats, Grammar, GrammarError, Layout, Limits, Order, Profile, Remotes, SchemaOptions, Undeclared,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::Value;

use crate::text::Text;
use crate::{error, json};

/// A compiled grammar. It describes bytes, so every vocabulary can use it.
#[pyclass(name = "Grammar", module = "formwork", frozen)]
pub(crate) struct PyGrammar {
    pub(crate) inner: Grammar,
}

#[pymethods]
impl PyGrammar {
    /// Compiles a JSON Schema: a dict, a Pydantic model, or JSON text.
    ///
    /// Options: profile, layout, order, formats, undeclared, remotes, limits.
    #[staticmethod]
    #[pyo3(signature = (schema, **options))]
    fn json_schema(
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let given = Given::read(py, options)?;
        let schema = parse(py, "the schema", &json::text(schema)?)?;
        compile(py, || {
            Grammar::json_schema_with_remotes(&schema, &given.remotes, &given.schemas, &given.limits)
        })
    }

    /// Compiles a GBNF grammar, whose first rule is `root`. The options are those of `json_schema`.
    #[staticmethod]
    #[pyo3(signature = (source, **options))]
    fn gbnf(py: Python<'_>, source: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let given = Given::read(py, options)?;
        compile(py, || Grammar::gbnf_with_remotes(source, &given.remotes, &given.schemas, &given.limits))
    }

    /// Compiles a Lark grammar, whose first rule is `start`. The options are those of `json_schema`.
    #[staticmethod]
    #[pyo3(signature = (source, **options))]
    fn lark(py: Python<'_>, source: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let given = Given::read(py, options)?;
        compile(py, || Grammar::lark_with_remotes(source, &given.remotes, &given.schemas, &given.limits))
    }

    /// Compiles a regular expression, which must match the whole output.
    #[staticmethod]
    #[pyo3(signature = (pattern, *, limits = None))]
    fn regex(py: Python<'_>, pattern: &str, limits: Option<BTreeMap<String, usize>>) -> PyResult<Self> {
        let limits = read_limits(limits)?;
        compile(py, || Grammar::regex(pattern, &limits))
    }

    /// Compiles a list of texts. An output is any one of the texts.
    #[staticmethod]
    #[pyo3(signature = (choices, *, limits = None))]
    fn choices(
        py: Python<'_>,
        choices: &Bound<'_, PyAny>,
        limits: Option<BTreeMap<String, usize>>,
    ) -> PyResult<Self> {
        let Ok(choices) = choices.extract::<Vec<String>>() else {
            return Err(PyTypeError::new_err("`choices` is a list of texts, such as [\"yes\", \"no\"]"));
        };
        let limits = read_limits(limits)?;
        compile(py, || Grammar::choices(&choices, &limits))
    }

    /// Compiles structural tags in the form of a `response_format`: a dict, a Pydantic model, or JSON text. The
    /// options are those of `json_schema`.
    #[staticmethod]
    #[pyo3(signature = (tag, **options))]
    fn structural_tag(
        py: Python<'_>,
        tag: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let given = Given::read(py, options)?;
        let tag = parse(py, "the structural tag", &json::text(tag)?)?;
        let part =
            formwork_openai::structural_tag(&tag).map_err(|error| error::grammar_message(py, error))?;
        compile(py, || Grammar::of_parts_with_remotes(&part, &given.remotes, &given.schemas, &given.limits))
    }

    /// Warnings about parts without an effect.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.inner.warnings().iter().map(ToString::to_string).collect()
    }

    /// Number of states and rules of the compiled grammar.
    #[getter]
    fn size(&self) -> usize {
        self.inner.size()
    }

    /// Returns the grammar in GBNF.
    fn to_gbnf(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.inner.to_gbnf()).map_err(|error| error::grammar(py, &error))
    }

    /// Returns a shortest output.
    fn shortest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let shortest = py.detach(|| self.inner.shortest());
        PyBytes::new(py, &shortest)
    }

    /// Reports whether a text is an output.
    fn accepts(&self, py: Python<'_>, text: Text) -> bool {
        py.detach(|| self.inner.accepts(&text.0))
    }

    /// Returns the first place at which a text is no output, or None if the text is an output.
    ///
    /// The place has the offset `at` in bytes, the `expected` continuations as a text, and `complete`, which
    /// is True if the text up to there is an output.
    fn mismatch<'py>(&self, py: Python<'py>, text: Text) -> PyResult<Option<Bound<'py, PyDict>>> {
        let found = py.detach(|| {
            let mut recognizer = self.inner.recognizer();
            let mismatch = recognizer.extend(&text.0).and_then(|()| recognizer.finish()).err()?;
            Some((mismatch, recognizer.expected()))
        });
        let Some((mismatch, descriptions)) = found else { return Ok(None) };
        let place = PyDict::new(py);
        place.set_item("at", mismatch.at)?;
        place.set_item("expected", describe(&mismatch.expected, descriptions))?;
        place.set_item("complete", mismatch.complete)?;
        Ok(Some(place))
    }

    /// Returns random outputs.
    #[pyo3(signature = (count, *, seed = 0, max_bytes = None))]
    fn samples<'py>(
        &self,
        py: Python<'py>,
        count: usize,
        seed: u64,
        max_bytes: Option<usize>,
    ) -> Vec<Bound<'py, PyBytes>> {
        let samples = py.detach(|| {
            let samples = self.inner.samples(seed);
            let samples = match max_bytes {
                Some(max_bytes) => samples.max_bytes(max_bytes),
                None => samples,
            };
            samples.take(count).collect::<Vec<_>>()
        });
        samples.iter().map(|sample| PyBytes::new(py, sample)).collect()
    }
}

/// Returns the descriptions of what may follow, or else its bytes.
pub(crate) fn describe(bytes: &formwork_grammar::ByteSet, descriptions: Vec<String>) -> Vec<String> {
    if descriptions.is_empty() { vec![bytes.to_string()] } else { descriptions }
}

fn compile(
    py: Python<'_>,
    compile: impl Send + FnOnce() -> Result<Grammar, GrammarError>,
) -> PyResult<PyGrammar> {
    match py.detach(compile) {
        Ok(inner) => Ok(PyGrammar { inner }),
        Err(error) => Err(error::grammar(py, &error)),
    }
}

fn parse(py: Python<'_>, what: &str, json: &str) -> PyResult<Value> {
    serde_json::from_str(json)
        .map_err(|error| error::grammar_message(py, format!("{what} is not JSON: {error}")))
}

/// The options of a grammar with JSON Schemas.
#[derive(Default)]
struct Given {
    schemas: SchemaOptions,
    remotes: Remotes,
    limits: Limits,
}

impl Given {
    /// Reads the options by their names.
    fn read(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut given = Self::default();
        for (name, value) in options.into_iter().flatten() {
            let name: String = name.extract()?;
            let schemas = &mut given.schemas;
            match name.as_str() {
                "profile" => schemas.profile = one_of(&name, &value, &PROFILES)?,
                "layout" => schemas.layout = one_of(&name, &value, &LAYOUTS)?,
                "order" => schemas.order = one_of(&name, &value, &ORDERS)?,
                "formats" => schemas.formats = one_of(&name, &value, &FORMATS)?,
                "undeclared" => schemas.undeclared = one_of(&name, &value, &UNDECLARED)?,
                "remotes" => {
                    for (uri, json) in
                        value.extract::<Option<BTreeMap<String, String>>>()?.unwrap_or_default()
                    {
                        let document = parse(py, &uri, &json)?;
                        given.remotes.insert(uri, document);
                    }
                }
                "limits" => given.limits = read_limits(value.extract()?)?,
                _ => {
                    let known = "profile, layout, order, formats, undeclared, remotes, limits";
                    return Err(PyTypeError::new_err(unknown("option", &name, known)));
                }
            }
        }
        Ok(given)
    }
}

const PROFILES: [(&str, Profile); 2] = [("generate", Profile::Generate), ("accept", Profile::Accept)];
const LAYOUTS: [(&str, Layout); 5] = [
    ("spaced", Layout::Spaced),
    ("compact", Layout::Compact),
    ("pretty", Layout::Pretty),
    ("flexible", Layout::Flexible),
    ("inside", Layout::Inside),
];
const ORDERS: [(&str, Order); 2] = [("declared", Order::Declared), ("any", Order::Any)];
const FORMATS: [(&str, Formats); 2] = [("assert", Formats::Assert), ("annotate", Formats::Annotate)];
const UNDECLARED: [(&str, Undeclared); 2] = [("omit", Undeclared::Omit), ("allow", Undeclared::Allow)];

/// Returns the value of an option by its name.
fn one_of<T: Copy>(option: &str, given: &Bound<'_, PyAny>, known: &[(&str, T)]) -> PyResult<T> {
    let py = given.py();
    let Ok(given) = given.extract::<String>() else {
        let message = format!("`{option}` is the name of an option, as a text");
        return Err(PyTypeError::new_err(message));
    };
    let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = known.iter().find(|(name, _)| *name == given);
    found.map(|(_, value)| *value).ok_or_else(|| error::option(py, unknown(option, &given, &names())))
}

fn read_limits(given: Option<BTreeMap<String, usize>>) -> PyResult<Limits> {
    let mut limits = Limits::default();
    for (name, value) in given.unwrap_or_default() {
        let limit = match name.as_str() {
            "source_bytes" => &mut limits.source_bytes,
            "nesting" => &mut limits.nesting,
            "states" => &mut limits.states,
            "work" => &mut limits.work,
            "bytes" => &mut limits.bytes,
            "shortest_bytes" => &mut limits.shortest_bytes,
            "cache_bytes" => &mut limits.cache_bytes,
            _ => {
                let known = "source_bytes, nesting, states, work, bytes, shortest_bytes, cache_bytes";
                return Err(Python::attach(|py| error::option(py, unknown("limit", &name, known))));
            }
        };
        *limit = value;
    }
    Ok(limits)
}

fn unknown(what: &str, given: &str, known: &str) -> String {
    format!("unknown {what} `{given}`; expected one of {known}")
}
