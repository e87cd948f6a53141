//! `formwork step run`

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use clap::Subcommand;
use formwork_grammar::{Grammar, Limits};
use formwork_protocol::config::Config;
use formwork_protocol::step::{Format, Step, StepError, StepInput, StepOutput, StepsFile};
use formwork_protocol::{Body, PromptRunner, ScriptedBackend};
use formwork_trace::{Status, Tracer};
use serde_json::json;

use crate::backend::{BackendArgs, models, tell_retry};
use crate::{NEGATIVE, TRUNCATED, files, load, traces};

#[derive(Subcommand)]
pub(crate) enum StepCommand {
    /// Run a step of a file: precheck, constrain, adapt, repair and trace.
    ///
    /// Prints the value to standard output, and the progress to standard error. Steps, validators and planners
    /// call the `model` that they name; --model is for those that name none. Exit code 1: the step produced
    /// no value; 2: the model did not answer, or the input is invalid; 3: the token limit cut off the answer.
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

    /// JSON file with the context object, whose values the step's prompt can use.
    #[arg(long, value_name = "FILE")]
    context: Option<PathBuf>,

    /// Trace database [default: the configuration's database, if any].
    #[arg(long, value_name = "DATABASE")]
    trace: Option<PathBuf>,

    /// Keep the texts of failed attempts in the trace database; by default, it contains no texts of models.
    #[arg(long)]
    keep_failures: bool,

    #[command(flatten)]
    backend: BackendArgs,

    /// Maximum number of tokens per answer, unless the step sets it.
    #[arg(long, value_name = "N")]
    max_tokens: Option<NonZeroUsize>,

    /// User message, sent between the step's system message and the step's own prompt. A step without a
    /// prompt of its own needs it.
    prompt: Option<String>,
}

