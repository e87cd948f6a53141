use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use crate::backend::BackendArgs;

#[derive(Subcommand)]
pub(crate) enum ToolsCommand {
    /// Let a model call tools until it answers.
    ///
    /// Prints the answer to standard output and the calls to standard error. Exit code 1: the run failed,
    /// because a required call is missing, a tool failed, or there is no answer.
    Run(Box<RunArgs>),
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// Tool file (JSON or TOML) with `name`, `description`, `parameters` and `command` of each tool, and with
    /// MCP servers; repeat for several.
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

    /// Require tool calls, allow them, or send no tools [default: relaxed].
    #[arg(long, value_enum)]
    pub(super) mode: Option<ModeArg>,

    /// With --mode enforced, require that the last call of each tool succeeds, or that any call does
    /// [default: fatal].
    #[arg(long, value_enum)]
    pub(super) failure_policy: Option<PolicyArg>,

    /// Named set of options that overrides the defaults; repeat for several.
    #[arg(long, value_name = "NAME")]
    pub(super) preset: Vec<String>,

    /// Maximum number of requests [default: 12].
    #[arg(long, value_name = "N")]
    pub(super) max_turns: Option<NonZeroUsize>,

    /// Maximum number of tokens per answer.
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<NonZeroUsize>,

    /// Sampling temperature; 0 always takes the likeliest token.
    #[arg(long, value_name = "T")]
    pub(super) temperature: Option<f32>,

    /// Random seed; with a local model, the same seed gives the same answers.
    #[arg(long, value_name = "S")]
    pub(super) seed: Option<u64>,

    /// System message.
    #[arg(long, value_name = "TEXT")]
    pub(super) system: Option<String>,

    /// File to write the record of the run to.
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,

    /// Replay a record without a model and tools; exit code 1 if the result differs.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tools", "mcp", "mcp_url", "model", "base_url", "record", "prompt"])]
    pub(super) replay: Option<PathBuf>,

    /// Prompt [default: standard input].
    pub(super) prompt: Option<String>,
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
