//! Arguments that commands share, and those of commands without a module for them.

mod bench;
mod grammar;

use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use formwork_model::{Device, GpuLayers, KvCacheType, OpenOptions, Quantization};

pub(crate) use self::bench::{
    BenchCommand, BenchDecodeArgs, BenchMasksArgs, BenchPrefillArgs, BenchServeArgs, BenchStepsArgs,
    IsolateArg, SpeedArgs, TextArg,
};
pub(crate) use self::grammar::{
    DefinitionArgs, DefinitionFormatArg, DefinitionTargetArg, FieldsCommand, GrammarArgs, GrammarCommand,
    NotationArg, SampleArgs, TokenizeArgs, TokenizerArgs,
};
use crate::lora::LoraArg;

use crate::load::{self, Opening, TemplateFile};

#[derive(clap::Args)]
pub(crate) struct ModelArgs {
    /// .gguf file, safetensors folder, short name (see `formwork models`), hub id
    /// `org/name[:file][@revision]`, or name in `[models]` of `./formwork.toml`.
    #[arg(short, long, default_value = formwork_model::hub::default_manifest().name.as_str())]
    pub(crate) model: String,

    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

/// Options for opening a model.
#[derive(clap::Args)]
pub(crate) struct OpenArgs {
    /// Maximum number of tokens of prompt and output together, or `auto` for the model's trained context
    /// length, or on the CPU less if memory allows only less [default: auto].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) ctx: Option<ContextArg>,

    /// Quantize floating-point matrices to this type when loading; quantized matrices stay unchanged.
    #[arg(long, value_name = "TYPE")]
    pub(crate) quantize: Option<QuantizeArg>,

    /// Device to compute on: auto, cpu, gpu, gpu:N, gpu:cpu (a driver on the CPU, for tests), several of
    /// these GPUs with commas between them, cuda, cuda:N, metal, or reference (slow, on the CPU, with f32
    /// weights). All but the first two need a build with the feature `gpu`, `cuda`, `metal` or `candle`.
    #[arg(long, value_name = "DEVICE", default_value_t = Device::Auto)]
    pub(crate) device: Device,

    /// Number of first layers that the GPU computes, or `auto` for those that fit in its memory, or `all`. The
    /// CPU computes the others and the output head. Needs a device `gpu`. The default is `auto` if `--device` is
    /// not given, and otherwise `all`.
    #[arg(long, value_name = "N")]
    pub(crate) gpu_layers: Option<GpuLayers>,

    /// Number of first mixtures of experts that the CPU computes although the GPU has the rest of their
    /// layers. Needs a device `gpu` [default: with `--gpu-layers auto` as few as possible, otherwise 0].
    #[arg(long, value_name = "N")]
    pub(crate) cpu_experts: Option<usize>,

    /// Memory of each GPU for `--gpu-layers auto`, such as 8G [default: what the driver reports].
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) gpu_memory: Option<u64>,

    /// Number of CPU threads [default: number of cores].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = threads)]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Type of the keys and values in memory. `q8` takes about half the memory of 16 bits; only the CPU
    /// supports it.
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub(crate) kv_cache: KvCacheArg,

    /// Memory for copies of recurrent states, such as 512M or 2G, so that conversations of hybrid models
    /// continue without reading them again [default: 1G].
    #[arg(long, value_name = "BYTES", value_parser = size_or_none)]
    pub(crate) state_cache: Option<u64>,

    /// Smaller model with the same vocabulary, named like a model. It drafts tokens that the model checks
    /// several at a time: the output usually arrives sooner, and on the CPU it stays the same.
    #[arg(long, value_name = "MODEL")]
    pub(crate) draft: Option<String>,

    /// File with a chat template (Jinja) to use instead of the model's own.
    #[arg(long, value_name = "FILE")]
    pub(crate) chat_template: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct InspectArgs {
    /// .gguf file, safetensors folder, short name, hub id, or folder or file of an adapter.
    pub(crate) model: String,

    /// Number of tokens for which to compute the memory [default: the trained context, or as many as fit].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) ctx: Option<ContextArg>,

    /// Type of the keys and values for which to compute the memory.
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub(crate) kv_cache: KvCacheArg,

    /// File with a chat template (Jinja) whose format of calls to show instead of the model's own.
    #[arg(long, value_name = "FILE")]
    pub(crate) chat_template: Option<PathBuf>,
}

impl InspectArgs {
    pub(crate) fn options(&self) -> OpenOptions {
        let context = self.ctx.and_then(ContextArg::tokens);
        OpenOptions { context, kv_cache: self.kv_cache.of(), draft_head: true, ..OpenOptions::default() }
    }
}

/// Number of tokens of a context, or `auto`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ContextArg {
    Auto,
    Tokens(NonZeroUsize),
}

