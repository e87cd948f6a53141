//! Random generation in the generate profile under token budgets, from the guaranteed minimum
//! upwards. Outputs must always be complete and valid.
//!
//! Runs if `FORMWORK_MASKBENCH` names a folder of `MaskBench` files and `FORMWORK_TEST_MODELS` a
//! folder with the models.

use std::path::PathBuf;
use std::sync::Arc;

use formwork_grammar::{Constraint, Grammar, Limits, Matcher, SchemaOptions};
use formwork_model::gguf::Gguf;
use formwork_tests::random::Random;
use formwork_vocab::{TokenId, Vocabulary};
use serde_json::Value;

use super::real_models;

/// Number of schemas, selected evenly from the folder.
const SCHEMAS: usize = 300;

/// Files with outputs that the `jsonschema` crate rejects, and the reason why they are valid.
const DIFFERENCES: [(&str, &str); 1] = [
    // In ECMA-262, `.` excludes all four line terminators; in the crate's regular expressions only
    // `\n`.
    ("Github_easy---o37070.json", "a name with a carriage return does not match `^.*$`"),
];

fn files() -> Vec<PathBuf> {
    let Some(folder) = std::env::var_os("FORMWORK_MASKBENCH") else { return Vec::new() };
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.sort();
    let step = (files.len() / (SCHEMAS * 3 / 2)).max(1);
    files.into_iter().step_by(step).collect()
}

/// Chooses a token like a sampler without a model: any allowed token that leaves room to close.
fn choose(
    matcher: &mut Matcher,
    vocabulary: &Vocabulary,
    remaining: usize,
    random: &mut Random,
) -> Option<TokenId> {
    let text = |token: &TokenId| !vocabulary.is_end(*token);
    let allowed: Vec<TokenId> = matcher.mask().iter().filter(text).collect();
    if allowed.is_empty() {
        return None;
    }
    for _ in 0..20 {
        let token = *random.pick(&allowed);
        if matcher.allows_within(token, remaining) {
            return Some(token);
        }
    }
    let closing: Vec<TokenId> = matcher.mask_within(remaining).iter().filter(text).collect();
    (!closing.is_empty()).then(|| *random.pick(&closing))
}

/// Generates an output of at most `budget` tokens.
fn generate(constraint: &Constraint, budget: usize, random: &mut Random) -> Vec<u8> {
    let vocabulary = constraint.vocabulary();
    let mut matcher = constraint.matcher();
    let mut output = Vec::new();
    for remaining in (1..=budget).rev() {
        if matcher.complete() || (matcher.accepting() && random.below(4) == 0) {
            break;
        }
        let Some(token) = choose(&mut matcher, vocabulary, remaining, random) else { break };
        matcher.commit(token).expect("allowed");
        output.extend_from_slice(vocabulary.bytes(token));
    }
    assert!(matcher.accepting(), "not closed in {budget} tokens: {}", String::from_utf8_lossy(&output));
    output
}

#[test]
fn generation_within_budgets_closes_and_is_valid() {
    let Some(model) = real_models::model_files().into_iter().next() else { return };
    let file = Gguf::open(model).expect("a good file");
    let tokenizer = formwork_model::tokenizer(&file).expect("a good tokenizer");
    let vocabulary = tokenizer.vocabulary();
    let mut random = Random::new(6);
    let (mut schemas, mut outputs, mut differences) = (0, 0, Vec::new());
    for path in files() {
        let name = path.file_name().unwrap_or_default().display().to_string();
        let case: Value = serde_json::from_slice(&std::fs::read(&path).expect("readable")).expect("JSON");
        let schema = &case["schema"];
        let options = SchemaOptions::default();
        let Ok(grammar) = Grammar::json_schema(schema, &options, &Limits::default()) else { continue };
        let validator = jsonschema::options().should_validate_formats(true).build(schema);
        let Ok(validator) = validator else { continue };
        let constraint =
            Constraint::new(&grammar, Arc::clone(vocabulary)).expect("every token is in the vocabulary");
        let minimum = constraint.minimum_tokens().expect("every byte is a token");
        for budget in [minimum, minimum + 1, minimum + 5, minimum * 2] {
            let output = generate(&constraint, budget, &mut random);
            let text = String::from_utf8_lossy(&output);
            assert!(grammar.accepts(&output), "{name}: {text}");
            outputs += 1;
            let value: Value = serde_json::from_slice(&output).expect("JSON");
            if let Some(error) = validator.iter_errors(&value).next() {
                differences.push((name.clone(), format!("{error}: {text}")));
            }
        }
        schemas += 1;
        if schemas == SCHEMAS {
            break;
        }
    }
    println!(
        "{outputs} outputs of {schemas} schemas closed within their budgets, {} differ",
        differences.len()
    );
    differences.retain(|(name, _)| DIFFERENCES.iter().all(|(known, _)| known != name));
    assert_eq!(differences, Vec::new());
}
