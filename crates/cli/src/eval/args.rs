use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use formwork_eval::{EvalMode, Strategy};
use formwork_protocol::Body;
use formwork_protocol::config::PROVIDER_PRESETS;
use formwork_protocol::sampling::Sampling;
use formwork_protocol::tools::RESERVED;

use crate::args::OpenArgs;

use super::decisions::EvalDecisionsArgs;

#[derive(Subcommand)]
pub(crate) enum EvalCommand {
    /// Evaluate directives: is the requested directive returned in a valid envelope?
    Directives(EvalDirectivesArgs),
    /// Evaluate tool calling: is a workspace changed as requested, despite errors?
    Tools(EvalToolsArgs),
    /// Evaluate JSON Schema output: which schemas and keywords does a server enforce?
    Structured(EvalStructuredArgs),
    /// Evaluate decisions: how well do probabilities match gold answers?
    Decisions(EvalDecisionsArgs),
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("cases_of").required(true).multiple(true))]
pub(crate) struct EvalStructuredArgs {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,

    /// Folder of cases, or one file: .json files with one case each, and .jsonl files with one case per
    /// line. A case is `{"schema": …, "prompt": …, "expected": …}`.
    #[arg(long, value_name = "PATH", group = "cases_of")]
    pub(crate) cases: Option<PathBuf>,

    /// Run the built-in cases, which ask for a violation of each keyword of JSON Schema.
    #[arg(long, group = "cases_of")]
    pub(crate) keywords: bool,

    /// Number of trials per case, each with its own seed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) trials: u32,

    /// Value of `strict` in the requests; `omit` sends none.
    #[arg(long, value_enum, default_value_t = StrictArg::True)]
    pub(crate) strict: StrictArg,

    /// Time limit of a trial with its retries, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StrictArg {
    True,
    False,
    Omit,
}

impl StrictArg {
    pub(crate) const fn value(self) -> Option<bool> {
        match self {
            Self::True => Some(true),
            Self::False => Some(false),
            Self::Omit => None,
        }
    }
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

    /// Require exactly one directive, of the type that the scenario asks for, in the schema of the request.
    #[arg(long)]
    pub(crate) require: bool,
}

#[derive(Args)]
pub(crate) struct EvalToolsArgs {
    #[command(flatten)]
    pub(crate) eval: EvalArgs,
}

/// Options that the evaluations of directives and tools share.
#[derive(Args)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,

    /// Provider of the server, whose known quirks are applied.
    #[arg(long, value_name = "NAME", requires = "base_url", value_parser = PROVIDER_PRESETS)]
    pub(crate) provider: Option<String>,

    /// Scenarios to run: default (few requests), all, simple, typical, extreme, or names of scenarios
    /// [default: default; with --full: all].
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', conflicts_with = "full")]
    pub(crate) scenarios: Vec<String>,

    /// Workarounds for models: production applies them, baseline does not, matrix compares both. A model
    /// without workarounds runs once.
    #[arg(long, value_enum, default_value_t = StrategyArg::Production)]
    pub(crate) strategy: StrategyArg,

    /// Number of trials per combination, each with its own seed [default: 3; with --full: 10].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) trials: Option<u32>,

    /// Run all scenarios, with 10 trials each.
    #[arg(long)]
    pub(crate) full: bool,
}

impl EvalArgs {
    /// Returns the names of the scenarios and groups to run.
    pub(crate) fn scenarios(&self) -> Vec<String> {
        match (self.scenarios.is_empty(), self.full) {
            (false, _) => self.scenarios.clone(),
            (true, true) => vec!["all".to_owned()],
            (true, false) => vec!["default".to_owned()],
        }
    }

    /// Returns the number of trials for each combination.
    pub(crate) fn trials(&self) -> u32 {
        self.trials.unwrap_or(if self.full { 10 } else { 3 })
    }
}

/// Options that all evaluations share.
#[derive(Args)]
#[command(group = ArgGroup::new("named").args(["model", "models"]).multiple(true))]
pub(crate) struct SharedArgs {
    /// Local model, or with --base-url a model of that server; repeat for several [default: the default
    /// model].
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Vec<String>,

    /// OpenAI-compatible server to use instead of the local engine, such as `https://openrouter.ai/api/v1`.
    #[arg(long, value_name = "URL", requires = "named")]
    pub(crate) base_url: Option<String>,

    /// Environment variable with the server's API key.
    #[arg(long, value_name = "VAR", requires = "base_url")]
    pub(crate) api_key_env: Option<String>,

    /// Configuration file with providers, models and sampling profiles [default: ./formwork.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Names of models in the configuration, or all: the models of the catalogue on the server of --base-url,
    /// or else all models of the configuration.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub(crate) models: Vec<String>,

    /// Sampling profiles, by name or group: default, recommended, conversation, creative, `tool_calling`.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "default")]
    pub(crate) profiles: Vec<String>,

    /// Use profiles also for models that they do not apply to.
    #[arg(long)]
    pub(crate) ignore_applicability: bool,

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

impl SharedArgs {
    /// Returns the base of the seeds; `None` if no seeds are sent.
    pub(crate) fn seed(&self) -> Option<u64> {
        (!self.no_seed).then_some(self.seed)
    }
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

/// Parses default values of request fields. Fields that the evaluation sets are refused.
fn object(text: &str) -> Result<Body, String> {
    let fields: Body = serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))?;
    match RESERVED.iter().find(|name| fields.contains_key(**name)) {
        Some(name) => Err(format!("`{name}`: the evaluation sets this field")),
        None => Ok(fields),
    }
}

fn share(text: &str) -> Result<f64, &'static str> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or("expected a number between 0 and 1")
}
