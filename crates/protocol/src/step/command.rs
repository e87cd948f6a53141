//! Programs that process outputs.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;

use super::error::Fault;
use super::{Context, Interrupted, StepProcessor};
use crate::adapt::{Input, ProcessorError};
use crate::process::{self, Finished, ProcessLimits, Tail};

/// Default timeout of a program, in seconds.
const TIMEOUT: f64 = 30.0;
/// Maximum number of bytes on standard output.
const OUTPUT: usize = 16 << 20;

/// Program that reads an output on standard input and writes a JSON value to standard output, as a
/// [`StepProcessor`].
///
/// The program is started without a shell. While it runs, the thread of the step is blocked.
///
/// A program that cannot be started, fails, runs too long or writes no JSON leaves the value
/// unchanged. If the unchanged value is valid, the step fails, unless the program is
/// [`optional`](Self::optional). To reject a value, a program writes one that does not match the
/// schema.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandProcessor {
    /// Program and its arguments.
    pub command: Vec<String>,
    /// Input of the program.
    #[serde(default)]
    pub input: ProcessorInput,
    /// Timeout in seconds; 30 by default.
    pub timeout: Option<f64>,
    /// True to accept the unchanged value if the program fails. The failure is reported.
    #[serde(default)]
    pub optional: bool,
}

/// Input of a [`CommandProcessor`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessorInput {
    /// The value after the stages before, as JSON. The program is not started if there is no value.
    #[default]
    Value,
    /// The text of the model.
    Text,
}

impl CommandProcessor {
    /// Checks the options. The error has the key of the invalid one.
    pub(super) fn check(&self) -> Result<(), (&'static str, Fault)> {
        if self.command.first().is_none_or(String::is_empty) {
            return Err(("command", Fault::Needs { wanted: "a program" }));
        }
        let is_time = |given| Duration::try_from_secs_f64(given).is_ok_and(|time| !time.is_zero());
        match self.timeout.filter(|&given| !is_time(given)) {
            Some(given) => {
                let (given, wanted) = (given.to_string(), "a positive number of seconds");
                Err(("timeout", Fault::Number { given, wanted }))
            }
            None => Ok(()),
        }
    }
}

/// Runs the program of a processor and returns the value that it writes.
async fn run(processor: &CommandProcessor, input: Vec<u8>) -> Result<Value, String> {
    let (program, arguments) = processor.command.split_first().ok_or("no program is named")?;
    let mut command = Command::new(program);
    command.args(arguments);
    let timeout = Duration::try_from_secs_f64(processor.timeout.unwrap_or(TIMEOUT)).unwrap_or(Duration::MAX);
    let tail = Tail::default();
    let finished = process::run(command, &input, ProcessLimits { timeout, output: OUTPUT }, &tail).await;
    let Finished { status, output } = finished.map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!("failed ({status}): {}", tail.text()));
    }
    serde_json::from_slice(&output).map_err(|error| format!("wrote no JSON value: {error}"))
}

impl StepProcessor for CommandProcessor {
    fn process(&self, input: Input<'_>, _: &Context) -> Result<Option<Value>, ProcessorError<Interrupted>> {
        let bytes = match (self.input, input.value) {
            (ProcessorInput::Text, _) => input.text.as_bytes().to_vec(),
            (ProcessorInput::Value, Some(value)) => value.to_string().into_bytes(),
            (ProcessorInput::Value, None) => return Ok(None),
        };
        // A processor is called without `await`, so the program needs a runtime of its own, and a
        // thread, because a runtime cannot start inside another.
        let ran = std::thread::scope(|scope| {
            let work = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.map_err(|error| error.to_string())?.block_on(run(self, bytes))
            };
            scope.spawn(work).join().unwrap_or_else(|_| Err("panicked".to_owned()))
        });
        let program = self.command.first().map_or("", String::as_str);
        ran.map(Some).map_err(|reason| ProcessorError::fault("", format!("`{program}` {reason}")))
    }

    fn is_required(&self) -> bool {
        !self.optional
    }
}
