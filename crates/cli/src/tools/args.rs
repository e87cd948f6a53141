use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use crate::backend::BackendArgs;

#[derive(Subcommand)]
pub(crate) enum ToolsCommand {
    /// Let a model call tools until it answers.
    ///
    /// The answer goes to standard output, the calls to standard error. Exit code 1 says that the run failed: no call where one is
    /// enforced, a tool that failed, no answer.
    Run(Box<RunArgs>),
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// A file of tools, JSON or TOML: `name`, `description`, `parameters` and the `command` that runs each; and MCP servers.
    #[arg(long, value_name = "FILE")]
    pub(super) tools: Vec<PathBuf>,

    /// A command that starts an MCP server on its standard input and output; its arguments are split as by a shell.
    #[arg(long, value_name = "COMMAND")]
    pub(super) mcp: Vec<String>,

    /// The URL of an MCP server over streamable HTTP.
    #[arg(long, value_name = "URL")]
    pub(super) mcp_url: Vec<String>,

    /// Only tools of these names; give it once for each.
    #[arg(long, value_name = "NAME")]
    pub(super) allow: Vec<String>,

    /// No tool of this name, whether allowed or not; give it once for each.
    #[arg(long, value_name = "NAME")]
    pub(super) deny: Vec<String>,

    #[command(flatten)]
    pub(super) backend: BackendArgs,

    /// Whether tools must be called, may be, or are not even sent [default: relaxed].
    #[arg(long, value_enum)]
    pub(super) mode: Option<ModeArg>,

    /// Where they must be: whether the last call of each tool must succeed, or just some call [default: fatal].
    #[arg(long, value_enum)]
    pub(super) failure_policy: Option<PolicyArg>,

    /// Options by name, over those by default; give it once for each.
    #[arg(long, value_name = "NAME")]
    pub(super) preset: Vec<String>,

    /// The most requests [default: 12].
    #[arg(long, value_name = "N")]
    pub(super) max_turns: Option<NonZeroUsize>,

    /// The most tokens of each answer.
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<NonZeroUsize>,

    /// 0 always takes the likeliest token.
    #[arg(long, value_name = "T")]
    pub(super) temperature: Option<f32>,

    /// Equal seeds give equal answers of a model that runs here.
    #[arg(long, value_name = "S")]
    pub(super) seed: Option<u64>,

    /// The system message.
    #[arg(long, value_name = "TEXT")]
    pub(super) system: Option<String>,

    /// A file for the record of the run.
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,

    /// Do what a record says again, without model and tools; exit code 1 says that something else came of it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tools", "mcp", "mcp_url", "model", "base_url", "record", "prompt"])]
    pub(super) replay: Option<PathBuf>,

    /// The prompt; standard input when absent.
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
