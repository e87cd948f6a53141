mod bench;
mod grammar;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use formwork_model::{Device, OpenOptions, Quantization};

pub(crate) use self::bench::{
    BenchCommand, BenchDecodeArgs, BenchMasksArgs, BenchPrefillArgs, BenchServeArgs, IsolateArg, SpeedArgs,
    TextArg,
};
pub(crate) use self::grammar::{
    DefinitionArgs, DefinitionFormatArg, FieldsCommand, GrammarArgs, GrammarCommand, NotationArg, SampleArgs,
    TokenizeArgs, TokenizerArgs,
};
use crate::eval::args::EvalCommand;

/// A local inference engine that pours a model's output into the exact shape you ask for.
#[derive(Parser)]
#[command(name = "formwork", version, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print machine-readable results.
    ///
    /// The benchmarks take a file for them instead: they have an argument of the same name and type, which stands in for
    /// this one there.
    #[arg(long, global = true, num_args = 0, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,

    /// How log lines are written; `FORMWORK_LOG` says which.
    #[arg(long, global = true, value_enum, default_value_t = LogFormatArg::Text)]
    pub(crate) log_format: LogFormatArg,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// For a person.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Generate once, streamed to standard output.
    Run(RunArgs),
    /// Chat, with history.
    Chat(ChatArgs),
    /// Serve models over HTTP, as OpenAI's API.
    Serve(ServeArgs),
    /// Fetch a model.
    Pull {
        /// A short name, or a hub id `org/name[:file][@revision]`.
        model: String,
    },
    /// List the models with a short name, and which are here.
    Models,
    /// Show a model's metadata, tensors and template.
    Inspect {
        /// A .gguf file, a folder of safetensors, a short name or a hub id.
        model: String,
    },
    /// Turn text into token ids, or ids into text.
    Tokenize(TokenizeArgs),
    /// Check grammars and texts.
    #[command(subcommand)]
    Grammar(GrammarCommand),
    /// Run models with tools.
    #[command(subcommand)]
    Tools(crate::tools::ToolsCommand),
    /// Ask models for directives.
    #[command(subcommand)]
    Directives(crate::directives::DirectivesCommand),
    /// Run steps: calls with all that is done for their output to be what it should be.
    #[command(subcommand)]
    Step(crate::step::StepCommand),
    /// Have answers repaired that do not fit their schema.
    Repair(Box<crate::repair::RepairArgs>),
    /// Make grammars, templates and schemas of definitions of fields.
    #[command(subcommand)]
    Fields(FieldsCommand),
    /// Make what a model wrote fit a schema.
    ///
    /// Exit code 0: all outputs are valid; 1: one is not; 2: the schema, an option or a file cannot be used.
    Adapt(crate::adapt::AdaptArgs),
    /// Find out how often models do what they are asked for.
    #[command(subcommand)]
    Eval(EvalCommand),
    /// Find out from traces how often outputs need help, and what to do about it.
    HealthCheck(crate::health::HealthArgs),
    /// Measure.
    #[command(subcommand)]
    Bench(BenchCommand),
}

#[derive(clap::Args)]
pub(crate) struct ModelArgs {
    /// A .gguf file, a folder of safetensors, a short name (see `formwork models`) or a hub id
    /// `org/name[:file][@revision]`.
    #[arg(short, long, default_value = formwork_model::hub::default_manifest().name.as_str())]
    pub(crate) model: String,

    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

/// How to open a model.
#[derive(clap::Args)]
pub(crate) struct OpenArgs {
    /// The most tokens of prompt and output together, at most what the model was trained for [default: that].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) ctx: Option<NonZeroUsize>,

    /// Convert matrices of plain floats to this type when they are loaded; others stay as they are.
    #[arg(long, value_name = "TYPE")]
    pub(crate) quantize: Option<QuantizeArg>,

    /// Where to compute: auto, cpu, cuda, cuda:N, metal (the last three in builds with the feature of that name), or reference
    /// (slow, on the CPU, with every weight as f32).
    #[arg(long, value_name = "DEVICE", default_value_t = Device::Auto)]
    pub(crate) device: Device,

