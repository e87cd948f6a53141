use clap::Parser;
use formwork_trace::Timestamp;
use formwork_trace::health::{Health, HealthOptions};

use super::*;
use crate::command::{Args, Command};

/// Runs `formwork adapt`; returns standard output, standard error and the answer.
fn run(args: &[&str]) -> Result<(String, String, bool)> {
    let args = Args::try_parse_from([&["formwork", "adapt"], args].concat())?;
    let as_json = args.json.is_some();
    let Command::Adapt(command) = args.command else { panic!("another command") };
    let (mut out, mut told) = (Vec::new(), Vec::new());
    let verdict = super::run(&command, as_json, &mut out, &mut told)?;
    Ok((String::from_utf8(out)?, String::from_utf8(told)?, verdict == Verdict::Valid))
}

/// Creates a folder with a schema and an input; returns the folder and both paths.
fn folder(input: &str) -> Result<(tempfile::TempDir, [String; 2])> {
    let folder = tempfile::tempdir()?;
    let schema = json!({
        "type": "object",
        "properties": { "n": { "type": "integer" }, "b": { "anyOf": [{ "type": "boolean" }, { "type": "integer" }] } },
        "required": ["n"],
    });
    let [schema_path, input_path] = ["schema.json", "input.txt"].map(|name| folder.path().join(name));
    std::fs::write(&schema_path, schema.to_string())?;
    std::fs::write(&input_path, input)?;
    Ok((folder, [schema_path, input_path].map(|path| path.display().to_string())))
}

#[test]
fn adapts_outputs_and_reports_the_place_of_an_error() -> Result<()> {
    let (_folder, [schema, input]) = folder("Here:\n```json\n{\"n\": \"7\"}\n```\n")?;
    assert_eq!(run(&["--schema", &schema, &input])?, ("{\"n\":7}\n".to_owned(), String::new(), true));
    let (out, told, answer) = run(&["--schema", &schema, "--level", "off", &input])?;
    assert_eq!((out.as_str(), answer), ("", false));
    assert_eq!(told, "formwork: line 1, column 1: expected a value\n");
    let (_folder, [schema, input]) = folder("{n: 7, b: '1']}")?;
    let (_, told, answer) = run(&["--schema", &schema, "--level", "full", &input])?;
    assert_eq!(
        (told.as_str(), answer),
        ("formwork: line 1, column 2: expected a name in double quotes\n", false)
    );
    let full = ["--schema", &schema, "--level", "full", "--tolerant", "2"];
    let (out, told, answer) = run(&[&full[..], &[&input]].concat())?;
    assert_eq!((out.as_str(), answer), ("{\"n\":7,\"b\":true}\n", true));
    assert_eq!(told, "formwork: repaired: single-quotes, bare-name, stray-closer\n");
    let (_, told, answer) = run(&[&full[..], &["--anyof-strategy", "unique", &input]].concat())?;
    assert!(
        !answer && told.contains("not adapted: /b: branches 0 and 1 both accept the converted value"),
        "{told}"
    );
    Ok(())
}

#[test]
fn treats_each_line_as_an_output_and_reports_one_line_each() -> Result<()> {
    let (folder, [schema, input]) = folder("{\"n\": 1}\n\n{\"n\": \"2\"}\n{\"n\": \"x\"}\n")?;
    let report = folder.path().join("report.jsonl");
    let to = format!("--report={}", report.display());
    let (out, told, answer) = run(&["--schema", &schema, "--lines", &to, &input])?;
    assert_eq!((out.as_str(), answer), ("{\"n\":1}\n{\"n\":2}\n", false));
    assert_eq!(told, "formwork: line 4: /n: the value is not of type \"integer\"\n");
    let records: Vec<Value> =
        std::fs::read_to_string(&report)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let read: Vec<_> =
        records.iter().map(|record| (&record["line"], &record["valid"], &record["adapted"])).collect();
    assert_eq!(
        read,
        [
            (&json!(1), &json!(true), &json!(false)),
            (&json!(3), &json!(true), &json!(true)),
            (&json!(4), &json!(false), &json!(false)),
        ]
    );
    let (out, told, _) = run(&["--schema", &schema, "--lines", "--json", &input])?;
    let last: Value = serde_json::from_str(out.lines().last().unwrap_or_default())?;
    assert_eq!((&last["value"], &last["violations"][0]["path"]), (&json!({ "n": "x" }), &json!("/n")));
    assert_eq!(told, "");
    Ok(())
}

