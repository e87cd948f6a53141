//! Programs that process outputs.

use std::process::Stdio;
use std::time::Duration;

use process_wrap::tokio::{CommandWrap, KillOnDrop};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::error::Fault;
use super::{Context, Interrupted, StepProcessor};
use crate::adapt::{Input, ProcessorError};

/// Default timeout of a program, in seconds.
const TIMEOUT: f64 = 30.0;
/// Maximum number of bytes on standard output.
const OUTPUT: u64 = 16 << 20;
/// Maximum number of bytes of standard error that a fault shows.
const COMPLAINT: u64 = 500;

/// Program that reads an output on standard input and writes a JSON value to standard output, as a
/// [`StepProcessor`].
///
/// The program is started without a shell. A program that fails, runs too long or writes no JSON
/// leaves the value unchanged, and the fault is recorded. While it runs, the thread of the step is
/// blocked.
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
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut command = CommandWrap::from(command);
    command.wrap(KillOnDrop);
    #[cfg(unix)]
    command.wrap(process_wrap::tokio::ProcessGroup::leader());
    let mut child = command.spawn().map_err(|error| format!("could not be started: {error}"))?;
    let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program may ignore its input.
            let _ = stdin.write_all(&input).await;
        }
    };
    let talk = async {
        let (output, complaint, ()) = tokio::join!(whole(stdout, OUTPUT), whole(stderr, COMPLAINT), write);
        (output, complaint, child.wait().await)
    };
    let limit = Duration::try_from_secs_f64(processor.timeout.unwrap_or(TIMEOUT)).unwrap_or(Duration::MAX);
    let Ok((output, complaint, status)) = tokio::time::timeout(limit, talk).await else {
        // Kills the whole process group.
        let _ = child.start_kill();
        return Err(format!("did not end within {} seconds", limit.as_secs_f64()));
    };
    let status = status.map_err(|error| format!("could not be waited for: {error}"))?;
    if !status.success() {
        let complaint = String::from_utf8_lossy(&complaint);
        return Err(format!("failed ({status}): {}", complaint.trim()));
    }
    if output.len() as u64 > OUTPUT {
        return Err(format!("wrote more than {OUTPUT} bytes"));
    }
    serde_json::from_slice(&output).map_err(|error| format!("wrote no JSON value: {error}"))
}

/// Reads a pipe to its end. Keeps at most `limit` bytes and one more, which shows that there are
/// more.
async fn whole(pipe: Option<impl AsyncRead + Unpin>, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // An unreadable pipe counts as one that has ended.
        let _ = (&mut pipe).take(limit + 1).read_to_end(&mut bytes).await;
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
    }
    bytes
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
}
