//! Arguments of `formwork grammar`, `fields` and `tokenize`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::{ProfileArg, SchemaArgs, ShapeArgs};

#[derive(clap::Args)]
pub(crate) struct TokenizerArgs {
    /// Model whose tokenizer to use.
    #[arg(short, long, value_name = "MODEL", conflicts_with = "tokenizer")]
    pub(crate) model: Option<String>,

    /// Tokenizer: `tokenizer.json`, .gguf file, short name or hub id.
    #[arg(long, value_name = "TOKENIZER")]
    pub(crate) tokenizer: Option<String>,
}

#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct TokenizeArgs {
    #[command(flatten)]
    pub(crate) tokenizer: TokenizerArgs,

    /// Print the ids as one JSON array.
    #[arg(long, conflicts_with = "decode")]
    pub(crate) ids: bool,

    /// Convert ids (a JSON array, or numbers) to text.
    #[arg(long)]
    pub(crate) decode: bool,

    /// Parse the text of control tokens as these tokens; with --decode, print control tokens.
    #[arg(long)]
    pub(crate) special: bool,

    /// Start with the beginning-of-sequence token.
    #[arg(long)]
    pub(crate) bos: bool,

    /// Input file [default: standard input].
    pub(crate) input: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum GrammarCommand {
    /// Compile a grammar; print its size, shortest output and warnings, or the error with its location.
    Check {
        #[command(flatten)]
        grammar: GrammarArgs,

        /// Print the grammar as canonical GBNF instead of its statistics.
        #[arg(long)]
        print: bool,
    },
    /// Test whether each input matches a grammar.
    Test {
        #[command(flatten)]
        grammar: GrammarArgs,

        /// Input files; `-` for standard input.
        #[arg(required = true)]
        input: Vec<PathBuf>,
    },
    /// Print random outputs of a grammar, one per line.
    ///
    /// With --json, prints each output as a JSON string, so that an output with line breaks stays on one
    /// line.
    Sample(SampleArgs),
    /// Print the possible continuations of a text, and where a given continuation fails.
    Explain {
        #[command(flatten)]
        grammar: GrammarArgs,

        /// Text so far.
        #[arg(long, value_name = "TEXT", default_value = "")]
        text: String,

        /// Continuation to check.
        #[arg(long, value_name = "TEXT")]
        next: Option<String>,
    },
    /// Convert a grammar to another notation.
    Convert {
        #[command(flatten)]
        shape: ShapeArgs,

        #[command(flatten)]
        schema: SchemaArgs,

        /// Target notation.
        #[arg(long, value_enum, default_value_t = NotationArg::Gbnf)]
        to: NotationArg,
    },
}

#[derive(Subcommand)]
pub(crate) enum FieldsCommand {
    /// Print the grammar as GBNF.
    Gbnf(DefinitionArgs),
    /// Print the prompt template.
    Template(DefinitionArgs),
    /// Print the JSON Schema.
    Schema {
        #[command(flatten)]
        definition: DefinitionArgs,

        /// Write the step of decimal numbers as `multipleOf`, for validators that compute it exactly.
        ///
        /// Without this option, the schema lists the values of a number. It omits the step of a number with
        /// too many values. Validators that compute with floats reject valid values by `multipleOf`.
        #[arg(long)]
        multiple_of: bool,
    },
    /// Print C# records that read and write the JSON text, with `System.Text.Json`.
    Csharp {
        #[command(flatten)]
        definition: DefinitionArgs,

        /// Namespace of the records.
        #[arg(long, default_value = "Formwork")]
        namespace: String,
    },
    /// Convert the definition to another format.
    Convert {
        #[command(flatten)]
        definition: DefinitionArgs,

        /// Target format.
        #[arg(long, value_enum)]
        to: DefinitionTargetArg,
    },
    /// Validate each input.
    Validate {
        #[command(flatten)]
        definition: DefinitionArgs,

        /// JSON files; `-` for standard input.
        #[arg(required = true)]
        input: Vec<PathBuf>,
    },
}

#[derive(clap::Args)]
pub(crate) struct DefinitionArgs {
    /// Definition file; `-` for standard input.
    pub(crate) definition: PathBuf,

    /// Format of the definition [default: by file extension; without an extension, JSON if the text starts
    /// with `{`, otherwise YAML].
    #[arg(long, value_enum)]
    pub(crate) format: Option<DefinitionFormatArg>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DefinitionFormatArg {
    Json,
    Yaml,
    Toml,
    /// Constructor expressions such as `new IntField("age", 0, 120)`.
    Csharp,
    /// JSON Schema, for example derived from a type.
    Schema,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DefinitionTargetArg {
    Json,
    Yaml,
    Toml,
    /// Constructor expressions such as `new IntField("age", 0, 120)`.
    Csharp,
    /// JSON Schema, without weights and probabilities.
    Schema,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NotationArg {
    /// Grammar notation of llama.cpp.
    Gbnf,
}

#[derive(clap::Args)]
pub(crate) struct GrammarArgs {
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) schema: SchemaArgs,

    #[command(flatten)]
    pub(crate) tokenizer: TokenizerArgs,

    /// JSON texts that match a schema: every valid text (`accept`), or only the form that models generate
    /// (`generate`).
    #[arg(long, value_enum, default_value_t = ProfileArg::Accept)]
    pub(crate) profile: ProfileArg,
}

#[derive(clap::Args)]
pub(crate) struct SampleArgs {
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) schema: SchemaArgs,

    /// JSON texts that match a schema: every valid text (`accept`), or only the form that models generate
    /// (`generate`).
    #[arg(long, value_enum, default_value_t = ProfileArg::Generate)]
    pub(crate) profile: ProfileArg,

    /// Number of outputs.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    pub(crate) count: usize,

    /// Random seed; the same seed gives the same outputs [default: random].
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,

    /// Maximum size of an output, in bytes [default: 1000 plus twice the size of the shortest output].
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    pub(crate) max_bytes: Option<usize>,
}
