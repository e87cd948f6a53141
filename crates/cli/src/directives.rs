//! `formwork directives`

mod args;
mod check;
mod target;

use std::ffi::OsStr;
use std::io::Write;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use formwork_grammar::{Grammar, Limits, SchemaOptions};
use formwork_protocol::directives::{
    Attempt, DirectiveResult, Mode, Preset, Problem, ProblemCategory, Registry, Requirement, RunRequest,
    Runner, StructuredOutputOptions, TypeDecision, presets, read,
};
use formwork_protocol::{Body, ChatBackend, PromptRunner};
use serde_json::Value;

use crate::files;
use args::{ParseArgs, RulesArgs, RunArgs};
use target::Target;

#[derive(Subcommand)]
pub(crate) enum DirectivesCommand {
    /// Request text and directives from a model.
    ///
    /// Prints the text and then the directives, one per line, to standard output, and problems to standard
    /// error. Exit code 1: no usable answer; 2: no answer, or invalid input.
    Run(Box<RunArgs>),
    /// Read text and directives from an answer that came from elsewhere; loads no model.
    ///
    /// Prints the same as `run`. Exit code 1: no usable answer; 2: invalid input.
    Parse(ParseArgs),
}

pub(crate) fn directives(command: &DirectivesCommand, as_json: bool) -> Result<bool> {
    let result = match command {
        DirectivesCommand::Run(args) => run(args)?,
        DirectivesCommand::Parse(args) => {
            let options = options(&args.rules)?;
            read(&files::read_input_text(args.file.as_deref())?, &options)
        }
    };
    for warning in &result.warnings {
        eprintln!("formwork: warning: {warning}");
    }
    tell(&result, as_json, std::io::stdout().lock())?;
    if let Some(decision) = &result.type_decision {
        eprintln!("formwork: {}", decided(decision));
    }
    for skipped in &result.skipped {
        eprintln!("formwork: the mode {} was skipped: {}", skipped.mode.name(), skipped.reason);
    }
    // If the run failed, the refusals are among its errors.
    for refused in result.attempts.iter().filter(|_| result.ok).filter_map(refused) {
        eprintln!("formwork: {refused}");
    }
    let errors: Vec<String> = result.errors.iter().map(in_words).collect();
    // Without any answer there is no negative result.
    let is_answered = result.attempts.iter().any(|attempt| attempt.content.is_some());
    let is_failed = result.errors.iter().any(|error| error.category == ProblemCategory::Transport);
    if is_failed && !is_answered && !result.ok {
        bail!("{}", errors.join("\nformwork: "));
    }
    for error in errors {
        eprintln!("formwork: {error}");
    }
    Ok(result.ok)
}

/// Describes the decision about the type of the directives.
fn decided(decision: &TypeDecision) -> String {
    if let Some(error) = &decision.error {
        return format!("the type was not decided, so all types were allowed: {}", error.message);
    }
    let probabilities = decision.probabilities.iter();
    let told: Vec<_> = probabilities.map(|of| format!("{} {:.3}", of.kind, of.probability)).collect();
    format!("decided on {}: {}", decision.kind.as_deref().unwrap_or_default(), told.join(", "))
}

/// Describes an attempt whose mode the server refused, if the run went on without an error.
fn refused(attempt: &Attempt) -> Option<String> {
    let error = attempt.error.as_ref().filter(|error| error.category == ProblemCategory::Unsupported)?;
    Some(format!("the server refused {}: {}", attempt.mode.name(), error.message))
}

/// Describes a problem with its reasons.
fn in_words(error: &Problem) -> String {
    let reasons = error.details.as_ref().and_then(|details| details.get("reasons")?.as_array().cloned());
    let reasons: Vec<String> =
        reasons.into_iter().flatten().filter_map(|reason| reason.as_str().map(str::to_owned)).collect();
    let told = format!("{}: {}", error.code, error.message);
    if reasons.is_empty() { told } else { format!("{told}: {}", reasons.join("; ")) }
}

