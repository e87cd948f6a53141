//! Runs public test suites. Each suite runs only if an environment variable names its folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{accepts, machine, machine_among, run};
use crate::error::GrammarError;
use crate::frontend::json_schema::Remotes;
use crate::machine::json::JsonMachine;
use crate::options::{Formats, SchemaOptions};

#[derive(Default)]
struct Counts {
    compiled: usize,
    /// Number of schemas that no value satisfies.
    unsatisfiable: usize,
    refused: BTreeMap<String, usize>,
    /// Names of the refused schemas, with the reason.
    refusals: Vec<String>,
    verdicts: usize,
    wrong: Vec<String>,
}

impl Counts {
    /// Counts the result of compiling one schema. Checks that the machine accepts each text in
    /// `texts` if its flag is true, and rejects the text otherwise.
    fn check(
        &mut self,
        name: &str,
        machine: Result<JsonMachine, GrammarError>,
        texts: impl Iterator<Item = (String, bool)>,
    ) {
        let mut machine = match machine {
            Ok(machine) => machine,
            // No value is valid, which is a verdict on every text.
            Err(error) if error.is_unsatisfiable() => {
                self.unsatisfiable += 1;
                for (text, valid) in texts {
                    self.verdicts += 1;
                    if valid {
                        self.wrong.push(format!("{name}: should be valid, and {error}: {text}"));
                    }
                }
                return;
            }
            Err(error) => {
                let message = error.to_string();
                let keyword = message.split_once(": ").map_or(&*message, |(_, problem)| problem);
                *self.refused.entry(keyword.chars().take(70).collect()).or_default() += 1;
                self.refusals.push(format!("{name}: {message}"));
                return;
            }
        };
        self.compiled += 1;
        for (text, valid) in texts {
            self.verdicts += 1;
            if accepts(&mut machine, &text) != valid {
                let (_, taken) = run(&mut machine, text.as_bytes());
                let text: String = text.chars().take(200).collect();
                let verdict = if valid { "valid" } else { "invalid" };
                self.wrong.push(format!("{name}: should be {verdict} ({taken} bytes taken): {text}"));
            }
        }
    }

    fn report(&self, title: &str) {
        let refused: usize = self.refused.values().sum();
        let Self { compiled, unsatisfiable, verdicts, .. } = self;
        println!(
            "{title}: {compiled} compiled, {unsatisfiable} without values, {refused} refused, {verdicts} verdicts"
        );
        let mut reasons: Vec<_> = self.refused.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in reasons {
            println!("  {count:5} {reason}");
        }
        for wrong in self.wrong.iter().take(60) {
            println!("  WRONG {wrong}");
        }
        println!("  {} wrong", self.wrong.len());
    }
}

fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

fn json_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "json")).collect();
    files.sort();
    files
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Writes `value` as JSON, with a space after commas and colons if `spaced`.
fn write(value: &Value, spaced: bool, into: &mut String) {
    let comma = if spaced { ", " } else { "," };
    match value {
        Value::Array(items) => {
            into.push('[');
            for (at, item) in items.iter().enumerate() {
                into.push_str(if at > 0 { comma } else { "" });
                write(item, spaced, into);
            }
            into.push(']');
        }
        Value::Object(members) => {
            into.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                into.push_str(if at > 0 { comma } else { "" });
                into.push_str(&json!(name).to_string());
                into.push_str(if spaced { ": " } else { ":" });
                write(member, spaced, into);
            }
            into.push('}');
        }
        scalar => into.push_str(&scalar.to_string()),
    }
}

fn texts(value: &Value) -> [String; 2] {
    [true, false].map(|spaced| {
        let mut into = String::new();
        write(value, spaced, &mut into);
        into
    })
}

/// Returns the documents of a folder and its subfolders. The keys are the URIs that the suite uses
/// for them.
fn remotes(folder: &Path) -> Remotes {
    let mut remotes = Remotes::new();
    let mut folders = vec![(folder.to_owned(), "http://localhost:1234".to_owned())];
    while let Some((folder, uri)) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let uri = format!("{uri}/{}", path.file_name().unwrap().display());
            if path.is_dir() {
                folders.push((path, uri));
            } else {
                remotes.insert(uri, read(&path));
            }
        }
    }
    remotes
}

