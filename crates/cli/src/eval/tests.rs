use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use clap::Parser;
use formwork_engine::{Engine, EngineOptions};
use formwork_lm::{ChatInput, ChatTemplate, ScriptedModel, TemplateError};
use formwork_protocol::catalogue;
use formwork_server::{App, ServedModel, ServerOptions};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};
use serde_json::Value;

use super::*;
use crate::command::{Args, Command};

/// Runs the command.
pub(super) fn run(args: &[&str]) -> Result<bool> {
    let args = Args::try_parse_from([&["formwork", "eval"], args].concat())?;
    let Command::Eval(command) = args.command else { panic!("another command") };
    eval(&command, true)
}

pub(super) fn json(folder: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub(super) fn lines(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("trials.jsonl")).unwrap();
    text.lines().map(str::to_owned).collect()
}

struct Ask;

impl ChatTemplate for Ask {
    fn render(&self, input: &ChatInput) -> Result<String, TemplateError> {
        Ok(input.messages.iter().map(formwork_lm::Message::text).collect())
    }
}

/// Starts a server whose model prefers no token, so only its constraints keep the output
/// meaningful.
pub(super) fn server() -> String {
    let byte = |byte| Token { bytes: vec![byte], kind: TokenKind::Text };
    let end = Token { bytes: b"</s>".to_vec(), kind: TokenKind::Control };
    let tokens = (0..=255).map(byte).chain([end]).collect();
    let tokenizer = Arc::new(Tokenizer::greedy(Vocabulary::new(tokens, vec![TokenId(256)]).unwrap()));
    let model = ScriptedModel::new(257, 20_000, |_, _| {});
    let engine = Engine::start(Box::new(model), tokenizer, EngineOptions::default());
    let served =
        ServedModel { id: "m".to_owned(), aliases: vec![], created: 7, engine, template: Arc::new(Ask) };
    let app = App::new(vec![served], ServerOptions::default()).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            formwork_server::serve(listener, app, std::future::pending()).await.unwrap();
        });
    });
    format!("http://{address}")
}

#[test]
fn constrained_output_is_always_valid() -> Result<()> {
    let (url, folder) = (server(), tempfile::tempdir()?);
    let out = folder.path().join("directives");
    let args = ["directives", "-m", "m", "--base-url", &url, "--provider", "formwork", "--max-tokens", "400"];
    let more = ["--scenarios", "show_form", "--modes", "prompt_only,json_schema", "--trials", "2", "--out"];
    let args = [&args[..], &more[..], &[out.to_str().unwrap()]].concat();
    assert!(run(&args)?);
    let summary = json(&out, "summary.json");
    let (held, free) = (&summary["by_mode"]["json_schema"], &summary["by_mode"]["prompt_only"]);
    assert_eq!(
        (&held["valid_envelopes"]["rate"], &free["valid_envelopes"]["rate"]),
        (&1.0.into(), &0.0.into())
    );
    assert_eq!(summary["overall"]["runs"], 4);
    assert!(json(&out, "summary_by_scenario.json")["show_form"]["rows"].is_array());
    assert!(!out.join("summary_by_scenario_and_strategy.json").exists());
    let page = std::fs::read_to_string(out.join("report.html"))?;
    assert!(page.contains("Evaluation of structured directives"));
    // Random output never counts as a success.
    assert!(!run(&[&args[..], &["--min-ok", "0.9"]].concat())?);
    assert!(run(&[&args[..], &["--min-ok", "0"]].concat())?);
    assert_eq!(lines(&out).len(), 4, "finished trials are not repeated");
    Ok(())
}

