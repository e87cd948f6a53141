use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use formwork_eval::{EvalMode, Strategy};
use formwork_protocol::Body;
use formwork_protocol::config::PROVIDER_PRESETS;
use formwork_protocol::sampling::Sampling;

use crate::args::OpenArgs;

#[derive(Subcommand)]
pub(crate) enum EvalCommand {
    /// Evaluate directives: is the requested directive returned in a valid envelope?
    Directives(EvalDirectivesArgs),
    /// Evaluate tool calling: is a workspace changed as requested, despite errors?
    Tools(EvalToolsArgs),
}

#[derive(Args)]
pub(crate) struct EvalDirectivesArgs {
    #[command(flatten)]
    pub(crate) eval: EvalArgs,

    /// Modes of requesting envelopes; `ladder` tries the other modes in turn.
    #[arg(long, value_name = "MODE,…", value_delimiter = ',', value_enum, default_value = "ladder")]
    pub(crate) modes: Vec<ModeArg>,

    /// Ask again if the requested directive is missing.
    #[arg(long)]
    pub(crate) semantic_repair: bool,
}

#[derive(Args)]
pub(crate) struct EvalToolsArgs {
    #[command(flatten)]
    pub(crate) eval: EvalArgs,
}

/// Options that all evaluations share.
#[derive(Args)]
pub(crate) struct EvalArgs {
    /// Local model, or with --base-url a model of that server; repeat for several [default: the default
    /// model].
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Vec<String>,

    /// OpenAI-compatible server to use instead of the local engine, such as `https://openrouter.ai/api/v1`.
    #[arg(long, value_name = "URL", requires = "model")]
    pub(crate) base_url: Option<String>,

    /// Environment variable with the server's API key.
    #[arg(long, value_name = "VAR", requires = "base_url")]
    pub(crate) api_key_env: Option<String>,

    /// Provider of the server, whose known quirks are applied.
    #[arg(long, value_name = "NAME", requires = "base_url", value_parser = PROVIDER_PRESETS)]
    pub(crate) provider: Option<String>,

    /// Configuration file (`formwork.toml`) with providers, models and sampling profiles.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Names of models in the configuration.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', requires = "config")]
    pub(crate) models: Vec<String>,

    /// Scenarios to run: default (all), simple, typical, extreme, or names of scenarios.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "default")]
    pub(crate) scenarios: Vec<String>,

    /// Sampling profiles, by name or group: default, recommended, conversation, creative, `tool_calling`.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "default")]
    pub(crate) profiles: Vec<String>,

    /// Use profiles also for models that they do not apply to.
    #[arg(long)]
    pub(crate) ignore_applicability: bool,

    /// Workarounds for models: production applies them, baseline does not, matrix compares both.
    #[arg(long, value_enum, default_value_t = StrategyArg::Production)]
    pub(crate) strategy: StrategyArg,

    /// Number of trials per combination, each with its own seed.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) trials: u32,

    /// Base of the seeds of all trials.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Send no seeds, for servers that reject them.
    #[arg(long, conflicts_with = "seed")]
    pub(crate) no_seed: bool,

    /// Number of trials to run at the same time.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) parallel: NonZeroUsize,

    /// Maximum number of tokens per answer.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: u32,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// Default values of request fields, as a JSON object.
    #[arg(long, value_name = "JSON", value_parser = object)]
    pub(crate) llm_options_defaults: Option<Body>,

    /// Folder for the results; an evaluation in an existing folder is resumed [default: a new folder in
    /// `formwork-eval`].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Minimum success rate, from 0 to 1; exit code 1 if the rate is lower. For tools, the control is not
    /// counted.
    #[arg(long, value_name = "RATE", value_parser = share)]
    pub(crate) min_ok: Option<f64>,

    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

/// Sampling values that override those of the profiles.
#[derive(Args)]
pub(crate) struct SamplingArgs {
    /// Temperature of all trials; overrides the profiles.
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,

    /// Top-p of all trials; overrides the profiles.
    #[arg(long, value_name = "P")]
    top_p: Option<f64>,

    /// Top-k of all trials; overrides the profiles.
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,

    /// Min-p of all trials; overrides the profiles.
    #[arg(long, value_name = "P")]
    min_p: Option<f64>,
}

impl SamplingArgs {
    pub(crate) const fn sampling(&self) -> Sampling {
        let Self { temperature, top_p, top_k, min_p } = *self;
        Sampling { temperature, top_p, top_k, min_p }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum ModeArg {
    Ladder,
    JsonSchema,
    JsonObject,
    PromptOnly,
}

impl ModeArg {
    pub(crate) const fn mode(self) -> EvalMode {
        match self {
            Self::Ladder => EvalMode::Ladder,
            Self::JsonSchema => EvalMode::JsonSchema,
            Self::JsonObject => EvalMode::JsonObject,
            Self::PromptOnly => EvalMode::PromptOnly,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StrategyArg {
    Baseline,
    Production,
    Matrix,
}

impl StrategyArg {
    pub(crate) fn strategies(self) -> Vec<Strategy> {
        match self {
            Self::Baseline => vec![Strategy::Baseline],
            Self::Production => vec![Strategy::Production],
            Self::Matrix => vec![Strategy::Baseline, Strategy::Production],
        }
    }
}

fn object(text: &str) -> Result<Body, String> {
    serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))
}

fn share(text: &str) -> Result<f64, &'static str> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or("expected a number between 0 and 1")
}
