//! `formwork eval decisions`: how well do the probabilities of decisions match gold answers?

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use formwork_eval::decisions::{
    Dataset, DatasetQuestion, DatasetState, DecisionReport, Fitted, HeldOut, Outcome, OutcomeJournal,
    QuestionKind,
};
use serde_json::{Map, Value, json};

use crate::args::ModelArgs;
use crate::bench::progress_bar;
use crate::decide::{AskingArgs, Decider, OrdersArg};

#[derive(Args)]
pub(crate) struct EvalDecisionsArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// JSON Lines file with one state per line: `id`, `state`, `questions` in System One form, and `gold`.
    #[arg(long, value_name = "FILE")]
    pub(crate) data: PathBuf,

    /// URL of `/v1/systemone` of a server to evaluate instead of a local model; `--model` is its name there.
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,

    /// Environment variable with the API key for `--url`.
    #[arg(long, value_name = "VARIABLE", requires = "url")]
    pub(crate) api_key_env: Option<String>,

    /// File for one line per decision. A run that was interrupted continues with the same file, model and
    /// settings.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Ask each choice in both orders by itself as well, to report how often the order changes the answer.
    #[arg(long)]
    pub(crate) flips: bool,

    /// File for temperatures by the number of options, fitted to all decisions. `serve --calibration` and
    /// `decide --calibration` read it.
    #[arg(long, value_name = "FILE", conflicts_with = "calibration")]
    pub(crate) fit: Option<PathBuf>,

    /// Maximum number of states.
    #[arg(long, value_name = "N")]
    pub(crate) states: Option<usize>,

    #[command(flatten)]
    pub(crate) asking: AskingArgs,
}

pub(super) fn decisions(args: &EvalDecisionsArgs, as_json: bool) -> Result<bool> {
    let text = std::fs::read(&args.data).with_context(|| args.data.display().to_string())?;
    let mut dataset = Dataset::parse(&text).with_context(|| args.data.display().to_string())?;
    dataset.states.truncate(args.states.unwrap_or(usize::MAX));
    let asking = Asking::new(args)?;
    let outcomes = run(args, &dataset, &asking)?;
    if let Some(path) = &args.fit {
        let fitted = serde_json::to_string_pretty(&Fitted::of(&outcomes))? + "\n";
        std::fs::write(path, fitted).with_context(|| path.display().to_string())?;
    }
    let report = DecisionReport {
        skipped: dataset.skipped,
        held_out: HeldOut::of(&outcomes),
        ..DecisionReport::of(&outcomes)
    };
    let mut out = std::io::stdout().lock();
    if as_json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{}", report.to_markdown())?;
    }
    Ok(true)
}