fn run(args: &RunArgs) -> Result<DirectiveResult> {
    // Check the cheap inputs before loading a model.
    let target = Target::new(args)?;
    let request = request(args, &target)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(async {
        let (backend, model) = target.open(args)?;
        let limit = async {
            match args.timeout {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            result = ask(args, &target, backend, model, &request) => result,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            () = limit => bail!("--timeout: the run did not end within {} seconds", args.timeout.unwrap_or_default().as_secs_f64()),
        }
    });
    runtime.shutdown_background();
    result
}

async fn ask(
    args: &RunArgs,
    target: &Target,
    backend: Arc<dyn ChatBackend>,
    model: String,
    request: &RunRequest,
) -> Result<DirectiveResult> {
    let max_requests = args.max_requests.map(NonZeroU32::get);
    let modes = args.modes.clone();
    let type_by_decision = args.type_by_decision.then_some(true);
    let own =
        Preset { modes, repair_retries: args.repairs, max_requests, type_by_decision, ..Preset::default() };
    let preset = presets::merge([target.preset.clone(), own]);
    let prompts = PromptRunner::new(backend, model).with_defaults(target.defaults());
    Ok(Runner::build(prompts, preset).run(request).await?)
}

/// Builds the request from the command line.
fn request(args: &RunArgs, target: &Target) -> Result<RunRequest> {
    let mut options = options(&args.rules)?;
    let modes = args.modes.as_deref().or(target.preset.modes.as_deref()).unwrap_or(&Mode::ALL);
    check::check_modes(args, modes)?;
    if target.is_local && modes.contains(&Mode::JsonSchema) {
        check_payloads(options.registry()).with_context(|| args.rules.registry.display().to_string())?;
    }
    options.output_instructions.clone_from(&args.instructions);
    if let Some(name) = &args.schema_name {
        options = options.with_schema_name(name).context("--schema-name")?;
    }
    let history = args.history.as_deref().map(history).transpose()?.unwrap_or_default();
    let sampling = sampling(args, target.is_local);
    check::check(args, target.is_local, &history, &sampling)?;
    let prompt = match &args.prompt {
        Some(prompt) => prompt.clone(),
        None => files::read_input_text(None)?,
    };
    if prompt.trim().is_empty() {
        bail!("the prompt is empty; give it as an argument or on standard input");
    }
    let mut request = RunRequest { history, ..RunRequest::new(prompt, options) };
    request.system.clone_from(&args.system);
    request.overrides.clone_from(&target.sampling);
    request.overrides.extend(sampling);
    Ok(request)
}

/// Reads the earlier messages of a conversation.
fn history(path: &Path) -> Result<Vec<Value>> {
    let place = || format!("--history: {}", path.display());
    let Value::Array(messages) = files::read_json_option("--history", path)? else {
        bail!("{}: expected an array of messages", place())
    };
    for (at, message) in messages.iter().enumerate() {
        if !message.get("role").is_some_and(Value::is_string) {
            bail!("{}: messages[{at}]: expected an object with a `role`", place());
        }
    }
    Ok(messages)
}

/// Builds the options that say which answers are valid.
fn options(args: &RulesArgs) -> Result<StructuredOutputOptions> {
    let text = files::read_option("--registry", &args.registry)?;
    let registry = parse(&args.registry, &text).with_context(|| args.registry.display().to_string())?;
    let mut options = StructuredOutputOptions::new(registry);
    if !args.allow.is_empty() {
        options = options.with_allowed_types(args.allow.clone())?;
    }
    options.known_types("--require", args.require.clone())?;
    options.known_types("--require-one", args.require_one.clone())?;
    let required = args.require.iter().map(Requirement::at_least_one);
    let once = args.require_one.iter().map(Requirement::exactly_one);
    options = options.with_required(required.chain(once))?;
    options.max_directives = args.max_directives;
    options.max_text_length = args.max_text_length;
    options.max_bytes = args.max_bytes.map_or(options.max_bytes, NonZeroUsize::get);
    Ok(options)
}

/// Parses a registry file: TOML if the extension is `.toml`, JSON otherwise.
fn parse(path: &Path, text: &str) -> Result<Registry> {
    if path.extension() == Some(OsStr::new("toml")) {
        return Ok(toml::from_str(text)?);
    }
    Ok(formwork_json::from_str(text)?)
}

/// Checks that the engine can enforce each payload schema.
fn check_payloads(registry: &Registry) -> Result<()> {
    for (at, definition) in registry.definitions().iter().enumerate() {
        let Some(schema) = &definition.payload_schema else { continue };
        Grammar::json_schema(schema, &SchemaOptions::default(), &Limits::default())
            .with_context(|| format!("definitions[{at}].payload_schema"))?;
    }
    Ok(())
}

fn sampling(args: &RunArgs, is_local: bool) -> Body {
    let temperature = args.temperature.or(is_local.then_some(0.0));
    let fields = [
        ("max_tokens", args.max_tokens.map(|tokens| tokens.get().into())),
        ("temperature", temperature.map(decimal)),
        ("top_p", args.top_p.map(decimal)),
        ("top_k", args.top_k.map(Value::from)),
        ("min_p", args.min_p.map(decimal)),
        ("seed", args.seed.map(Value::from)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// Converts the number to the double with the same decimal digits: 0.7 instead of
/// 0.699999988079071, the double nearest to the float.
fn decimal(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

fn tell(result: &DirectiveResult, as_json: bool, mut out: impl Write) -> Result<()> {
    if as_json {
        writeln!(out, "{}", serde_json::to_string(result)?)?;
        return Ok(());
    }
    if !result.assistant_text.is_empty() {
        writeln!(out, "{}", result.assistant_text)?;
    }
    for directive in &result.directives {
        writeln!(out, "{} {}", directive.kind, serde_json::to_string(&directive.payload)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
