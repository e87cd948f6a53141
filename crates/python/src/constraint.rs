//! The class `Constraint`.

use std::sync::Arc;

use formwork_grammar::Constraint;
use pyo3::prelude::*;

use crate::error;
use crate::grammar::PyGrammar;
use crate::matcher::PyMatcher;
use crate::vocabulary::PyVocabulary;

/// A grammar bound to a vocabulary, with the caches that all its matchers share.
#[pyclass(name = "Constraint", module = "formwork", frozen)]
pub(crate) struct PyConstraint {
    pub(crate) inner: Constraint,
}

#[pymethods]
impl PyConstraint {
    #[new]
    fn new(py: Python<'_>, grammar: &PyGrammar, vocabulary: &PyVocabulary) -> PyResult<Self> {
        let bound = py.detach(|| Constraint::new(&grammar.inner, Arc::clone(&vocabulary.inner)));
        Ok(Self { inner: bound.map_err(|error| error::grammar(py, &error))? })
    }

    /// The grammar.
    #[getter]
    fn grammar(&self) -> PyGrammar {
        PyGrammar { inner: self.inner.grammar().clone() }
    }

    /// The vocabulary.
    #[getter]
    fn vocabulary(&self) -> PyVocabulary {
        PyVocabulary { inner: Arc::clone(self.inner.vocabulary()) }
    }

    /// Number of tokens that suffices for an output, or None if the vocabulary cannot spell any.
    #[getter]
    fn minimum_tokens(&self, py: Python<'_>) -> Option<usize> {
        py.detach(|| self.inner.minimum_tokens())
    }

    /// Memory of the grammar and its caches, in bytes.
    #[getter]
    fn byte_len(&self) -> usize {
        self.inner.byte_len()
    }

    /// Creates a matcher at the start of an output.
    fn matcher(&self) -> PyMatcher {
        PyMatcher { inner: self.inner.matcher(), constraint: self.inner.clone() }
    }
}