pub(crate) fn step(command: &StepCommand, as_json: bool) -> Result<u8> {
    let StepCommand::Run(args) = command;
    // Check the cheap inputs before loading a model.
    let config = args.backend.configuration()?;
    let file = steps(&args.steps)?;
    let mut context = args.context.as_deref().map(context).transpose()?.unwrap_or_default();
    let nobody = PromptRunner::new(Arc::new(ScriptedBackend::new([])), "none");
    build(args, &file, &config.config, &|_| nobody.clone())?;
    check(args, &file, &config.config)?;
    let tracer = traces::tracer(args.trace.as_deref(), (config.path.as_deref(), &config.config))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ran = runtime.block_on(async {
        let step = open(args, &file, &config.config)?;
        tokio::select! {
            ran = run(args, &step, &mut context, &tracer) => Ok(ran),
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    });
    runtime.shutdown_background();
    traces::flush(&tracer);
    match ran? {
        Ok(output) => {
            let code = exit_code(&Ok(&output), &file, &args.step);
            if as_json {
                let StepOutput { value, text, attempts, repairs, is_truncated } = output;
                let told = json!({
                    "value": value,
                    "text": text,
                    "attempts": attempts,
                    "repairs": repairs,
                    "truncated": is_truncated,
                });
                println!("{}", json!({ "output": told, "context": context }));
            } else {
                println!("{}", output.value);
            }
            Ok(code)
        }
        Err(error) => {
            if as_json {
                let told = json!({
                    "message": error.to_string(),
                    "errors": error.errors(),
                    "attempts": error.attempts(),
                    "withheld": error.withheld(),
                    "truncated": error.is_truncated(),
                });
                println!("{}", json!({ "output": null, "error": told, "context": context }));
            }
            // As in the other commands: without an answer there is no negative result.
            if error.backend().is_some() {
                bail!("{error}");
            }
            if !error.undefined().is_empty() {
                return Err(undefined(args, &file, &error));
            }
            eprintln!("formwork: {error}");
            Ok(exit_code(&Err(&error), &file, &args.step))
        }
    }
}

/// Returns the exit code of a run that ended with an answer. A value is whole even if the text after
/// it was cut off; the text of a step without a schema may lack its end.
fn exit_code(ran: &Result<&StepOutput, &StepError>, file: &StepsFile, step: &str) -> u8 {
    match ran {
        Ok(StepOutput { is_truncated: false, .. }) => 0,
        Ok(StepOutput { is_truncated: true, .. }) => {
            let has_schema = file.step(step).is_ok_and(|step| {
                step.processing.as_ref().is_some_and(|processing| processing.schema.is_some())
            });
            if has_schema { 0 } else { TRUNCATED }
        }
        Err(error) if error.is_truncated() => TRUNCATED,
        Err(_) => NEGATIVE,
    }
}

/// Returns the error of a prompt that needs values which the context lacks.
fn undefined(args: &RunArgs, file: &StepsFile, error: &StepError) -> anyhow::Error {
    let wrong = file.undefined(&args.step, error.undefined());
    let hint = match &args.context {
        Some(path) => format!("--context {} does not set it", path.display()),
        None => "--context FILE sets such values".to_owned(),
    };
    anyhow!("{}: {wrong}; {hint}", args.steps.display())
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

/// Refuses options of the command line that would have no effect, and a step without any prompt.
fn check(args: &RunArgs, file: &StepsFile, config: &Config) -> Result<()> {
    if args.keep_failures && args.trace.is_none() && config.traces.database.is_none() {
        bail!("--keep-failures has no effect without a trace database; add --trace DATABASE");
    }
    let models = file.models(&args.step, &config.aros)?;
    let named = format!("step `{}` and its agents name their models in {}", args.step, args.steps.display());
    args.backend.check_named(config, &models, &named)?;
    if args.prompt.is_none() && file.step(&args.step)?.prompt.is_none() {
        bail!("step `{}` has no prompt of its own; give one as an argument", args.step);
    }
    Ok(())
}

/// Opens the models of the step and of its agents, and builds the step.
fn open(args: &RunArgs, file: &StepsFile, config: &Config) -> Result<Step> {
    let opened = models::open(&args.backend, config, file.models(&args.step, &config.aros)?)?;
    let limit = args.max_tokens.map(|tokens| ("max_tokens".to_owned(), json!(tokens.get())));
    let limit: Body = limit.into_iter().collect();
    let nobody = PromptRunner::new(Arc::new(ScriptedBackend::new([])), "none");
    let step = build(args, file, config, &|model| {
        let opened = opened.get(&model.map(str::to_owned));
        // An agent of a disabled precheck is not opened, and not called either.
        opened.map_or_else(|| nobody.clone(), |opened| opened.prompts(limit.clone()))
    })?;
    let name = args.step.clone();
    let step = step.on_retry(tell_retry).with_kept_failures(args.keep_failures);
    Ok(step.on_progress(move |progress| eprintln!("formwork: step {name}: {progress}")))
}

/// Reads a steps file with the definitions of fields that it names, and checks that its grammars
/// compile. Paths in the file are relative to its folder.
pub(crate) fn steps(path: &Path) -> Result<StepsFile> {
    let format = Format::of_extension(path.extension().and_then(OsStr::to_str).unwrap_or_default());
    let place = || path.display().to_string();
    let file = StepsFile::parse(&files::read_option("--steps", path)?, format).with_context(place)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let fields =
        |name: &str| load::read_definition(None, &folder.join(name), None, "").map(|fields| fields.schema());
    let fields = |name: &str| fields(name).map_err(|error| crate::one_line(&error));
    let file = file.with_fields(fields).with_context(place)?;
    file.check_grammars(|gbnf| Grammar::gbnf(gbnf, &Limits::default()).map(drop)).with_context(place)?;
    Ok(file)
}

fn build(
    args: &RunArgs,
    file: &StepsFile,
    config: &Config,
    prompts: &dyn Fn(Option<&str>) -> PromptRunner,
) -> Result<Step> {
    file.build(&args.step, &config.aros, prompts).with_context(|| args.steps.display().to_string())
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
        let config = args.backend.configuration().unwrap();
        let answers = ["```json\n{\"count\": \"2\"}\n```", "none", "none at all"]
            .map(|text| Ok(ScriptedBackend::says(text)));
        let backend = Arc::new(ScriptedBackend::new(answers));
        let prompts = PromptRunner::new(backend, "m");
        let file = steps(&args.steps).unwrap();
        let step = build(&args, &file, &config.config, &|_| prompts.clone()).unwrap();
        let mut context = context(args.context.as_deref().unwrap()).unwrap();
        let place = (config.path.as_deref(), &config.config);
        let tracer = traces::tracer(args.trace.as_deref(), place).unwrap();
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
        let file = steps(&path).unwrap();
        let error = build(&args, &file, &Config::default(), &|_| prompts.clone()).err().unwrap();
        assert!(
            format!("{error:#}").contains("steps.yaml: ")
                && format!("{error:#}").contains("expected one of count")
        );
        let grammar = STEPS.replace("aop: full", "grammar: 'root ::= undefined'");
        std::fs::write(&path, format!("\u{feff}{grammar}")).unwrap();
        let error = format!("{:#}", steps(&path).unwrap_err());
        assert!(error.contains("steps.yaml: line 6, `agents.count.processing.grammar`: "), "{error}");
        let fields = STEPS.lines().filter(|line| !line.contains("schema:")).collect::<Vec<_>>().join("\n");
        std::fs::write(&path, format!("{fields}\n      fields: count.yaml\n")).unwrap();
        let error = format!("{:#}", steps(&path).unwrap_err());
        assert!(
            error.contains("`agents.count.processing.fields`: ") && error.contains("count.yaml"),
            "{error}"
        );
        let count = "name: Count\nfields: [{ name: count, type: int, min: 1, max: 9 }]\n";
        std::fs::write(folder.path().join("count.yaml"), count).unwrap();
        let processing = steps(&path).unwrap().step("count").unwrap().processing.clone().unwrap();
        assert!(processing.schema.unwrap()["properties"]["count"].is_object());
        std::fs::write(&path, "[]").unwrap();
        assert!(format!("{:#}", context(&path).unwrap_err()).contains("not a JSON object"));
    }

    #[test]
    fn refuses_options_without_effect() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steps.yaml");
        let text = "agents: { a: { model: smollm2-135m-instruct, prompt: x }, b: {} }";
        std::fs::write(&path, text).unwrap();
        let (file, read) = (path.display().to_string(), steps(&path).unwrap());
        for (given, told) in [
            (&["--step", "a", "-m", "x"][..], "--model has no effect: step `a`"),
            (&["--step", "a", "--keep-failures"], "--keep-failures has no effect without a trace database"),
            (&["--step", "b"], "step `b` has no prompt of its own"),
        ] {
            let args = parse(&[&["--steps", &file], given].concat()).unwrap();
            let error = check(&args, &read, &Config::default()).unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
        }
        let args =
            parse(&["--steps", &file, "--step", "b", "x", "--trace", "t.db", "--keep-failures"]).unwrap();
        check(&args, &read, &Config::default()).unwrap();
        let alone = ["--steps", &file, "--step", "b", "-m", "m", "--base-url", "http://x", "--threads", "2"];
        assert!(parse(&alone).is_err(), "a server has its own threads");
    }
    #[tokio::test]
    async fn exit_codes_follow_the_end_of_the_answer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("steps.yaml");
        let text = "agents:\n  count: { prompt: Count., retries: 0, processing: { schema: { type: integer } } }\n  \
                    text: { prompt: Write. }\n  open: { prompt: 'Write {{ letter }}.' }\n";
        std::fs::write(&path, text).unwrap();
        let (file, steps) = (path.display().to_string(), steps(&path).unwrap());
        let answered = async |step: &str, text: &str, reason: &str| {
            let answer = json!({ "choices": [{ "message": { "content": text }, "finish_reason": reason }] });
            let backend = Arc::new(ScriptedBackend::new([Ok(answer)]));
            let prompts = PromptRunner::new(backend, "m");
            let args = parse(&["--steps", &file, "--step", step]).unwrap();
            let step = build(&args, &steps, &Config::default(), &|_| prompts.clone()).unwrap();
            let ran = run(&args, &step, &mut Body::new(), &Tracer::default()).await;
            if let Err(error) = &ran
                && !error.undefined().is_empty()
            {
                return Err(crate::one_line(&undefined(&args, &steps, error)));
            }
            Ok(exit_code(&ran.as_ref(), &steps, &args.step))
        };
        assert_eq!(answered("count", "12", "stop").await, Ok(0));
        assert_eq!(answered("count", "12", "length").await, Ok(TRUNCATED));
        assert_eq!(answered("count", "no", "stop").await, Ok(NEGATIVE));
        assert_eq!(answered("text", "Once", "stop").await, Ok(0));
        assert_eq!(answered("text", "Onc", "length").await, Ok(TRUNCATED));
        assert_eq!(
            answered("open", "Hi", "stop").await.unwrap_err(),
            format!(
                "{file}: line 4, `agents.open.prompt`: undefined variable `letter`; the context has no such value; \
                 --context FILE sets such values"
            )
        );
    }
}
