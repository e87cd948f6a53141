//! `formwork step run`

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use formwork_grammar::{Grammar, Limits};
use formwork_protocol::config::Config;
use formwork_protocol::step::{Format, Step, StepError, StepInput, StepOutput, StepsFile};
use formwork_protocol::{Body, PromptRunner, ScriptedBackend};
use formwork_trace::{Status, Tracer};
use serde_json::json;

use crate::backend::BackendArgs;
use crate::{config, files, traces};

#[derive(Subcommand)]
pub(crate) enum StepCommand {
    /// Run a step of a file: precheck, constrain, adapt, repair and trace.
    ///
    /// Prints the value to standard output. Exit code 1: the step produced no value; 2: the model did not
    /// answer, or the input is invalid.
    Run(Box<RunArgs>),
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// Steps file (YAML, TOML or JSON).
    #[arg(long, value_name = "FILE")]
    steps: PathBuf,

    /// Name of the step.
    #[arg(long, value_name = "NAME")]
    step: String,

    /// Configuration file, for `[aros]` settings that the step does not set, and for `[traces]`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// JSON file with the context object, whose values the step's prompt can use.
    #[arg(long, value_name = "FILE")]
    context: Option<PathBuf>,

    /// Trace database [default: the configuration's database, if any].
    #[arg(long, value_name = "DATABASE")]
    trace: Option<PathBuf>,

    #[command(flatten)]
    backend: BackendArgs,

    /// Maximum number of tokens per answer, unless the step sets it.
    #[arg(long, value_name = "N")]
    max_tokens: Option<NonZeroUsize>,

    /// User message, added after the step's own prompt.
    prompt: Option<String>,
}

