//! The command line as a whole: global options and subcommands.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::adapt::AdaptArgs;
use crate::args::{
    BenchCommand, ChatArgs, FieldsCommand, GrammarCommand, InspectArgs, RunArgs, ServeArgs, TokenizeArgs,
};
use crate::catalogue::CatalogueArgs;
use crate::decide::DecideArgs;
use crate::devices::DevicesArgs;
use crate::directives::DirectivesCommand;
use crate::eval::args::EvalCommand;
use crate::health::HealthArgs;
use crate::repair::RepairArgs;
use crate::step::StepCommand;
use crate::tools::ToolsCommand;

/// A local LLM inference engine with constrained output.
#[derive(Parser)]
#[command(name = "formwork", version, propagate_version = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Print machine-readable results.
    // The benchmarks have an argument of the same name and type, which takes a file and replaces this one
    // there.
    #[arg(long, global = true, num_args = 0, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,

    /// Format of log lines; the environment variable `FORMWORK_LOG` filters them.
    #[arg(long, global = true, value_enum, default_value_t = LogFormatArg::Text)]
    pub(crate) log_format: LogFormatArg,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// Plain text.
    Text,
    /// One JSON object per line.
    Json,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Generate one reply, streamed to standard output.
    Run(RunArgs),
    /// Chat interactively, with history.
    Chat(ChatArgs),
    /// Answer typed questions about a state with probabilities, without generating text.
    Decide(DecideArgs),
    /// Serve models over an OpenAI-compatible HTTP API.
    Serve(ServeArgs),
    /// Download a model.
    Pull {
        /// Short name, or hub id `org/name[:file][@revision]`.
        model: String,
    },
    /// List the models with a short name, and whether each is downloaded.
    Models,
    /// List the GPUs for `--device gpu:N` with their drivers and limits, and drivers that compute on the CPU;
    /// or test one.
    ///
    /// Needs a build with the feature `gpu`. Exit code 1: nothing was found, or a check failed.
    Devices(DevicesArgs),
    /// List models with their recommended sampling profile, workarounds and verdict about tools.
    ///
    /// Exit code 1: no model matches.
    Catalogue(CatalogueArgs),
    /// Show a model's metadata, tensors and chat template, and the memory that it takes, or the matrices
    /// of a LoRA adapter.
    Inspect(InspectArgs),
    /// Convert text to token ids, or token ids to text.
    Tokenize(TokenizeArgs),
    /// Check grammars, and test texts against them.
    #[command(subcommand)]
    Grammar(GrammarCommand),
    /// Run models with tools.
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Request directives from models.
    #[command(subcommand)]
    Directives(DirectivesCommand),
    /// Run steps: model calls with validation, constraints, repair and traces.
    #[command(subcommand)]
    Step(StepCommand),
    /// Repair answers that do not match their schema.
    ///
    /// Prints valid values to standard output, one per line. Prints invalid values and their errors to
    /// standard error. Loads and calls a model only if an answer does not match the schema. Exit code 0: all
    /// answers are valid; 1: at least one answer stays invalid; 2: the schema, an option or a file cannot be
    /// used, or the model cannot be called; 3: answers are invalid only because they are truncated.
    Repair(Box<RepairArgs>),
    /// Generate a grammar, template, JSON Schema or C# records from a field definition.
    #[command(subcommand)]
    Fields(FieldsCommand),
    /// Convert model output to match a schema.
    ///
    /// Exit code 0: all outputs are valid; 1: at least one is not; 2: the schema, an option or a file cannot
    /// be used; 3: outputs are invalid only because they end inside their value.
    Adapt(AdaptArgs),
    /// Measure how often models follow instructions.
    #[command(subcommand)]
    Eval(EvalCommand),
    /// Report from traces how often outputs need repair, with recommendations.
    ///
    /// Columns of the table: runs: runs of steps; coercions: times that a stage corrected an output; per 100:
    /// coercions per 100 runs; uncorrected: times that a stage failed and no later stage, repair or attempt
    /// made up for it. The lines "failed runs" count runs of steps that ended with an error.
    HealthCheck(HealthArgs),
    /// Other names of commands, for scripts.
    #[command(subcommand, hide = true)]
    Dev(DevCommand),
    /// Run benchmarks.
    #[command(subcommand)]
    Bench(BenchCommand),
}

