use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use formwork_protocol::directives::presets::PROVIDERS;
use formwork_protocol::tools::TextCallFormat;
use serde_json::Value;

use crate::backend::BackendArgs;

#[derive(Subcommand)]
pub(crate) enum ToolsCommand {
    /// Let a model call tools until it answers.
    ///
    /// Prints the answer to standard output and the calls to standard error. Exit code 1: the run failed,
    /// because a required call is missing, a tool failed, or there is no text; 2: the model did not answer, or
    /// the input is invalid; 3: the token limit or a content filter cut off the text.
    Run(Box<RunArgs>),
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// Tool file (JSON or TOML) with `name`, `description`, `parameters` and `command` or `url` of each tool,
    /// and with MCP servers; repeat for several.
    #[arg(long, value_name = "FILE")]
    pub(super) tools: Vec<PathBuf>,

    /// Command that starts an MCP server over standard input and output, split into arguments like a shell
    /// command; repeat for several.
    #[arg(long, value_name = "COMMAND")]
    pub(super) mcp: Vec<String>,

    /// URL of an MCP server over streamable HTTP; repeat for several.
    #[arg(long, value_name = "URL")]
    pub(super) mcp_url: Vec<String>,

    /// Name of an allowed tool; repeat for several [default: all tools].
    #[arg(long, value_name = "NAME")]
    pub(super) allow: Vec<String>,

    /// Name of a forbidden tool, even if it is allowed; repeat for several.
    #[arg(long, value_name = "NAME")]
    pub(super) deny: Vec<String>,

    #[command(flatten)]
    pub(super) backend: BackendArgs,

    /// Provider whose presets to apply [default: by the URL of the server].
    #[arg(long, value_name = "NAME", value_parser = PROVIDERS)]
    pub(super) provider: Option<String>,

    #[command(flatten)]
    pub(super) options: OptionArgs,

    #[command(flatten)]
    pub(super) sampling: SamplingArgs,

    /// System message.
    #[arg(long, value_name = "TEXT")]
    pub(super) system: Option<String>,

    /// File to write the record of the run to.
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,

    /// Replay a record without a model and tools; exit code 1 if the result differs.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tools", "mcp", "mcp_url", "model", "base_url", "config", "record", "prompt"])]
    pub(super) replay: Option<PathBuf>,

    /// Prompt [default: standard input].
    pub(super) prompt: Option<String>,
}

/// Options of the loop. Each has the name of the library's option.
#[derive(clap::Args)]
#[command(next_help_heading = "Options of the loop")]
pub(super) struct OptionArgs {
    /// Named set of options that overrides the defaults of the model and the configuration; repeat for
    /// several.
    #[arg(long, value_name = "NAME")]
    pub(super) preset: Vec<String>,

    /// Require tool calls, allow them, or send no tools [default: relaxed].
    #[arg(long, alias = "tool-use-mode", value_enum)]
    pub(super) mode: Option<ModeArg>,

    /// With --mode enforced, require that the last call of each name succeeds, or that any call does
    /// [default: fatal].
    #[arg(long, alias = "tool-failure-policy", value_enum)]
    pub(super) failure_policy: Option<PolicyArg>,

    /// Maximum size of a call's arguments, in bytes [default: 200000].
    #[arg(long, value_name = "BYTES")]
    pub(super) max_tool_args_bytes: Option<usize>,

    /// Maximum size of a call's result, in bytes [default: 200000].
    #[arg(long, value_name = "BYTES")]
    pub(super) max_tool_output_bytes: Option<usize>,

    /// Maximum number of calls executed per answer [default: 1].
    #[arg(long, value_name = "N")]
    pub(super) max_tool_calls_per_turn: Option<NonZeroUsize>,

    /// Ask once more if the final answer is empty [default: true].
    #[arg(long, value_name = "BOOL")]
    pub(super) fix_empty_final: Option<bool>,

    /// Omit the tools from the request after an empty answer [default: true].
    #[arg(long, value_name = "BOOL")]
    pub(super) fix_empty_final_disable_tools: Option<bool>,

    /// User message of the request after an empty answer.
    #[arg(long, value_name = "TEXT")]
    pub(super) fix_empty_final_prompt: Option<String>,

    /// Maximum number of requests [default: 12].
    #[arg(long, value_name = "N")]
    pub(super) max_turns: Option<NonZeroUsize>,

