//! The class `Matcher`.

use formwork_grammar::{Constraint, Matcher};
use formwork_vocab::TokenId;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::bitmask::Row;
use crate::constraint::PyConstraint;
use crate::error;
use crate::grammar::describe;
use crate::text::Text;
use crate::tokenizer::PyTokenizer;

/// Follows one output, token by token, and computes the tokens that may come next.
#[pyclass(name = "Matcher", module = "formwork")]
pub(crate) struct PyMatcher {
    pub(crate) inner: Matcher,
    pub(crate) constraint: Constraint,
}

#[pymethods]
impl PyMatcher {
    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// The committed tokens, with None for each committed text.
    #[getter]
    fn tokens(&self) -> Vec<Option<u32>> {
        let id = |token: &TokenId| (*token != Matcher::TEXT).then_some(token.0);
        self.inner.tokens().iter().map(id).collect()
    }

    /// The constraint that this matcher follows.
    #[getter]
    fn constraint(&self) -> PyConstraint {
        PyConstraint { inner: self.constraint.clone() }
    }

    /// Returns a copy at the same position.
    fn fork(&self) -> Self {
        Self { inner: self.inner.clone(), constraint: self.constraint.clone() }
    }

    /// Writes the mask to `words` 32-bit words at `address`. Token t is bit t % 32 of word t // 32.
    ///
    /// The caller must own that memory. Returns True if the mask forbids a token.
    #[pyo3(signature = (address, words, within = None))]
    fn fill(&mut self, py: Python<'_>, address: usize, words: usize, within: Option<usize>) -> bool {
        let row = Row::new(address, words);
        py.detach(|| row.fill(&mut self.inner, within))
    }

    /// Returns the tokens that may come next.
    ///
    /// within: number of tokens within which the output must be able to close.
    #[pyo3(signature = (within = None))]
    fn allowed(&mut self, py: Python<'_>, within: Option<usize>) -> Vec<u32> {
        py.detach(|| match within {
            Some(within) => self.inner.mask_within(within).iter().map(|token| token.0).collect(),
            None => self.inner.mask().iter().map(|token| token.0).collect(),
        })
    }

    /// Reports whether a token may come next.
    #[pyo3(signature = (token, within = None))]
    fn allows(&mut self, py: Python<'_>, token: u32, within: Option<usize>) -> bool {
        let token = TokenId(token);
        py.detach(|| match within {
            Some(within) => self.inner.allows_within(token, within),
            None => self.inner.mask().contains(token),
        })
    }

    /// Appends a token.
    fn commit(&mut self, py: Python<'_>, token: u32) -> PyResult<()> {
        let committed = py.detach(|| self.inner.commit(TokenId(token)));
        committed.map_err(|error| error::not_allowed(py, error))
    }

    /// Appends a token if it is allowed. Returns False otherwise.
    fn try_commit(&mut self, py: Python<'_>, token: u32) -> bool {
        py.detach(|| self.inner.commit(TokenId(token)).is_ok())
    }

    /// Appends a text as one step, whatever tokens the vocabulary has.
    fn commit_bytes(&mut self, py: Python<'_>, text: Text) -> PyResult<()> {
        let committed = py.detach(|| self.inner.commit_text(&text.0));
        committed.map_err(|error| error::not_allowed(py, error))
    }

    /// Appends a text as one step if it is allowed. Returns False otherwise.
    fn try_commit_bytes(&mut self, py: Python<'_>, text: Text) -> bool {
        py.detach(|| self.inner.commit_text(&text.0).is_ok())
    }

    /// Removes the last `count` steps, or all of them if there are fewer.
    fn rollback(&mut self, count: usize) {
        self.inner.rollback(count);
    }

    /// Reports whether the output may end here.
    fn accepting(&mut self, py: Python<'_>) -> bool {
        py.detach(|| self.inner.accepting())
    }

    /// Reports whether the output may end here, and nothing else can follow.
    fn complete(&mut self, py: Python<'_>) -> bool {
        py.detach(|| self.inner.complete())
    }

    /// Returns a number of tokens that suffices to close the output, or None if no tokens can.
    fn closing_tokens(&mut self, py: Python<'_>) -> Option<usize> {
        py.detach(|| self.inner.closing_tokens())
    }

    /// Returns the bytes with which every completion starts, at most 512.
    fn forced_bytes<'py>(&mut self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let forced = py.detach(|| self.inner.forced_bytes());
        PyBytes::new(py, &forced)
    }

    /// Returns the tokens that spell the forced bytes, up to the first one that is uncertain.
    fn forced_tokens(&mut self, py: Python<'_>, tokenizer: &PyTokenizer) -> Vec<u32> {
        let forced = py.detach(|| self.inner.forced_tokens(&tokenizer.inner));
        forced.into_iter().map(|token| token.0).collect()
    }

    /// Explains what may come next: `expected`, the number of `tokens`, and `may_end`.
    fn explain<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| self.inner.explain());
        let explanation = PyDict::new(py);
        explanation.set_item("expected", describe(&found.bytes, found.expected))?;
        explanation.set_item("tokens", found.tokens)?;
        explanation.set_item("may_end", found.may_end)?;
        Ok(explanation)
    }

    /// Explains why a token may not come next, or returns None if it may.
    ///
    /// The reason has the `offset` in the token's bytes of the first byte that is not allowed, and the
    /// continuations that are `expected` there.
    fn rejection<'py>(&mut self, py: Python<'py>, token: u32) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(found) = py.detach(|| self.inner.explain_rejection(TokenId(token))) else { return Ok(None) };
        let rejection = PyDict::new(py);
        rejection.set_item("offset", found.offset)?;
        rejection.set_item("expected", describe(&found.bytes, found.expected))?;
        Ok(Some(rejection))
    }
}
