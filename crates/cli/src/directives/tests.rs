use clap::Parser;
use formwork_protocol::{BackendError, ScriptedBackend};
use serde_json::json;

use super::*;
use crate::command::{Args, Command};

/// A registry shipped with the project.
const REGISTRY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../grammars/directives/ui.json");

fn parse(args: &[&str]) -> Result<Box<RunArgs>> {
    let given = [&["formwork", "directives", "run"], args].concat();
    match Args::try_parse_from(given)?.command {
        Command::Directives(DirectivesCommand::Run(args)) => Ok(args),
        _ => bail!("another command"),
    }
}

/// Runs the command with scripted answers; returns the requests that were sent and the result.
async fn run(
    args: &[&str],
    answers: Vec<Result<Value, BackendError>>,
) -> Result<(Vec<Body>, DirectiveResult)> {
    let args = parse(args)?;
    let backend = Arc::new(ScriptedBackend::new(answers));
    let target = Target::new(&args)?;
    let asked = Arc::clone(&backend) as Arc<dyn ChatBackend>;
    let result = ask(&args, &target, asked, "m".to_owned(), &request(&args, &target)?).await?;
    Ok((backend.asked(), result))
}

fn built(args: &RunArgs) -> Result<RunRequest> {
    request(args, &Target::new(args)?)
}