/// Commands under the name `dev`.
#[derive(Subcommand)]
pub(crate) enum DevCommand {
    /// Same as `formwork health-check`.
    HealthCheck(HealthArgs),
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use clap::CommandFactory;

    use super::*;

    /// Appends the long help of a command and of all its subcommands.
    fn append_help(command: &mut clap::Command, text: &mut String) {
        let help = command.render_long_help();
        writeln!(text, "$ {} --help\n{help}", command.get_bin_name().unwrap_or("formwork")).unwrap();
        // The built-in subcommand `help` repeats the whole tree of subcommands.
        for subcommand in command.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            append_help(subcommand, text);
        }
    }

    #[test]
    fn help_of_every_subcommand() {
        let mut command = Args::command();
        command.build();
        let mut text = String::new();
        append_help(&mut command, &mut text);
        insta::assert_snapshot!(text);
    }

    fn json(args: &[&str]) -> Option<PathBuf> {
        Args::try_parse_from([&["formwork"], args].concat()).unwrap().json
    }

    #[test]
    fn json_is_a_flag_except_for_benchmarks_where_it_takes_a_file() {
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
    fn benchmarks_accept_a_results_file() {
        let args = ["formwork", "bench", "masks", "--tokenizer", "t", "--json", "out.json", "cases"];
        let Command::Bench(BenchCommand::Masks(masks)) = Args::try_parse_from(args).unwrap().command else {
            panic!("another command");
        };
        assert_eq!((masks.json, masks.path), (Some("out.json".into()), vec!["cases".into()]));
    }

    #[test]
    fn rejects_speed_benchmarks_of_zero_tokens_or_runs() {
        let parse = |args: &[&str]| Args::try_parse_from([&["formwork", "bench"], args].concat()).is_ok();
        assert!(parse(&["prefill", "-p", "512", "-r", "3", "--threads", "1", "--json", "out.json"]));
        assert!(parse(&["decode", "-n", "64", "-p", "0", "-m", "model.gguf"]));
        assert!(parse(&["decode", "-n", "64", "--schema", "s.json", "--layout", "compact"]));
        assert!(
            !parse(&["prefill", "-p", "0"])
                && !parse(&["decode", "-n", "0"])
                && !parse(&["decode", "-r", "0"])
        );
        assert!(
            !parse(&["decode", "-p", "16", "--gbnf", "g.gbnf"]),
            "a grammar is the prompt's task, so --prompt conflicts with it"
        );
    }

    #[test]
    fn rejects_options_of_schemas_for_other_constraints() {
        let parse = |args: &[&str]| Args::try_parse_from([&["formwork", "run", "x"], args].concat()).is_ok();
        for option in [
            ["--layout", "compact"],
            ["--order", "any"],
            ["--formats", "annotate"],
            ["--undeclared", "allow"],
        ] {
            assert!(parse(&[&["--schema", "s.json"], &option[..]].concat()), "{option:?}");
            for shape in
                [["--gbnf", "g"], ["--lark", "g"], ["--fields", "f"], ["--regex", "a"], ["--choice", "a"]]
            {
                assert!(!parse(&[&shape[..], &option[..]].concat()), "{shape:?} {option:?}");
            }
        }
    }

    #[test]
    fn dev_health_check_is_another_name() {
        let parse =
            |args: &[&str]| Args::try_parse_from([&["formwork"], args].concat()).map(|args| args.command);
        assert!(matches!(
            parse(&["dev", "health-check", "t.db"]),
            Ok(Command::Dev(DevCommand::HealthCheck(_)))
        ));
    }

    #[test]
    fn rejects_a_remote_without_a_schema() {
        let parse =
            |args: &[&str]| Args::try_parse_from([&["formwork", "grammar", "sample"], args].concat()).is_ok();
        assert!(parse(&["--schema", "s.json", "--remote", "urn:a=a.json", "--remote", "urn:b=b.json"]));
        assert!(!parse(&["--regex", "a", "--remote", "urn:a=a.json"]));
    }
}
