use clap::Parser;
use formwork_protocol::BackendError;
use serde_json::Value;

use super::*;
use crate::command::{Args, Command};

const SCHEMA: &str =
    r#"{"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}"#;
const STEPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../grammars/steps.yaml");

fn parse(args: &[&str]) -> Result<Box<RepairArgs>> {
    match Args::try_parse_from([&["formwork", "repair"], args].concat())?.command {
        Command::Repair(args) => Ok(args),
        _ => bail!("another command"),
    }
}

/// Runs repairs of `texts` with scripted `answers`; returns the number of requests, the results and
/// the counters.
async fn repaired(args: &[&str], texts: &[&str], answers: &[&str]) -> Result<(usize, Vec<Answer>, Stats)> {
    let args = parse(args)?;
    let answers = answers.iter().map(|text| Ok::<_, BackendError>(ScriptedBackend::says(text)));
    let backend = Arc::new(ScriptedBackend::new(answers));
    let repairer = repairer(&args, &Config::default(), PromptRunner::new(backend.clone(), "m"))?;
    let given = |text: &&str| Given { name: "given".to_owned(), text: (*text).to_owned() };
    let given: Vec<Given> = texts.iter().map(given).collect();
    let Outcome { answers, unanswered } = all(&args, &repairer, &given).await?;
    match unanswered {
        Some(error) => Err(error),
        None => Ok((backend.asked().len(), answers, repairer.counters().stats())),
    }
}