    /// Threads that compute on the CPU [default: as many as there are cores].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = threads)]
    pub(crate) threads: Option<NonZeroUsize>,
}

fn threads(given: &str) -> Result<NonZeroUsize, String> {
    let threads: NonZeroUsize = given.parse().map_err(|error: std::num::ParseIntError| error.to_string())?;
    let most = OpenOptions::MOST_THREADS;
    if threads <= most { Ok(threads) } else { Err(format!("{most} at most")) }
}

impl OpenArgs {
    pub(crate) fn options(&self) -> OpenOptions {
        let quantize = self.quantize.map(|wanted| match wanted {
            QuantizeArg::Q8_0 => Quantization::Q8_0,
            QuantizeArg::Q4K => Quantization::Q4K,
        });
        let context = self.ctx.map(NonZeroUsize::get);
        OpenOptions { context, quantize, device: self.device, threads: self.threads }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum QuantizeArg {
    #[value(name = "q8_0")]
    Q8_0,
    #[value(name = "q4_k")]
    Q4K,
}

/// What the output must match.
#[derive(clap::Args)]
#[group(required = false, multiple = false)]
pub(crate) struct ShapeArgs {
    /// A file with a JSON Schema.
    #[arg(long, value_name = "FILE")]
    pub(crate) schema: Option<PathBuf>,

    /// A file with a GBNF grammar.
    #[arg(long, value_name = "FILE")]
    pub(crate) gbnf: Option<PathBuf>,

    /// A file with a definition of fields, in JSON, YAML or TOML.
    #[arg(long, value_name = "FILE")]
    pub(crate) fields: Option<PathBuf>,

    /// A regular expression for the whole output.
    #[arg(long, value_name = "REGEX")]
    pub(crate) regex: Option<String>,

    /// One of several texts; give it once for each.
    #[arg(long, value_name = "TEXT")]
    pub(crate) choice: Vec<String>,

    /// Any JSON object.
    #[arg(long)]
    pub(crate) json_object: bool,
}

/// What a schema means.
#[derive(clap::Args)]
pub(crate) struct SchemaArgs {
    /// The whitespace of generated JSON.
    #[arg(long, value_enum, default_value_t = LayoutArg::Spaced)]
    pub(crate) layout: LayoutArg,

    /// The order of an object's members in generated JSON.
    #[arg(long, value_enum, default_value_t = OrderArg::Declared)]
    pub(crate) order: OrderArg,

    /// Whether strings must have the `format` that a schema gives them.
    #[arg(long, value_enum, default_value_t = FormatsArg::Assert)]
    pub(crate) formats: FormatsArg,

    /// Generated members of objects that have `properties` and say nothing about other names.
    #[arg(long, value_enum, default_value_t = UndeclaredArg::Omit)]
    pub(crate) undeclared: UndeclaredArg,

    /// A document that the schema refers to, or a folder of documents; give it once for each. Nothing is
    /// fetched.
    ///
    /// The URI of a file is that of the references, absolute or as the schema writes it. The .json files of a
    /// folder are found by `$id` and by their path within the folder, which follows the URI if there is one.
    #[arg(
        long,
        value_name = "[URI=]PATH",
        value_parser = remote,
        requires = "schema",
        // clap does not enforce `requires = "schema"` when an argument that conflicts with `schema`
        // is given, so these arguments conflict with `remote` explicitly.
        conflicts_with_all = ["gbnf", "fields", "regex", "choice", "json_object"]
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
        return Err("the URI must be that of a whole document, without a fragment behind `#`");
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

    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) schema: SchemaArgs,

    /// Do not tell the model about the schema or grammar.
    #[arg(long)]
    pub(crate) no_schema_prompt: bool,

    /// The system message.
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,

    /// The most tokens of output [default: what is left of the context].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_tokens: Option<usize>,

    /// 0 always takes the likeliest token.
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) temperature: f32,

    /// Keep the likeliest tokens up to this share.
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) top_p: f32,

    /// Keep this many of the likeliest tokens; 0 keeps all.
    #[arg(long, value_name = "K", default_value_t = 0, allow_negative_numbers = true)]
    pub(crate) top_k: usize,

    /// Keep tokens at least this likely relative to the likeliest.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) min_p: f32,

    /// Taken from the logits of tokens that are in the output.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) presence_penalty: f32,

    /// Taken from them once for each time that they are.
    #[arg(long, value_name = "P", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) frequency_penalty: f32,

    /// What the logits of tokens of prompt and output are divided by, or multiplied with below zero.
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(crate) repetition_penalty: f32,