impl FromStr for ContextArg {
    type Err = String;

    fn from_str(given: &str) -> Result<Self, String> {
        if given == "auto" {
            return Ok(Self::Auto);
        }
        given.parse().map(Self::Tokens).map_err(|error| format!("{error}; expected a number or `auto`"))
    }
}

impl fmt::Display for ContextArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Tokens(tokens) => tokens.fmt(f),
        }
    }
}

impl ContextArg {
    /// Returns the number of tokens, or `None` for `auto`.
    pub(crate) fn tokens(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::Tokens(tokens) => Some(tokens.get()),
        }
    }
}

fn threads(given: &str) -> Result<NonZeroUsize, String> {
    let threads: NonZeroUsize = given.parse().map_err(|error: std::num::ParseIntError| error.to_string())?;
    let most = OpenOptions::MOST_THREADS;
    if threads <= most { Ok(threads) } else { Err(format!("expected at most {most} threads")) }
}

impl OpenArgs {
    /// Returns how to open a model. Downloads the draft model if necessary.
    ///
    /// # Errors
    /// Returns an error if the draft model cannot be found or downloaded, or the chat template cannot be read.
    pub(crate) fn opening(&self) -> anyhow::Result<Opening> {
        let draft = self.draft.as_deref().map(load::resolve).transpose().context("--draft")?;
        Ok(Opening {
            how: self.options(),
            draft: draft.map(|draft| draft.path),
            template: self.chat_template.as_deref().map(TemplateFile::read).transpose()?,
            adapters: Vec::new(),
        })
    }

    pub(crate) fn options(&self) -> OpenOptions {
        let quantize = self.quantize.map(|wanted| match wanted {
            QuantizeArg::Q8_0 => Quantization::Q8_0,
            QuantizeArg::Q4K => Quantization::Q4K,
        });
        let context = self.ctx.and_then(ContextArg::tokens);
        OpenOptions {
            context,
            quantize,
            device: self.device,
            threads: self.threads,
            kv_cache: self.kv_cache.of(),
            state_bytes: self.state_cache.map(|bytes| bytes as usize),
            gpu_layers: self.gpu_layers,
            cpu_experts: self.cpu_experts,
            gpu_memory: self.gpu_memory,
            ..OpenOptions::default()
        }
    }
}

/// Type of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KvCacheArg {
    /// 16 bits, or 32 bits for models whose weights are 32-bit floats.
    Auto,
    /// 8 bits, with a factor for every 32 elements.
    #[value(alias = "q8_0")]
    Q8,
}

impl KvCacheArg {
    pub(crate) const fn of(self) -> KvCacheType {
        match self {
            Self::Auto => KvCacheType::Auto,
            Self::Q8 => KvCacheType::Q8,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum QuantizeArg {
    #[value(name = "q8_0")]
    Q8_0,
    #[value(name = "q4_k")]
    Q4K,
}

/// Constraint on the output.
#[derive(clap::Args)]
#[group(required = false, multiple = false)]
pub(crate) struct ShapeArgs {
    /// JSON Schema file, or a schema that begins with `{`.
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,

    /// GBNF grammar file.
    #[arg(long, value_name = "FILE")]
    pub(crate) gbnf: Option<PathBuf>,

    /// Lark grammar file, in the dialect of OpenAI's custom tools.
    #[arg(long, value_name = "FILE")]
    pub(crate) lark: Option<PathBuf>,

    /// Field definition file (JSON, YAML, TOML or C#).
    #[arg(long, value_name = "FILE")]
    pub(crate) fields: Option<PathBuf>,

    /// Regular expression that the whole output must match.
    #[arg(long, value_name = "REGEX")]
    pub(crate) regex: Option<String>,

    /// Allowed output; repeat for several choices.
    #[arg(long, value_name = "TEXT")]
    pub(crate) choice: Vec<String>,

    /// Require a JSON object.
    #[arg(long)]
    pub(crate) json_object: bool,
}

/// Interpretation of a schema. Other constraints conflict with these options, which would have no effect.
#[derive(clap::Args)]
pub(crate) struct SchemaArgs {
    /// Whitespace of generated JSON.
    #[arg(long, value_enum, default_value_t = LayoutArg::Spaced, conflicts_with_all = ["gbnf", "lark", "fields", "regex", "choice"])]
    pub(crate) layout: LayoutArg,

    /// Order of object members in generated JSON.
    #[arg(long, value_enum, default_value_t = OrderArg::Declared, conflicts_with_all = ["gbnf", "lark", "fields", "regex", "choice"])]
    pub(crate) order: OrderArg,

    /// Enforce the `format` keyword on strings, or treat it as an annotation.
    #[arg(long, value_enum, default_value_t = FormatsArg::Assert, conflicts_with_all = ["gbnf", "lark", "fields", "regex", "choice"])]
    pub(crate) formats: FormatsArg,

    /// Undeclared members of generated objects whose schema has `properties` and no rule for other names.
    #[arg(long, value_enum, default_value_t = UndeclaredArg::Omit, conflicts_with_all = ["gbnf", "lark", "fields", "regex", "choice"])]
    pub(crate) undeclared: UndeclaredArg,

    /// Document, or folder of documents, that the schema refers to; repeat for several. Nothing is
    /// downloaded.
    ///
    /// The URI is the one that references use, absolute or as written in the schema. The .json files of a
    /// folder are found by `$id`, or by their path within the folder, appended to the URI if one is given.
    #[arg(
        long,
        value_name = "[URI=]PATH",
        value_parser = remote,
        requires = "schema",
        // clap does not enforce `requires = "schema"` when an argument that conflicts with `schema`
        // is given, so these arguments conflict with `remote` explicitly.
        conflicts_with_all = ["gbnf", "lark", "fields", "regex", "choice", "json_object"]
    )]
    pub(crate) remote: Vec<Remote>,
}

/// A schema document with the URI that references use for it, or a folder of documents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Remote {
    /// `None` for a folder whose documents are found by their paths within it.
    pub(crate) uri: Option<String>,
    pub(crate) path: PathBuf,
}