#[test]
fn resumes_a_killed_evaluation_with_the_same_settings() -> Result<()> {
    let (url, folder) = (server(), tempfile::tempdir()?);
    let out = folder.path().to_str().unwrap();
    let args = ["tools", "-m", "m", "--base-url", &url, "--max-tokens", "60", "--strategy", "matrix"];
    let more = ["--scenarios", "happy_path,chat_only", "--trials", "2", "--parallel", "2", "--out", out];
    let args = [&args[..], &more[..]].concat();
    run(&args)?;
    let whole = lines(folder.path());
    assert_eq!(whole.len(), 4, "no workaround applies, so baseline is production");
    let both = json(folder.path(), "summary_by_scenario_and_strategy.json");
    assert_eq!(both["happy_path"]["baseline"], both["happy_path"]["production"]);
    assert_eq!(json(folder.path(), "summary.json")["run_once"], serde_json::json!(["m"]));
    // Simulates a process killed in the middle of its fourth line.
    let cut = format!("{}\n{}", whole[..3].join("\n"), &whole[3][..20]);
    std::fs::write(folder.path().join("trials.jsonl"), cut)?;
    run(&args)?;
    let again = lines(folder.path());
    assert_eq!((&again[..3], again.len()), (&whole[..3], 4));
    let told = |line: &String| {
        let trial: Value = serde_json::from_str(line).unwrap();
        (
            trial["seed"].as_u64(),
            trial["scenario"].to_string(),
            trial["ok"].clone(),
            trial["failure"].to_string(),
        )
    };
    let sorted = |lines: &[String]| {
        let mut lines: Vec<_> = lines.iter().map(told).collect();
        lines.sort_by_key(|(seed, ..)| *seed);
        lines
    };
    assert_eq!(sorted(&again), sorted(&whole));
    let error = run(&[&args[..], &["--seed", "1"]].concat()).unwrap_err();
    assert!(error.to_string().contains("made with other settings (`seed` differs)"), "{error:#}");
    assert_eq!(lines(folder.path()).len(), 4);
    Ok(())
}

#[test]
fn rejects_a_second_writer_of_a_folder() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let settings = EvalSettings::new(Harness::Tools);
    let (first, _) = Store::open(folder.path(), &settings)?;
    let error = Store::open(folder.path(), &settings).err().unwrap();
    assert!(error.to_string().ends_with("another evaluation is writing this file"), "{error:#}");
    drop(first);
    Store::open(folder.path(), &settings)?;
    std::fs::remove_file(folder.path().join("settings.json"))?;
    std::fs::write(folder.path().join("trials.jsonl"), "{}\n")?;
    let error = Store::open(folder.path(), &settings).err().unwrap();
    assert!(error.to_string().contains("found trials.jsonl without settings.json"), "{error:#}");
    Ok(())
}

#[test]
fn takes_models_and_profiles_from_the_configuration() -> Result<()> {
    let (url, folder) = (server(), tempfile::tempdir()?);
    let file = folder.path().join("formwork.toml");
    let text = format!(
        "[providers.here]\nbase_url = \"{url}\"\n[models.one]\nprovider = \"here\"\nmodel = \"m\"\nprofile = \"mine\"\n\
         [sampling_profiles.mine]\ntemperature = 0.5\nmodels = [\"m\"]\n\
         [sampling_profiles.other]\ntop_k = 1\nmodels = [\"x*\"]\n"
    );
    std::fs::write(&file, text)?;
    let config = file.to_str().unwrap();
    let profiles = |asked: &[&str]| -> Result<Vec<String>> {
        let out = tempfile::tempdir()?;
        let args =
            ["tools", "--config", config, "--models", "one", "--scenarios", "chat_only", "--trials", "1"];
        let args = [&args[..], &["--max-tokens", "5", "--out", out.path().to_str().unwrap()], asked].concat();
        run(&args)?;
        let settings = json(out.path(), "settings.json");
        let profiles = settings["models"][0]["profiles"].as_array().unwrap();
        Ok(profiles.iter().map(|profile| profile["name"].as_str().unwrap().to_owned()).collect())
    };
    assert_eq!(profiles(&[])?, ["default"]);
    assert_eq!(profiles(&["--profiles", "default,recommended"])?, ["default", "mine"]);
    assert_eq!(profiles(&["--profiles", "other", "--ignore-applicability"])?, ["other"]);
    let error = profiles(&["--profiles", "other"]).unwrap_err();
    assert_eq!(error.to_string(), "no models to evaluate");
    Ok(())
}

