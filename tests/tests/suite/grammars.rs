//! Checks every grammar in `grammars/` against its cases, byte by byte and token by token.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use formwork_grammar::{Constraint, Grammar, Limits, SchemaOptions};
use formwork_tests::random::{self, Random};
use formwork_tests::reference::cfg::Reference;
use formwork_vocab::{Tokenizer, Vocabulary};
use serde_json::Value;

/// Returns the folder of shipped grammars.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../grammars")
}

/// Returns the files in the folder whose names end in `suffix`, sorted.
pub(crate) fn files(suffix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.to_string_lossy().ends_with(suffix))
        .collect();
    files.sort();
    files
}

fn cases(path: &Path) -> (Vec<String>, Vec<String>) {
    let name = path.to_string_lossy();
    let stem = [".gbnf", ".lark", ".json"].into_iter().find_map(|suffix| name.strip_suffix(suffix));
    let stem = stem.expect("a grammar");
    let text = std::fs::read_to_string(format!("{stem}.cases.json")).expect("every grammar has cases");
    let cases: Value = serde_json::from_str(&text).expect("cases are JSON");
    let list = |key: &str| serde_json::from_value(cases[key].clone()).expect("a list of texts");
    (list("accept"), list("reject"))
}

fn check(path: &Path, grammar: &Grammar, vocabulary: &Arc<Vocabulary>) {
    let tokenizer = Tokenizer::greedy((**vocabulary).clone());
    let constraint =
        Constraint::new(grammar, Arc::clone(vocabulary)).expect("every token is in the vocabulary");
    let (accept, reject) = cases(path);
    assert!(!accept.is_empty() && !reject.is_empty());
    for (texts, expected) in [(accept, true), (reject, false)] {
        for text in texts {
            assert_eq!(grammar.accepts(text.as_bytes()), expected, "{}: {text:?}", path.display());
            assert_eq!(
                through_masks(&constraint, &tokenizer, &text),
                expected,
                "{}: {text:?}",
                path.display()
            );
        }
    }
}

/// Checks the cases of the grammar at `path` against the reference, which reads the GBNF text `gbnf`.
fn check_reference(path: &Path, gbnf: &str) {
    let reference = Reference::new(gbnf);
    let (accept, reject) = cases(path);
    assert!(accept.iter().all(|text| reference.accepts(text.as_bytes())), "{}", path.display());
    assert!(!reject.iter().any(|text| reference.accepts(text.as_bytes())), "{}", path.display());
}

/// Reports whether the masks allow a text token by token, up to its end.
pub(crate) fn through_masks(constraint: &Constraint, tokenizer: &Tokenizer, text: &str) -> bool {
    let mut matcher = constraint.matcher();
    for token in tokenizer.encode_fragment(text).expect("every byte is a token") {
        if !matcher.mask().contains(token) {
            return false;
        }
        matcher.commit(token).expect("in the mask");
    }
    matcher.accepting()
}

#[test]
fn shipped_grammars_accept_and_reject_their_cases() {
    let vocabulary = Arc::new(random::vocabulary(&mut Random::new(6)));
    let gbnf = files(".gbnf");
    let lark = files(".lark");
    let schemas = files(".schema.json");
    assert!(gbnf.len() >= 5 && lark.len() >= 5 && schemas.len() >= 10);
    for path in gbnf {
        let source = std::fs::read_to_string(&path).expect("readable");
        let grammar = Grammar::gbnf(&source, &Limits::default()).expect("valid");
        check(&path, &grammar, &vocabulary);
        check_reference(&path, &source);
    }
    for path in lark {
        let source = std::fs::read_to_string(&path).expect("readable");
        let grammar = Grammar::lark(&source, &Limits::default()).expect("valid");
        check(&path, &grammar, &vocabulary);
        check_reference(&path, &grammar.to_gbnf().expect("text"));
    }
    for path in schemas {
        let schema = serde_json::from_str(&std::fs::read_to_string(&path).expect("readable")).expect("JSON");
        let grammar =
            Grammar::json_schema(&schema, &SchemaOptions::accept(), &Limits::default()).expect("supported");
        check(&path, &grammar, &vocabulary);
    }
}
