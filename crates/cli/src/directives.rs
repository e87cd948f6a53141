//! `formwork directives run`

use std::ffi::OsStr;
use std::io::Write;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use formwork_grammar::{Grammar, Limits, SchemaOptions};
use formwork_protocol::directives::{
    DirectiveResult, Mode, Preset, ProblemCategory, Registry, RunRequest, Runner, StructuredOutputOptions,
    presets, require_types,
};
use formwork_protocol::{Body, ChatBackend, PromptRunner};
use serde_json::Value;

use crate::backend::BackendArgs;
use crate::files;

#[derive(Subcommand)]
pub(crate) enum DirectivesCommand {
    /// Request text and directives from a model.
    ///
    /// Prints the text and then the directives, one per line, to standard output, and problems to standard
    /// error. Exit code 1: no usable answer; 2: no answer, or invalid input.
    Run(Box<RunArgs>),
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// JSON or TOML file with the directive types: `definitions`, each with `type`, `description`, `aliases`,
    /// `payload_schema`, `instructions` and `patch`, and general `instructions`.
    #[arg(long, value_name = "FILE")]
    registry: PathBuf,

    #[command(flatten)]
    backend: BackendArgs,

    /// Modes to try, in order [default: all, strictest first].
    #[arg(long, value_name = "MODE,…", value_delimiter = ',')]
    modes: Option<Vec<Mode>>,

    /// Provider whose known quirks to apply: openrouter, openai or local [default: local for a local model].
    #[arg(long, value_name = "NAME", value_parser = presets::PROVIDERS)]
    provider: Option<String>,

    /// Allowed directive type; repeat for several [default: all types].
    #[arg(long, value_name = "TYPE")]
    allow: Vec<String>,

    /// Directive type that must occur; repeat for several.
    #[arg(long, value_name = "TYPE")]
    require: Vec<String>,

    /// Maximum number of repair attempts per mode [default: 1].
    #[arg(long, value_name = "N")]
    repairs: Option<u32>,

    /// System message; the instructions for directives are appended to it.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    /// Additional instructions about types and payloads.
    #[arg(long, value_name = "TEXT")]
    instructions: Option<String>,

    /// Maximum number of tokens per answer.
    #[arg(long, value_name = "N")]
    max_tokens: Option<NonZeroUsize>,

    /// Sampling temperature; 0 always takes the likeliest token [default: 0 for a local model].
    #[arg(long, value_name = "T")]
    temperature: Option<f32>,

    /// Keep the likeliest tokens whose probabilities sum to P.
    #[arg(long, value_name = "P")]
    top_p: Option<f32>,

    /// Keep the K likeliest tokens.
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,

    /// Keep tokens with at least P times the probability of the likeliest token.
    #[arg(long, value_name = "P")]
    min_p: Option<f32>,

    /// Random seed; with a local model, the same seed gives the same answers.
    #[arg(long, value_name = "S")]
    seed: Option<u64>,

    /// Prompt [default: standard input].
    prompt: Option<String>,
}

pub(crate) fn directives(command: &DirectivesCommand, as_json: bool) -> Result<bool> {
    let DirectivesCommand::Run(args) = command;
    // Check the cheap inputs before loading a model.
    let request = request(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let result = runtime.block_on(async {
        let (backend, model) = args.backend.open()?;
        tokio::select! {
            result = ask(args, backend, model, &request) => result,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    });
    runtime.shutdown_background();
    let result = result?;
    for warning in &result.warnings {
        eprintln!("formwork: warning: {warning}");
    }
    tell(&result, as_json, std::io::stdout().lock())?;
    for error in &result.errors {
        if error.category == ProblemCategory::Transport {
            bail!("{}: {}", error.code, error.message);
        }
        eprintln!("formwork: {}: {}", error.code, error.message);
    }
    Ok(result.ok)
}

async fn ask(
    args: &RunArgs,
    backend: Arc<dyn ChatBackend>,
    model: String,
    request: &RunRequest,
) -> Result<DirectiveResult> {
    let provider = args.provider.as_deref().or(args.backend.is_local().then_some("local"));
    let own = Preset { modes: args.modes.clone(), repair_retries: args.repairs, ..Preset::default() };
    let preset = presets::merge([presets::provider_defaults(provider.unwrap_or_default()), own]);
    Ok(Runner::build(PromptRunner::new(backend, model), preset).run(request).await?)
}

/// Builds the request from the command line.
fn request(args: &RunArgs) -> Result<RunRequest> {
    let place = || args.registry.display().to_string();
    let text = files::read_option("--registry", &args.registry)?;
    let registry = parse(&args.registry, &text).with_context(place)?;
    let modes = args.modes.as_deref().unwrap_or(&Mode::ALL);
    if args.backend.is_local() && modes.contains(&Mode::JsonSchema) {
        check_payloads(&registry).with_context(place)?;
    }
    let mut options = StructuredOutputOptions::new(registry);
    if !args.allow.is_empty() {
        options = options.with_allowed_types(args.allow.clone())?;
    }
    options.output_instructions.clone_from(&args.instructions);
    let required = options.known_types("--require", args.require.clone())?;
    let prompt = match &args.prompt {
        Some(prompt) => prompt.clone(),
        None => files::read_input_text(None)?,
    };
    if prompt.trim().is_empty() {
        bail!("the prompt is empty; give it as an argument or on standard input");
    }
    let mut request = RunRequest::new(prompt, options);
    request.system.clone_from(&args.system);
    request.overrides = sampling(args);
    if !required.is_empty() {
        request = request.with_result_validator(require_types(required));
    }
    Ok(request)
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

fn sampling(args: &RunArgs) -> Body {
    let temperature = args.temperature.or(args.backend.is_local().then_some(0.0));
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
