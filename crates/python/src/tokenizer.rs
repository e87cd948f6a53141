//! The class `Tokenizer`.

use std::path::PathBuf;
use std::sync::Arc;

use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;
use crate::text::Text;
use crate::vocabulary::PyVocabulary;

/// A tokenizer, from a file, from the text of a `tokenizer.json`, or by the longest token.
#[pyclass(name = "Tokenizer", module = "formwork", frozen)]
pub(crate) struct PyTokenizer {
    pub(crate) inner: Tokenizer,
    /// The vocabulary of `inner`, with unused tokens up to the size of the model's output.
    vocabulary: Arc<Vocabulary>,
}

#[pymethods]
impl PyTokenizer {
    /// Reads the text of a `tokenizer.json`.
    ///
    /// ends: more tokens that end a sequence. Common ones, such as `<|im_end|>`, are known by their names. Without
    /// any, a complete output has no next token.
    /// size: number of logits of the model, if it is larger than the vocabulary.
    #[staticmethod]
    #[pyo3(signature = (json, ends = Vec::new(), size = None))]
    fn from_json(
        py: Python<'_>,
        json: &Bound<'_, PyAny>,
        ends: Vec<u32>,
        size: Option<usize>,
    ) -> PyResult<Self> {
        let expected = "expected the text of a tokenizer.json, as str or bytes; Tokenizer.load takes a path";
        let Ok(Text(bytes)) = json.extract() else {
            let found = json.get_type().name()?;
            return Err(PyTypeError::new_err(format!("{expected}, not {found}")));
        };
        let built = py.detach(|| Self::build(Tokenizer::from_json(&bytes)?, ends, size));
        let is_path = !bytes.trim_ascii_start().starts_with(b"{");
        built.map_err(|error| {
            let hint = if is_path { format!("; {expected}") } else { String::new() };
            error::vocabulary(py, format!("{error}{hint}"))
        })
    }

    /// Loads a `tokenizer.json`, or the tokenizer of a model: a GGUF file, a folder, a short name or a hub id.
    ///
    /// ends, size: as for `from_json`.
    #[staticmethod]
    #[pyo3(signature = (model, ends = Vec::new(), size = None))]
    fn load(py: Python<'_>, model: PathBuf, ends: Vec<u32>, size: Option<usize>) -> PyResult<Self> {
        let name = model.to_string_lossy().into_owned();
        let loaded = py.detach(|| formwork_cli::tokenizer(&name));
        let loaded = loaded.map_err(|error| error::vocabulary(py, format!("{error:#}")))?;
        py.detach(|| Self::build(loaded, ends, size)).map_err(|error| error::vocabulary(py, error))
    }

    /// Creates a tokenizer that takes the longest token at each position.
    #[staticmethod]
    fn greedy(vocabulary: &PyVocabulary) -> Self {
        let inner = Tokenizer::greedy(Vocabulary::clone(&vocabulary.inner));
        Self { inner, vocabulary: Arc::clone(&vocabulary.inner) }
    }

    /// The vocabulary, with the bytes of each token.
    #[getter]
    fn vocabulary(&self) -> PyVocabulary {
        PyVocabulary { inner: Arc::clone(&self.vocabulary) }
    }

    /// The beginning-of-sequence token.
    #[getter]
    fn bos(&self) -> Option<u32> {
        self.inner.bos().map(|token| token.0)
    }

    /// The token that the file names as its end-of-sequence token.
    #[getter]
    fn eos(&self) -> Option<u32> {
        self.inner.eos().map(|token| token.0)
    }

    /// Encodes a whole text, such as a prompt.
    ///
    /// special: True if the spellings of control tokens become these tokens.
    /// bos: True if the beginning-of-sequence token comes first.
    #[pyo3(signature = (text, *, special = false, bos = false))]
    fn encode(&self, py: Python<'_>, text: &str, special: bool, bos: bool) -> PyResult<Vec<u32>> {
        let encoded = py.detach(|| self.inner.encode(text, EncodeOptions { special, bos }));
        ids(py, encoded)
    }

    /// Encodes a text that continues other text.
    fn encode_fragment(&self, py: Python<'_>, text: &str) -> PyResult<Vec<u32>> {
        let encoded = py.detach(|| self.inner.encode_fragment(text));
        ids(py, encoded)
    }

    /// Returns the bytes that the tokens add to the output.
    ///
    /// special: True if control tokens are spelt out.
    #[pyo3(signature = (tokens, *, special = false))]
    fn decode<'py>(&self, py: Python<'py>, tokens: Vec<u32>, special: bool) -> Bound<'py, PyBytes> {
        let tokens: Vec<TokenId> = tokens.into_iter().map(TokenId).collect();
        let bytes = if special { self.inner.decode_special(&tokens) } else { self.inner.decode(&tokens) };
        PyBytes::new(py, &bytes)
    }
}

impl PyTokenizer {
    fn build(
        inner: Tokenizer,
        ends: Vec<u32>,
        size: Option<usize>,
    ) -> Result<Self, formwork_vocab::VocabError> {
        let ends: Vec<TokenId> = ends.into_iter().map(TokenId).collect();
        let inner = inner.with_ends(&ends)?;
        let vocabulary = padded(inner.vocabulary(), size)?;
        Ok(Self { inner, vocabulary })
    }
}

fn ids(py: Python<'_>, encoded: Result<Vec<TokenId>, formwork_vocab::VocabError>) -> PyResult<Vec<u32>> {
    let encoded = encoded.map_err(|error| error::vocabulary(py, error))?;
    Ok(encoded.into_iter().map(|token| token.0).collect())
}

/// Adds unused tokens up to `size` tokens.
fn padded(
    vocabulary: &Arc<Vocabulary>,
    size: Option<usize>,
) -> Result<Arc<Vocabulary>, formwork_vocab::VocabError> {
    let Some(size) = size.filter(|&size| size > vocabulary.len()) else {
        return Ok(Arc::clone(vocabulary));
    };
    let known =
        vocabulary.ids().map(|id| Token { bytes: vocabulary.bytes(id).to_vec(), kind: vocabulary.kind(id) });
    let unused = std::iter::repeat_with(|| Token { bytes: Vec::new(), kind: TokenKind::Unused });
    // One token too many is enough for the error about the size.
    let tokens = known.chain(unused).take(size.min((1 << 24) + 1)).collect();
    Ok(Arc::new(Vocabulary::new(tokens, vocabulary.ends().to_vec())?))
}