/// Runs if `FORMWORK_SCHEMA_SUITE` names the `tests` folder of JSON-Schema-Test-Suite. The snapshot
/// lists the refused schemas.
#[test]
fn json_schema_test_suite() {
    let Some(suite) = folder("FORMWORK_SCHEMA_SUITE") else { return };
    let remotes = remotes(&suite.join("../remotes"));
    let mut expectations = Vec::new();
    let mut wrong = 0;
    let drafts = [
        ("draft4", "http://json-schema.org/draft-04/schema#"),
        ("draft6", "http://json-schema.org/draft-06/schema#"),
        ("draft7", "http://json-schema.org/draft-07/schema#"),
        ("draft2019-09", "https://json-schema.org/draft/2019-09/schema"),
        ("draft2020-12", "https://json-schema.org/draft/2020-12/schema"),
    ];
    // Only the tests in `optional/format` assert formats.
    let annotate = SchemaOptions { formats: Formats::Annotate, ..SchemaOptions::accept() };
    let folders = [("", annotate), ("/optional/format", SchemaOptions::accept())];
    for ((draft, uri), (folder, options)) in drafts.into_iter().flat_map(|draft| folders.map(|f| (draft, f)))
    {
        let mut counts = Counts::default();
        let title = format!("{draft}{folder}");
        for file in json_files(&suite.join(&title)) {
            for case in read(&file).as_array().unwrap() {
                let mut schema = case["schema"].clone();
                if let Value::Object(members) = &mut schema {
                    members.entry("$schema").or_insert_with(|| uri.into());
                }
                let name = format!("{}: {}", file.file_name().unwrap().display(), case["description"]);
                let tests = case["tests"].as_array().unwrap().iter();
                let texts =
                    tests.flat_map(|test| texts(&test["data"]).map(|text| (text, test["valid"] == true)));
                counts.check(&name, machine_among(&schema, &remotes, options), texts);
            }
        }
        counts.report(&title);
        let refusals = counts.refusals.iter().map(|refusal| format!("\n  {refusal}"));
        expectations.push(format!(
            "{title}: {} verdicts{}",
            counts.verdicts / 2,
            refusals.collect::<String>()
        ));
        // A format that is not regular is enforced by a regular subset, so some valid texts are
        // rejected.
        let subset = |wrong: &&String| !folder.is_empty() && wrong.contains("should be valid");
        wrong += counts.wrong.iter().filter(|wrong| !subset(wrong)).count();
    }
    assert_eq!(wrong, 0);
    insta::assert_snapshot!(expectations.join("\n"));
}

/// Files with valid instances that are rejected, each with the reason.
const REJECTED: [(&str, &str); 1] =
    [("Github_hard---o57716.json: should be valid", "a number with an exponent where there are bounds")];

/// Runs if `FORMWORK_MASKBENCH` names a folder with the files of `MaskBench`.
#[test]
fn mask_bench() {
    let Some(folder) = folder("FORMWORK_MASKBENCH") else { return };
    let mut counts = Counts::default();
    for file in json_files(&folder) {
        let case = read(&file);
        let tests = case["tests"].as_array().into_iter().flatten();
        let texts = tests.flat_map(|test| texts(&test["data"]).map(|text| (text, test["valid"] == true)));
        let start = std::time::Instant::now();
        let name = file.file_name().unwrap().display().to_string();
        counts.check(&name, machine(&case["schema"], SchemaOptions::accept()), texts);
        if start.elapsed().as_millis() > 100 {
            println!("  slow: {} took {:?}", file.display(), start.elapsed());
        }
    }
    counts.report("MaskBench");
    let unknown = |wrong: &&String| !REJECTED.iter().any(|(file, _)| wrong.starts_with(file));
    assert_eq!(counts.wrong.iter().filter(unknown).collect::<Vec<_>>(), Vec::<&String>::new());
}

/// Runs if `FORMWORK_SCHEMA_STORE` names a folder of schemas. Its `_index.json` maps their URIs to
/// files.
///
/// Each schema must be either compiled or refused, and may refer to all others.
#[test]
fn schema_store() {
    let Some(folder) = folder("FORMWORK_SCHEMA_STORE") else { return };
    let index: BTreeMap<String, String> = serde_json::from_value(read(&folder.join("_index.json"))).unwrap();
    let remotes: Remotes = index.iter().map(|(uri, file)| (uri.clone(), read(&folder.join(file)))).collect();
    let mut counts = Counts::default();
    for (uri, file) in &index {
        let start = std::time::Instant::now();
        counts.check(
            uri,
            machine_among(&remotes[uri], &remotes, SchemaOptions::default()),
            std::iter::empty(),
        );
        if start.elapsed().as_millis() > 1000 {
            println!("  slow: {file} took {:?}", start.elapsed());
        }
    }
    counts.report("SchemaStore");
    for refusal in &counts.refusals {
        println!("  {}", refusal.chars().take(400).collect::<String>());
    }
}