pub(crate) fn step(command: &StepCommand, as_json: bool) -> Result<bool> {
    let StepCommand::Run(args) = command;
    // Check the cheap inputs before loading a model.
    let config = args.config.as_deref().map(config::read).transpose()?.unwrap_or_default();
    let file = steps(&args.steps)?;
    let mut context = args.context.as_deref().map(context).transpose()?.unwrap_or_default();
    let nobody = PromptRunner::new(Arc::new(ScriptedBackend::new([])), "none");
    build(args, &file, &config, &nobody)?;
    let tracer = traces::tracer(args.trace.as_deref(), (args.config.as_deref(), &config))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ran = runtime.block_on(async {
        let (backend, model) = args.backend.open()?;
        let limit = args.max_tokens.map(|tokens| ("max_tokens".to_owned(), json!(tokens.get())));
        let prompts = PromptRunner::new(backend, model).with_defaults(limit.into_iter().collect());
        let step = build(args, &file, &config, &prompts)?;
        tokio::select! {
            ran = run(args, &step, &mut context, &tracer) => Ok(ran),
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    });
    runtime.shutdown_background();
    traces::flush(&tracer);
    match ran? {
        Ok(output) if as_json => {
            let StepOutput { value, text, attempts, repairs } = output;
            let told = json!({ "value": value, "text": text, "attempts": attempts, "repairs": repairs });
            println!("{}", json!({ "output": told, "context": context }));
            Ok(true)
        }
        Ok(output) => {
            println!("{}", output.value);
            Ok(true)
        }
        Err(error) => {
            if as_json {
                let told = json!({ "message": error.to_string(), "errors": error.errors(), "attempts": error.attempts() });
                println!("{}", json!({ "output": null, "error": told, "context": context }));
            }
            // As in the other commands: without an answer there is no negative result.
            if error.backend().is_some() {
                bail!("{error}");
            }
            eprintln!("formwork: {error}");
            Ok(false)
        }
    }
}

async fn run(
    args: &RunArgs,
    step: &Step,
    context: &mut Body,
    tracer: &Tracer,
) -> Result<StepOutput, StepError> {
    let input = args.prompt.as_ref().map(StepInput::of_user).unwrap_or_default();
    let span = tracer.run(args.steps.display().to_string());
    let ran = step.run(&input, context, &span).await;
    span.end(match &ran {
        Ok(_) => Status::Ok,
        Err(error) if error.interruption().is_some() => Status::Cancelled,
        Err(_) => Status::Error,
    });
    ran
}

/// Reads a steps file and checks that its grammars compile.
pub(crate) fn steps(path: &Path) -> Result<StepsFile> {
    let format = Format::of_extension(path.extension().and_then(OsStr::to_str).unwrap_or_default());
    let place = || path.display().to_string();
    let file = StepsFile::parse(&files::read_option("--steps", path)?, format).with_context(place)?;
    file.check_grammars(|gbnf| Grammar::gbnf(gbnf, &Limits::default()).map(drop)).with_context(place)?;
    Ok(file)
}

fn build(args: &RunArgs, file: &StepsFile, config: &Config, prompts: &PromptRunner) -> Result<Step> {
    file.build(&args.step, &config.aros, &|_| prompts.clone())
        .with_context(|| args.steps.display().to_string())
}

fn context(path: &Path) -> Result<Body> {
    let text = files::read_option("--context", path)?;
    formwork_json::from_str(&text).with_context(|| format!("{}: not a JSON object", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use formwork_trace::Timestamp;
    use formwork_trace::health::{Health, HealthOptions};

    use super::*;
    use crate::command::{Args, Command};

    const STEPS: &str = "
agents:
  count:
    prompt: Count the words of {{ text }}.
    processing:
      aop: full
      schema: { type: object, properties: { count: { type: integer } }, required: [count] }
";

    fn parse(args: &[&str]) -> Result<Box<RunArgs>> {
        match Args::try_parse_from([&["formwork", "step", "run"], args].concat())?.command {
            Command::Step(StepCommand::Run(args)) => Ok(args),
            _ => bail!("another command"),
        }
    }

    #[tokio::test]
    async fn traces_steps_for_the_health_check() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("steps.yaml"), STEPS).unwrap();
        std::fs::write(path("context.json"), r#"{"text": "two words"}"#).unwrap();
        std::fs::write(path("formwork.toml"), "[traces]\ndatabase = \"traces.db\"\n").unwrap();
        let (file, given, config) = (path("steps.yaml"), path("context.json"), path("formwork.toml"));
        let given = ["--steps", &file, "--step", "count", "--context", &given, "--config", &config];
        let args = parse(&given).unwrap();
        let config = config::read(args.config.as_deref().unwrap()).unwrap();
        let answers = ["```json\n{\"count\": \"2\"}\n```", "none", "none at all"]
            .map(|text| Ok(ScriptedBackend::says(text)));
        let backend = Arc::new(ScriptedBackend::new(answers));
        let prompts = PromptRunner::new(backend, "m");
        let step = build(&args, &steps(&args.steps).unwrap(), &config, &prompts).unwrap();
        let mut context = context(args.context.as_deref().unwrap()).unwrap();
        let tracer = traces::tracer(args.trace.as_deref(), (args.config.as_deref(), &config)).unwrap();
        let output = run(&args, &step, &mut context, &tracer).await.unwrap();
        assert_eq!(output.value, json!({ "count": 2 }));
        assert!(run(&args, &step, &mut context, &tracer).await.is_err());
        tracer.flush().unwrap();
        let options = HealthOptions::at(Timestamp::now());
        let health = Health::read(&folder.path().join("traces.db"), &options).unwrap();
        let told = serde_json::to_value(&health).unwrap().to_string();
        assert!(told.contains("\"count\"") && told.contains("str->int"), "{told}");
    }

    #[test]
    fn reports_the_place_of_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steps.yaml");
        std::fs::write(&path, STEPS).unwrap();
        let file = path.display().to_string();
        let args = parse(&["--steps", &file, "--step", "nothing"]).unwrap();
        let prompts = PromptRunner::new(Arc::new(ScriptedBackend::new([])), "m");
        let error = build(&args, &steps(&path).unwrap(), &Config::default(), &prompts).err().unwrap();
        assert!(
            format!("{error:#}").contains("steps.yaml: ")
                && format!("{error:#}").contains("expected one of count")
        );
        let grammar = STEPS.replace("aop: full", "grammar: 'root ::= undefined'");
        std::fs::write(&path, format!("\u{feff}{grammar}")).unwrap();
        let error = format!("{:#}", steps(&path).unwrap_err());
        assert!(error.contains("steps.yaml: agents.count.processing.grammar: "), "{error}");
        std::fs::write(&path, "[]").unwrap();
        assert!(format!("{:#}", context(&path).unwrap_err()).contains("not a JSON object"));
    }
}