    /// Equal seeds give equal outputs [default: random].
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,

    /// A text that ends the output; give it once for each. Under a constraint it does so only where the output may end.
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

    /// The prompt; standard input when absent.
    pub(crate) prompt: Option<String>,
}

#[derive(clap::Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) generate: GenerateArgs,
}

#[derive(clap::Args)]
pub(crate) struct ServeArgs {
    /// A model to serve; give it once for each [default: the default model].
    #[arg(short, long, value_name = "MODEL")]
    pub(crate) model: Vec<String>,

    /// A model to load when it is first asked for; give it once for each.
    #[arg(long, value_name = "MODEL")]
    pub(crate) on_demand: Vec<String>,

    /// The most that the files of loaded models may have together, such as 12G: the least recently used of those on demand makes
    /// way for another [default: no bound].
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) models_max_bytes: Option<u64>,

    /// A further name for a served model.
    #[arg(long, value_name = "NAME=MODEL")]
    pub(crate) alias: Vec<String>,

    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    pub(crate) host: String,

    /// The port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,

    /// A key that requests must bring, or one of several [env: `FORMWORK_API_KEY`].
    #[arg(long, value_name = "KEY")]
    pub(crate) api_key: Vec<String>,

    /// A file with such keys, one a line.
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,

    /// An origin whose pages may call the server from a browser, or `*` for any; give it once for each.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) cors_origin: Vec<String>,

    /// How long a request may take, waiting included [default: any time].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) request_timeout: Option<Duration>,

    /// How long a request may take to arrive, and a client to go on reading.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
    pub(crate) read_timeout: Duration,

    /// Requests that run at the same time, per model.
    #[arg(long, value_name = "N", default_value = "8")]
    pub(crate) parallel: NonZeroUsize,

    /// Requests that may wait or run, per model; one more is told to come back.
    #[arg(long, value_name = "N", default_value = "256")]
    pub(crate) queue: NonZeroUsize,

    /// Memory for prompts that are kept for others that begin the same, per model, such as 512M; 0 keeps none.
    #[arg(long, value_name = "BYTES", value_parser = size_or_none, default_value = "512M")]
    pub(crate) prefix_cache: u64,

    /// The most tokens to draft from the text itself, fewer where drafts do badly or many requests
    /// run; 0 drafts none [default: a few on the CPU, where they do not
    /// change what comes, none elsewhere]
    #[arg(long, value_name = "N")]
    pub(crate) speculate: Option<usize>,

    /// A folder of JSON Schema documents that requests may refer to, by `$id` or by path within the folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) schemas: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) grammar: GrammarLimitArgs,

    #[command(flatten)]
    pub(crate) open: OpenArgs,
}

/// Limits of one grammar or schema of a request. A request that needs more is refused.
#[derive(clap::Args)]
pub(crate) struct GrammarLimitArgs {
    /// Maximum steps of work to compile a grammar, about ten nanoseconds each [default: half of what
    /// `formwork run` has]
    #[arg(long = "grammar-limit-work", value_name = "STEPS")]
    pub(crate) work: Option<NonZeroUsize>,

    /// Maximum memory to compile a grammar, such as 64M [default: half of what `formwork run` has]
    #[arg(long = "grammar-limit-bytes", value_name = "BYTES", value_parser = size)]
    pub(crate) bytes: Option<u64>,

    /// Maximum states of a compiled grammar's automata
    #[arg(long = "grammar-limit-states", value_name = "N")]
    pub(crate) states: Option<NonZeroUsize>,

    /// Maximum depth of nested subschemas and groups
    #[arg(long = "grammar-limit-nesting", value_name = "N")]
    pub(crate) nesting: Option<NonZeroUsize>,

    /// Memory for compiled grammars that later requests may use, per model, such as 64M [default: 192M]
    #[arg(long = "grammar-cache", value_name = "BYTES", value_parser = size)]
    pub(crate) cache: Option<u64>,

    /// Number of grammars compiled at the same time; as many small ones run beside them [default: half of the cores]
    #[arg(long = "grammar-parallel", value_name = "N")]
    pub(crate) compilers: Option<NonZeroUsize>,
}

