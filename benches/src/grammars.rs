//! The languages of `grammars/` that are measured, and the texts along which their masks are.
//!
//! The texts of a grammar are its cases and then random outputs, 50 KB of them and more, as tokens.

use std::path::Path;

use anyhow::{Context, Result};
use formwork_grammar::{Grammar, Limits};
use formwork_vocab::{TokenId, Tokenizer};
use serde_json::Value;

/// What is measured if nothing is named.
pub const NAMES: [&str; 5] = ["json", "c-subset", "arithmetic", "csv", "sql-select"];

/// Bytes of text for each grammar.
const BYTES: usize = 50_000;

/// Random outputs are at most this long.
const OUTPUT: usize = 2000;

/// A grammar with its cases.
pub struct Language {
    /// The GBNF.
    pub source: String,
    /// The same, compiled.
    pub grammar: Grammar,
    cases: Value,
}

/// Some texts of a language.
pub struct Texts {
    /// By text.
    pub tokens: Vec<Vec<TokenId>>,
    /// Bytes of all of them.
    pub bytes: usize,
}

impl Language {
    /// Reads a grammar of `grammars/` by its name.
    ///
    /// # Errors
    /// When there is none, or it is malformed.
    pub fn read(name: &str) -> Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../grammars");
        let read = |file: String| std::fs::read_to_string(folder.join(&file)).context(file);
        let source = read(format!("{name}.gbnf"))?;
        let grammar = Grammar::gbnf(&source, &Limits::default()).context(name.to_owned())?;
        Ok(Self { source, grammar, cases: serde_json::from_str(&read(format!("{name}.cases.json"))?)? })
    }

    /// The cases to `accept`, or to `reject`.
    pub fn cases(&self, list: &str) -> impl Iterator<Item = String> {
        self.cases[list].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
    }

    /// The texts that are walked along.
    ///
    /// # Errors
    /// When the tokenizer has no tokens for some of a text.
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
