//! Meaning of the notations. Checks texts that grammars and regular expressions accept, and near
//! misses that they reject, byte by byte and token by token. Also checks the errors of malformed
//! sources.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use formwork_grammar::{Constraint, Grammar, GrammarError, Limits};
use formwork_model::{Model, OpenOptions};
use formwork_tests::random::{self, Random};
use formwork_vocab::{Tokenizer, Vocabulary};
use serde::Deserialize;

use crate::grammars::through_masks;

#[derive(Deserialize)]
struct Case {
    name: String,
    grammar: Option<String>,
    regex: Option<String>,
    #[serde(default)]
    accept: Vec<String>,
    #[serde(default)]
    reject: Vec<String>,
}

#[derive(Deserialize)]
struct Malformed {
    name: String,
    grammar: Option<String>,
    regex: Option<String>,
    line: Option<usize>,
    column: Option<usize>,
    says: String,
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

fn read<T: for<'de> Deserialize<'de>>(name: &str) -> Vec<T> {
    let text = std::fs::read_to_string(data(name)).expect("readable");
    serde_json::from_str(&text).expect("cases")
}

fn compile(grammar: Option<&str>, regex: Option<&str>) -> Result<Grammar, GrammarError> {
    let limits = Limits::default();
    match (grammar, regex) {
        (Some(source), None) => Grammar::gbnf(source, &limits),
        (None, Some(pattern)) => Grammar::regex(pattern, &limits),
        _ => panic!("a grammar or a regular expression"),
    }
}

/// Checks all cases; returns the number of texts.
fn check(tokenizer: &Tokenizer, vocabulary: &Arc<Vocabulary>) -> usize {
    let mut texts = 0;
    let mut wrong = Vec::new();
    for case in ["gbnf-cases.json", "regex-cases.json"].into_iter().flat_map(read::<Case>) {
        let grammar = match compile(case.grammar.as_deref(), case.regex.as_deref()) {
            Ok(grammar) => grammar,
            Err(error) => {
                wrong.push(format!("{}: {error}", case.name));
                continue;
            }
        };
        let constraint = Constraint::new(&grammar, Arc::clone(vocabulary)).expect("no token terminals");
        for (cases, expected) in [(&case.accept, true), (&case.reject, false)] {
            texts += cases.len();
            for text in cases {
                let mut verdicts = vec![grammar.accepts(text.as_bytes())];
                // Some vocabularies cannot spell every character.
                if tokenizer.encode_fragment(text).is_ok() {
                    verdicts.push(through_masks(&constraint, tokenizer, text));
                }
                if verdicts.contains(&!expected) {
                    wrong.push(format!("{}: {text:?} gives {verdicts:?}, not {expected}", case.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    texts
}

#[test]
fn the_notations_mean_what_they_say() {
    let vocabulary = Arc::new(random::vocabulary(&mut Random::new(8)));
    assert!(check(&Tokenizer::greedy((*vocabulary).clone()), &vocabulary) >= 400);
}

/// Checks all cases on the tokenizers of the models in the folder `FORMWORK_TEST_MODELS`, and on
/// the tokenizer in `FORMWORK_TEST_TOKENIZER`.
#[test]
fn the_notations_mean_the_same_on_real_tokenizers() {
    for tokenizer in real_tokenizers() {
        let texts = check(&tokenizer, tokenizer.vocabulary());
        eprintln!("{texts} texts over {} tokens", tokenizer.vocabulary().len());
    }
}

/// Loads the tokenizers that the environment names.
fn real_tokenizers() -> Vec<Tokenizer> {
    let mut tokenizers = Vec::new();
    if let Some(folder) = std::env::var_os("FORMWORK_TEST_MODELS") {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("readable").path();
            if path.extension().is_some_and(|extension| extension == "gguf") {
                let model = Model::open(&path, OpenOptions::default()).expect("a model");
                tokenizers.push(model.tokenizer().expect("a tokenizer"));
            }
        }
    }
    if let Some(path) = std::env::var_os("FORMWORK_TEST_TOKENIZER") {
        let json = std::fs::read(path).expect("readable");
        tokenizers.push(Tokenizer::from_json(&json).expect("a tokenizer"));
    }
    tokenizers
}

#[test]
fn malformed_grammars_are_refused_with_the_place() {
    let mut wrong = Vec::new();
    for case in read::<Malformed>("grammar-errors.json") {
        match compile(case.grammar.as_deref(), case.regex.as_deref()) {
            Ok(_) => wrong.push(format!("{}: compiles", case.name)),
            Err(error) => {
                let place = case.line.zip(case.column);
                let message = error.to_string();
                if error.line_column() != place || !message.contains(&case.says) || message.contains('\n') {
                    wrong.push(format!("{}: {place:?} {}\n   {message}", case.name, case.says));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
