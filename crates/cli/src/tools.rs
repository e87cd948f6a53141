//! `formwork tools run`

mod args;
mod file;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use formwork_protocol::tools::{
    FilteredToolRegistry, McpClient, Preset, Problem, ToolCallingOptions, ToolEvent, ToolFailurePolicy,
    ToolLoopRunner, ToolRegistry, ToolRun, ToolSource, ToolUseMode, Transforms, replay,
};
use formwork_protocol::{PromptRunner, merge};
use serde_json::{Value, json};

use crate::files;
pub(crate) use args::ToolsCommand;
use args::{ModeArg, PolicyArg, RunArgs};

pub(crate) fn tools(command: &ToolsCommand, as_json: bool) -> Result<bool> {
    let ToolsCommand::Run(args) = command;
    if let Some(path) = &args.replay {
        return again(path, as_json);
    }
    let options = options(args)?;
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
            ran = run(args, options, tools, messages) => ran,
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
    Ok(ran.ok)
}

/// Runs the tool loop with the model and the tools, then closes the MCP servers.
async fn run(
    args: &RunArgs,
    options: ToolCallingOptions,
    mut tools: file::Tools,
    messages: Vec<Value>,
) -> Result<ToolRun> {
    let servers = tools.connect().await?;
    let ran = with_tools(args, options, tools.registry, messages).await;
    for server in servers {
        McpClient::close(server).await;
    }
    ran
}

async fn with_tools(
    args: &RunArgs,
    options: ToolCallingOptions,
    registry: ToolRegistry,
    messages: Vec<Value>,
) -> Result<ToolRun> {
    if registry.tools().is_empty() && options.tool_use_mode != ToolUseMode::Disabled {
        bail!("no tools given; use --tools, --mcp or --mcp-url");
    }
    let source = masked(args, registry)?;
    let (backend, model) = args.backend.open()?;
    let prompt = PromptRunner::new(backend, model);
    let runner = ToolLoopRunner::new(prompt, source, options)?.on_event(progress);
    Ok(runner.run(messages).await?)
}

/// Returns the options of the presets, overridden by the command line.
fn options(args: &RunArgs) -> Result<ToolCallingOptions> {
    let mut preset = Preset::default_tool_calling();
    for name in &args.preset {
        let known = Preset::NAMES.join(", ");
        let named = Preset::named(name)
            .with_context(|| format!("--preset {name}: unknown preset; expected one of {known}"))?;
        preset = preset.merge(&named);
    }
    let mut options = preset.options()?;
    if let Some(mode) = args.mode {
        options.tool_use_mode = match mode {
            ModeArg::Enforced => ToolUseMode::Enforced,
            ModeArg::Relaxed => ToolUseMode::Relaxed,
            ModeArg::Disabled => ToolUseMode::Disabled,
        };
    }
    if let Some(policy) = args.failure_policy {
        options.tool_failure_policy = match policy {
            PolicyArg::Fatal => ToolFailurePolicy::Fatal,
            PolicyArg::Tolerated => ToolFailurePolicy::Tolerated,
        };
    }
    options.max_turns = args.max_turns.unwrap_or(options.max_turns);
    let mut sampling = json!({});
    if let Some(max_tokens) = args.max_tokens {
        sampling["max_tokens"] = json!(max_tokens);
    }
    if let Some(temperature) = args.temperature {
        sampling["temperature"] = json!(temperature);
    }
    if let Some(seed) = args.seed {
        sampling["seed"] = json!(seed);
    }
    let sampling = sampling.as_object().cloned().unwrap_or_default();
    options.request_overrides = merge(&options.request_overrides, &sampling);
    Ok(options)
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
        ToolEvent::EmptyFinal { turn, is_asked_again } => {
            eprintln!("turn {turn}: empty answer{}", if *is_asked_again { "; asking again" } else { "" });
        }
        _ => {}
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
    for error in &run.errors {
        eprintln!("formwork: {}: {}", error.code, error.message);
    }
    Ok(())
}

/// Replays a record (`--replay`) and reports whether the replay gives the same run.
fn again(path: &Path, as_json: bool) -> Result<bool> {
    let text = files::read_option("--replay", path)?;
    let record: ToolRun = serde_json::from_str(&text)
        .with_context(|| format!("{}: not a record of a tool run", path.display()))?;
    let run = match replay(&record, &Transforms::default()) {
        Ok(run) => run,
        Err(error) => {
            eprintln!("formwork: {error}");
            return Ok(false);
        }
    };
    tell(&run, as_json)?;
    let is_same = run == record;
    let turns = run.turns.len();
    eprintln!("replayed {turns} turns: {}", if is_same { "same result" } else { "the result differs" });
    Ok(is_same)
}
