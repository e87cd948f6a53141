//! Reads GGUF files with candle.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use candle_core::quantized::gguf_file::{Content, Value};
use formwork_vocab::tokenizer::GgufTokenizer;
use formwork_vocab::{Tokenizer, Vocabulary};

/// Reads the header of a file; returns it with the file. The file is buffered, because candle reads
/// the metadata number by number.
pub fn read(path: &Path) -> Result<(Content, BufReader<File>)> {
    let mut file = BufReader::new(File::open(path).with_context(|| path.display().to_string())?);
    let content = Content::read(&mut file)?;
    Ok((content, file))
}

/// Builds Formwork's vocabulary from the file, so that both engines get the same tokens.
pub fn vocabulary(path: &Path) -> Result<Vocabulary> {
    let metadata = read(path)?.0.metadata;
    let array = |key: &str| match metadata.get(key) {
        None => Ok(&[][..]),
        Some(value) => value.to_vec().map(Vec::as_slice).with_context(|| key.to_owned()),
    };
    let texts = |key: &str| -> Result<Vec<String>> {
        array(key)?.iter().map(|value| Ok(value.to_string()?.clone())).collect()
    };
    let text = |key: &str| metadata.get(key).and_then(|value| value.to_string().ok()).cloned();
    let kinds = array("tokenizer.ggml.token_type")?.iter().map(|value| match *value {
        Value::U32(kind) => Ok(i32::try_from(kind)?),
        ref kind => Ok(kind.to_i32()?),
    });
    let scores = array("tokenizer.ggml.scores")?.iter().map(|value| Ok(value.to_f32()?));
    let tokenizer = Tokenizer::from_gguf(GgufTokenizer {
        name: text("general.name"),
        model: text("tokenizer.ggml.model").context("the file has no tokenizer.ggml.model")?,
        pre: text("tokenizer.ggml.pre"),
        tokens: texts("tokenizer.ggml.tokens")?,
        token_type: kinds.collect::<Result<_>>()?,
        scores: scores.collect::<Result<_>>()?,
        merges: texts("tokenizer.ggml.merges")?,
        ..GgufTokenizer::default()
    })?;
    Ok(tokenizer.vocabulary().as_ref().clone())
}