/// Asks all questions that the journal lacks.
fn run(args: &EvalDecisionsArgs, dataset: &Dataset, asking: &Asking) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let mut journal = None;
    if let Some(path) = &args.out {
        let known = if path.exists() { std::fs::read(path)? } else { Vec::new() };
        let known = OutcomeJournal::parse_for(dataset, &known).with_context(|| path.display().to_string())?;
        known.check_asked(&asking.asked).with_context(|| path.display().to_string())?;
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| path.display().to_string())?;
        file.set_len(known.len as u64)?;
        outcomes = known.outcomes;
        journal = Some(file);
    }
    let done: HashSet<(String, String)> =
        outcomes.iter().map(|outcome| (outcome.id.clone(), outcome.question.clone())).collect();
    let is_missing = |state: &DatasetState, question: &DatasetQuestion| {
        !done.contains(&(state.id.clone(), question.name.clone()))
    };
    let bar = progress_bar(dataset.states.len(), "states")?;
    for state in &dataset.states {
        let missing: Vec<&DatasetQuestion> =
            state.questions.iter().filter(|question| is_missing(state, question)).collect();
        if !missing.is_empty() {
            for outcome in
                asking.outcomes(state, &missing).with_context(|| format!("state `{}`", state.id))?
            {
                if let Some(journal) = &mut journal {
                    writeln!(journal, "{}", outcome.line().trim_end())?;
                }
                outcomes.push(outcome);
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(outcomes)
}

/// The model or server to evaluate, and the way to ask it.
struct Asking {
    subject: Subject,
    settings: Value,
    flips: bool,
    /// Description of the model and the settings, for the journal.
    asked: Value,
}

enum Subject {
    Local(Box<Decider>),
    Remote(Remote),
}

impl Asking {
    fn new(args: &EvalDecisionsArgs) -> Result<Self> {
        let settings = args.asking.settings()?;
        ensure!(
            !args.flips || args.asking.orders == OrdersArg::Two,
            "--flips: needs the default of --orders"
        );
        let asked = json!({
            "model": args.model.model, "url": args.url, "settings": settings, "flips": args.flips,
        });
        let subject = match &args.url {
            Some(url) => Subject::Remote(Remote::new(url, args)?),
            None => Subject::Local(Box::new(Decider::new(&args.model)?)),
        };
        Ok(Self { subject, settings, flips: args.flips, asked })
    }

    /// Asks questions about a state.
    fn outcomes(&self, state: &DatasetState, questions: &[&DatasetQuestion]) -> Result<Vec<Outcome>> {
        let by_name = |questions: &[&DatasetQuestion]| -> Map<String, Value> {
            questions.iter().map(|question| (question.name.clone(), question.json.clone())).collect()
        };
        let answers = self.ask(&state.state, by_name(questions), &self.settings)?;
        let mut outcomes = Vec::new();
        for question in questions {
            let answer = answers.get(&question.name);
            let answer = answer.with_context(|| format!("no answer to `{}`", question.name))?;
            let mut outcome = Outcome::new(state, question, probabilities(answer, question)?);
            outcome.mass = answer["mass"].as_f64();
            outcome.error = answer["error"].as_f64();
            outcome.asked = Some(self.asked.clone());
            outcomes.push(outcome);
        }
        if self.flips {
            self.add_flips(state, questions, &mut outcomes)?;
        }
        Ok(outcomes)
    }

    fn add_flips(
        &self,
        state: &DatasetState,
        questions: &[&DatasetQuestion],
        outcomes: &mut [Outcome],
    ) -> Result<()> {
        let choices: Vec<&DatasetQuestion> =
            questions.iter().copied().filter(|question| question.kind == QuestionKind::Choice).collect();
        if choices.is_empty() {
            return Ok(());
        }
        let mut settings = self.settings.clone();
        settings["orders"] = 1.into();
        let mut both = Map::new();
        for question in &choices {
            let mut reversed = question.json.clone();
            if let Some(Value::Object(criteria)) = reversed.get_mut("criteria") {
                *criteria = std::mem::take(criteria).into_iter().rev().collect();
            }
            both.insert(format!("given {}", question.name), question.json.clone());
            both.insert(format!("reversed {}", question.name), reversed);
        }
        let answers = self.ask(&state.state, both, &settings)?;
        for question in choices {
            let best = |order: &str| answers.get(&format!("{order} {}", question.name)).map(|a| &a["choice"]);
            let outcome = outcomes.iter_mut().find(|outcome| outcome.question == question.name);
            if let (Some(outcome), Some(given), Some(reversed)) = (outcome, best("given"), best("reversed")) {
                outcome.flipped = Some(given != reversed);
            }
        }
        Ok(())
    }

    /// Returns the answers to questions by their names.
    fn ask(
        &self,
        state: &Value,
        questions: Map<String, Value>,
        settings: &Value,
    ) -> Result<Map<String, Value>> {
        let questions = Value::Object(questions);
        let mut response = match &self.subject {
            Subject::Local(decider) => decider.decide(state, &questions, settings)?,
            Subject::Remote(remote) => remote.ask(state, &questions, settings)?,
        };
        match response["answers"].take() {
            Value::Object(answers) => Ok(answers),
            _ => bail!("the response has no object `answers`"),
        }
    }
}

/// Returns the probabilities of an answer in the order of the question's options.
fn probabilities(answer: &Value, question: &DatasetQuestion) -> Result<Vec<f64>> {
    if let Some(probability) = answer["noul"].as_f64() {
        return Ok(vec![probability, 1.0 - probability]);
    }
    let of_option = |(index, option): (usize, &String)| {
        let key = if question.kind == QuestionKind::Score { index.to_string() } else { option.clone() };
        let probability = answer["probabilities"].get(&key).and_then(Value::as_f64);
        probability
            .with_context(|| format!("the answer to `{}` has no probability of `{option}`", question.name))
    };
    question.options.iter().enumerate().map(of_option).collect()
}

/// A server with `/v1/systemone`.
struct Remote {
    client: reqwest::Client,
    url: String,
    key: Option<String>,
    model: String,
    /// False if settings of Formwork stay at their defaults, so that other servers get no unknown field.
    has_settings: bool,
    runtime: tokio::runtime::Runtime,
}

impl Remote {
    fn new(url: &str, args: &EvalDecisionsArgs) -> Result<Self> {
        let key = match &args.api_key_env {
            Some(name) => Some(std::env::var(name).with_context(|| format!("--api-key-env: {name}"))?),
            None => None,
        };
        let asking = &args.asking;
        let has_settings = asking.answers.is_some()
            || asking.orders != OrdersArg::Two
            || asking.independent
            || asking.open_end
            || asking.calibration.is_some()
            || asking.tolerance.is_some()
            || asking.max_nodes.is_some()
            || args.flips;
        // A second provider is refused, which changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            client: reqwest::Client::new(),
            url: url.to_owned(),
            key,
            model: args.model.model.clone(),
            has_settings,
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        })
    }

    fn ask(&self, state: &Value, questions: &Value, settings: &Value) -> Result<Value> {
        let mut body = json!({ "model": self.model, "state": state, "questions": questions });
        if self.has_settings {
            body["formwork"] = settings.clone();
        }
        let mut request = self.client.post(&self.url).header("content-type", "application/json");
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let answer = async {
            let response = request.body(body.to_string()).send().await?;
            Ok::<_, reqwest::Error>((response.status(), response.bytes().await?))
        };
        let (status, bytes) = self.runtime.block_on(answer).with_context(|| self.url.clone())?;
        if !status.is_success() {
            bail!("{}: status {status}: {}", self.url, String::from_utf8_lossy(&bytes));
        }
        formwork_json::from_slice(&bytes).with_context(|| self.url.clone())
    }
}
