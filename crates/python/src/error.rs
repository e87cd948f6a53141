//! The exceptions of the Python package, which are classes of `formwork._errors`.

use std::fmt::Display;

use formwork_grammar::GrammarError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Names of the exceptions, which the native module has too.
const NAMES: [&str; 5] =
    ["FormworkError", "GrammarError", "VocabularyError", "NotAllowedError", "OptionError"];

/// Adds the exceptions to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let errors = module.py().import("formwork._errors")?;
    for name in NAMES {
        module.add(name, errors.getattr(name)?)?;
    }
    Ok(())
}

/// Converts an error of a grammar, with its place.
pub(crate) fn grammar(py: Python<'_>, error: &GrammarError) -> PyErr {
    let raised = || {
        let place = PyDict::new(py);
        place.set_item(intern!(py, "pointer"), error.pointer())?;
        place.set_item(intern!(py, "keyword"), error.keyword())?;
        let (line, column) = error.line_column().unzip();
        place.set_item(intern!(py, "line"), line)?;
        place.set_item(intern!(py, "column"), column)?;
        place.set_item(intern!(py, "excerpt"), error.excerpt())?;
        place.set_item(intern!(py, "over_limit"), error.is_over_limit())?;
        place.set_item(intern!(py, "unsatisfiable"), error.is_unsatisfiable())?;
        let class = py.import("formwork._errors")?.getattr("GrammarError")?;
        Ok(PyErr::from_value(class.call((error.to_string(),), Some(&place))?))
    };
    raised().unwrap_or_else(|error| error)
}

/// Creates a `FormworkError`.
pub(crate) fn formwork(py: Python<'_>, message: impl Display) -> PyErr {
    named(py, "FormworkError", message)
}

/// Creates a `GrammarError` without a place.
pub(crate) fn grammar_message(py: Python<'_>, message: impl Display) -> PyErr {
    named(py, "GrammarError", message)
}

/// Creates a `VocabularyError`.
pub(crate) fn vocabulary(py: Python<'_>, message: impl Display) -> PyErr {
    named(py, "VocabularyError", message)
}

/// Creates a `NotAllowedError`.
pub(crate) fn not_allowed(py: Python<'_>, message: impl Display) -> PyErr {
    named(py, "NotAllowedError", message)
}

/// Creates an `OptionError`.
pub(crate) fn option(py: Python<'_>, message: impl Display) -> PyErr {
    named(py, "OptionError", message)
}

fn named(py: Python<'_>, name: &str, message: impl Display) -> PyErr {
    let class = py.import("formwork._errors").and_then(|errors| errors.getattr(name));
    class.and_then(|class| class.call1((message.to_string(),))).map_or_else(|error| error, PyErr::from_value)
}
