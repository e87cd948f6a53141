//! Arguments of `formwork directives`.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use formwork_protocol::directives::Mode;

use crate::args::seconds;
use crate::backend::BackendArgs;

/// Options that say which answers are valid.
#[derive(clap::Args)]
pub(crate) struct RulesArgs {
    /// JSON or TOML file with the directive types: `definitions`, each with `type`, `description`, `aliases`,
    /// `payload_schema`, `instructions` and `patch`, and general `instructions`.
    #[arg(long, value_name = "FILE")]
    pub(super) registry: PathBuf,

    /// Allowed directive type; repeat for several [default: all types].
    #[arg(long, value_name = "TYPE")]
    pub(super) allow: Vec<String>,

    /// Directive type that must occur; repeat for several.
    #[arg(long, value_name = "TYPE")]
    pub(super) require: Vec<String>,

    /// Directive type that must occur exactly once; repeat for several.
    #[arg(long, value_name = "TYPE")]
    pub(super) require_one: Vec<String>,

    /// Maximum number of directives of all types together.
    #[arg(long, value_name = "N")]
    pub(super) max_directives: Option<usize>,

    /// Maximum number of characters of the text.
    #[arg(long, value_name = "N")]
    pub(super) max_text_length: Option<usize>,

    /// Maximum size of an answer, in bytes [default: 200000].
    #[arg(long, value_name = "BYTES")]
    pub(super) max_bytes: Option<NonZeroUsize>,
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(super) rules: RulesArgs,

    #[command(flatten)]
    pub(super) backend: BackendArgs,

    /// Provider of the configuration, or provider whose known quirks to apply: openrouter, openai,
    /// volcanoengine, formwork or local [default: local for a local model].
    #[arg(long, value_name = "NAME")]
    pub(super) provider: Option<String>,

    /// Modes to try, in order [default: `json_schema` for a local model, else all, strictest first].
    #[arg(long, value_name = "MODE,…", value_delimiter = ',')]
    pub(super) modes: Option<Vec<Mode>>,

    /// Maximum number of repair attempts per mode, at most 8 [default: 1].
    #[arg(long, value_name = "N")]
    pub(super) repairs: Option<u32>,

    /// Maximum number of HTTP requests in all modes together, with repairs, retries and probes [default: as many as
    /// modes, repairs and retries need].
    #[arg(long, value_name = "N")]
    pub(super) max_requests: Option<NonZeroU32>,

    /// Decide first which allowed type fits, by probabilities, and allow only the likeliest type.
    #[arg(long)]
    pub(super) type_by_decision: bool,

    /// Time limit of the run, in seconds [default: none].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) timeout: Option<Duration>,

    /// Name of the JSON Schema in requests [default: directives].
    #[arg(long, value_name = "NAME")]
    pub(super) schema_name: Option<String>,

    /// System message; the instructions for directives are appended to it.
    #[arg(long, value_name = "TEXT")]
    pub(super) system: Option<String>,

    /// JSON file with the earlier messages of the conversation: an array of objects with `role` and
    /// `content`.
    #[arg(long, value_name = "FILE")]
    pub(super) history: Option<PathBuf>,

    /// Additional instructions about types and payloads.
    #[arg(long, value_name = "TEXT")]
    pub(super) instructions: Option<String>,

    /// Maximum number of tokens per answer.
    #[arg(long, value_name = "N")]
    pub(super) max_tokens: Option<NonZeroUsize>,

    /// Sampling temperature; 0 always takes the likeliest token [default: 0 for a local model].
    #[arg(long, value_name = "T")]
    pub(super) temperature: Option<f32>,

    /// Keep the likeliest tokens whose probabilities sum to P.
    #[arg(long, value_name = "P")]
    pub(super) top_p: Option<f32>,

    /// Keep the K likeliest tokens.
    #[arg(long, value_name = "K")]
    pub(super) top_k: Option<usize>,

    /// Keep tokens with at least P times the probability of the likeliest token.
    #[arg(long, value_name = "P")]
    pub(super) min_p: Option<f32>,

    /// Random seed; with a local model, the same seed gives the same answers.
    #[arg(long, value_name = "S")]
    pub(super) seed: Option<u64>,

    /// Prompt [default: standard input].
    pub(super) prompt: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct ParseArgs {
    #[command(flatten)]
    pub(super) rules: RulesArgs,

    /// File with the text of an answer [default: standard input].
    pub(super) file: Option<PathBuf>,
}
