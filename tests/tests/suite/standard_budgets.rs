//! Tests token budgets up to 200 with the standard schemas and sets of tools. Each output must be
//! complete and valid, or the request must be refused with the minimum budget.
//!
//! A scripted model that prefers different tokens each time replaces a real one and never ends an
//! output on its own. Runs if `FORMWORK_MASKBENCH` names a folder of `MaskBench` files and
//! `FORMWORK_TEST_MODELS` a folder with the models. Tests all budgets if `FORMWORK_TEST_RUNS` is
//! set, otherwise every ninth.

use std::path::PathBuf;
use std::sync::Arc;

use formwork_chat::{ChatFormat, Content, Delta, Reader, Thoughts, Tool, Tools};
use formwork_engine::{Engine, EngineHandle, EngineOptions, FinishReason, Output, Request};
use formwork_grammar::{Constraint, Grammar, Limits, SchemaOptions};
use formwork_lm::{ChatInput, ChatTemplate, ScriptedModel, TemplateError};
use formwork_model::gguf::Gguf;
use formwork_vocab::{TokenId, Tokenizer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::real_models;

const MOST: usize = 200;

/// Returns ten schemas of each of two groups: the first ones by the hash of their names.
pub(crate) fn standard_schemas() -> Vec<(String, Value)> {
    let Some(folder) = std::env::var_os("FORMWORK_MASKBENCH") else { return Vec::new() };
    let entries = std::fs::read_dir(folder).expect("a folder");
    let files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    let mut schemas = Vec::new();
    for group in ["Glaiveai2K---", "Github_easy---"] {
        let name = |path: &PathBuf| {
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let mut names: Vec<(Vec<u8>, String, PathBuf)> = files
            .iter()
            .filter(|path| name(path).starts_with(group))
            .map(|path| (Sha256::digest(name(path)).to_vec(), name(path), path.clone()))
            .collect();
        names.sort();
        for (_, name, path) in names.into_iter().take(10) {
            let file: Value = serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON");
            schemas.push((name, file["schema"].clone()));
        }
    }
    schemas
}

fn tool(name: &str, properties: &Value, required: &[&str]) -> Tool {
    let parameters = json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
    Tool {
        name: name.to_owned(),
        description: None,
        parameters: Arc::new(parameters),
        custom: None,
        place: format!("tools.{name}"),
    }
}

fn tool_sets() -> Vec<Tools> {
    let weather = tool(
        "get_weather",
        &json!({ "city": { "type": "string" }, "unit": { "enum": ["C", "F"] } }),
        &["city"],
    );
    let search = tool(
        "search",
        &json!({ "query": { "type": "string", "minLength": 3 }, "limit": { "type": "integer", "minimum": 1, "maximum": 50 } }),
        &["query"],
    );
    let now = tool("now", &json!({}), &[]);
    let order = tool(
        "order",
        &json!({ "items": { "type": "array", "minItems": 1, "items": { "type": "object",
        "properties": { "id": { "type": "integer" }, "note": { "type": "string" } }, "required": ["id"] } } }),
        &["items"],
    );
    let of = |tools: &[&Tool], required, parallel| Tools {
        tools: tools.iter().map(|&tool| tool.clone()).collect(),
        required,
        parallel,
    };
    vec![
        of(&[&weather], true, false),
        of(&[&weather, &search], true, true),
        of(&[&now, &order], true, true),
        of(&[&weather, &search, &now, &order], false, true),
        of(&[&order], false, false),
    ]
}

struct Silent;

impl ChatTemplate for Silent {
    fn render(&self, _: &ChatInput) -> Result<String, TemplateError> {
        Ok(String::new())
    }
}

/// Starts an engine whose logits depend on the number of tokens and on the first token.
fn engine(tokenizer: &Arc<Tokenizer>) -> EngineHandle {
    let model = ScriptedModel::new(tokenizer.vocabulary().len(), 1 << 16, |tokens, row| {
        let salt = (tokens.len() as u32).wrapping_mul(0x9e37_79b9) ^ tokens[0].0.wrapping_mul(0x85eb_ca6b);
        for (index, logit) in row.iter_mut().enumerate() {
            *logit = ((index as u32 ^ salt).wrapping_mul(0x2c1b_3c6d) >> 12) as f32;
        }
    });
    Engine::start(Box::new(model), Arc::clone(tokenizer), EngineOptions::default())
}

/// Runs `constraint` under all budgets and calls `check` with each output.
fn run(engine: &EngineHandle, constraint: &Constraint, name: &str, check: &dyn Fn(Vec<Output>, usize)) {
    let step = if std::env::var_os("FORMWORK_TEST_RUNS").is_some() { 1 } else { 9 };
    let minimum = constraint.minimum_tokens().expect("spellable");
    assert!(minimum <= 60, "{name}: {minimum}");
    for budget in [minimum.saturating_sub(1), minimum].into_iter().chain((minimum + 1..=MOST).step_by(step)) {
        let mut request = Request::new(vec![TokenId(budget as u32)]);
        request.constraint = Some(constraint.clone());
        request.max_tokens = Some(budget.max(1));
        let generation = engine.generate(request);
        if budget.max(1) < minimum {
            assert_eq!(generation.expect_err("too small").minimum_tokens(), Some(minimum), "{name}");
            continue;
        }
        let mut generation = generation.expect("accepted");
        let mut outputs = Vec::new();
        while let Some(output) = generation.blocking_next() {
            if let Output::Finished(finish) = &output {
                assert_eq!(finish.reason, FinishReason::Stop, "{name}, {budget}");
                assert!(finish.usage.completion_tokens <= budget.max(1), "{name}, {budget}");
            }
            outputs.push(output);
        }
        assert!(matches!(outputs.last(), Some(Output::Finished(_))), "{name}, {budget}: {outputs:?}");
        check(outputs, budget);
    }
}

#[test]
fn all_budgets_are_kept_or_refused() {
    let Some(model) = real_models::model_files().into_iter().next() else { return };
    let file = Gguf::open(model).expect("a good file");
    let tokenizer = Arc::new(formwork_model::tokenizer(&file).expect("a good tokenizer"));
    let engine = engine(&tokenizer);
    for (name, schema) in standard_schemas() {
        let grammar =
            Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default()).expect(&name);
        let constraint = Constraint::new(&grammar, Arc::clone(tokenizer.vocabulary())).expect("no terminals");
        let validator = jsonschema::validator_for(&schema).expect(&name);
        run(&engine, &constraint, &name, &|outputs, budget| {
            let text: String = outputs
                .iter()
                .map(|output| if let Output::Text(text) = output { text } else { "" })
                .collect();
            let value: Value = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{name}, {budget}: {error}: {text}"));
            assert!(validator.is_valid(&value), "{name}, {budget}: {text}");
        });
    }
    let format = ChatFormat::of(&Silent, tokenizer.vocabulary());
    for (set, tools) in tool_sets().into_iter().enumerate() {
        let part = format.answer(&Content::Free, &tools, Thoughts::None).expect("bounded");
        let grammar = Grammar::of_parts(&part, &SchemaOptions::default(), &Limits::default()).expect("good");
        let constraint = Constraint::new(&grammar, Arc::clone(tokenizer.vocabulary())).expect("no terminals");
        run(&engine, &constraint, &format!("tools {set}"), &|outputs, budget| {
            let mut reader = Reader::new(&format, &Content::Free, &tools, Thoughts::None);
            let mut deltas = Vec::new();
            for output in &outputs {
                if let Output::Text(text) = output {
                    deltas.extend(reader.text(text));
                }
            }
            check_calls(&deltas, &tools, &format!("tools {set}, {budget}: {outputs:?}"));
        });
    }
}

fn check_calls(deltas: &[Delta], tools: &Tools, shown: &str) {
    let mut calls: Vec<(&str, String)> = Vec::new();
    for delta in deltas {
        match delta {
            Delta::Call(name) => calls.push((name, String::new())),
            Delta::Arguments(text) => calls.last_mut().expect("a call").1.push_str(text),
            Delta::Content(_) | Delta::Thought(_) => {}
        }
    }
    assert!(!calls.is_empty() || !tools.required, "{shown}");
    for (name, arguments) in calls {
        let tool = tools.tools.iter().find(|tool| tool.name == name).unwrap_or_else(|| panic!("{shown}"));
        let value: Value = serde_json::from_str(&arguments).unwrap_or_else(|_| panic!("{shown}"));
        assert!(jsonschema::is_valid(&tool.parameters, &value), "{shown}");
    }
}