/// Parses `URI=PATH`, or the name of a folder. Splits at the last `=`, since URIs contain `=` more
/// often than file names do.
fn remote(text: &str) -> Result<Remote, &'static str> {
    let Some((uri, path)) = text.rsplit_once('=').filter(|_| !Path::new(text).is_dir()) else {
        return if Path::new(text).is_dir() {
            Ok(Remote { uri: None, path: text.into() })
        } else {
            Err("expected URI=FILE, URI=FOLDER or an existing FOLDER")
        };
    };
    // An empty fragment refers to the whole document.
    let uri = uri.strip_suffix('#').unwrap_or(uri);
    if uri.contains('#') {
        return Err("the URI must not have a fragment after `#`");
    }
    if uri.is_empty() || path.is_empty() {
        return Err("expected URI=FILE, URI=FOLDER or an existing FOLDER");
    }
    Ok(Remote { uri: Some(uri.to_owned()), path: path.into() })
}

#[derive(clap::Args)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// LoRA adapter to apply, optionally with a factor of its effect.
    #[arg(long, value_name = "[NAME=]PATH[:SCALE]", value_parser = LoraArg::parse)]
    pub(crate) lora: Option<LoraArg>,

    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) schema: SchemaArgs,

    /// Do not describe the schema or grammar in the prompt.
    #[arg(long)]
    pub(crate) no_schema_prompt: bool,

    /// System message.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// Maximum number of output tokens [default: the rest of the context].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_tokens: Option<usize>,

    /// Sampling temperature; 0 always takes the likeliest token.
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) temperature: f32,

    /// Keep the likeliest tokens whose probabilities sum to P; 1 keeps all.
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) top_p: f32,

    /// Keep the K likeliest tokens; 0 keeps all.
    #[arg(long, value_name = "K", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) top_k: usize,

    /// Keep tokens with at least P times the probability of the likeliest token.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) min_p: f32,

    /// Subtracted once from the logit of each token that occurs in the output.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) presence_penalty: f32,

    /// Subtracted from a token's logit for each occurrence in the output.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) frequency_penalty: f32,

    /// Divides the positive logits, and multiplies the negative logits, of tokens in the prompt and output.
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) repetition_penalty: f32,

    /// Random seed; the same seed gives the same output [default: random].
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,

    /// Stop string; repeat for several. A constrained output stops there only if it is complete.
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,

    /// Print timings to standard error.
    #[arg(long)]
    pub(crate) stats: bool,
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) generate: GenerateArgs,

    /// Print the probabilities of the choices within the output to standard error: all of them, or those at
    /// these JSON pointers.
    #[arg(
        long,
        value_name = "POINTER,...",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_delimiter = ','
    )]
    pub(crate) decisions: Option<Vec<String>>,

    /// Print to standard error what the constraint did to each token: the text in colours, and the tokens at
    /// which it removed most of the probability. With --json, all figures are in `mask_view`.
    #[arg(long)]
    pub(crate) show_masks: bool,

    /// Prompt [default: standard input].
    pub(crate) prompt: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) generate: GenerateArgs,
}