    /// Maximum size of the messages of the conversation, in bytes [default: 8000000].
    #[arg(long, value_name = "BYTES")]
    pub(super) max_conversation_bytes: Option<usize>,

    /// Reaction to the same call twice in a row [default: warn].
    #[arg(long, value_enum)]
    pub(super) repeated_calls: Option<RepeatedArg>,

    /// Timeout of each call, in milliseconds, in addition to the tool's own [default: none].
    #[arg(long, value_name = "MS")]
    pub(super) tool_timeout_ms: Option<u64>,

    /// Value of `tool_choice`: auto, required, none or the name of a tool [default: not sent].
    #[arg(long, value_name = "CHOICE")]
    pub(super) tool_choice: Option<String>,

    /// With --mode enforced, send `tool_choice: required` until the first call [default: true for a local
    /// model].
    #[arg(long, value_name = "BOOL")]
    pub(super) force_first_call: Option<bool>,

    /// Who chooses the tool of each request: the model, or a decision with probabilities before it
    /// [default: model].
    #[arg(long, value_enum)]
    pub(super) next_tool: Option<NextToolArg>,

    /// Field of every request, with a value in JSON; repeat for several.
    #[arg(long, value_name = "FIELD=JSON", value_parser = field)]
    pub(super) request_override: Vec<(String, Value)>,

    /// Transform of the messages of a request; repeat for several.
    #[arg(long, value_name = "NAME")]
    pub(super) message_transform: Vec<String>,

    /// Transform of the definitions of tools; repeat for several.
    #[arg(long, value_name = "NAME")]
    pub(super) tool_transform: Vec<String>,

    /// Transform of the message of an answer; repeat for several.
    #[arg(long, value_name = "NAME")]
    pub(super) response_transform: Vec<String>,

    /// Format of calls in the text of answers, such as hermes or glm. With auto, the opening of a
    /// call decides, and calls are read only with a transform or preset for them.
    #[arg(long, value_name = "FORMAT", value_parser = text_call_format)]
    pub(super) text_call_format: Option<TextCallFormat>,

    /// Transform of a call; repeat for several.
    #[arg(long, value_name = "NAME")]
    pub(super) tool_call_transform: Vec<String>,

    /// Transform of a result; repeat for several.
    #[arg(long, value_name = "NAME")]
    pub(super) tool_result_transform: Vec<String>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(super) struct SamplingArgs {
    /// Sampling profile; `recommended` takes the catalogue's for the model.
    #[arg(long, value_name = "NAME")]
    pub(super) profile: Option<String>,

    /// Maximum number of tokens per answer.
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<NonZeroUsize>,

    /// Sampling temperature; 0 always takes the likeliest token.
    #[arg(long, value_name = "T")]
    pub(super) temperature: Option<f64>,

    /// Keep the likeliest tokens whose probabilities sum to P.
    #[arg(long, value_name = "P")]
    pub(super) top_p: Option<f64>,

    /// Keep the K likeliest tokens.
    #[arg(long, value_name = "K")]
    pub(super) top_k: Option<u32>,

    /// Keep tokens with at least P times the probability of the likeliest token.
    #[arg(long, value_name = "P")]
    pub(super) min_p: Option<f64>,

    /// Random seed; with a local model, the same seed gives the same answers.
    #[arg(long, value_name = "S")]
    pub(super) seed: Option<u64>,
}

/// Parses a request field with its value in JSON. A value that is not JSON is a string.
fn field(given: &str) -> Result<(String, Value), String> {
    let (name, value) =
        given.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("expected FIELD=JSON")?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((name.to_owned(), value))
}

/// Reads the name of a format of calls. The error lists the known names.
fn text_call_format(name: &str) -> Result<TextCallFormat, String> {
    serde_json::from_value(Value::from(name)).map_err(|error| error.to_string())
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum RepeatedArg {
    /// Execute the call, with a warning.
    Warn,
    /// End the run.
    Stop,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum NextToolArg {
    /// The model calls a tool or answers.
    Model,
    /// The likeliest tool must be called, or the model must answer.
    Decision,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ModeArg {
    Enforced,
    Relaxed,
    Disabled,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum PolicyArg {
    Fatal,
    Tolerated,
}
