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
    /// Benchmark masks on schema files with valid and invalid instances (MaskBench).
    Masks(BenchMasksArgs),
    /// Benchmark prefill speed.
    Prefill(BenchPrefillArgs),
    /// Benchmark decode speed; with a grammar, both free and constrained.
    Decode(Box<BenchDecodeArgs>),
    /// Measure the steps of a forward pass on a GPU, by the GPU's clock.
    Steps(BenchStepsArgs),
    /// Benchmark any OpenAI-compatible server under concurrent clients; with a schema, both without and with
    /// it.
    Serve(BenchServeArgs),
}

#[derive(clap::Args)]
pub(crate) struct BenchServeArgs {
    /// Base URL of the server.
    #[arg(long, default_value = "http://127.0.0.1:8080/v1")]
    pub(crate) url: String,

    /// Model name in the requests.
    #[arg(short, long)]
    pub(crate) model: String,

    /// Numbers of concurrent clients; each number is measured separately.
    #[arg(short, long, value_name = "N,…", value_delimiter = ',', default_value = "1")]
    pub(crate) clients: Vec<NonZeroUsize>,

    /// Number of requests for each number of clients [default: 4 per client].
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration")]
    pub(crate) requests: Option<NonZeroUsize>,

    /// Time during which new requests start, in seconds; replaces --requests.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) duration: Option<Duration>,

    /// Number of requests before each measurement that are not counted.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) warmup: usize,

    /// Maximum number of tokens per answer.
    #[arg(long, value_name = "N", default_value = "128")]
    pub(crate) max_tokens: NonZeroUsize,

    /// Also measure with a JSON Schema and validate the answers; without a FILE, uses a small built-in
    /// schema.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "built-in")]
    pub(crate) schema: Option<PathBuf>,

    /// File with one prompt per line [default: built-in prompts].
    #[arg(long, value_name = "FILE")]
    pub(crate) prompts: Option<PathBuf>,

    /// API key of the server.
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Option<String>,

    /// File for the results; `-` for standard output.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

/// Options that the speed benchmarks share.
#[derive(clap::Args)]
pub(crate) struct SpeedArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Use random weights with the shape of a real model, such as `llama-1b-q4_k`: `llama-1b`, `-3b` or `-8b`
    /// in `q4_0`, `q4_k`, `q6_k`, `q8_0` or `f16`. They are written once, next to the downloaded models.
    #[arg(long, value_name = "NAME", conflicts_with = "model")]
    pub(crate) synthetic: Option<Synthetic>,

    /// Number of measured runs.
    #[arg(short, long, value_name = "N", default_value = "5")]
    pub(crate) runs: NonZeroUsize,

    /// Instruction set for matrix products [default: the fastest that the processor supports].
    #[arg(long, value_name = "TIER")]
    pub(crate) tier: Option<TierArg>,

    /// File for the results; `-` for standard output.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,
}

/// Instruction set of the kernels.
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

    /// Number of prompt tokens.
    #[arg(short, long, value_name = "N", default_value = "512")]
    pub(crate) prompt: NonZeroUsize,
}

#[derive(clap::Args)]
pub(crate) struct BenchStepsArgs {
    #[command(flatten)]
    pub(crate) speed: SpeedArgs,

    /// Number of tokens of the pass; more than 64 are a prompt, at most 256.
    #[arg(short, long, value_name = "N", default_value = "1")]
    pub(crate) tokens: NonZeroUsize,

    /// Number of tokens before those of the pass.
    #[arg(short, long, value_name = "N", default_value = "1")]
    pub(crate) position: NonZeroUsize,
}

#[derive(clap::Args)]
pub(crate) struct BenchDecodeArgs {
    #[command(flatten)]
    pub(crate) speed: SpeedArgs,

    /// Number of output tokens; with a grammar, the maximum number.
    #[arg(short = 'n', long, value_name = "N", default_value = "128")]
    pub(crate) tokens: NonZeroUsize,

    /// Number of tokens before the output; cannot be combined with a grammar, whose task is the prompt.
    #[arg(
        short,
        long,
        value_name = "N",
        default_value = "0",
        conflicts_with_all = ["schema", "gbnf", "lark", "fields", "regex", "choice", "json_object"]
    )]
    pub(crate) prompt: usize,

    /// Run the model also for tokens that the grammar determines, to measure the cost of masks.
    #[arg(long)]
    pub(crate) no_forced_tokens: bool,

    /// With a grammar, maximum number of tokens to draft, from the text so far or with the model's own head
    /// for drafts; fewer if drafts fail; 0 disables drafts [default: as for `formwork serve`].
    #[arg(long, value_name = "N")]
    pub(crate) speculate: Option<usize>,

    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) schema: SchemaArgs,
}

#[derive(clap::Args)]
pub(crate) struct BenchMasksArgs {
    /// Tokenizer: `tokenizer.json`, .gguf file, short name or hub id.
    #[arg(long, value_name = "TOKENIZER")]
    pub(crate) tokenizer: String,

    /// JSON layout of the instances.
    #[arg(long, value_enum, default_value_t = TextArg::Compact)]
    pub(crate) text: TextArg,

    /// Accepted JSON texts of a schema. `generate` accepts one order and spelling only, so it may reject
    /// valid instances.
    #[arg(long, value_enum, default_value_t = ProfileArg::Accept)]
    pub(crate) profile: ProfileArg,

    /// Clear the caches for each instance or for each schema.
    #[arg(long, value_enum, default_value_t = IsolateArg::Test)]
    pub(crate) isolate: IsolateArg,

    /// Number of schemas to measure at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,

    /// File for the summary and the results of each schema; `-` for standard output.
    #[arg(long, value_name = "OUT")]
    pub(crate) json: Option<PathBuf>,

    /// Files of the form `{"schema", "tests": [{"valid", "data"}]}`, or folders of them.
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
