//! The class `Grammar`.

use std::collections::BTreeMap;

use formwork_grammar::{
    Formats, Grammar, GrammarError, Layout, Limits, Order, Profile, Remotes, SchemaOptions, Undeclared,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde_json::Value;

use crate::{error, json};

/// A compiled grammar. It describes bytes, so every vocabulary can use it.
#[pyclass(name = "Grammar", module = "formwork", frozen)]
pub(crate) struct PyGrammar {
    pub(crate) inner: Grammar,
}

/// Limits by name, as in `formwork.LIMITS`.
type GivenLimits = Option<BTreeMap<String, usize>>;

/// Documents by URI, as JSON texts.
type GivenRemotes = Option<BTreeMap<String, String>>;

#[pymethods]
impl PyGrammar {
    /// Compiles a JSON Schema: a dict, a Pydantic model, or JSON text.
    #[staticmethod]
    #[pyo3(signature = (
        schema, *, profile = "generate", layout = "spaced", order = "declared", formats = "assert",
        undeclared = "omit", remotes = None, limits = None
    ))]
    fn json_schema(
        py: Python<'_>,
        schema: &Bound<'_, PyAny>,
        profile: &str,
        layout: &str,
        order: &str,
        formats: &str,
        undeclared: &str,
        remotes: GivenRemotes,
        limits: GivenLimits,
    ) -> PyResult<Self> {
        let options = options([profile, layout, order, formats, undeclared])?;
        let (limits, remotes) = (read_limits(limits)?, read_remotes(py, remotes)?);
        let schema = parse(py, "the schema", &json::text(schema)?)?;
        compile(py, || Grammar::json_schema_with_remotes(&schema, &remotes, &options, &limits))
    }

    /// Compiles a GBNF grammar, whose first rule is `root`.
    #[staticmethod]
    #[pyo3(signature = (source, *, limits = None))]
    fn gbnf(py: Python<'_>, source: &str, limits: GivenLimits) -> PyResult<Self> {
        let limits = read_limits(limits)?;
        compile(py, || Grammar::gbnf(source, &limits))
    }

    /// Compiles a Lark grammar, whose first rule is `start`.
    #[staticmethod]
    #[pyo3(signature = (source, *, limits = None))]
    fn lark(py: Python<'_>, source: &str, limits: GivenLimits) -> PyResult<Self> {
        let limits = read_limits(limits)?;
        compile(py, || Grammar::lark(source, &limits))
    }

    /// Compiles a regular expression, which must match the whole output.
    #[staticmethod]
    #[pyo3(signature = (pattern, *, limits = None))]
    fn regex(py: Python<'_>, pattern: &str, limits: GivenLimits) -> PyResult<Self> {
        let limits = read_limits(limits)?;
        compile(py, || Grammar::regex(pattern, &limits))
    }

    /// Compiles a list of texts, one of which is the output.
    #[staticmethod]
    #[pyo3(signature = (choices, *, limits = None))]
    fn choices(py: Python<'_>, choices: Vec<String>, limits: GivenLimits) -> PyResult<Self> {
        let limits = read_limits(limits)?;
        compile(py, || Grammar::choices(&choices, &limits))
    }

    /// Compiles structural tags in the form of a `response_format`: a dict, a Pydantic model, or JSON text.
    #[staticmethod]
    #[pyo3(signature = (
        tag, *, profile = "generate", layout = "spaced", order = "declared", formats = "assert",
        undeclared = "omit", remotes = None, limits = None
    ))]
    fn structural_tag(
        py: Python<'_>,
        tag: &Bound<'_, PyAny>,
        profile: &str,
        layout: &str,
        order: &str,
        formats: &str,
        undeclared: &str,
        remotes: GivenRemotes,
        limits: GivenLimits,
    ) -> PyResult<Self> {
        let options = options([profile, layout, order, formats, undeclared])?;
        let (limits, remotes) = (read_limits(limits)?, read_remotes(py, remotes)?);
        let tag = parse(py, "the structural tag", &json::text(tag)?)?;
        let part =
            formwork_openai::structural_tag(&tag).map_err(|error| error::grammar_message(py, error))?;
        compile(py, || Grammar::of_parts_with_remotes(&part, &remotes, &options, &limits))
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
    fn accepts(&self, py: Python<'_>, text: &[u8]) -> bool {
        py.detach(|| self.inner.accepts(text))
    }

    /// Returns the first place at which a text is no output, or None if it is one.
    ///
    /// The place has the offset `at` in bytes, the `expected` continuations as a text, and `complete`, which
    /// is True if the text up to there is an output.
    fn mismatch<'py>(&self, py: Python<'py>, text: &[u8]) -> PyResult<Option<Bound<'py, PyDict>>> {
        let found = py.detach(|| {
            let mut recognizer = self.inner.recognizer();
            let mismatch = recognizer.extend(text).and_then(|()| recognizer.finish()).err()?;
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

fn read_remotes(py: Python<'_>, given: GivenRemotes) -> PyResult<Remotes> {
    let parse = |(uri, json): (String, String)| Ok((uri.clone(), parse(py, &uri, &json)?));
    given.unwrap_or_default().into_iter().map(parse).collect()
}

fn read_limits(given: GivenLimits) -> PyResult<Limits> {
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
                return Err(unknown("limit", &name, known));
            }
        };
        *limit = value;
    }
    Ok(limits)
}

fn options([profile, layout, order, formats, undeclared]: [&str; 5]) -> PyResult<SchemaOptions> {
    Ok(SchemaOptions {
        profile: match profile {
            "generate" => Profile::Generate,
            "accept" => Profile::Accept,
            _ => return Err(unknown("profile", profile, "generate, accept")),
        },
        layout: match layout {
            "spaced" => Layout::Spaced,
            "compact" => Layout::Compact,
            "pretty" => Layout::Pretty,
            "flexible" => Layout::Flexible,
            _ => return Err(unknown("layout", layout, "spaced, compact, pretty, flexible")),
        },
        order: match order {
            "declared" => Order::Declared,
            "any" => Order::Any,
            _ => return Err(unknown("order", order, "declared, any")),
        },
        formats: match formats {
            "assert" => Formats::Assert,
            "annotate" => Formats::Annotate,
            _ => return Err(unknown("formats", formats, "assert, annotate")),
        },
        undeclared: match undeclared {
            "omit" => Undeclared::Omit,
            "allow" => Undeclared::Allow,
            _ => return Err(unknown("undeclared", undeclared, "omit, allow")),
        },
    })
}

fn unknown(what: &str, given: &str, known: &str) -> PyErr {
    PyValueError::new_err(format!("unknown {what} `{given}`; expected one of {known}"))
}