#[test]
fn numbers_lines_like_an_editor() -> Result<()> {
    let (_folder, [schema, input]) =
        folder("\n{\"n\": 1}\r\n   \n{\"n\" 2}\n\n{\"n\": {\"x\": 1, \"x\": 2}}\n")?;
    let (out, told, answer) = run(&["--schema", &schema, "--lines", &input])?;
    assert_eq!((out.as_str(), answer), ("{\"n\":1}\n", false));
    assert_eq!(
        told,
        "formwork: line 4: /n: column 6: expected `:`\nformwork: line 6: /n/x: column 16: duplicate name `x`\n"
    );
    Ok(())
}

#[test]
fn reports_repairs_of_the_syntax() -> Result<()> {
    for (text, note) in [
        ("{\"n\": 1,}", "repaired: trailing-comma"),
        ("Here: {\"n\": 1, }", "repaired: trailing-comma"),
        (
            "{\"n\": 1, \"s\": \"and so",
            "repaired: missing-closer, cut-value\nformwork: the text ends inside the value; some of it may be missing",
        ),
        (
            "{\"n\": 1, \"s",
            "repaired: missing-closer, cut-member\nformwork: the text ends inside the value; some of it may be missing",
        ),
    ] {
        let (_folder, [schema, input]) = folder(text)?;
        let full = ["--schema", &schema, "--level", "full", "--tolerant", "2", "--allow-truncated", &input];
        let (_, told, answer) = run(&full)?;
        assert_eq!((told, answer), (format!("formwork: {note}\n"), true), "{text}");
        let (_, told, _) = run(&[&full[..], &["--json"]].concat())?;
        assert_eq!(told, "", "{text}");
    }
    let (_folder, [schema, input]) = folder("{\"n\": 1,}")?;
    let (_, told, _) = run(&["--schema", &schema, "--level", "full", &input])?;
    assert_eq!(told, "formwork: repaired: trailing-comma\n");
    Ok(())
}

#[test]
fn rejects_options_without_effect() -> Result<()> {
    let (folder, [schema, input]) = folder("{\"n\": 1,}")?;
    let always = ["--schema", &schema, &input];
    let run = |args: &[&str]| run(&[&always[..], args].concat());
    for (args, option) in [
        (&["--tolerant", "2"][..], "--tolerant"),
        (&["--tolerant", "1", "--level", "minimal"], "--tolerant"),
        (&["--anyof-strategy", "unique"], "--anyof-strategy"),
    ] {
        let error = run(args).map_err(|error| crate::one_line(&error)).expect_err("an error");
        assert_eq!(error, format!("{option} has no effect below level full; add `--level full`"));
    }
    assert!(run(&["--tolerant", "1", "--level", "full"])?.2);
    assert!(!run(&["--tolerant", "0"])?.2);
    let config = folder.path().join("formwork.toml");
    std::fs::write(&config, "[aros]\nenable_aop_default = \"full\"\n")?;
    assert!(run(&["--tolerant", "1", "--config", &config.display().to_string()])?.2);
    Ok(())
}

#[test]
fn shadow_mode_reports_what_would_be_done() -> Result<()> {
    let cases = [
        (
            "Here: {\"n\": \"7\"}",
            "formwork: line 1, column 1: expected a value\n\
             formwork: shadow: extract: extract, json.loads\n\
             formwork: shadow: semantic: str->int\n\
             formwork: shadow: would become {\"n\":7}\n",
        ),
        ("{\"n\": 7}", "formwork: shadow: unchanged\n"),
        (
            "{\"n\": \"x\"}",
            "formwork: /n: the value is not of type \"integer\"\n\
             formwork: shadow: would stay invalid: /n: the value is not of type \"integer\"\n",
        ),
    ];
    for (text, expected) in cases {
        let (_folder, [schema, input]) = folder(text)?;
        assert_eq!(run(&["--schema", &schema, "--shadow", &input])?.1, expected, "{text}");
    }
    Ok(())
}

#[test]
fn conversions_are_documented() {
    let Err(help) = Args::try_parse_from(["formwork", "adapt", "--help"]) else { panic!("no help") };
    let help = help.to_string();
    for conversion in formwork_adapt::Conversion::ALL {
        assert!(help.contains(&format!("`{}`", conversion.name())), "{help}");
    }
}

#[test]
fn truncated_outputs_have_an_exit_code_of_their_own() -> Result<()> {
    let (_folder, [schema, input]) = folder("{\"n\": 7, \"b\": tr")?;
    let tolerant = ["--schema", &schema, "--level", "full", "--tolerant", "2"];
    let (out, told, is_valid) = run(&[&tolerant[..], &[&input]].concat())?;
    assert_eq!((out.as_str(), is_valid), ("", false));
    assert!(told.contains("the text ends inside the value, at line 1, column 17"), "{told}");
    let (out, told, is_valid) = run(&[&tolerant[..], &["--allow-truncated", &input]].concat())?;
    assert_eq!((out.as_str(), is_valid), ("{\"n\":7,\"b\":true}\n", true));
    assert!(told.contains("some of it may be missing"), "{told}");
    let error = run(&["--schema", &schema, "--allow-truncated", &input]).expect_err("no effect");
    assert!(error.to_string().contains("add `--level full --tolerant 2`"), "{error}");
    assert_eq!([Verdict::Valid, Verdict::Truncated, Verdict::Invalid].map(Verdict::exit_code), [0, 3, 1]);
    Ok(())
}

