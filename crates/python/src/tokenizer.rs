//! The class `Tokenizer`.

use std::sync::Arc;

use formwork_vocab::tokenizer::EncodeOptions;
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error;
use crate::vocabulary::PyVocabulary;

/// A tokenizer from the text of a `tokenizer.json`, or one that takes the longest token.
#[pyclass(name = "Tokenizer", module = "formwork", frozen)]
pub(crate) struct PyTokenizer {
    pub(crate) inner: Tokenizer,
    /// The vocabulary of `inner`, with unused tokens up to the size of the model's output.
    vocabulary: Arc<Vocabulary>,
}

/// The text of a JSON file.
#[derive(FromPyObject)]
pub(crate) enum Json<'py> {
    Text(String),
    Bytes(Bound<'py, PyBytes>),
}

#[pymethods]
impl PyTokenizer {
    /// Reads the text of a `tokenizer.json`.
    ///
    /// ends: more tokens that end a sequence. Common ones are known by their names.
    /// size: number of logits of the model, if it is larger than the vocabulary.
    #[staticmethod]
    #[pyo3(signature = (json, ends = Vec::new(), size = None))]
    fn from_json(py: Python<'_>, json: Json<'_>, ends: Vec<u32>, size: Option<usize>) -> PyResult<Self> {
        let bytes = match json {
            Json::Text(text) => text.into_bytes(),
            Json::Bytes(bytes) => bytes.as_bytes().to_vec(),
        };
        let ends: Vec<TokenId> = ends.into_iter().map(TokenId).collect();
        let built = py.detach(|| {
            let inner = Tokenizer::from_json(&bytes)?.with_ends(&ends)?;
            let vocabulary = padded(inner.vocabulary(), size)?;
            Ok::<_, formwork_vocab::VocabError>(Self { inner, vocabulary })
        });
        built.map_err(|error| error::vocabulary(py, error))
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
