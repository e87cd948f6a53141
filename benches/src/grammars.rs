//! Languages from `grammars/`, with texts for measuring masks.
//!
//! The texts of a grammar are its accepted cases followed by random outputs, at least 50 KB in
//! total. For measurements, the texts are tokenized and masks are computed before each token.

use std::path::Path;

use anyhow::{Context, Result};
use formwork_grammar::{Grammar, Limits};
use formwork_vocab::{TokenId, Tokenizer};
use serde_json::Value;

/// Languages that are measured if the user names none.
pub const NAMES: [&str; 5] = ["json", "c-subset", "arithmetic", "csv", "sql-select"];

/// Minimum total size of the texts of a grammar, in bytes.
const BYTES: usize = 50_000;

/// Maximum size of a random output, in bytes.
const OUTPUT: usize = 2000;

/// A grammar from `grammars/` with its test cases.
pub struct Language {
    /// GBNF source.
    pub source: String,
    /// Compiled grammar.
    pub grammar: Grammar,
    cases: Value,
}

/// Texts of a language, as tokens.
pub struct Texts {
    /// Tokens of each text, without end-of-sequence.
    pub tokens: Vec<Vec<TokenId>>,
    /// Total size of all texts, in bytes.
    pub bytes: usize,
}

impl Language {
    /// Reads the grammar `name` and its cases from `folder`, which is `grammars/` of the repository.
    ///
    /// # Errors
    /// Returns an error if there is no such grammar, or if it is malformed.
    pub fn read(folder: &Path, name: &str) -> Result<Self> {
        let read = |file: String| std::fs::read_to_string(folder.join(&file)).context(file);
        let source = read(format!("{name}.gbnf"))?;
        let grammar = Grammar::gbnf(&source, &Limits::default()).context(name.to_owned())?;
        Ok(Self { source, grammar, cases: serde_json::from_str(&read(format!("{name}.cases.json"))?)? })
    }

    /// Returns the texts in a list of the cases. `list` is `accept` for texts of the language, or
    /// `reject` for other texts.
    pub fn cases(&self, list: &str) -> impl Iterator<Item = String> {
        self.cases[list].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
    }

    /// Returns the texts for measuring masks, tokenized.
    ///
    /// # Errors
    /// Returns an error if the tokenizer cannot encode a text.
    pub fn texts(&self, tokenizer: &Tokenizer) -> Result<Texts> {
        let samples = self.grammar.samples(1).max_bytes(OUTPUT);
        let samples = samples.filter_map(|output| String::from_utf8(output).ok());
        let mut texts = Texts { tokens: Vec::new(), bytes: 0 };
        for text in self.cases("accept").chain(samples) {
            texts.bytes += text.len();
            texts.tokens.push(tokenizer.encode_fragment(&text)?);
            if texts.bytes >= BYTES {
                break;
            }
        }
        Ok(texts)
    }
}
