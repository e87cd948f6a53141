//! The `formwork` command: the composition root, and the only place that reads the environment.
//!
//! The command is a library, so that the program and the Python package share it. Results go to standard output, everything else to standard error. Exit codes:
//!
//! - 0: success
//! - 1: a negative answer
//! - 2: a usage or input error, explained in one line
//! - 3: a model's output is truncated
//! - 141: standard output was closed early

#![allow(clippy::print_stdout, reason = "results go to standard output")]

/// Prints a line to standard error and ignores write errors, so that a closed standard error does
/// not stop the command.
macro_rules! eprintln {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($what)*);
    }};
}

/// Prints a line to standard output. A closed standard output makes the calling function return an
/// error instead of panicking.
macro_rules! println {
    ($($what:tt)*) => {{
        use std::io::Write as _;
        writeln!(std::io::stdout(), $($what)*)?;
    }};
}

mod adapt;
mod args;
mod backend;
mod bench;
mod catalogue;
mod chat;
mod choices;
mod command;
mod config;
mod decide;
mod devices;
mod directives;
mod eval;
mod fields;
mod files;
mod generation;
mod grammar;
mod health;
mod inspect;
mod load;
mod lora;
mod masks;
mod memory;
mod models;
mod remotes;
mod repair;
mod run;
mod serve;
mod step;
mod table;
mod tokenize;
mod tools;
mod traces;

use std::ffi::OsString;
use std::io::IsTerminal;

use anyhow::{Result, bail};
use clap::Parser;
use formwork_server::App;

use command::{Args, Command, DevCommand, LogFormatArg};

/// Exit code for a negative answer: rejected, invalid or below a threshold.
const NEGATIVE: u8 = 1;
/// Exit code for a usage or input error.
const ERROR: u8 = 2;
/// Exit code for an output that ends inside its value.
const TRUNCATED: u8 = 3;
/// Exit code if standard output was closed early: 128 + SIGPIPE, as shells report for processes
/// killed by that signal. Exit code 0 would hide that the output is incomplete.
const UNREAD: u8 = 141;

/// Runs the command, and returns its exit code. The first argument is the program's name.
///
/// Prints help, usage errors and other errors as the program does. Starts logging, unless another logger
/// has been installed.
pub fn run<I, A>(args: I) -> u8
where
    I: IntoIterator<Item = A>,
    A: Into<OsString> + Clone,
{
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(error) => {
            // Help was requested, or the arguments are wrong.
            let _ = error.print();
            return if error.use_stderr() { ERROR } else { 0 };
        }
    };
    start_logging(args.log_format);
    match dispatch(args) {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => UNREAD,
        Err(error) => {
            eprintln!("formwork: {}", one_line(&error));
            ERROR
        }
    }
}

/// Loads a tokenizer from a `tokenizer.json`, or from a model: a GGUF file, a folder, a short name or a hub id.
///
/// # Errors
/// Returns an error if the model cannot be found or downloaded, or if its tokenizer is malformed.
pub fn tokenizer(model: &str) -> Result<formwork_vocab::Tokenizer> {
    load::tokenizer_of("model", model)
}

/// Builds the server that `formwork serve` starts with the given options, without a socket.
///
/// The models are found, and downloaded if they are missing, but not loaded: [`App::load`] loads them.
///
/// # Errors
/// Returns an error if an option is unknown or wrong, or if a model cannot be found.
pub fn app<I, A>(options: I) -> Result<App>
where
    I: IntoIterator<Item = A>,
    A: Into<OsString>,
{
    let command = ["formwork", "serve"].map(OsString::from).into_iter();
    match Args::try_parse_from(command.chain(options.into_iter().map(Into::into)))?.command {
        Command::Serve(args) => Ok(serve::app(args)?.0),
        _ => bail!("the options are not those of `serve`"),
    }
}

/// Runs the command and returns its exit code.
fn dispatch(args: Args) -> Result<u8> {
    let as_json = args.json.is_some();
    let is_positive = match args.command {
        Command::Run(command) => run::run(&command, as_json),
        Command::Chat(command) => chat::chat(&command),
        Command::Decide(command) => decide::decide(&command, as_json),
        Command::Serve(command) => serve::serve(command),
        Command::Pull { model } => models::pull(&model, as_json),
        Command::Models => models::list(as_json),
        Command::Devices(command) => devices::devices(&command, as_json),
        Command::Inspect(command) => inspect::inspect(&command, as_json),
        Command::Tokenize(command) => tokenize::tokenize(&command),
        Command::Grammar(command) => grammar::grammar(&command, as_json),
        Command::Tools(command) => return tools::tools(&command, as_json),
        Command::Catalogue(args) => catalogue::catalogue(&args, as_json),
        Command::Directives(command) => directives::directives(&command, as_json),
        Command::Step(command) => return step::step(&command, as_json),
        Command::Repair(command) => return repair::repair(&command, as_json),
        Command::Fields(command) => fields::fields(&command, as_json),
        Command::Adapt(command) => return adapt::adapt(&command, as_json).map(adapt::Verdict::exit_code),
        Command::Eval(command) => eval::eval(&command, as_json),
        Command::HealthCheck(command) | Command::Dev(DevCommand::HealthCheck(command)) => {
            health::health_check(&command, as_json)
        }
        Command::Bench(command) => bench::bench(&command, args.json.as_deref()),
    }?;
    Ok(if is_positive { 0 } else { NEGATIVE })
}

/// Starts logging to standard error, filtered by `FORMWORK_LOG`; the default level is `warn`.
fn start_logging(format: LogFormatArg) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("FORMWORK_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = match format {
        LogFormatArg::Text => log.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormatArg::Json => log.json().flatten_event(true).with_current_span(false).try_init(),
    };
}

/// Joins the error and its causes with colons. Skips a cause if the line so far already ends with
/// its text.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.is_empty() {
            line = cause;
        } else if !line.ends_with(&cause) {
            line = format!("{line}: {cause}");
        }
    }
    line
}

/// Reports whether the error is a broken pipe, for example because `head` closed standard output.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
