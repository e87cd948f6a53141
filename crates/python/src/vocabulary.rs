//! The class `Vocabulary`.

use std::sync::Arc;

use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;

/// All tokens of a model, with their bytes.
///
/// tokens: the bytes that each token adds to the output, or None for an id without a meaning.
/// ends: the tokens that end a sequence.
/// special: further tokens whose spelling is never text.
#[pyclass(name = "Vocabulary", module = "formwork", frozen)]
pub(crate) struct PyVocabulary {
    pub(crate) inner: Arc<Vocabulary>,
}

#[pymethods]
impl PyVocabulary {
    #[new]
    #[pyo3(signature = (tokens, ends, special = Vec::new()))]
    fn new(
        py: Python<'_>,
        tokens: Vec<Option<Bound<'_, PyBytes>>>,
        ends: Vec<u32>,
        special: Vec<u32>,
    ) -> PyResult<Self> {
        let mut tokens: Vec<Token> = tokens
            .into_iter()
            .map(|bytes| match bytes {
                Some(bytes) => Token { bytes: bytes.as_bytes().to_vec(), kind: TokenKind::Text },
                None => Token { bytes: Vec::new(), kind: TokenKind::Unused },
            })
            .collect();
        let len = tokens.len();
        for id in special {
            let token = tokens.get_mut(id as usize).ok_or_else(|| {
                error::vocabulary(py, format!("special token {id} is out of range (vocabulary size {len})"))
            })?;
            token.kind = TokenKind::Control;
        }
        let ends = ends.into_iter().map(TokenId).collect();
        let built = py.detach(|| Vocabulary::new(tokens, ends));
        Ok(Self { inner: Arc::new(built.map_err(|error| error::vocabulary(py, error))?) })
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    fn __repr__(&self) -> String {
        format!("Vocabulary({} tokens)", self.inner.len())
    }

    /// Returns the bytes of a token.
    fn token<'py>(&self, py: Python<'py>, token: u32) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.inner.bytes(self.checked(token)?)))
    }

    /// Reports whether a token's spelling is never text.
    fn is_special(&self, token: u32) -> PyResult<bool> {
        Ok(!self.inner.kind(self.checked(token)?).is_text())
    }

    /// The tokens that end a sequence.
    #[getter]
    fn ends(&self) -> Vec<u32> {
        self.inner.ends().iter().map(|end| end.0).collect()
    }
}

impl PyVocabulary {
    fn checked(&self, token: u32) -> PyResult<TokenId> {
        let len = self.inner.len();
        if (token as usize) < len {
            return Ok(TokenId(token));
        }
        Err(PyIndexError::new_err(format!("token {token} is out of range (vocabulary size {len})")))
    }
}
