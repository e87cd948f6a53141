//! Cold and warm masks of grammars along texts of their languages.
//!
//! ```sh
//! cargo bench -p formwork-benches --bench grammars -- --tokenizer tokenizer.json [--texts FILE] [NAME …]
//! ```
//!
//! *Cold* is a walk along all texts with empty caches, *warm* a second walk with filled ones. A
//! measured time covers the mask of a token and the step over the token, on one thread. Tables that
//! depend only on the vocabulary are built when the first grammar is bound to the vocabulary.
//! `--texts` also writes the tokens of the texts to a file, for use by peers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use formwork_benches::Distribution;
use formwork_benches::grammars::{Language, NAMES, Texts};
use formwork_grammar::{Constraint, Grammar, Limits};
use formwork_vocab::Tokenizer;

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() -> Result<()> {
    let (mut tokenizer, mut written) = (None, None);
    let mut names = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => {}
            "--tokenizer" => tokenizer = arguments.next(),
            "--texts" => written = arguments.next(),
            _ => names.push(argument),
        }
    }
    let json = std::fs::read(tokenizer.context("--tokenizer names a tokenizer.json")?)?;
    let tokenizer = Tokenizer::from_json(&json)?;
    if names.is_empty() {
        names = NAMES.map(str::to_owned).to_vec();
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../grammars");
    let mut all_tokens = BTreeMap::new();
    println!("mask and step, µs\n{}", Distribution::header());
    for name in names {
        let language = Language::read(&folder, &name)?;
        let start = Instant::now();
        let grammar = Grammar::gbnf(&language.source, &Limits::default())?;
        let compile = start.elapsed().as_micros();
        let start = Instant::now();
        let constraint = Constraint::new(&grammar, Arc::clone(tokenizer.vocabulary()))?;
        let bind = start.elapsed().as_micros();
        let texts = language.texts(&tokenizer)?;
        let [cold, warm] = [walk(&constraint, &texts)?, walk(&constraint, &texts)?];
        let (bytes, tokens) = (texts.bytes, cold.len());
        println!("{name}: {bytes} bytes, {tokens} tokens, compiled in {compile} µs, bound in {bind} µs");
        println!("{}\n{}", Distribution::of(cold).row("  cold"), Distribution::of(warm).row("  warm"));
        let ids = texts.tokens.iter().map(|text| text.iter().map(|token| token.0).collect::<Vec<_>>());
        all_tokens.insert(name, ids.collect::<Vec<_>>());
    }
    if let Some(file) = written {
        std::fs::write(file, serde_json::to_vec(&all_tokens)?)?;
    }
    Ok(())
}

/// Returns the time of each token, in microseconds.
fn walk(constraint: &Constraint, texts: &Texts) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for text in &texts.tokens {
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
    Ok(times)
}
