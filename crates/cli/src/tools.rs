//! `formwork tools run`

mod args;
mod file;
mod options;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use formwork_protocol::config::{Config, LOCAL_PROVIDER, Model};
use formwork_protocol::tools::{
    FilteredToolRegistry, McpClient, Preset, Problem, ToolCallingOptions, ToolDecision, ToolEvent,
    ToolLoopRunner, ToolRegistry, ToolRun, ToolSource, ToolUseMode, Transforms, replay,
};
use formwork_protocol::{PromptRunner, catalogue};
use serde_json::{Value, json};

use crate::backend::models;
use crate::{ERROR, NEGATIVE, TRUNCATED, files};
use args::RunArgs;
pub(crate) use args::ToolsCommand;
pub(crate) use file::hosted;

/// Runs the command and returns its exit code.
pub(crate) fn tools(command: &ToolsCommand, as_json: bool) -> Result<u8> {
    let ToolsCommand::Run(args) = command;
    if let Some(path) = &args.replay {
        return again(path, as_json);
    }
    let config = args.backend.configuration()?.config;
    let subject = subject(args, &config);
    let options = options::options(args, &config, &subject)?;
    // Check the cheap inputs before loading a model.
    let tools = file::read(args)?;
    // Only tools from files are registered yet. MCP servers choose their own tool names, so no
    // warnings are printed for those.
    for warning in tools.registry.warnings() {
        eprintln!("formwork: warning: {warning}");
    }
    let messages = messages(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let ran = runtime.block_on(async {
        tokio::select! {
            ran = run(args, &config, options, tools, messages) => ran,
            // Dropping the run stops its tools.
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    });
    runtime.shutdown_background();
    let ran = ran?;
    if let Some(path) = &args.record {
        let text = serde_json::to_string_pretty(&ran)? + "\n";
        std::fs::write(path, text).with_context(|| format!("--record: {}", path.display()))?;
    }
    tell(&ran, as_json)?;
    Ok(exit_code(&ran))
}

/// Returns the exit code of a run, as the other commands define it.
fn exit_code(run: &ToolRun) -> u8 {
    match run {
        run if run.is_unanswered() => ERROR,
        run if run.is_filtered() => TRUNCATED,
        run if !run.ok => NEGATIVE,
        run if run.is_truncated() => TRUNCATED,
        _ => 0,
    }
}

/// Returns the entry of the configuration that `--model` names.
fn configured<'c>(args: &RunArgs, config: &'c Config) -> Option<&'c Model> {
    config.models.get(args.backend.model.as_ref()?).filter(|_| args.backend.base_url.is_none())
}

/// Returns the model with the presets of its provider.
fn subject(args: &RunArgs, config: &Config) -> options::Subject {
    let known = configured(args, config);
    let model = match known {
        Some(known) => known.model.clone(),
        None => args.backend.model.clone().unwrap_or_default(),
    };
    let of_config = known.and_then(|known| config.providers.get(&known.provider));
    let provider = match (&args.provider, of_config, &args.backend.base_url) {
        (Some(given), ..) => given.as_str(),
        (None, Some(provider), _) => {
            let by_url = catalogue::provider_of_url(&provider.base_url);
            provider.preset.as_deref().or(by_url).unwrap_or_default()
        }
        (None, None, Some(url)) => catalogue::provider_of_url(url).unwrap_or_default(),
        (None, None, None) => LOCAL_PROVIDER,
    };
    let mut preset = Preset::for_model(provider, &model);
    if let Some(workarounds) = known.and_then(|known| known.presets.as_ref()) {
        let base = Preset::default_tool_calling().merge(&Preset::provider_defaults(provider));
        preset = base.merge(&Preset::of_workarounds(workarounds));
    }
    options::Subject { model, preset, profile: known.and_then(|known| known.profile.clone()) }
}

/// Opens the backend with the name of the model there, and the default fields of its provider.
fn open(args: &RunArgs, config: &Config) -> Result<PromptRunner> {
    let Some(known) = configured(args, config) else {
        let (backend, model) = args.backend.open()?;
        return Ok(PromptRunner::new(backend, model));
    };
    if let Some(provider) = config.providers.get(&known.provider) {
        let backend = Arc::new(models::of_provider(provider, Some(args.backend.configuration_path()))?);
        let defaults = provider.llm_options_defaults.clone();
        return Ok(PromptRunner::new(backend, &*known.model).with_defaults(defaults));
    }
    let (backend, model) = args.backend.open_local(&known.model)?;
    Ok(PromptRunner::new(backend, model))
}

/// Runs the tool loop with the model and the tools, then closes the MCP servers.
async fn run(
    args: &RunArgs,
    config: &Config,
    options: ToolCallingOptions,
    mut tools: file::Tools,
    messages: Vec<Value>,
) -> Result<ToolRun> {
    let servers = tools.connect().await?;
    let ran = with_tools(args, config, options, tools.registry, messages).await;
    for server in servers {
        McpClient::close(server).await;
    }
    ran
}

async fn with_tools(
    args: &RunArgs,
    config: &Config,
    options: ToolCallingOptions,
    registry: ToolRegistry,
    messages: Vec<Value>,
) -> Result<ToolRun> {
    if registry.tools().is_empty() && options.tool_use_mode != ToolUseMode::Disabled {
        bail!("no tools given; use --tools, --mcp or --mcp-url");
    }
    let source = masked(args, registry)?;
    let runner = ToolLoopRunner::new(open(args, config)?, source, options)?.on_event(progress);
    Ok(runner.run(messages).await?)
}