#[derive(clap::Args)]
pub(crate) struct ServeArgs {
    /// Model to serve; repeat for several [default: the default model].
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Vec<String>,

    /// Model to load on its first request; repeat for several.
    #[arg(long, value_name = "MODEL")]
    pub(crate) on_demand: Vec<String>,

    /// Maximum total file size of loaded models, such as 12G; the least recently used on-demand models are
    /// unloaded to make room [default: unlimited].
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) models_max_bytes: Option<u64>,

    /// Additional name for a served model; repeat for several.
    #[arg(long, value_name = "NAME=MODEL")]
    pub(crate) alias: Vec<String>,

    /// LoRA adapter that requests choose by `MODEL:NAME`, optionally with a factor of its effect; repeat for
    /// several. If several models are served, NAME must be `MODEL:NAME`.
    #[arg(long, value_name = "NAME=PATH[:SCALE]", value_parser = LoraArg::parse_named)]
    pub(crate) lora: Vec<LoraArg>,

    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: String,

    /// Port to listen on; 0 selects a free port.
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,

    /// Ask the server at --host and --port for its health, instead of starting one. The exit code is 0 if its
    /// models are loaded, 1 while they load, and 2 without a server.
    #[arg(long)]
    pub(crate) probe: bool,

    /// Serve no page at `/`.
    #[arg(long)]
    pub(crate) no_page: bool,

    /// Accepted API key; repeat for several [env: `FORMWORK_API_KEY`].
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Vec<String>,

    /// File with accepted API keys, one per line.
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,

    /// Origin whose web pages may call the server, or `*` for any; repeat for several.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) cors_origin: Vec<String>,

    /// Timeout for a request, including its wait in the queue, in seconds [default: none].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) request_timeout: Option<Duration>,

    /// Timeout for receiving a request and for stalled readers, in seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    pub(crate) read_timeout: Duration,

    /// Maximum number of requests running at the same time, per model.
    #[arg(long, value_name = "N", default_value = "8")]
    pub(crate) parallel: NonZeroUsize,

    /// Maximum number of waiting and running requests, per model; further requests are rejected as
    /// overloaded.
    #[arg(long, value_name = "N", default_value = "256")]
    pub(crate) queue: NonZeroUsize,

    /// Memory for cached prompt prefixes, per model, such as 512M; 0 disables the cache.
    #[arg(long, value_name = "BYTES", value_parser = size_or_none, default_value = "512M")]
    pub(crate) prefix_cache: u64,

    /// Maximum number of responses and conversations kept in memory for `/v1/responses`; the oldest make
    /// room; 0 stores nothing.
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) responses_store_entries: usize,

    /// Memory for stored responses and conversations, such as 16M; the oldest make room; 0 stores nothing.
    #[arg(long, value_name = "BYTES", value_parser = size_or_none, default_value = "64M")]
    pub(crate) responses_store_bytes: u64,

    /// Maximum number of tokens to draft, from the text so far, with `--draft` or with the model's own head
    /// for drafts; fewer if drafts fail or many requests run; 0 disables drafts [default: a few on the CPU,
    /// where drafts do not change the output; none on other devices].
    #[arg(long, value_name = "N")]
    pub(crate) speculate: Option<usize>,

    /// Configuration file (`formwork.toml`) whose `[providers]` requests may name [default:
    /// ./formwork.toml, if it exists].
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Serve no local model; requests must name a provider.
    #[arg(long, conflicts_with_all = ["model", "on_demand", "alias"])]
    pub(crate) providers_only: bool,

    /// Temperatures for `/v1/decisions` and `/v1/systemone`, unless a request has its own: a JSON file, as
    /// `formwork eval decisions --fit` writes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) calibration: Option<PathBuf>,

    /// Tool file (JSON or TOML) with the `tools`, `mcp` servers and `callbacks` that requests to
    /// `/v1/tools/run` may use; repeat for several.
    #[arg(long, value_name = "FILE")]
    pub(crate) tools: Vec<PathBuf>,

    /// Folder of JSON Schema documents that requests may refer to, by `$id` or by path within the folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) schemas: Option<PathBuf>,

    /// Treatment of unknown fields of a request. A field whose name is like that of a constraint or of a
    /// parameter is always refused.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = UnknownFieldsArg::Ignore)]
    pub(crate) unknown_fields: UnknownFieldsArg,

    /// Treatment of a tool whose schema cannot be enforced, for requests without `on_unsupported_schema`.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = UnsupportedSchemaArg::Error)]
    pub(crate) on_unsupported_schema: UnsupportedSchemaArg,

    #[command(flatten)]
    pub(crate) grammar: GrammarLimitArgs,

    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