/// Parses a positive number of bytes, with an optional unit of K, M, G or T (powers of 1024).
fn size(text: &str) -> Result<u64, &'static str> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = units.iter().find_map(|&(name, shift)| Some((text.strip_suffix(name)?, shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.filter(|&bytes| bytes > 0).ok_or("expected a number such as 12G, or 500M")
}

fn size_or_none(text: &str) -> Result<u64, &'static str> {
    if text == "0" { Ok(0) } else { size(text) }
}

fn seconds(text: &str) -> Result<Duration, &'static str> {
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
    /// Only members that are declared, or that a keyword calls for.
    Omit,
    /// Any members, as JSON Schema has it.
    Allow,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(args: &[&str]) -> Option<PathBuf> {
        Args::try_parse_from([&["formwork"], args].concat()).unwrap().json
    }

    #[test]
    fn json_is_a_flag_and_for_benchmarks_a_file() {
        assert_eq!(json(&["models"]), None);
        assert_eq!(json(&["models", "--json"]), Some("-".into()));
        assert_eq!(json(&["--json", "run", "a prompt"]), Some("-".into()));
        assert_eq!(json(&["run", "--json", "a prompt"]), Some("-".into()));
        let bench = ["bench", "masks", "--tokenizer", "t.json", "cases"];
        assert_eq!(json(&bench), None);
        assert_eq!(json(&[&bench[..], &["--json", "out.json"]].concat()), Some("out.json".into()));
        assert_eq!(json(&[&["--json"], &bench[..]].concat()), Some("-".into()));
    }

    #[test]
    fn a_benchmark_knows_its_file() {
        let args = ["formwork", "bench", "masks", "--tokenizer", "t", "--json", "out.json", "cases"];
        let Command::Bench(BenchCommand::Masks(masks)) = Args::try_parse_from(args).unwrap().command else {
            panic!("another command");
        };
        assert_eq!((masks.json, masks.path), (Some("out.json".into()), vec!["cases".into()]));
    }

    #[test]
    fn what_is_measured_is_one_or_more() {
        let parse = |args: &[&str]| Args::try_parse_from([&["formwork", "bench"], args].concat()).is_ok();
        assert!(parse(&["prefill", "-p", "512", "-r", "3", "--threads", "1", "--json", "out.json"]));
        assert!(parse(&["decode", "-n", "64", "-p", "0", "-m", "model.gguf"]));
        assert!(parse(&["decode", "-n", "64", "--schema", "s.json", "--layout", "compact"]));
        assert!(
            !parse(&["prefill", "-p", "0"])
                && !parse(&["decode", "-n", "0"])
                && !parse(&["decode", "-r", "0"])
        );
        assert!(!parse(&["decode", "-p", "16", "--gbnf", "g.gbnf"]), "the prompt is one that asks for it");
    }

    #[test]
    fn a_remote_is_a_uri_and_a_file_or_a_folder() {
        let of = |uri: &str, path: &str| Ok(Remote { uri: Some(uri.to_owned()), path: path.into() });
        assert_eq!(remote("https://example.com/a#=a.json"), of("https://example.com/a", "a.json"));
        assert_eq!(remote("src"), Ok(Remote { uri: None, path: "src".into() }));
        assert_eq!(remote("https://example.com/a=a.json"), of("https://example.com/a", "a.json"));
        assert_eq!(remote("https://example.com/?a=b=a.json"), of("https://example.com/?a=b", "a.json"));
        assert!(remote("https://example.com/a#b=a.json").is_err());
        assert!(remote("a.json").is_err() && remote("=a.json").is_err() && remote("urn:a=").is_err());
    }

    #[test]
    fn sizes_and_times() {
        assert_eq!((size("12"), size("3K"), size("2G")), (Ok(12), Ok(3072), Ok(2 << 30)));
        assert!(["", "G", "0", "-1", "1.5G", "99999999999T"].iter().all(|text| size(text).is_err()));
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert!(["", "0", "-1", "inf", "x"].iter().all(|text| seconds(text).is_err()));
    }

    #[test]
    fn remotes_belong_to_a_schema() {
        let parse =
            |args: &[&str]| Args::try_parse_from([&["formwork", "grammar", "sample"], args].concat()).is_ok();
        assert!(parse(&["--schema", "s.json", "--remote", "urn:a=a.json", "--remote", "urn:b=b.json"]));
        assert!(!parse(&["--regex", "a", "--remote", "urn:a=a.json"]));
    }
}
