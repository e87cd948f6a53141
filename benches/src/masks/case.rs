use anyhow::{Context, Result, bail};
use formwork_vocab::{TokenId, Tokenizer};
use serde::Deserialize;
use serde_json::Value;

use super::Spelling;

/// A JSON Schema with tokenized instances.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// Name of the case, which identifies it in results.
    pub id: String,
    /// The schema.
    pub schema: Value,
    /// Values to check against the schema, in the order of the case file.
    pub instances: Vec<Instance>,
}

/// One instance, written as JSON text and tokenized.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// True if the case declares the instance valid.
    pub valid: bool,
    /// Tokens of the text, without end-of-sequence.
    pub tokens: Vec<TokenId>,
}

/// The parts of a case file that are read. Files also hold descriptions and statistics.
#[derive(Deserialize)]
struct File {
    schema: Value,
    #[serde(default)]
    tests: Vec<Test>,
}

#[derive(Deserialize)]
struct Test {
    valid: bool,
    data: Value,
}

impl Case {
    /// Parses the content of a case file.
    ///
    /// # Errors
    /// Returns an error if the content is not of the form
    /// `{"schema", "tests": [{"valid", "data"}]}`. Also returns an error if the tokens of an
    /// instance spell a different text, as with tokenizers that normalize.
    pub fn parse(id: &str, json: &[u8], tokenizer: &Tokenizer, spelling: Spelling) -> Result<Self> {
        let file: File = serde_json::from_slice(json).with_context(|| format!("{id}: not a case"))?;
        let instance = |(index, test): (usize, Test)| {
            let text = spelling.write(&test.data)?;
            let tokens = tokenizer.encode_fragment(&text).with_context(|| format!("{id}: tests[{index}]"))?;
            if tokenizer.decode(&tokens) != text.as_bytes() {
                bail!("{id}: tests[{index}]: the tokens spell another text; does the tokenizer normalise?");
            }
            Ok(Instance { valid: test.valid, tokens })
        };
        let instances = file.tests.into_iter().enumerate().map(instance).collect::<Result<_>>()?;
        Ok(Self { id: id.to_owned(), schema: file.schema, instances })
    }
}