#[test]
fn the_default_is_a_cheap_subset() {
    let plan = |more: &[&str]| {
        let args = Args::try_parse_from([&["formwork", "eval", "tools", "-m", "m"], more].concat()).unwrap();
        let Command::Eval(EvalCommand::Tools(tools)) = args.command else { panic!("another command") };
        let settings = settings(&tools.eval, Harness::Tools).unwrap();
        (settings.scenarios.len(), settings.trials)
    };
    assert_eq!(plan(&[]), (3, 3));
    assert_eq!(plan(&["--full"]), (5, 10));
    assert_eq!(plan(&["--full", "--trials", "2"]), (5, 2));
    assert_eq!(plan(&["--scenarios", "extreme"]), (1, 3));
}

#[test]
fn reports_invalid_arguments_and_configurations() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("formwork.toml");
    std::fs::write(&file, "[models.one]\nmodle = \"m\"\n")?;
    let config = file.to_str().unwrap();
    let here = ["-m", "m", "--base-url", "http://127.0.0.1:1"];
    for (args, told) in [
        (vec!["tools", "--scenarios", "toast"], "unknown scenario or group `toast`"),
        (vec!["tools", "--profiles", "warm"], "unknown sampling profile or group `warm`"),
        (vec!["tools", "--top-p", "2"], "`top_p` is 2; expected a number from 0 to 1"),
        (
            vec!["tools", "--config", config],
            "formwork.toml: line 2: `models.one.modle`: unknown field `modle`",
        ),
        (vec!["tools", "--models", "one"], "unknown model one in the configuration"),
        (vec!["tools", "--base-url", "ftp://x", "-m", "m"], "invalid server URL `ftp://x`"),
        ([&["tools", "--api-key-env", "FORMWORK_NO_SUCH_KEY"], &here[..]].concat(), "FORMWORK_NO_SUCH_KEY"),
    ] {
        let error = format!("{:#}", run(&args).unwrap_err());
        assert!(error.contains(told), "{args:?}: {error}");
    }
    let whole = ["tools", "--base-url", "http://127.0.0.1:1", "--models", "all"];
    let args = Args::try_parse_from([&["formwork", "eval"], &whole[..]].concat())?;
    let Command::Eval(EvalCommand::Tools(args)) = args.command else { panic!("another command") };
    let subjects = models::subjects(&args.eval.shared, &Config::default(), None)?;
    let remote = catalogue::entries().iter().filter(|entry| entry.model.contains('/')).count();
    assert!(remote > 10 && subjects.models.len() == remote, "{remote} {}", subjects.models.len());
    for wrong in [
        vec!["tools", "--modes", "json_schema"],
        vec!["directives", "--modes", "json"],
        vec!["directives", "--base-url", "http://x"],
        vec!["directives", "--trials", "0"],
        vec!["directives", "--min-ok", "1.5"],
        vec!["directives", "--seed", "1", "--no-seed"],
        vec!["directives", "--llm-options-defaults", "[]"],
        vec!["directives", "--llm-options-defaults", r#"{"response_format": {}}"#],
        vec!["tools", "--llm-options-defaults", r#"{"tools": [], "model": "x"}"#],
        vec!["structured", "--keywords", "--llm-options-defaults", r#"{"response_format": {}}"#],
        vec!["structured", "--keywords", "--llm-options-defaults", r#"{"messages": []}"#],
        vec!["tools", "--full", "--scenarios", "simple"],
        vec!["structured"],
        vec!["structured", "--keywords", "--trials", "0"],
        vec!["structured", "--keywords", "--timeout", "0"],
        vec!["structured", "--keywords", "--scenarios", "simple"],
        vec!["structured", "--keywords", "-m", "m", "--base-url", "http://x", "--provider", "openai"],
    ] {
        assert!(Args::try_parse_from([&["formwork", "eval"], &wrong[..]].concat()).is_err(), "{wrong:?}");
    }
    Ok(())
}

#[test]
fn each_evaluation_gets_a_new_folder() -> Result<()> {
    let parent = tempfile::tempdir()?;
    let parent = parent.path().join("formwork-eval");
    let folders = (0..3).map(|_| new_folder_in(&parent, "tools-1")).collect::<Result<Vec<_>>>()?;
    assert_eq!(folders, ["tools-1", "tools-1-2", "tools-1-3"].map(|name| parent.join(name)));
    Ok(())
}
