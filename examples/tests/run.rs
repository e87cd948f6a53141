//! Tests of the examples: their usage, and their output on a real model if `FORMWORK_TEST_MODELS`
//! names a folder with SmolLM2.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const GENERATE: &str = env!("CARGO_BIN_EXE_generate");
const CONSTRAIN: &str = env!("CARGO_BIN_EXE_constrain");
const DECIDE: &str = env!("CARGO_BIN_EXE_decide");
const SERVE: &str = env!("CARGO_BIN_EXE_serve");
const TOOLS: &str = env!("CARGO_BIN_EXE_tools");

/// Returns the file of the real model, or `None` if it is not available.
fn model_file() -> Option<PathBuf> {
    let folder = std::env::var_os("FORMWORK_TEST_MODELS")?;
    Some(Path::new(&folder).join("SmolLM2-135M-Instruct.Q4_1.gguf"))
}

/// Runs a program on the model with its default prompt. Returns what it printed, or `None` without
/// a model.
fn run(program: &str) -> Option<Output> {
    let model = model_file()?;
    Some(Command::new(program).arg(model).output().expect("the program starts"))
}

/// Runs a program as [`run`] does, and returns its standard output. Fails if the program fails.
fn answer(program: &str) -> Option<String> {
    let output = run(program)?;
    assert!(output.status.success(), "{program}: {}", stderr(&output));
    Some(stdout(&output))
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the output is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_program_prints_its_usage_without_a_model() {
    for program in [GENERATE, CONSTRAIN, DECIDE, SERVE, TOOLS] {
        let name = Path::new(program).file_stem().and_then(|name| name.to_str()).expect("a name");
        let output = Command::new(program).output().expect("the program starts");
        assert!(!output.status.success(), "{name}");
        assert!(stderr(&output).contains(&format!("usage: {name} MODEL")), "{name}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{name}");
    }
}

#[test]
fn generate_streams_an_answer() {
    let Some(text) = answer(GENERATE) else { return };
    assert!(text.split_whitespace().count() > 3, "{text}");
}

#[test]
fn constrain_prints_valid_json_and_the_struct() {
    let Some(text) = answer(CONSTRAIN) else { return };
    let (json, character) = text.split_once('\n').expect("two lines");
    let value: Value = serde_json::from_str(json).expect("JSON");
    let name = value["name"].as_str().expect("a name");
    let age = value["age"].as_u64().expect("an age");
    assert!((18..=99).contains(&age), "{json}");
    assert!(character.starts_with(&format!("{name}, {age}, likes ")), "{character}");
}

#[test]
fn decide_prints_the_choice_and_all_probabilities() {
    let Some(text) = answer(DECIDE) else { return };
    let mut lines = text.lines();
    let choice = lines.next().expect("a choice");
    let (mut labels, mut total) = (Vec::new(), 0.0);
    for line in lines {
        let mut words = line.split_whitespace();
        labels.push(words.next().expect("a label"));
        total += words.next().and_then(|word| word.parse::<f64>().ok()).expect("a probability");
    }
    assert_eq!(labels, ["positive", "neutral", "negative"]);
    assert!(labels.contains(&choice), "{text}");
    assert!((total - 1.0).abs() < 0.01, "{text}");
}

#[test]
fn serve_answers_over_http_and_stops() {
    let Some(output) = run(SERVE) else { return };
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("listening on http://127.0.0.1:"), "{}", stderr(&output));
    assert!(!stdout(&output).trim().is_empty());
}

/// Checks the first call, which is certain. The program may still fail, because a model of this size
/// may repeat the call until the limit of turns.
#[test]
fn tools_calls_the_closure() {
    let Some(output) = run(TOOLS) else { return };
    let text = stdout(&output);
    let call = text.lines().next().expect("a call");
    assert!(call.starts_with("count_stock({"), "{text}{}", stderr(&output));
    assert!(call.ends_with("= {\"count\":12}") || call.ends_with("= {\"count\":5}"), "{text}");
}
