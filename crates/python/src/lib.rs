//! The native module `formwork._native` of the Python package.
//!
//! The module has the compiled parts only. Python code in `python/formwork` checks arguments, and gives the
//! parts the names that users see. Calls that compute for long release the interpreter.

#![allow(
    clippy::needless_pass_by_value,
    clippy::too_many_arguments,
    reason = "Python passes owned values, and names its arguments"
)]

mod adapt;
mod app;
mod bitmask;
mod callback;
mod constraint;
mod error;
mod fields;
mod grammar;
mod json;
mod matcher;
mod text;
mod tokenizer;
mod vocabulary;

use pyo3::prelude::*;

/// Creates the module.
#[pymodule(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    error::add_to(module)?;
    module.add_class::<vocabulary::PyVocabulary>()?;
    module.add_class::<tokenizer::PyTokenizer>()?;
    module.add_class::<grammar::PyGrammar>()?;
    module.add_class::<constraint::PyConstraint>()?;
    module.add_class::<matcher::PyMatcher>()?;
    module.add_class::<adapt::PyAdapter>()?;
    module.add_class::<fields::PyFields>()?;
    module.add_class::<app::PyApp>()?;
    module.add_class::<app::PyStream>()?;
    module.add_function(wrap_pyfunction!(bitmask::fill_batch, module)?)?;
    module.add_function(wrap_pyfunction!(callback::repair, module)?)?;
    module.add_function(wrap_pyfunction!(callback::run_directives, module)?)?;
    module.add_function(wrap_pyfunction!(callback::run_command, module)?)
}
