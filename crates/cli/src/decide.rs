//! `formwork decide`: answers typed questions about a state with probabilities.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use formwork_chat::decision::Calibration;
use formwork_engine::EngineOptions;
use formwork_openai::read_calibration;
use formwork_server::{LocalDecisions, ServedModel};
use serde_json::{Map, Value, json};

use crate::args::ModelArgs;
use crate::files;
use crate::load::{self, Loaded};

#[derive(Args)]
pub(crate) struct DecideArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// File with the state that the questions are about; `-` reads standard input. Text, or JSON if the name
    /// ends in `.json`: a list of messages for questions in OpenAI's form, and any value otherwise.
    #[arg(long, value_name = "FILE", required_unless_present = "jsonl", conflicts_with = "jsonl")]
    pub(crate) state: Option<PathBuf>,

    /// JSON file with questions: an array as in `/v1/decisions`, or an object as in `/v1/systemone`.
    #[arg(long, value_name = "FILE", required_unless_present = "jsonl")]
    pub(crate) questions: Option<PathBuf>,

    /// JSON Lines file with one state per line: an object with `state`, and `id` and `questions` if needed.
    /// Prints one JSON line for each, with `error` for one that cannot be decided. Exit code 1: there were
    /// such lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) jsonl: Option<PathBuf>,

    /// File for the lines of `--jsonl`. Lines that are already in the file are skipped.
    #[arg(long, value_name = "FILE", requires = "jsonl")]
    pub(crate) out: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) asking: AskingArgs,
}

/// Settings for asking questions.
#[derive(Args, Clone)]
pub(crate) struct AskingArgs {
    /// Form of the answers [default: labels, and texts for more than 26 options].
    #[arg(long, value_enum)]
    pub(crate) answers: Option<AnswersArg>,

    /// Orders of the options that are asked and averaged.
    #[arg(long, value_enum, default_value_t = OrdersArg::Two)]
    pub(crate) orders: OrdersArg,

    /// Ask for each option of a choice by itself whether it is right.
    #[arg(long)]
    pub(crate) independent: bool,

    /// Let answers continue after the text of an option.
    #[arg(long)]
    pub(crate) open_end: bool,

    /// JSON file with temperatures, as `formwork eval decisions --fit` writes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) calibration: Option<PathBuf>,

    /// Maximum error of a probability, from token sequences that are not visited [default: 0.0001].
    #[arg(long, value_name = "ERROR")]
    pub(crate) tolerance: Option<f64>,