fn file(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

#[tokio::test]
async fn repairs_texts_to_match_a_schema() {
    let (_folder, schema) = file("schema.json", SCHEMA);
    let texts = [r#"{"count": 1}"#, r#"{"count": "two"}"#, "```json\n{\"count\": 3}\n```"];
    let (asked, answers, stats) =
        repaired(&["--schema", &schema, "--report"], &texts, &[r#"{"count": 2}"#]).await.unwrap();
    let values: Vec<_> = answers.iter().map(|answer| answer.value.clone().unwrap_or_default()).collect();
    assert_eq!(values, [json!({ "count": 1 }), json!({ "count": 2 }), json!({ "count": 3 })]);
    assert_eq!((asked, stats.valid, stats.valid_at_first), (1, 3, 2));
    let names = texts.map(|_| "g");
    let mut out = Vec::new();
    tell(&names, &answers, stats, false, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "{\"count\":1}\n{\"count\":2}\n{\"count\":3}\n");
    let mut out = Vec::new();
    tell(&names, &answers, stats, true, &mut out).unwrap();
    let told: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!((&told["answers"][1]["answer"]["repairs"], &told["stats"]["repairs"]), (&json!(1), &json!(1)));
    assert_eq!(told["targets"][2]["is_met"], true);
}

#[tokio::test]
async fn expects_the_envelope_without_a_schema() {
    let text = "<function_calls><invoke name=\"now\"></invoke></function_calls>";
    let (asked, answers, _) = repaired(&[], &[text], &[]).await.unwrap();
    assert_eq!((asked, answers[0].verdict), (0, Verdict::Valid));
}

#[tokio::test]
async fn options_set_attempts_and_strictness() {
    let (_folder, schema) = file("schema.json", SCHEMA);
    let bad = r#"{"count": "two"}"#;
    for (args, asked, verdict) in [
        (&[][..], 2, Verdict::Partial),
        (&["--max-attempts", "1"][..], 1, Verdict::Partial),
        (&["--max-attempts", "0"][..], 0, Verdict::Partial),
        (&["--strict"][..], 2, Verdict::Text),
    ] {
        let args = [&["--schema", schema.as_str()], args].concat();
        let (counted, answers, _) = repaired(&args, &[bad], &[bad; 2]).await.unwrap();
        assert_eq!((counted, answers[0].verdict), (asked, verdict), "{args:?}");
    }
}

#[tokio::test]
async fn adapts_before_calling_the_model() {
    let (_folder, schema) = file("schema.json", SCHEMA);
    let text = "{'count': \"2\",}";
    for (args, asked) in
        [(&[][..], 0), (&["--tolerant", "0"], 1), (&["--level", "minimal"], 1), (&["--level", "off"], 1)]
    {
        let args = [&["--schema", schema.as_str()], args].concat();
        let (counted, answers, _) = repaired(&args, &[text], &[r#"{"count": 2}"#]).await.unwrap();
        assert_eq!((counted, answers[0].verdict), (asked, Verdict::Valid), "{args:?}");
        assert_eq!(answers[0].value, Some(json!({ "count": 2 })));
    }
    // Below tolerance 2, the model completes text that was cut off, and text that tolerance 1 does not
    // read. At 2, such a text is closed at its end.
    for (text, level, asked) in [
        (r#"{"count": 2, "name": "a p"#, "1", 1),
        (r#"{"count": 2, "name": "a p"#, "2", 0),
        (r#"{"count": 2 "name": "a pen"}"#, "1", 1),
        (r#"{"count": 2 "name": "a pen"}"#, "2", 0),
    ] {
        let args = ["--schema", schema.as_str(), "--tolerant", level];
        let (counted, ..) = repaired(&args, &[text], &[r#"{"count": 2, "name": "a pen"}"#]).await.unwrap();
        assert_eq!(counted, asked, "{text} at {level}");
    }
}

#[tokio::test]
async fn a_step_defines_the_adaptation() {
    let args = ["--steps", STEPS, "--step", "extract_order"];
    let text = "{items: [{name: 'pen', count: \"2\"}],}";
    let (asked, answers, _) = repaired(&args, &[text], &[]).await.unwrap();
    assert_eq!(asked, 0, "{:?}", answers[0].errors);
    assert_eq!(answers[0].value, Some(json!({ "items": [{ "name": "pen", "count": 2 }] })));
}

#[test]
fn rejects_invalid_combinations_of_arguments() {
    for args in [
        &["--step", "a"][..],
        &["--steps", STEPS],
        &["--steps", STEPS, "--step", "a", "--schema", "b"],
        &["--schema", "b", "--step", "a"],
        &["--steps", STEPS, "--step", "a", "--level", "off"],
        &["--steps", STEPS, "--step", "a", "--tolerant", "1"],
    ] {
        assert!(parse(args).is_err(), "{args:?}");
    }
    for args in [&["--schema", "b", "--config", "c"][..], &["--config", "c"]] {
        let told = repair(&parse(args).unwrap(), false).err().unwrap().to_string();
        assert!(told.starts_with("--config has no effect without --steps or --model"), "{told}");
    }
    let error = |args: &[&str]| {
        let error = repairer(&parse(args).unwrap(), &Config::default(), nobody()).err().unwrap();
        crate::one_line(&error)
    };
    assert!(
        error(&["--steps", STEPS, "--step", "a"])
            .ends_with("unknown name `a`; expected one of extract_order, plan_checker, planner")
    );
    assert_eq!(error(&["--tolerant", "3"]), "--tolerant: invalid tolerance level 3; expected 0, 1 or 2");
    assert!(error(&["--steps", STEPS, "--step", "planner"]).ends_with("the step `planner` has no schema"));
    let (_folder, schema) = file("schema.json", r#"{"type": "text"}"#);
    assert!(error(&["--schema", &schema]).contains("schema.json: invalid JSON Schema: "));
}

#[test]
fn needs_a_model_only_for_repairable_invalid_answers() {
    let (_folder, schema) = file("schema.json", SCHEMA);
    let (_steps, off) = file(
        "steps.yaml",
        "agents:\n  count:\n    prompt: Count.\n    processing:\n      repair: { enabled: false }\n      schema: { type: object, required: [count] }\n",
    );
    let (good, bad) = (r#"{"count": 1}"#, "{}");
    for (args, texts, needed) in [
        (&["--schema", &schema][..], &[good, bad][..], true),
        (&["--schema", &schema][..], &[good][..], false),
        (&["--schema", &schema, "--max-attempts", "0"][..], &[bad][..], false),
        (&["--steps", &off, "--step", "count"][..], &[bad][..], false),
    ] {
        let checker = repairer(&parse(args).unwrap(), &Config::default(), nobody()).unwrap();
        let given = |text: &&str| Given { name: "given".to_owned(), text: (*text).to_owned() };
        let given: Vec<Given> = texts.iter().map(given).collect();
        assert_eq!(needs_model(&checker, &given), needed, "{args:?}");
    }
}

#[tokio::test]
async fn prints_numbers_as_written() {
    let (_folder, schema) =
        file("schema.json", r#"{"type": "object", "properties": {"x": {"type": "number"}}}"#);
    let text = "{\n  \"x\": 0.12345678901234567890,\n  \"y z\": 1.10\n}";
    let (_, answers, stats) = repaired(&["--schema", &schema], &[text], &[]).await.unwrap();
    let mut out = Vec::new();
    tell(&["g"], &answers, stats, false, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "{\"x\":0.12345678901234567890,\"y z\":1.10}\n");
}

#[tokio::test]
async fn prints_only_accepted_values() {
    let (_folder, schema) = file("schema.json", SCHEMA);
    let texts = [r#"{"count": "two"}"#, r#"{"count": 1}"#, "none"];
    let args = ["--schema", &schema, "--max-attempts", "0"];
    let (_, answers, stats) = repaired(&args, &texts, &[]).await.unwrap();
    let names = texts.map(|_| "g");
    let mut out = Vec::new();
    tell(&names, &answers, stats, false, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "{\"count\":1}\n");
}

#[tokio::test]
async fn backend_failures_are_errors_of_the_run() {
    let (_folder, schema) = file("schema.json", SCHEMA);
    let error = repaired(&["--schema", &schema], &[r#"{"count": "two"}"#], &[]).await.unwrap_err();
    assert_eq!(crate::one_line(&error), "given: the scripted backend has no more answers");
}

#[tokio::test]
async fn asks_in_one_mode_after_the_other() {
    let (_folder, schema) = file("schema.json", SCHEMA);
    let asked = async |more: &[&str], replies: &[&str]| {
        let args = parse(&[&["--schema", &schema, "--ask", "--prompt", "Count."], more].concat()).unwrap();
        let replies = replies.iter().map(|text| Ok::<_, BackendError>(ScriptedBackend::says(text)));
        let backend = Arc::new(ScriptedBackend::new(replies));
        let repairer = repairer(&args, &Config::default(), PromptRunner::new(backend.clone(), "m")).unwrap();
        let outcome = answers(&args, &repairer, &[]).await.unwrap();
        let formats = |body: &serde_json::Map<String, Value>| {
            body.get("response_format").map_or("none".to_owned(), |format| format["type"].to_string())
        };
        (outcome.answers[0].verdict, backend.asked().iter().map(formats).collect::<Vec<_>>())
    };
    let none = ["--max-attempts", "0"];
    let (verdict, formats) = asked(&none, &["no", "no", "{\"count\": 2}"]).await;
    assert_eq!(verdict, Verdict::Valid);
    assert_eq!(formats, ["\"json_schema\"", "\"json_object\"", "none"]);
    let modes = [&none[..], &["--modes", "json_object,prompt_only"]].concat();
    let (verdict, formats) = asked(&modes, &["no", "no"]).await;
    assert_eq!((verdict, formats), (Verdict::Text, vec!["\"json_object\"".to_owned(), "none".to_owned()]));
    assert!(parse(&["--ask"]).is_err() && parse(&["--modes", "json_object"]).is_err());
    assert!(parse(&["--ask", "--prompt", "x", "--modes", "json"]).is_err());
}

#[tokio::test]
async fn reads_fields_and_prefers_a_value() {
    let fields = r#"{"name": "Order", "fields": [{"name": "count", "type": "int", "min": 1, "max": 9}]}"#;
    let (_folder, path) = file("fields.json", fields);
    let texts = ["{\"count\": 3}", "Draft {\"count\": 3}, final {\"count\": 4}", "{\"count\": 30}"];
    let args = ["--fields", &path, "--max-attempts", "0", "--prefer", "last"];
    let (_, answers, _) = repaired(&args, &texts, &[]).await.unwrap();
    let verdicts: Vec<_> = answers.iter().map(|answer| answer.verdict).collect();
    assert_eq!(verdicts[..2], [Verdict::Valid, Verdict::Valid]);
    assert_eq!(answers[1].value, Some(json!({ "count": 4 })));
    assert_ne!(verdicts[2], Verdict::Valid);
}

#[tokio::test]
async fn text_that_was_cut_off_has_its_own_exit_code() {
    let (_folder, schema) = file("schema.json", SCHEMA);
    let code = async |more: &[&str], texts: &[&str]| {
        let args = [&["--schema", &schema, "--tolerant", "2"], more].concat();
        let (asked, answers, _) = repaired(&args, texts, &[]).await.unwrap();
        assert_eq!(asked, 0, "{more:?}");
        answers.iter().map(exit_code).max_by_key(|&code| severity(code)).unwrap()
    };
    assert_eq!(code(&[], &[r#"{"count": 2"#, r#"{"count": 2}"#]).await, TRUNCATED);
    assert_eq!(code(&["--allow-truncated"], &[r#"{"count": 2"#]).await, 0);
    assert_eq!(code(&["--max-attempts", "0"], &[r#"{"count": 2"#, "none"]).await, NEGATIVE);
    let error =
        repairer(&parse(&["--allow-truncated"]).unwrap(), &Config::default(), nobody()).err().unwrap();
    assert!(error.to_string().starts_with("--allow-truncated has no effect below tolerance 2"), "{error}");
    assert!(parse(&["--max-attempts", "9"]).is_err());
    let twice = parse(&["--ask", "--prompt", "x", "--modes", "json_object,json_object"]).unwrap();
    let error = repair(&twice, false).unwrap_err().to_string();
    assert_eq!(error, "--modes: `json_object` occurs twice");
}

#[test]
fn refuses_a_model_and_a_server_beside_a_step_that_names_its_model() {
    let args = ["--steps", STEPS, "--step", "extract_order", "-m", "foo"];
    let error = check(&parse(&args).unwrap(), &Config::default()).unwrap_err().to_string();
    assert!(error.starts_with("--model has no effect: step `extract_order` names its model in "), "{error}");
}
