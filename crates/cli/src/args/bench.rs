//! Arguments of `formwork bench`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use formwork_model::Tier;
use formwork_model::synthetic::Synthetic;

use super::{ModelArgs, ProfileArg, SchemaArgs, ShapeArgs, seconds};

#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    /// Masks, over files of schemas with valid and invalid instances (MaskBench).
    Masks(BenchMasksArgs),
    /// How fast a model takes a prompt in.
    Prefill(BenchPrefillArgs),
    /// How fast a model puts tokens out; with a grammar, beside free decode at the same place.
    Decode(BenchDecodeArgs),
    /// How a server of OpenAI's API, whoever's, stands many clients; with a schema, with and without it.
    Serve(BenchServeArgs),
}

#[derive(clap::Args)]
pub(crate) struct BenchServeArgs {
    /// The base URL, such as `http://127.0.0.1:8080/v1`.
    #[arg(long, default_value = "http://127.0.0.1:8080/v1")]
    pub(crate) url: String,

    /// The model to ask for.
    #[arg(short, long)]
    pub(crate) model: String,

    /// Clients at the same time; each number is measured by itself.
    #[arg(short, long, value_name = "N,…", value_delimiter = ',', default_value = "1")]
    pub(crate) clients: Vec<NonZeroUsize>,

    /// Requests for each number of clients [default: 4 for each client].
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration")]
    pub(crate) requests: Option<NonZeroUsize>,

    /// For how long requests begin, in place of how many.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,

    /// Requests before each measurement that do not count.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) warmup: usize,

    /// The most tokens of an answer.
    #[arg(long, value_name = "N", default_value = "128")]
    pub(crate) max_tokens: NonZeroUsize,

    /// Measure with a JSON Schema too, and check what comes out; without a file, a small one that is built in.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "built-in")]
    pub(crate) schema: Option<PathBuf>,

    /// A file with a prompt on each line [default: some that are built in].
    #[arg(long, value_name = "FILE")]
    pub(crate) prompts: Option<PathBuf>,

    /// The key to bring.
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,

    /// A file for the results; `-` is standard output.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

/// What the measurements of a model share.
#[derive(clap::Args)]
pub(crate) struct SpeedArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Random weights of a real shape instead of a model, such as `llama-1b-q4_k`: `llama-1b`, `-3b` or `-8b` in `q4_0`,
    /// `q4_k`, `q6_k`, `q8_0` or `f16`. They are written once, beside the models.
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) synthetic: Option<Synthetic>,

    /// How often it is measured.
    #[arg(short, long, value_name = "N", default_value = "5")]
    pub(crate) runs: NonZeroUsize,

    /// The instructions that products are computed with [default: the fastest that the processor has].
    #[arg(long, value_name = "TIER")]
    pub(crate) tier: Option<TierArg>,

    /// A file for the results; `-` is standard output.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

/// Instructions of the kernels.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TierArg {
    Portable,
    Neon,
    NeonDot,
    Avx2,
    AvxVnni,
    Avx512Vnni,
    Amx,
}

impl From<TierArg> for Tier {
    fn from(tier: TierArg) -> Self {
        match tier {
            TierArg::Portable => Self::Portable,
            TierArg::Neon => Self::Neon,
            TierArg::NeonDot => Self::NeonDot,
            TierArg::Avx2 => Self::Avx2,
            TierArg::AvxVnni => Self::AvxVnni,
            TierArg::Avx512Vnni => Self::Avx512Vnni,
            TierArg::Amx => Self::Amx,
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct BenchPrefillArgs {
    #[command(flatten)]
    pub(crate) speed: SpeedArgs,

    /// Tokens of the prompt.
    #[arg(short, long, value_name = "N", default_value = "512")]
    pub(crate) prompt: NonZeroUsize,
}

#[derive(clap::Args)]
pub(crate) struct BenchDecodeArgs {
    #[command(flatten)]
    pub(crate) speed: SpeedArgs,

    /// Tokens of the output; with a grammar, the most.
    #[arg(short = 'n', long, value_name = "N", default_value = "128")]
    pub(crate) tokens: NonZeroUsize,

    /// Tokens that are there before; with a grammar, these are a prompt that asks for it.
    #[arg(
        short,
        long,
        value_name = "N",
        default_value = "0",
        conflicts_with_all = ["schema", "gbnf", "fields", "regex", "choice", "json_object"]
    )]
    pub(crate) prompt: usize,

    /// Ask the model for tokens that the grammar decides alone, too, so that what masks cost can be seen.
    #[arg(long)]
    pub(crate) no_forced_tokens: bool,

    /// With a grammar, the most tokens to draft from the text itself, fewer where drafts do badly; 0 drafts none [default: as with
    /// `serve`]
    #[arg(long, value_name = "N")]
    pub(crate) speculate: Option<usize>,

    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
}

#[derive(clap::Args)]
pub(crate) struct BenchMasksArgs {
    /// A tokenizer: a `tokenizer.json`, a .gguf file, a short name or a hub id.
    #[arg(long, value_name = "TOKENIZER")]
    pub(crate) tokenizer: String,

    /// How instances are written.
    #[arg(long, value_enum, default_value_t = TextArg::Compact)]
    pub(crate) text: TextArg,

    /// Which JSON texts a schema stands for. `generate` takes one order and spelling, so it may reject valid instances.
    #[arg(long, value_enum, default_value_t = ProfileArg::Accept)]
    pub(crate) profile: ProfileArg,

    /// Whether caches start empty for each instance or for each schema.
    #[arg(long, value_enum, default_value_t = IsolateArg::Test)]
    pub(crate) isolate: IsolateArg,

    /// Schemas to measure at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,

    /// A file for the results of each schema and the summary; `-` is standard output.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,

    /// Files `{"schema", "tests": [{"valid", "data"}]}`, and folders of them.
    #[arg(required = true)]
    pub(crate) path: Vec<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextArg {
    Compact,
    Spaced,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IsolateArg {
    Test,
    Schema,
}