fn told(result: &DirectiveResult, as_json: bool) -> String {
    let mut out = Vec::new();
    tell(result, as_json, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[tokio::test]
async fn prints_text_and_directives_as_lines() {
    let answer = r#"{"assistant_text": "Saved.", "directives": [{"type": "ui-toast", "payload": {"message": "Saved"}}]}"#;
    let args = [
        "--registry",
        REGISTRY,
        "--temperature",
        "0.7",
        "--max-tokens",
        "90",
        "--system",
        "Be brief.",
        "Save it.",
    ];
    let (asked, result) = run(&args, vec![Ok(ScriptedBackend::says(answer))]).await.unwrap();
    assert_eq!(told(&result, false), "Saved.\nui.toast {\"message\":\"Saved\"}\n");
    let record: DirectiveResult = serde_json::from_str(&told(&result, true)).unwrap();
    assert_eq!(record, result);
    assert_eq!((&asked[0]["temperature"], &asked[0]["max_tokens"]), (&json!(0.7), &json!(90)));
    assert_eq!(asked[0]["messages"][1], json!({ "role": "user", "content": "Save it." }));
    assert!(asked[0]["messages"][0]["content"].as_str().unwrap().starts_with("Be brief.\n\n"));
    let schema = &asked[0]["response_format"]["json_schema"]["schema"];
    assert!(schema["$defs"].is_object(), "payloads are enforced here: {schema}");
}

#[tokio::test]
async fn requests_required_types_in_the_given_modes() {
    let answer = || Ok(ScriptedBackend::says(r#"{"assistant_text": "No.", "directives": []}"#));
    let args = [
        "--registry",
        REGISTRY,
        "--modes",
        "json_object,prompt_only",
        "--require",
        "ui.request_upload",
        "--repairs",
        "0",
        "Upload.",
    ];
    let (asked, result) = run(&args, vec![answer(), answer()]).await.unwrap();
    assert_eq!((result.ok, told(&result, false).as_str()), (false, "No.\n"));
    assert_eq!(asked[0]["response_format"]["type"], "json_object");
    assert!(!asked[1].contains_key("response_format"));
    assert_eq!(asked[0]["temperature"], 0.0);
}

#[tokio::test]
async fn applies_the_options_of_the_provider() {
    let answer = Ok(ScriptedBackend::says(r#"{"assistant_text": "", "directives": []}"#));
    let args = [
        "--registry",
        REGISTRY,
        "--base-url",
        "http://127.0.0.1:1",
        "-m",
        "m",
        "--provider",
        "openrouter",
        "Hi",
    ];
    let (asked, result) = run(&args, vec![answer]).await.unwrap();
    assert!(result.ok);
    assert_eq!(asked[0]["provider"], json!({ "require_parameters": true }));
    assert!(!asked[0].contains_key("temperature"));
}

#[test]
fn reports_errors_before_loading_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let refused = |registry: &str, more: &[&str]| {
        let args = [&["--registry", registry], more, &["Hi"]].concat();
        let error = parse(&args).and_then(|args| built(&args)).err().unwrap();
        crate::one_line(&error)
    };
    let twice = file("twice.json", r#"{"definitions": [{"type": "a"}, {"type": "a"}]}"#);
    assert_eq!(refused(&twice, &[]), format!("{twice}: definitions[1].type: `a` is already defined"));
    let unbounded = r#"{"definitions": [{"type": "a", "payload_schema": {"pattern": "(x)\\1"}}]}"#;
    let unbounded = file("unbounded.json", unbounded);
    let line = refused(&unbounded, &[]);
    assert!(line.starts_with(&format!("{unbounded}: definitions[0].payload_schema: ")), "{line}");
    assert!(line.contains("pattern"), "{line}");
    let elsewhere = ["--modes", "prompt_only"];
    assert!(
        parse(&[&["--registry", &unbounded], &elsewhere[..], &["Hi"]].concat())
            .and_then(|args| built(&args))
            .is_ok()
    );
    assert!(refused("/nowhere.json", &[]).starts_with("--registry: /nowhere.json: "));
    assert_eq!(
        refused(REGISTRY, &["--require", "x"]),
        "--require[0]: unknown type `x`; expected a type of the registry"
    );
    assert_eq!(
        refused(REGISTRY, &["--allow", "toast"]),
        "allowed_types[0]: unknown type `toast`; expected a type of the registry"
    );
    assert!(refused(REGISTRY, &["--modes", "json"]).contains("unknown mode `json`"));
    assert!(refused(REGISTRY, &["--provider", "x"]).contains("openrouter"));
    assert!(refused(REGISTRY, &["--base-url", "http://x"]).contains("--model"));
    let toml = file(
        "r.toml",
        "[[definitions]]\ntype = \"ui.toast\"\naliases = [\"toast\"]\n[definitions.payload_schema]\nrequired = [\"message\"]\n",
    );
    let args = parse(&["--registry", &toml, "Hi"]).unwrap();
    assert_eq!(built(&args).unwrap().options.registry().types(), ["ui.toast"]);
}

#[tokio::test]
async fn a_local_model_has_one_mode_and_repairs_in_it() {
    let answer = |text: &str| Ok(ScriptedBackend::says(text));
    let args = ["--registry", REGISTRY, "--require-one", "ui.toast", "--max-text-length", "9", "Save."];
    let toast = r#"{"type": "ui.toast", "payload": {"message": "Saved"}}"#;
    let good = format!(r#"{{"assistant_text": "Saved.", "directives": [{toast}]}}"#);
    let twice = format!(r#"{{"assistant_text": "Saved.", "directives": [{toast}, {toast}]}}"#);
    let (asked, result) = run(&args, vec![answer(&twice), answer(&good)]).await.unwrap();
    assert!(result.ok && asked.iter().all(|body| body["response_format"]["type"] == "json_schema"));
    let schema = &asked[0]["response_format"]["json_schema"]["schema"]["properties"];
    assert_eq!(
        (&schema["directives"]["minContains"], &schema["directives"]["maxContains"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(schema["assistant_text"]["maxLength"], 9);
    let (asked, result) = run(&args, vec![answer("no"), answer("no"), answer(&good)]).await.unwrap();
    assert_eq!((result.ok, asked.len()), (false, 2));
    let limited = [&args[..], &["--max-requests", "1"]].concat();
    let (asked, result) = run(&limited, vec![answer("no"), answer(&good)]).await.unwrap();
    assert_eq!((asked.len(), result.errors.last().unwrap().code.as_str()), (1, "REQUEST_LIMIT"));
}

#[tokio::test]
async fn sends_the_history_and_the_name_of_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.json");
    let history =
        json!([{ "role": "system", "content": "Be brief." }, { "role": "assistant", "content": "Hello." }]);
    std::fs::write(&path, history.to_string()).unwrap();
    let args = [
        "--registry",
        REGISTRY,
        "--history",
        path.to_str().unwrap(),
        "--schema-name",
        "reply",
        "--max-bytes",
        "60",
        "Hi",
    ];
    let long = format!(r#"{{"assistant_text": "{}", "directives": []}}"#, "x".repeat(60));
    let answers = vec![Ok(ScriptedBackend::says(&long)), Ok(ScriptedBackend::says(&long))];
    let (asked, result) = run(&args, answers).await.unwrap();
    assert_eq!(result.errors[0].code, "TOO_LARGE");
    assert_eq!(asked[0]["response_format"]["json_schema"]["name"], "reply");
    let messages = asked[0]["messages"].as_array().unwrap();
    assert!(messages[0]["content"].as_str().unwrap().starts_with("Be brief."));
    assert_eq!((&messages[1]["content"], &messages[2]["content"]), (&json!("Hello."), &json!("Hi")));
    for (text, told) in
        [("{}", "expected an array of messages"), ("[1]", "messages[0]: expected an object with a `role`")]
    {
        std::fs::write(&path, text).unwrap();
        let error = built(&parse(&args).unwrap()).err().unwrap();
        assert_eq!(crate::one_line(&error), format!("--history: {}: {told}", path.display()));
    }
}

#[tokio::test]
async fn takes_models_and_providers_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("formwork.toml");
    let text = "[providers.up]\nbase_url = \"http://127.0.0.1:1\"\npreset = \"openrouter\"\nllm_options_defaults = { seed = 7 }\n\
        [providers.up.directives]\nrepair_retries = 0\n\
        [models.mine]\nprovider = \"up\"\nmodel = \"x-ai/grok-4\"\nprofile = \"grok_default\"\npresets = [\"prompt_only\"]\n";
    std::fs::write(&path, text).unwrap();
    let config = path.to_str().unwrap();
    let answers = || (0..6).map(|_| Ok(ScriptedBackend::says("no"))).collect::<Vec<_>>();
    let args = ["--registry", REGISTRY, "--config", config, "-m", "mine", "Hi"];
    let (asked, _) = run(&args, answers()).await.unwrap();
    assert_eq!((asked.len(), &asked[0]["temperature"], &asked[0]["seed"]), (1, &json!(0.3), &json!(7)));
    assert_eq!(asked[0]["provider"], json!({ "require_parameters": false }));
    let args = ["--registry", REGISTRY, "--config", config, "--provider", "up", "-m", "other", "Hi"];
    let (asked, _) = run(&args, answers()).await.unwrap();
    assert_eq!((asked.len(), asked[0].get("temperature")), (3, None));
    assert_eq!(asked[0]["provider"], json!({ "require_parameters": true }));
    let args = ["--registry", REGISTRY, "--config", config, "--provider", "up", "-m", "x-ai/grok-4", "Hi"];
    let (asked, _) = run(&args, answers()).await.unwrap();
    assert_eq!(asked[0]["temperature"], json!(0.3), "the profile of the entry with this model");
    let told = |args: &[&str]| {
        let args = [&["--registry", REGISTRY], args, &["Hi"]].concat();
        crate::one_line(&parse(&args).and_then(|args| built(&args)).err().unwrap())
    };
    assert_eq!(
        told(&["--config", config, "--provider", "u"]),
        "--provider: unknown provider u; expected one of up, openrouter, openai, volcanoengine, formwork, local"
    );
    assert!(told(&["--config", config, "--provider", "up"]).starts_with("--provider requires --model"));
}

#[test]
fn values_have_the_limits_of_the_http_api() {
    let told = |args: &[&str]| {
        let args = [&["--registry", REGISTRY], args, &["Hi"]].concat();
        crate::one_line(&parse(&args).and_then(|args| built(&args)).err().unwrap())
    };
    for (args, start) in [
        (&["--temperature", "50"][..], "--temperature: 50"),
        (&["--top-p", "7"], "--top-p: 7"),
        (&["--min-p", "9"], "--min-p: 9"),
        (&["--repairs", "100000"], "--repairs: 100000 is out of range; expected 0..=8"),
        (&["--modes", "json_object,json_object"], "--modes: `json_object` occurs twice"),
        (&["--schema-name", "x", "--modes", "prompt_only"], "--schema-name has no effect: "),
        (
            &["--type-by-decision", "--max-requests", "1"],
            "--type-by-decision has no effect: the only request",
        ),
    ] {
        assert!(told(args).starts_with(start), "{args:?}: {}", told(args));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.json");
    std::fs::write(&path, r#"[{"role": "wizard", "content": "Hi"}]"#).unwrap();
    let path = path.to_str().unwrap();
    let error = told(&["--history", path]);
    assert!(error.starts_with(&format!("--history: {path}: `messages[0].role`: ")), "{error}");
}

#[test]
fn unmet_requirements_are_named() {
    let registry = Registry::new(vec![formwork_protocol::directives::Definition::new("toast")]).unwrap();
    let options = StructuredOutputOptions::new(registry);
    let options = options.with_required([Requirement::at_least_one("toast")]).unwrap();
    let result = read(r#"{"assistant_text": "Hi", "directives": []}"#, &options);
    let told = in_words(&result.errors[0]);
    assert!(told.starts_with("REQUIREMENT_NOT_MET: ") && told.contains("toast"), "{told}");
}