#[test]
fn takes_the_preferred_value() -> Result<()> {
    let (_folder, [schema, input]) = folder("First {\"n\": 1}, then {\"n\": 2}.")?;
    let (_, told, is_valid) = run(&["--schema", &schema, &input])?;
    assert!(!is_valid && told.contains("at line 1, column 7 and at line 1, column 22"), "{told}");
    for (prefer, value) in [("first", "{\"n\":1}\n"), ("last", "{\"n\":2}\n")] {
        assert_eq!(run(&["--schema", &schema, "--prefer", prefer, &input])?.0, value);
    }
    Ok(())
}

#[test]
fn shadow_mode_changes_nothing() -> Result<()> {
    let (_folder, [schema, input]) = folder("{\"n\": \"7\"}")?;
    let (out, told, answer) = run(&["--schema", &schema, "--shadow", "--report", "--", &input])?;
    assert_eq!((out.as_str(), answer), ("", false));
    let record: Value = serde_json::from_str(told.lines().last().unwrap_or_default())?;
    assert_eq!((&record["valid"], &record["shadow"]["valid"]), (&json!(false), &json!(true)));
    Ok(())
}

#[test]
fn traces_adaptations_to_the_configured_database() -> Result<()> {
    let (folder, [schema, input]) = folder("{\"n\": 1}\n{\"n\": \"2\"}\n{\"n\": \"x\"}\n")?;
    let config = folder.path().join("formwork.toml");
    std::fs::write(&config, "[traces]\ndatabase = \"traces.db\"\n")?;
    let config = config.display().to_string();
    assert!(!run(&["--schema", &schema, "--lines", "--config", &config, &input])?.2);
    let options = HealthOptions::at(Timestamp::now());
    let health = Health::read(&folder.path().join("traces.db"), &options)?;
    let step = &health.steps[0];
    assert_eq!((step.name.as_str(), step.tally.runs, health.traces), ("schema.json", 3, 1));
    assert_eq!((step.tally.coercions.successes, step.tally.coercions.failures), (1, 1));
    Ok(())
}

#[test]
fn reports_unusable_arguments() -> Result<()> {
    let (folder, [schema, input]) = folder("{}")?;
    let why = |args: &[&str]| run(args).map_err(|error| crate::one_line(&error)).expect_err("an error");
    assert!(why(&["--schema", "/nowhere", &input]).contains("/nowhere"));
    assert_eq!(
        why(&["--schema", &schema, "--tolerant", "3", &input]),
        "--tolerant: invalid tolerance level 3; expected 0, 1 or 2"
    );
    let allow = why(&["--schema", &schema, "--allow", "{\"integer\": [\"str->date\"]}", &input]);
    assert!(allow.contains("unknown variant `str->date`"), "{allow}");
    let wrong = folder.path().join("wrong.json").display().to_string();
    std::fs::write(&wrong, "{\"type\": \"text\"}")?;
    assert!(
        why(&["--schema", &wrong, &input]).contains("at /type"),
        "{}",
        why(&["--schema", &wrong, &input])
    );
    let over = format!("--report={input}");
    assert!(why(&["--schema", &schema, &over, &input]).contains("overwrite the input"));
    let detour = format!("--report={}/./{}", folder.path().display(), "output.txt");
    std::fs::write(folder.path().join("output.txt"), "{}")?;
    let named = folder.path().join("output.txt").display().to_string();
    assert!(why(&["--schema", &schema, &detour, &named]).contains("overwrite the input"));
    let over = format!("--report={schema}");
    assert!(why(&["--schema", &schema, &over, &input]).contains("overwrite the schema"));
    Ok(())
}

#[test]
fn keeps_the_digits_of_wide_integers() -> Result<()> {
    let (_folder, [schema, input]) = folder("{\"n\": 12345678901234567890123,}")?;
    let args = ["--schema", &schema, "--level", "full", "--tolerant", "1", &input];
    let (out, _, answer) = run(&args)?;
    assert_eq!((out.as_str(), answer), ("{\"n\":12345678901234567890123}\n", true));
    let (out, _, _) = run(&[&args[..], &["--json"]].concat())?;
    assert!(out.ends_with(",\"value\":{\"n\":12345678901234567890123}}\n"), "{out}");
    assert!(serde_json::from_str::<Value>(&out).is_ok(), "{out}");
    Ok(())
}
