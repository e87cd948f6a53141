//! Programs that read their input from standard input and write their output to standard output.

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

/// Maximum number of bytes of standard error that are kept: the last ones.
const COMPLAINT: usize = 500;
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
    /// End of standard error.
    pub(crate) complaint: String,
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
/// The run ends with the program. Processes that the program left behind with its pipes are killed.
pub(crate) async fn run(
    mut command: Command,
    input: &[u8],
    limits: ProcessLimits,
) -> Result<Finished, ProcessError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut command = CommandWrap::from(command);
    command.wrap(KillOnDrop);
    #[cfg(unix)]
    command.wrap(process_wrap::tokio::ProcessGroup::leader());
    let mut running = Running { child: command.spawn().map_err(ProcessError::Start)?, is_over: false };
    let ended = tokio::time::timeout(limits.timeout, talk(&mut running, input, limits.output)).await;
    ended.unwrap_or(Err(ProcessError::Timeout(limits.timeout)))
}

async fn talk(running: &mut Running, input: &[u8], limit: usize) -> Result<Finished, ProcessError> {
    let child = &mut running.child;
    let (stdin, stdout, stderr) = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let (mut output, mut complaint) = (Vec::new(), Vec::new());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program may ignore its input.
            let _ = stdin.write_all(input).await;
        }
    };
    let (status, is_closed) = {
        let pipes = try_join3(
            read(stdout, &mut output, limit),
            keep_end(stderr, &mut complaint).map(Ok),
            write.map(Ok),
        );
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
    let complaint = String::from_utf8_lossy(&complaint).trim().to_owned();
    Ok(Finished { status, output, complaint })
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

/// Reads a pipe to its end and keeps the last bytes.
async fn keep_end(pipe: Option<impl AsyncRead + Unpin>, bytes: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = pipe.read(&mut piece).await {
        bytes.extend_from_slice(&piece[..count]);
        bytes.drain(..bytes.len().saturating_sub(COMPLAINT));
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::time::Instant;

    use super::*;

    const LIMITS: ProcessLimits = ProcessLimits { timeout: Duration::from_secs(20), output: 100_000 };

    async fn shell(script: &str, limits: ProcessLimits) -> Result<Finished, ProcessError> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        run(command, b"input", limits).await
    }

    #[tokio::test]
    async fn returns_output_status_and_complaint() {
        let finished = shell("cat; echo why >&2; exit 3", LIMITS).await.expect("an end");
        assert_eq!((finished.output.as_slice(), finished.complaint.as_str()), (&b"input"[..], "why"));
        assert_eq!(finished.status.code(), Some(3));
        let error = run(Command::new("/nowhere/program"), b"", LIMITS).await.expect_err("nothing");
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
        let loud = shell("yes | head -c 1000000 >&2; echo end >&2", LIMITS).await.expect("an end");
        assert!(loud.complaint.ends_with("end") && loud.complaint.len() <= COMPLAINT);
    }
}
