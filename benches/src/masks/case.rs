use anyhow::{Context, Result, bail};
use formwork_vocab::{TokenId, Tokenizer};
use serde::Deserialize;
use serde_json::Value;

use super::Spelling;

/// A schema with instances, cut into tokens.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// What the case is called in results.
    pub id: String,
    /// The schema.
    pub schema: Value,
    /// The instances.
    pub instances: Vec<Instance>,
}

/// The text of one instance, as tokens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instance {
    /// Whether the schema is said to accept it.
    pub valid: bool,
    /// The tokens, end-of-sequence not among them.
    pub tokens: Vec<TokenId>,
}

/// The part of a file that is read; there are descriptions and statistics beside it.
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
    /// Reads the content of a file.
    ///
    /// # Errors
    /// When it is not of the form `{"schema", "tests": [{"valid", "data"}]}`; when the tokens of an instance spell another
    /// text, as those of a tokenizer that normalises do.
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
