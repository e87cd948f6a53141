//! Masks of grammars along texts of their languages, cold and warm.
//!
//! ```sh
//! cargo bench -p formwork-benches --bench grammars -- --tokenizer tokenizer.json [NAME …]
//! ```
//!
//! The grammars are those of `grammars/`, the texts their cases and random outputs, 50 KB and more of each. *Cold* is a walk
//! along all of them that begins with empty caches, *warm* the same walk once more. Timed is the mask of each token and the
//! step over it, on one thread.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use formwork_benches::Distribution;
use formwork_grammar::{Constraint, Grammar, Limits};
use formwork_vocab::{TokenId, Tokenizer};
use serde_json::Value;

/// What is measured if nothing is named.
const NAMES: [&str; 5] = ["json", "c-subset", "arithmetic", "csv", "sql-select"];

/// Bytes of text for each grammar.
const BYTES: usize = 50_000;

/// Random outputs are at most this long.
const OUTPUT: usize = 2000;

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() -> Result<()> {
    let mut tokenizer = None;
    let mut names = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => {}
            "--tokenizer" => tokenizer = arguments.next(),
            _ => names.push(argument),
        }
    }
    let json = std::fs::read(tokenizer.context("--tokenizer names a tokenizer.json")?)?;
    let tokenizer = Tokenizer::from_json(&json)?;
    if names.is_empty() {
        names = NAMES.map(str::to_owned).to_vec();
    }
    println!("mask and step, µs\n{}", Distribution::header());
    for name in names {
        let walk = Walk::new(&name, &tokenizer)?;
        let [cold, warm] = walk.times()?;
        let (bytes, tokens, compile) = (walk.bytes, cold.len(), walk.compile.as_micros());
        println!("{name}: {bytes} bytes, {tokens} tokens, compiled in {compile} µs");
        println!("{}\n{}", Distribution::of(cold).row("  cold"), Distribution::of(warm).row("  warm"));
    }
    Ok(())
}

/// One grammar and its texts.
struct Walk {
    grammar: Grammar,
    compile: Duration,
    texts: Vec<Vec<TokenId>>,
    bytes: usize,
    tokenizer: Tokenizer,
}

impl Walk {
    fn new(name: &str, tokenizer: &Tokenizer) -> Result<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../grammars");
        let source = std::fs::read_to_string(folder.join(format!("{name}.gbnf"))).context(name.to_owned())?;
        let cases = std::fs::read(folder.join(format!("{name}.cases.json")))?;
        let start = Instant::now();
        let grammar = Grammar::gbnf(&source, &Limits::default())?;
        let compile = start.elapsed();
        let cases: Value = serde_json::from_slice(&cases)?;
        let cases = cases["accept"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let samples =
            grammar.samples(1).max_bytes(OUTPUT).filter_map(|output| String::from_utf8(output).ok());
        let (mut texts, mut bytes) = (Vec::new(), 0);
        for text in cases.map(str::to_owned).chain(samples) {
            bytes += text.len();
            texts.push(tokenizer.encode_fragment(&text)?);
            if bytes >= BYTES {
                break;
            }
        }
        Ok(Self { grammar, compile, texts, bytes, tokenizer: tokenizer.clone() })
    }

    /// The times of the cold and of the warm walk, in microseconds.
    fn times(&self) -> Result<[Vec<f64>; 2]> {
        let mut times = [Vec::new(), Vec::new()];
        let constraint = Constraint::new(&self.grammar, Arc::clone(self.tokenizer.vocabulary()))?;
        for times in &mut times {
            for text in &self.texts {
                let mut matcher = constraint.matcher();
                for &token in text {
                    let start = Instant::now();
                    let allowed = matcher.mask().contains(token);
                    matcher.commit(token)?;
                    times.push(start.elapsed().as_secs_f64() * 1e6);
                    assert!(allowed, "a token of an output is not in the mask");
                }
                assert!(matcher.accepting(), "an output may not end");
            }
        }
        Ok(times)
    }
}
