//! Programs that read their input from standard input and write their output to standard output.

#[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only MCP servers outlive their output"))]
mod tail;

use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, select, try_join3};
use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

pub(crate) use self::tail::Tail;

/// Time to read the rest of the output after the program has ended. A process that the program left
/// behind may keep the pipes open for longer.
const REST: Duration = Duration::from_millis(250);

/// Limits of one run of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessLimits {
    pub(crate) timeout: Duration,
    /// Maximum number of bytes on standard output.
    pub(crate) output: usize,
}

/// Result of a program that ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) output: Vec<u8>,
}

/// Reason why a program has no result.
#[derive(Debug, Error)]
pub(crate) enum ProcessError {
    #[error("could not be started: {0}")]
    Start(io::Error),
    #[error("could not be waited for: {0}")]
    Wait(io::Error),
    #[error("did not end within {} seconds", .0.as_secs_f64())]
    Timeout(Duration),
    #[error("wrote more than {0} bytes")]
    Output(usize),
}

/// Process that is killed with its group on drop, unless it has ended and left nothing behind.
struct Running {
    child: Box<dyn ChildWrapper>,
    is_over: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            // The processes may have ended in the meantime.
            let _ = self.child.start_kill();
        }
    }
}

/// Runs a program with `input` on standard input, without a shell. On Unix, the program runs in its
/// own process group, which is killed if the run fails or is cancelled.
///
/// The end of standard error is in `tail`, also if the run fails. The run ends with the program.
/// Processes that the program left behind with its pipes are killed.
pub(crate) async fn run(
    mut command: Command,
    input: &[u8],
    limits: ProcessLimits,
    tail: &Tail,
) -> Result<Finished, ProcessError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut command = CommandWrap::from(command);
    command.wrap(KillOnDrop);
    #[cfg(unix)]
    command.wrap(process_wrap::tokio::ProcessGroup::leader());
    let mut running = Running { child: command.spawn().map_err(ProcessError::Start)?, is_over: false };
    let ended = tokio::time::timeout(limits.timeout, talk(&mut running, input, limits.output, tail)).await;
    ended.unwrap_or(Err(ProcessError::Timeout(limits.timeout)))
}

async fn talk(
    running: &mut Running,
    input: &[u8],
    limit: usize,
    tail: &Tail,
) -> Result<Finished, ProcessError> {
    let child = &mut running.child;
    let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let mut output = Vec::new();
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program may ignore its input.
            let _ = stdin.write_all(input).await;
        }
    };
    let complain = async {
        if let Some(stderr) = stderr {
            tail.read(stderr).await;
        }
    };
    let (status, is_closed) = {
        let pipes = try_join3(read(stdout, &mut output, limit), complain.map(Ok), write.map(Ok));
        match select(pin!(pipes), child.wait()).await {
            Either::Left((closed, status)) => {
                closed?;
                (status.await, true)
            }
            Either::Right((status, pipes)) => match tokio::time::timeout(REST, pipes).await {
                Ok(closed) => {
                    closed?;
                    (status, true)
                }
                Err(_) => (status, false),
            },
        }
    };
    let status = status.map_err(ProcessError::Wait)?;
    running.is_over = is_closed;
    Ok(Finished { status, output })
}

/// Reads a pipe to its end. An unreadable pipe counts as one that has ended.
async fn read(
    pipe: Option<impl AsyncRead + Unpin>,
    bytes: &mut Vec<u8>,
    limit: usize,
) -> Result<(), ProcessError> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let mut piece = vec![0; 16 << 10];
    while let Ok(count @ 1..) = pipe.read(&mut piece).await {
        bytes.extend_from_slice(&piece[..count]);
        if bytes.len() > limit {
            return Err(ProcessError::Output(limit));
        }
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Instant;

    use super::*;

    const LIMITS: ProcessLimits = ProcessLimits { timeout: Duration::from_secs(20), output: 100_000 };

    async fn shell(script: &str, limits: ProcessLimits) -> Result<Finished, ProcessError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, b"input", limits, &Tail::default()).await
    }

    #[tokio::test]
    async fn returns_output_status_and_complaint() {
        let (mut command, tail) = (Command::new("/bin/sh"), Tail::default());
        command.args(["-c", "cat; echo why >&2; exit 3"]);
        let finished = run(command, b"input", LIMITS, &tail).await.expect("an end");
        assert_eq!((finished.output.as_slice(), tail.text().as_str()), (&b"input"[..], "why"));
        assert_eq!(finished.status.code(), Some(3));
        let nowhere = Command::new("/nowhere/program");
        let error = run(nowhere, b"", LIMITS, &tail).await.expect_err("nothing");
        assert!(error.to_string().starts_with("could not be started: "), "{error}");
    }

    #[tokio::test]
    async fn does_not_wait_for_processes_left_behind() {
        let started = Instant::now();
        for script in
            ["sleep 60 & echo done", "sleep 60 >/dev/null & echo done", "sleep 60 2>/dev/null & echo done"]
        {
            let finished = shell(script, LIMITS).await.expect("an end");
            assert_eq!(finished.output, b"done\n", "{script}");
        }
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }

    #[tokio::test]
    async fn bounds_time_and_output() {
        let short = ProcessLimits { timeout: Duration::from_millis(200), ..LIMITS };
        let error = shell("sleep 60", short).await.expect_err("too late");
        assert_eq!(error.to_string(), "did not end within 0.2 seconds");
        let error = shell("yes", ProcessLimits { output: 1000, ..LIMITS }).await.expect_err("too much");
        assert_eq!(error.to_string(), "wrote more than 1000 bytes");
    }
}
