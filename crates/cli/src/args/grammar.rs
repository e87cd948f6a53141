//! Arguments of `formwork grammar`, `fields` and `tokenize`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::{ProfileArg, SchemaArgs, ShapeArgs};

#[derive(clap::Args)]
pub(crate) struct TokenizerArgs {
    /// A model whose tokenizer to use.
    #[arg(short, long, value_name = "MODEL", conflicts_with = "tokenizer")]
    pub(crate) model: Option<String>,

    /// A tokenizer: a `tokenizer.json`, a .gguf file, a short name or a hub id.
    #[arg(long, value_name = "TOKENIZER")]
    pub(crate) tokenizer: Option<String>,
}

#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct TokenizeArgs {
    #[command(flatten)]
    pub(crate) tokenizer: TokenizerArgs,

    /// Print one JSON array of ids.
    #[arg(long, conflicts_with = "decode")]
    pub(crate) ids: bool,

    /// Turn ids (a JSON array, or numbers) into text.
    #[arg(long)]
    pub(crate) decode: bool,

    /// Read the spellings of control tokens as those tokens; when decoding, spell them out.
    #[arg(long)]
    pub(crate) special: bool,

    /// Put the beginning-of-sequence token first.
    #[arg(long)]
    pub(crate) bos: bool,

    /// A file; standard input when absent.
    pub(crate) input: Option<PathBuf>,
}

#[derive(Subcommand)]
pub(crate) enum GrammarCommand {
    /// Compile; print size, shortest output and warnings, or the error with its place.
    Check {
        #[command(flatten)]
        grammar: GrammarArgs,

        /// Print the grammar in canonical form, as GBNF, in place of its figures.
        #[arg(long)]
        print: bool,
    },
    /// Does each input match?
    Test {
        #[command(flatten)]
        grammar: GrammarArgs,

        /// Files to check; `-` is standard input.
        #[arg(required = true)]
        input: Vec<PathBuf>,
    },
    /// Print random outputs, one a line.
    ///
    /// With --json each is a JSON string, which an output with line breaks needs to stay on its line.
    Sample(SampleArgs),
    /// Say what may come next after a text, and what stops a token.
    Explain {
        #[command(flatten)]
        grammar: GrammarArgs,

        /// The text so far.
        #[arg(long, value_name = "TEXT", default_value = "")]
        text: String,

        /// A text that is asked about: where it goes wrong.
        #[arg(long, value_name = "TEXT")]
        next: Option<String>,
    },
    /// Print a grammar in another notation.
    Convert {
        #[command(flatten)]
        shape: ShapeArgs,

        #[command(flatten)]
        schema: SchemaArgs,

        /// The notation.
        #[arg(long, value_enum, default_value_t = NotationArg::Gbnf)]
        to: NotationArg,
    },
}

#[derive(Subcommand)]
pub(crate) enum FieldsCommand {
    /// Print the grammar, as GBNF.
    Gbnf(DefinitionArgs),
    /// Print the template for the prompt.
    Template(DefinitionArgs),
    /// Print a JSON Schema.
    Schema(DefinitionArgs),
    /// Is each input valid?
    Validate {
        #[command(flatten)]
        definition: DefinitionArgs,

        /// Files with JSON; `-` is standard input.
        #[arg(required = true)]
        input: Vec<PathBuf>,
    },
}

#[derive(clap::Args)]
pub(crate) struct DefinitionArgs {
    /// A file with a definition; `-` is standard input.
    pub(crate) definition: PathBuf,

    /// How the definition is written [default: by the file's extension; without one JSON, or YAML where it does not begin with `{`].
    #[arg(long, value_enum)]
    pub(crate) format: Option<DefinitionFormatArg>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DefinitionFormatArg {
    Json,
    Yaml,
    Toml,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NotationArg {
    /// llama.cpp's grammars.
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

    /// Which JSON texts a schema stands for: what a model should write, or all that a checker should take.
    #[arg(long, value_enum, default_value_t = ProfileArg::Accept)]
    pub(crate) profile: ProfileArg,
}

#[derive(clap::Args)]
pub(crate) struct SampleArgs {
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,

    #[command(flatten)]
    pub(crate) schema: SchemaArgs,

    /// Which JSON texts a schema stands for: what a model should write, or all that a checker should take.
    #[arg(long, value_enum, default_value_t = ProfileArg::Generate)]
    pub(crate) profile: ProfileArg,

    /// How many outputs.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    pub(crate) count: usize,

    /// Equal seeds give equal outputs [default: random].
    #[arg(long, value_name = "S", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,

    /// The most bytes of an output [default: 1000 and twice those of the shortest].
    #[arg(long, value_name = "B", allow_negative_numbers = true)]
    pub(crate) max_bytes: Option<usize>,
}
