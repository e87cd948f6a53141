use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use formwork_protocol::Body;
use formwork_protocol::config::PROVIDER_PRESETS;
use formwork_protocol::eval::{EvalMode, Strategy};
use formwork_protocol::sampling::Sampling;

use crate::args::OpenArgs;

#[derive(Subcommand)]
pub(crate) enum EvalCommand {
    /// Structured directives: does the one that is asked for come, in an envelope?
    Directives(EvalDirectivesArgs),
    /// Tool calling: is a workspace changed as it is asked for, through errors?
    Tools(EvalToolsArgs),
}

#[derive(Args)]
pub(crate) struct EvalDirectivesArgs {
    #[command(flatten)]
    pub(crate) eval: EvalArgs,

    /// How envelopes are asked for; `ladder` tries the others one after the other.
    #[arg(long, value_name = "MODE,…", value_delimiter = ',', value_enum, default_value = "ladder")]
    pub(crate) modes: Vec<ModeArg>,

    /// Ask again where the directive that was asked for is missing.
    #[arg(long)]
    pub(crate) semantic_repair: bool,
}

#[derive(Args)]
pub(crate) struct EvalToolsArgs {
    #[command(flatten)]
    pub(crate) eval: EvalArgs,
}

/// What both have in common.
#[derive(Args)]
pub(crate) struct EvalArgs {
    /// A local model, or with --base-url one of that server; give it once for each [default: the default model].
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Vec<String>,

    /// The server to ask in place of the local engine, such as `https://openrouter.ai/api/v1`.
    #[arg(long, value_name = "URL", requires = "model")]
    pub(crate) base_url: Option<String>,

    /// The environment variable with the key for it.
    #[arg(long, value_name = "VAR", requires = "base_url")]
    pub(crate) api_key_env: Option<String>,

    /// Whose server it is, if its quirks are known.
    #[arg(long, value_name = "NAME", requires = "base_url", value_parser = PROVIDER_PRESETS)]
    pub(crate) provider: Option<String>,

    /// A `formwork.toml` with providers, models and sampling profiles.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Models of the configuration, by their names in it.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', requires = "config")]
    pub(crate) models: Vec<String>,

    /// What is to be done: default (all), simple, typical, extreme, or scenarios by name.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "default")]
    pub(crate) scenarios: Vec<String>,

    /// Sampling profiles by name or group: default, recommended, conversation, creative, `tool_calling`.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "default")]
    pub(crate) profiles: Vec<String>,

    /// Use profiles for models that they are not meant for, too.
    #[arg(long)]
    pub(crate) ignore_applicability: bool,

    /// Whether models' workarounds are used: production does, baseline does not, matrix compares both.
    #[arg(long, value_enum, default_value_t = StrategyArg::Production)]
    pub(crate) strategy: StrategyArg,

    /// Tries of each, which differ by their seeds.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) trials: u32,

    /// What the seeds of all tries come from.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Send no seeds, for servers that refuse them.
    #[arg(long, conflicts_with = "seed")]
    pub(crate) no_seed: bool,

    /// Tries at the same time.
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) parallel: NonZeroUsize,

    /// The most tokens of an answer.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: u32,

    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,

    /// Fields that requests have unless they say otherwise, as a JSON object.
    #[arg(long, value_name = "JSON", value_parser = object)]
    pub(crate) llm_options_defaults: Option<Body>,

    /// The folder for the results; one that has some is gone on with [default: a new one in `formwork-eval`].
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Exit with 1 if a smaller share than this went as it should; of tools, without the control.
    #[arg(long, value_name = "RATE", value_parser = share)]
    pub(crate) min_ok: Option<f64>,

    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

/// Values that win over those of profiles.
#[derive(Args)]
pub(crate) struct SamplingArgs {
    /// The temperature of all tries, whatever their profiles say.
    #[arg(long, value_name = "T")]
    temperature: Option<f64>,

    /// The same for top-p.
    #[arg(long, value_name = "P")]
    top_p: Option<f64>,

    /// The same for top-k.
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,

    /// The same for min-p.
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