    /// Maximum number of token prefixes that the model reads for a prompt [default: 1024].
    #[arg(long, value_name = "N")]
    pub(crate) max_nodes: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswersArg {
    /// A letter or a digit for each option.
    Label,
    /// The text of the option.
    Text,
    /// A JSON object with the member `answer`.
    Json,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrdersArg {
    /// The given order.
    #[value(name = "1")]
    One,
    /// The given order and its reverse.
    #[value(name = "2")]
    Two,
    /// All rotations of the given order.
    Cyclic,
}

impl AskingArgs {
    /// Returns the object `formwork` of a request.
    pub(crate) fn settings(&self) -> Result<Value> {
        let mut settings = Map::new();
        let mut set = |name: &str, value: Value| settings.insert(name.to_owned(), value);
        if let Some(answers) = self.answers {
            let name = match answers {
                AnswersArg::Label => "label",
                AnswersArg::Text => "text",
                AnswersArg::Json => "json",
            };
            set("answers", name.into());
        }
        let orders = match self.orders {
            OrdersArg::One => 1.into(),
            OrdersArg::Two => 2.into(),
            OrdersArg::Cyclic => "cyclic".into(),
        };
        set("orders", orders);
        set("independent", self.independent.into());
        set("end", (!self.open_end).into());
        if let Some(file) = &self.calibration {
            calibration(file)?;
            set("calibration", read_json(file)?);
        }
        if let Some(tolerance) = self.tolerance {
            set("tolerance", tolerance.into());
        }
        if let Some(nodes) = self.max_nodes {
            set("max_nodes", nodes.into());
        }
        Ok(settings.into())
    }
}

/// Reads a calibration file.
pub(crate) fn calibration(file: &Path) -> Result<Calibration> {
    let text = files::read_text(file)?;
    read_calibration(text.as_bytes()).with_context(|| file.display().to_string())
}

pub(crate) fn decide(args: &DecideArgs, as_json: bool) -> Result<bool> {
    let settings = args.asking.settings()?;
    let questions = args.questions.as_deref().map(read_json).transpose()?;
    if let Some(questions) = &questions {
        ensure!(questions.is_array() || questions.is_object(), "--questions: expected an array or an object");
    }
    let Some(file) = &args.jsonl else {
        let state = args.state.as_deref().map(read_state).transpose()?.unwrap_or_default();
        let questions = questions.unwrap_or_default();
        let answers = Decider::new(&args.model)?.decide(&state, &questions, &settings)?;
        let mut out = std::io::stdout().lock();
        if as_json {
            writeln!(out, "{answers}")?;
        } else {
            write!(out, "{}", table(&answers))?;
        }
        return Ok(true);
    };
    lines(args, file, questions.as_ref(), &settings)
}

/// Decides each line of a file.
fn lines(args: &DecideArgs, file: &Path, questions: Option<&Value>, settings: &Value) -> Result<bool> {
    let input = File::open(file).with_context(|| file.display().to_string())?;
    let done = args.out.as_deref().map(finished).transpose()?.unwrap_or_default();
    let mut out: Box<dyn Write> = match &args.out {
        Some(path) => Box::new(OpenOptions::new().create(true).append(true).open(path)?),
        None => Box::new(std::io::stdout().lock()),
    };
    let decider = Decider::new(&args.model)?;
    let (mut count, mut is_whole) = (0, true);
    for (number, line) in BufReader::new(input).lines().enumerate() {
        let line = line.with_context(|| file.display().to_string())?;
        if line.trim().is_empty() {
            continue;
        }
        let place = || format!("{}: line {}", file.display(), number + 1);
        let given: Value = formwork_json::from_str(&line).with_context(place)?;
        let id = given.get("id").cloned().unwrap_or_else(|| (number + 1).into());
        if done.contains(&id.to_string()) {
            continue;
        }
        let state = given.get("state").with_context(|| format!("{}: no `state`", place()))?;
        let questions = given.get("questions").or(questions);
        let questions =
            questions.with_context(|| format!("{}: no `questions`, and no --questions", place()))?;
        let answers = decider.decide(state, questions, settings);
        let mut answers = answers.unwrap_or_else(|error| {
            is_whole = false;
            json!({ "error": format!("{error:#}") })
        });
        if let Value::Object(answers) = &mut answers {
            answers.shift_insert(0, "id".to_owned(), id);
        }
        writeln!(out, "{answers}")?;
        out.flush()?;
        count += 1;
        eprint!("\rformwork: {count} states decided");
    }
    if count > 0 {
        eprintln!();
    }
    Ok(is_whole)
}

/// Returns the ids of the complete lines of an output file, and cuts off an incomplete last line.
fn finished(path: &Path) -> Result<HashSet<String>> {
    let mut text = Vec::new();
    match File::open(path) {
        Ok(mut file) => file.read_to_end(&mut text).with_context(|| path.display().to_string())?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(HashSet::new()),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let complete = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if complete < text.len() {
        OpenOptions::new().write(true).open(path)?.set_len(complete as u64)?;
    }
    let id = |(number, line): (usize, &str)| {
        let place = || format!("{}: line {}", path.display(), number + 1);
        let line: Value = formwork_json::from_str(line).with_context(place)?;
        let id = line.get("id").with_context(|| format!("{}: no `id`", place()))?;
        Ok(id.to_string())
    };
    let text = std::str::from_utf8(&text[..complete]).with_context(|| path.display().to_string())?;
    text.lines().enumerate().map(id).collect()
}

fn read_json(path: &Path) -> Result<Value> {
    formwork_json::from_str(&files::read_text(path)?).with_context(|| path.display().to_string())
}

/// Reads a state: JSON if the name of the file ends in `.json`, and text otherwise.
fn read_state(path: &Path) -> Result<Value> {
    if path.extension().is_some_and(|extension| extension == "json") {
        return read_json(path);
    }
    let path = (path != Path::new("-")).then_some(path);
    Ok(Value::from(files::read_input_text(path)?.trim_end()))
}

/// A loaded model that decides.
pub(crate) struct Decider {
    decisions: LocalDecisions,
    runtime: tokio::runtime::Runtime,
}

impl Decider {
    pub(crate) fn new(args: &ModelArgs) -> Result<Self> {
        let Loaded { engine, template, name } = load::load(
            &args.model,
            args.open.opening()?,
            EngineOptions { speculate: Some(0), ..EngineOptions::default() },
        )?;
        let model = ServedModel { id: name, aliases: Vec::new(), created: 0, engine, template };
        let decisions = LocalDecisions::new(model, None);
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(Self { decisions, runtime })
    }

    /// Returns the response of `/v1/decisions` for an array of questions, and of `/v1/systemone` for an
    /// object.
    pub(crate) fn decide(&self, state: &Value, questions: &Value, settings: &Value) -> Result<Value> {
        if questions.is_array() {
            let input = if state.is_object() { json!(state.to_string()) } else { state.clone() };
            let body = json!({ "input": input, "questions": questions, "formwork": settings }).to_string();
            return Ok(json!(self.runtime.block_on(self.decisions.decisions(body.as_bytes()))?));
        }
        let body = json!({ "state": state, "questions": questions, "formwork": settings });
        Ok(json!(self.runtime.block_on(self.decisions.system_one(body.to_string().as_bytes()))?))
    }
}

/// Returns a table of answers in either form.
fn table(answers: &Value) -> String {
    let mut rows: Vec<[String; 5]> =
        vec![["question", "answer", "probability", "mass", "error"].map(str::to_owned)];
    let mut add = |index: usize, name: &str, answer: &Value| {
        let name = if name.is_empty() { (index + 1).to_string() } else { name.to_owned() };
        add_rows(&mut rows, &name, answer);
    };
    match &answers["answers"] {
        Value::Array(answers) => answers.iter().enumerate().for_each(|(index, answer)| {
            add(index, answer["name"].as_str().unwrap_or_default(), answer);
        }),
        Value::Object(answers) => {
            answers.iter().enumerate().for_each(|(index, (name, answer))| add(index, name, answer));
        }
        _ => {}
    }
    let widths: Vec<usize> =
        (0..5).map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Adds a row for each option of an answer. The first row has the name, the mass and the error.
fn add_rows(rows: &mut Vec<[String; 5]>, name: &str, answer: &Value) {
    let number = |value: &Value| value.as_f64().map_or_else(String::new, |number| format!("{number:.4}"));
    let small = |value: &Value| value.as_f64().map_or_else(String::new, |number| format!("{number:.1e}"));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let options: Vec<(String, String)> = match &answer["probabilities"] {
        Value::Array(entries) => {
            let option = |entry: &Value| entry.get("label").unwrap_or(&entry["value"]).clone();
            entries.iter().map(|entry| (text(&option(entry)), number(&entry["probability"]))).collect()
        }
        Value::Object(entries) => {
            let label = |index: &String| answer["legend"].get(index).map_or_else(|| index.clone(), text);
            entries.iter().map(|(option, probability)| (label(option), number(probability))).collect()
        }
        _ => {
            let probability = answer.get("probability").unwrap_or(&answer["noul"]);
            vec![("true".to_owned(), number(probability))]
        }
    };
    for (index, (option, probability)) in options.into_iter().enumerate() {
        let first = index == 0;
        let only_first = |text: String| if first { text } else { String::new() };
        rows.push([
            only_first(name.to_owned()),
            option,
            probability,
            only_first(small(&answer["mass"])),
            only_first(small(&answer["error"])),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_last_line_is_cut_off() {
        let path = std::env::temp_dir().join(format!("formwork-decide-{}", std::process::id()));
        std::fs::write(&path, "{\"id\":\"a\"}\n{\"id\":2}\n{\"id\":\"b").unwrap();
        assert_eq!(finished(&path).unwrap(), HashSet::from(["\"a\"".to_owned(), "2".to_owned()]));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"id\":\"a\"}\n{\"id\":2}\n");
        std::fs::write(&path, "{}\n").unwrap();
        assert!(finished(&path).unwrap_err().to_string().ends_with("line 1: no `id`"));
        std::fs::remove_file(&path).unwrap();
        assert!(finished(&path).unwrap().is_empty());
    }

    #[test]
    fn both_forms_have_the_same_table() {
        let measured = json!({ "mass": 0.5, "error": 0.0, "prompt_tokens": 9 });
        let with = |mut answer: Value| {
            answer.as_object_mut().unwrap().extend(measured.as_object().unwrap().clone());
            answer
        };
        let listed = json!({ "answers": [
            with(json!({ "type": "predicate", "name": "p", "probability": 0.25 })),
            with(json!({ "type": "score", "name": "s", "score": 1.0, "confidence": 1.0, "probabilities": [
                { "value": 0, "label": "low", "probability": 0.0 }, { "value": 1, "label": "high", "probability": 1.0 } ] })),
        ] });
        let named = json!({ "answers": {
            "p": with(json!({ "type": "noul", "noul": 0.25 })),
            "s": with(json!({ "type": "score", "score": 1.0, "confidence": 1.0, "legend": { "0": "low", "1": "high" },
                "probabilities": { "0": 0.0, "1": 1.0 } })),
        } });
        let expected = "question  answer  probability  mass    error\n\
                        p         true    0.2500       5.0e-1  0.0e0\n\
                        s         low     0.0000       5.0e-1  0.0e0\n          high    1.0000\n";
        assert_eq!((table(&listed).as_str(), table(&named).as_str()), (expected, expected));
    }
}
