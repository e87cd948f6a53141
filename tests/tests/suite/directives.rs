//! The shipped registry of directives: checks its schemas, and that real models can write nothing
//! else.

use std::path::Path;
use std::sync::Arc;

use formwork_engine::{Engine, EngineOptions};
use formwork_grammar::{Grammar, Limits, SchemaOptions};
use formwork_model::{Model, OpenOptions};
use formwork_protocol::PromptRunner;
use formwork_protocol::directives::{
    Mode, Registry, RunRequest, Runner, StructuredOutputOptions, Validator, parser, patch, schema,
};
use formwork_server::{App, LocalBackend, ServedModel, ServerOptions};
use serde_json::{Value, json};

use super::{grammars, real_models};

const PROMPTS: [&str; 4] = [
    "Open the sign-up form for me.",
    "Tell me with a toast that my changes were saved.",
    "Set the title of the draft to \"Sea stories\" and delete its subtitle.",
    "I want to change my profile picture. Ask me to upload an image.",
];

fn options() -> StructuredOutputOptions {
    let path = grammars::folder().join("directives/ui.json");
    let text = std::fs::read_to_string(path).expect("readable");
    StructuredOutputOptions::new(serde_json::from_str::<Registry>(&text).expect("a registry"))
}

/// Returns the payloads of an envelope's directives that pass validation.
fn kept(options: &StructuredOutputOptions, directive: &Value) -> Vec<Value> {
    let text = json!({ "assistant_text": "", "directives": [directive] }).to_string();
    let members = parser::parse(&text, options.max_bytes).expect("JSON");
    let envelope = Validator::new(options).validate(members).expect("an envelope");
    envelope.directives.into_iter().map(|directive| directive.payload.into()).collect()
}

#[test]
fn the_shipped_registry_is_what_it_should_be() {
    let options = options();
    assert_eq!(options.registry().types(), ["ui.show_form", "ui.toast", "ui.patch", "ui.request_upload"]);
    let ops = |op: Value| json!({ "type": "ui.patch", "payload": { "ops": [op] } });
    for directive in [
        json!({ "type": "ui.show_form", "payload": { "form_id": "example_form_v1", "anything": [1] } }),
        json!({ "type": "show_form", "payload": { "form_id": "a" } }),
        json!({ "type": "ui_toast", "payload": { "message": "Hi" } }),
        json!({ "type": "ui.toast", "payload": { "message": "Hi", "level": "success" } }),
        json!({ "type": "upload", "payload": { "purpose": "avatar", "accept": ["image/*", ".png"], "max_bytes": 1 } }),
        ops(json!({ "op": "set", "path": "/draft/foo", "value": "bar" })),
        ops(json!({ "op": "replace", "path": "foo", "value": null })),
        ops(json!({ "op": "remove", "path": "ui_state/panel/0" })),
        ops(json!({ "op": "insert", "path": "/draft/tags", "index": 0, "value": "x" })),
    ] {
        assert_eq!(kept(&options, &directive).len(), 1, "{directive}");
    }
    for directive in [
        json!({ "type": "ui.show_form", "payload": {} }),
        json!({ "type": "ui.toast", "payload": { "message": "Hi", "level": "loud" } }),
        json!({ "type": "ui.request_upload", "payload": { "purpose": "avatar", "accept": "image/*" } }),
        ops(json!({ "op": "set", "path": "/etc/passwd", "value": "x" })),
        ops(json!({ "op": "insert", "path": "/draft/tags", "value": "x" })),
    ] {
        assert_eq!(kept(&options, &directive).len(), 0, "{directive}");
    }
}

#[test]
fn every_sample_of_it_can_be_used() {
    let options = options();
    let schema = schema::envelope(&options, true);
    let checker = jsonschema::validator_for(&schema).expect("a schema");
    let grammar =
        Grammar::json_schema(&schema, &SchemaOptions::default(), &Limits::default()).expect("supported");
    let mut directives = 0;
    for sample in grammar.samples(3).take(300) {
        let text = String::from_utf8(sample).expect("text");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        assert!(checker.is_valid(&value), "{text}");
        let members = parser::parse(&text, usize::MAX).expect("an object");
        let envelope = Validator::new(&options).validate(members).expect("an envelope");
        assert_eq!(envelope.warnings, [], "{text}");
        for patched in envelope.directives.iter().filter(|directive| directive.kind == "ui.patch") {
            assert_eq!(patch::validate_patch_ops(&patched.payload["ops"]), []);
        }
        directives += envelope.directives.len();
    }
    assert!(directives > 100, "{directives}");
}

fn backend(path: &Path) -> LocalBackend {
    let model = Model::open(path, OpenOptions { context: Some(4096), ..OpenOptions::default() });
    let model = model.expect("a good file");
    let tokenizer = Arc::new(model.tokenizer().expect("a good tokenizer"));
    let template = model.compile_template(&tokenizer, None).expect("a good template");
    let engine = Engine::start(model.language_model(), tokenizer, EngineOptions::default());
    let served = ServedModel { id: "m".to_owned(), aliases: Vec::new(), created: 0, engine, template };
    LocalBackend::new(App::new(vec![served], ServerOptions::default()).expect("one model"))
}

#[tokio::test]
async fn real_models_write_valid_directives() {
    let runs: usize =
        std::env::var("FORMWORK_TEST_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(4);
    for path in real_models::model_files() {
        let runner = Runner::new(PromptRunner::new(Arc::new(backend(&path)), "m"));
        let mut directives = 0;
        for run in 0..runs {
            let mut request = RunRequest::new(PROMPTS[run % PROMPTS.len()], options());
            // Uses a high temperature and often a tight token limit.
            let max_tokens = [60, 120, 240][run / PROMPTS.len() % 3];
            let overrides = json!({ "temperature": 1.2, "seed": run, "max_tokens": max_tokens });
            request.overrides = overrides.as_object().cloned().expect("an object");
            let result = runner.run_once(&request, Mode::JsonSchema).await.expect("not cancelled");
            let unusable =
                result.warnings.iter().filter(|warning| warning.code != "CLOSED_BY_BUDGET").count();
            assert!(result.ok && unusable == 0, "{result:#?}");
            directives += result.directives.len();
        }
        eprintln!("{}: {runs} of {runs} valid, {directives} directives", path.display());
    }
}
