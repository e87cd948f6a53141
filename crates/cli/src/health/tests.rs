use clap::Parser;
use formwork_trace::{Event, SqliteOptions, SqliteSink, Status, Tracer};
use serde_json::{Value, json};

use super::*;
use crate::command::{Args, Command};

/// Runs the command.
fn run(args: &[&str]) -> Result<bool> {
    let args = Args::try_parse_from([&["formwork", "health-check"], args].concat())?;
    let as_json = args.json.is_some();
    let Command::HealthCheck(command) = args.command else { panic!("another command") };
    health_check(&command, as_json)
}

fn told(args: &[&str]) -> String {
    crate::one_line(&run(args).expect_err("an error"))
}

/// Creates a database with traces from now and from two hours ago, for two steps and two models.
fn traces(path: &Path) {
    let now = Timestamp::now();
    for (hours, step, model, stage) in
        [(2, "plan", "small", "tolerant"), (0, "plan", "small", "semantic"), (0, "chat", "large", "")]
    {
        let at = now.before(std::time::Duration::from_secs(hours * 3600));
        let sink = SqliteSink::open(path, SqliteOptions::default()).unwrap();
        let tracer = Tracer::default().with_sink(sink).with_clock(move || at);
        let step = tracer.run("support").step(step);
        step.set_model(model);
        if !stage.is_empty() {
            let attributes = json!({ "stage": stage, "transforms": ["str->int"] });
            step.event(Event::OutputSuccess, attributes.as_object().unwrap().clone());
        }
        step.end(Status::Ok);
    }
}

/// Runs the command and returns the output file's text.
fn written(folder: &Path, args: &[&str]) -> String {
    let (database, output) = (folder.join("traces.db"), folder.join("out"));
    let more = [database.to_str().unwrap(), "--output", output.to_str().unwrap()];
    assert!(run(&[args, &more[..]].concat()).unwrap());
    std::fs::read_to_string(output).unwrap()
}

fn json(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&written(folder, &[args, &["--json"][..]].concat())).unwrap()
}

#[test]
fn windows_trends_and_filters_reach_the_result() {
    let folder = tempfile::tempdir().unwrap();
    traces(&folder.path().join("traces.db"));
    let all = json(folder.path(), &[]);
    assert_eq!((&all["version"], &all["overall"]["runs"]), (&1.into(), &3.into()));
    assert!(all["generated_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(all["steps"][0]["name"], "plan");
    let late = json(folder.path(), &["--since-hours", "1.5"]);
    assert_eq!((&late["overall"]["runs"], &late["window"]["since_hours"]), (&2.into(), &1.5.into()));
    let trends = json(folder.path(), &["--since-hours", "4", "--trend-buckets", "2"])["trends"].take();
    assert_eq!(trends.as_array().unwrap().len(), 2);
    assert_eq!(trends[0]["steps"]["plan"]["stages"]["tolerant"]["successes"], 1);
    assert_eq!(trends[1]["models"]["small"]["stages"]["semantic"]["successes"], 1);
    for (filter, name, runs) in [("--step", "plan", 2), ("--model", "large", 1), ("--pipeline", "support", 3)]
    {
        let filtered = json(folder.path(), &[filter, name]);
        assert_eq!(filtered["overall"]["runs"], runs, "{filter}");
        assert_eq!(filtered["filters"][&filter[2..]], name);
    }
    let database = folder.path().join("traces.db");
    for (filter, told) in [
        ("--agent", "--agent: no traces of agent `nobody`; the traces name no agent"),
        ("--step", "--step: no traces of step `nobody`; expected one of plan, chat"),
    ] {
        let error = run(&[filter, "nobody", database.to_str().unwrap()]).unwrap_err().to_string();
        assert_eq!(error, told);
    }
}

#[test]
fn writes_a_table_json_or_csv() {
    let folder = tempfile::tempdir().unwrap();
    traces(&folder.path().join("traces.db"));
    let table = written(folder.path(), &["--trend-buckets", "2"]);
    for line in [
        "step plan                                       2         2   100.0           0  semantic 1, tolerant 1",
        "recommendations",
    ] {
        assert!(table.lines().any(|of_table| of_table == line), "{table}");
    }
    assert!(table.lines().next().unwrap().ends_with(": 3 pipeline runs"), "{table}");
    let one = written(folder.path(), &["--model", "large"]);
    assert!(one.lines().next().unwrap().ends_with(": 1 pipeline run"), "{one}");
    let heads = table.lines().any(|line| line.ends_with("runs coercions per 100 uncorrected  stages"));
    assert!(heads, "failed runs are another number: {table}");
    assert!(!written(folder.path(), &["--limit", "1"]).contains("step chat"));
    let csv = written(folder.path(), &["--export", "csv"]);
    assert_eq!(written(folder.path(), &["--format", "csv"]), csv);
    assert!(csv.starts_with("part,name,bucket,stage,metric,value\r\noverall,,,,traces,3\r\n"), "{csv}");
    assert!(csv.contains("\r\nstep,plan,,tolerant,coercions,1\r\n"), "{csv}");
    let json: Value = serde_json::from_str(&written(folder.path(), &["--export", "json"])).unwrap();
    assert_eq!(json["transforms"], json!([{ "name": "str->int", "count": 2 }]));
    let database = folder.path().join("traces.db");
    assert!(run(&[database.to_str().unwrap(), "--output", "-"]).unwrap());
    assert_eq!(
        told(&[database.to_str().unwrap(), "--json", "--export", "csv"]),
        "--json contradicts --export"
    );
}

#[test]
fn uses_the_database_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    traces(&folder.path().join("traces.db"));
    let config = folder.path().join("formwork.toml");
    let args = ["--config", config.to_str().unwrap()];
    std::fs::write(&config, "[traces]\ndatabase = \"traces.db\"").unwrap();
    assert!(run(&args).unwrap());
    std::fs::write(&config, "[aros]").unwrap();
    assert!(told(&args).ends_with("formwork.toml: no `[traces] database` set, and no database given"));
    std::fs::write(&config, "[traces]\ndatabase = \"\"").unwrap();
    assert!(told(&args).ends_with("formwork.toml: line 2: `traces.database`: the value must not be empty"));
}

#[test]
fn reports_unreadable_databases() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("traces.db");
    let path = path.to_str().unwrap();
    assert_eq!(told(&[path]), format!("{path}: no such file"));
    std::fs::write(path, "").unwrap();
    assert_eq!(written(folder.path(), &[]), "no traces yet\n");
    assert!(written(folder.path(), &["--since-hours", "1"]).contains("no records match"));
    std::fs::write(
        path,
        "not a database at all, but some text that is longer than the header of one would be",
    )
    .unwrap();
    assert_eq!(told(&[path]), format!("{path}: not an SQLite database"));
    let folder = folder.path().to_str().unwrap();
    assert_eq!(told(&[folder]), format!("{folder}: the path is a folder"));
    assert!(run(&[path, "--since-hours", "-1"]).is_err() && run(&[path, "--trend-buckets", "1001"]).is_err());
}