fn messages(args: &RunArgs) -> Result<Vec<Value>> {
    let prompt = match &args.prompt {
        Some(prompt) => prompt.clone(),
        None => files::read_input_text(None)?,
    };
    if prompt.trim().is_empty() {
        bail!("the prompt is empty; give it as an argument or on standard input");
    }
    let system = args.system.iter().map(|system| json!({ "role": "system", "content": system }));
    Ok(system.chain([json!({ "role": "user", "content": prompt })]).collect())
}

/// Applies `--allow` and `--deny`: returns the tools that are sent to the model and may run.
fn masked(args: &RunArgs, registry: ToolRegistry) -> Result<Arc<dyn ToolSource>> {
    let known: Vec<String> = registry.tools().iter().map(|tool| tool.name().to_owned()).collect();
    for (flag, name) in
        args.allow.iter().map(|name| ("--allow", name)).chain(args.deny.iter().map(|name| ("--deny", name)))
    {
        if !known.contains(name) {
            bail!("{flag} {name}: unknown tool; expected one of {}", known.join(", "));
        }
    }
    let mut source = FilteredToolRegistry::new(Arc::new(registry)).deny(args.deny.clone());
    if !args.allow.is_empty() {
        source = source.allow(args.allow.clone());
    }
    Ok(Arc::new(source))
}

/// Prints the progress of the run to standard error.
fn progress(event: &ToolEvent) {
    match event {
        ToolEvent::Decided { turn, decision } => eprintln!("turn {turn}: {}", decided(decision)),
        ToolEvent::Calling { turn, call } => {
            eprintln!("turn {turn}: {}({})", call.name, short(call.arguments.trim()));
        }
        ToolEvent::Called { turn, record } => {
            let came = match record.result.errors.first() {
                Some(error) if !record.result.ok => {
                    format!("failed: {}: {}", error.code, short(&error.message))
                }
                _ => format!("→ {}", short(&record.result.data.to_string())),
            };
            eprintln!("turn {turn}: {came} ({} ms)", record.latency_ms);
            for line in record.result.errors.first().map(complaints).unwrap_or_default() {
                eprintln!("turn {turn}: | {}", short(line));
            }
        }
        ToolEvent::Ignored { turn, ignored_tool_calls_count } => {
            eprintln!("turn {turn}: {ignored_tool_calls_count} more calls ignored");
        }
        ToolEvent::Repeated { turn, call } => {
            eprintln!("turn {turn}: {} repeats the call before it", call.name);
        }
        ToolEvent::EmptyFinal { turn, is_asked_again } => {
            eprintln!("turn {turn}: empty answer{}", if *is_asked_again { "; asking again" } else { "" });
        }
        _ => {}
    }
}

/// Describes a decision about the next tool.
fn decided(decision: &ToolDecision) -> String {
    if let Some(error) = &decision.error {
        return format!("the next tool was not decided: {}", short(&error.message));
    }
    let mut likely: Vec<(&str, f64)> =
        decision.probabilities.iter().map(|of| (of.tool.as_str(), of.probability)).collect();
    likely.extend(decision.answer.map(|probability| ("an answer", probability)));
    likely.sort_by(|a, b| b.1.total_cmp(&a.1));
    let likely: Vec<_> = likely.iter().take(3).map(|(name, of)| format!("{name} {of:.3}")).collect();
    let next = decision.tool.as_deref().unwrap_or("an answer");
    if likely.is_empty() {
        format!("decided on {next}")
    } else {
        format!("decided on {next}: {}", likely.join(", "))
    }
}

/// Returns the last lines that a failed tool wrote to standard error, at most 10.
fn complaints(problem: &Problem) -> Vec<&str> {
    const MOST: usize = 10;
    let stderr = problem.details.get("stderr").and_then(Value::as_str).unwrap_or_default();
    let lines: Vec<&str> = stderr.lines().collect();
    lines[lines.len().saturating_sub(MOST)..].to_vec()
}

fn short(text: &str) -> String {
    const MOST: usize = 200;
    let line = text.replace('\n', " ");
    if line.chars().count() <= MOST { line } else { line.chars().take(MOST).chain(['…']).collect() }
}

fn tell(run: &ToolRun, as_json: bool) -> Result<()> {
    if as_json {
        println!("{}", serde_json::to_string(run)?);
    } else if let Some(text) = &run.text {
        println!("{text}");
    }
    for warning in &run.warnings {
        eprintln!("formwork: warning: {}: {}", warning.code, warning.message);
    }
    for error in &run.errors {
        eprintln!("formwork: {}: {}", error.code, error.message);
    }
    Ok(())
}

/// Replays a record (`--replay`) and reports whether the replay gives the same run.
fn again(path: &Path, as_json: bool) -> Result<u8> {
    let text = files::read_option("--replay", path)?;
    let record: ToolRun = serde_json::from_str(&text)
        .with_context(|| format!("{}: not a record of a tool run", path.display()))?;
    let run = match replay(&record, &Transforms::default()) {
        Ok(run) => run,
        Err(error) => {
            eprintln!("formwork: {error}");
            return Ok(NEGATIVE);
        }
    };
    tell(&run, as_json)?;
    let is_same = run == record;
    let turns = run.turns.len();
    eprintln!("replayed {turns} turns: {}", if is_same { "same result" } else { "the result differs" });
    Ok(if is_same { 0 } else { NEGATIVE })
}