/// Treatment of unknown fields.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnknownFieldsArg {
    /// Ignore them, and name them in the header `x-formwork-ignored` of the response.
    Ignore,
    /// Refuse the request.
    Refuse,
}

/// Treatment of a schema that cannot be enforced.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum UnsupportedSchemaArg {
    /// Refuse the request.
    Error,
    /// Take any JSON object as the arguments of the tool, and name the tool in the response.
    JsonObject,
}

/// Limits of one grammar or schema of a request. A request that needs more is refused.
#[derive(clap::Args)]
pub(crate) struct GrammarLimitArgs {
    /// Maximum work to compile a grammar, in steps of about 10 ns [default: half of the limit of
    /// `formwork run`].
    #[arg(long = "grammar-limit-work", value_name = "STEPS")]
    pub(crate) work: Option<NonZeroUsize>,

    /// Maximum memory to compile a grammar, such as 64M [default: half of the limit of `formwork run`].
    #[arg(long = "grammar-limit-bytes", value_name = "BYTES", value_parser = size)]
    pub(crate) bytes: Option<u64>,

    /// Maximum number of states of a compiled grammar's automata.
    #[arg(long = "grammar-limit-states", value_name = "N")]
    pub(crate) states: Option<NonZeroUsize>,

    /// Maximum depth of nested subschemas and groups.
    #[arg(long = "grammar-limit-nesting", value_name = "N")]
    pub(crate) nesting: Option<NonZeroUsize>,

    /// Memory for cached compiled grammars, per model, such as 64M [default: 192M].
    #[arg(long = "grammar-cache", value_name = "BYTES", value_parser = size)]
    pub(crate) cache: Option<u64>,

    /// Number of large grammars compiled at the same time; the same number of small grammars can compile in
    /// addition, and one thread less can help with large sets of tools [default: half of the cores].
    #[arg(long = "grammar-parallel", value_name = "N")]
    pub(crate) compilers: Option<NonZeroUsize>,
}

/// Parses a positive number of bytes, with an optional unit of K, M, G or T (powers of 1024).
fn size(text: &str) -> Result<u64, &'static str> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = units.iter().find_map(|&(name, shift)| Some((text.strip_suffix(name)?, shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.filter(|&bytes| bytes > 0).ok_or("expected a positive number of bytes, such as 12G or 500M")
}

fn size_or_none(text: &str) -> Result<u64, &'static str> {
    if text == "0" { Ok(0) } else { size(text) }
}

pub(crate) fn seconds(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|time| !time.is_zero()).ok_or("expected a positive number of seconds")
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfileArg {
    Accept,
    Generate,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutArg {
    Spaced,
    Compact,
    Pretty,
    Flexible,
    Inside,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderArg {
    Declared,
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatsArg {
    Assert,
    Annotate,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum UndeclaredArg {
    /// Generate only members that are declared or that a keyword requires.
    Omit,
    /// Generate any members, as JSON Schema allows.
    Allow,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_remotes_as_uri_and_path_or_folder() {
        let of = |uri: &str, path: &str| Ok(Remote { uri: Some(uri.to_owned()), path: path.into() });
        assert_eq!(remote("https://example.com/a#=a.json"), of("https://example.com/a", "a.json"));
        assert_eq!(remote("src"), Ok(Remote { uri: None, path: "src".into() }));
        assert_eq!(remote("https://example.com/a=a.json"), of("https://example.com/a", "a.json"));
        assert_eq!(remote("https://example.com/?a=b=a.json"), of("https://example.com/?a=b", "a.json"));
        assert!(remote("https://example.com/a#b=a.json").is_err());
        assert!(remote("a.json").is_err() && remote("=a.json").is_err() && remote("urn:a=").is_err());
    }

    #[test]
    fn parses_sizes_and_seconds() {
        assert_eq!((size("12"), size("3K"), size("2G")), (Ok(12), Ok(3072), Ok(2 << 30)));
        assert!(["", "G", "0", "-1", "1.5G", "99999999999T"].iter().all(|text| size(text).is_err()));
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert!(["", "0", "-1", "inf", "x"].iter().all(|text| seconds(text).is_err()));
    }
}
