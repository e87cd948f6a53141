//! Runs inputs in child processes, several at once, and counts the outcomes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::figures::spent_by;
use crate::inputs::{self, Input, Kind};

/// Processor time after which a stage of a child counts as hung.
const HANGS: Duration = Duration::from_secs(2);

/// Stack size of a thread that generates inputs. Schemas with thousands of levels are written and
/// dropped recursively.
const GENERATOR_STACK: usize = 64 << 20;

/// The inputs to run, with the settings of the run.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) inputs: usize,
    /// Time after which no further input is started.
    pub(crate) time: Duration,
    /// Kinds of inputs, used in turn.
    pub(crate) kinds: Vec<Kind>,
    /// Folder for failing inputs.
    pub(crate) folder: PathBuf,
    pub(crate) threads: usize,
    /// Failures of inputs that fail the run. Other failures are only reported.
    pub(crate) fail_on: Vec<Failure>,
}

/// Failure of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// The process died, or was killed.
    Death,
    /// A stage exceeded its limits.
    Beyond,
}

impl Failure {
    pub(crate) const ALL: &[Self] = &[Self::Death, Self::Beyond];

    pub(crate) fn of(name: &str) -> Result<Self> {
        match name {
            "deaths" => Ok(Self::Death),
            "beyond" => Ok(Self::Beyond),
            _ => bail!("unknown failure `{name}`; expected deaths or beyond"),
        }
    }
}

/// Outcome of an input.
enum Outcome {
    Compiled,
    Refused,
    /// The process died, or was killed.
    Died(String),
    /// Stages exceeded their limits.
    Beyond(String),
}

#[derive(Default)]
struct Counts {
    inputs: usize,
    compiled: usize,
    deaths: usize,
    beyond: usize,
    /// Number of failures by generator.
    by_generator: BTreeMap<&'static str, usize>,
}

/// Runs all inputs. The exit code is 1 if an input has one of the failures in [`Plan::fail_on`].
#[expect(clippy::print_stdout, reason = "the report is what this program is for")]
pub(crate) fn run(plan: &Plan) -> Result<ExitCode> {
    let start = Instant::now();
    let next = AtomicUsize::new(0);
    let counts = Mutex::new(Counts::default());
    let work = || -> Result<()> {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= plan.inputs || start.elapsed() > plan.time {
                return Ok(());
            }
            let kind = plan.kinds[at % plan.kinds.len()];
            let input = inputs::generate(kind, plan.seed, at);
            let mut outcome = run_one(kind, &input)?;
            if matches!(outcome, Outcome::Beyond(_)) {
                // Other processes on the machine may slow a child down, so only a second excess
                // counts.
                outcome = run_one(kind, &input)?;
            }
            let mut counts = counts.lock().expect("no other thread panics");
            counts.inputs += 1;
            let (word, said) = match outcome {
                Outcome::Compiled => {
                    counts.compiled += 1;
                    continue;
                }
                Outcome::Refused => continue,
                Outcome::Died(said) => {
                    counts.deaths += 1;
                    ("death", said)
                }
                Outcome::Beyond(said) => {
                    counts.beyond += 1;
                    ("beyond the limits", said)
                }
            };
            *counts.by_generator.entry(input.generator).or_default() += 1;
            let name = format!("{}-{}-{at}", kind.name(), plan.seed);
            println!("{word}: {name} ({}, {} bytes): {said}", input.generator, input.bytes.len());
            std::fs::create_dir_all(&plan.folder)?;
            std::fs::write(plan.folder.join(format!("{name}.input")), &input.bytes)?;
            std::fs::write(
                plan.folder.join(format!("{name}.README")),
                format!("{word} ({}): {said}\n", input.generator),
            )?;
        }
    };
    std::thread::scope(|scope| -> Result<()> {
        let worker = || std::thread::Builder::new().stack_size(GENERATOR_STACK).spawn_scoped(scope, work);
        let workers = (0..plan.threads.max(1)).map(|_| worker()).collect::<std::io::Result<Vec<_>>>()?;
        for worker in workers {
            worker.join().expect("the generators do not panic")?;
        }
        Ok(())
    })?;
    let counts = counts.into_inner().expect("no thread panics");
    for (generator, count) in &counts.by_generator {
        println!("{count} of `{generator}` failed");
    }
    println!("{} compiled, the others were refused", counts.compiled);
    let Counts { inputs, deaths, beyond, .. } = counts;
    println!("{inputs} inputs: {deaths} deaths, {beyond} beyond the limits");
    let has_failed = plan.fail_on.iter().any(|failure| match failure {
        Failure::Death => deaths > 0,
        Failure::Beyond => beyond > 0,
    });
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Runs one input in a child and waits for the child to end. Kills a child that hangs.
fn run_one(kind: Kind, input: &Input) -> Result<Outcome> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--child", kind.name()]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let out = child.stdout.take().context("standard output is a pipe")?;
    let (send, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                break;
            }
        }
    });
    // A child that died has closed its end of the pipe.
    let _ = child.stdin.take().context("standard input is a pipe")?.write_all(&input.bytes);
    let (mut stage, mut over) = (String::from("start"), Vec::new());
    let (mut refused, mut hung) = (false, false);
    let mut since = (Instant::now(), Duration::ZERO);
    loop {
        match lines.recv_timeout(Duration::from_millis(250)) {
            Ok(line) => {
                if let Some(name) = line.strip_prefix("stage ") {
                    name.clone_into(&mut stage);
                } else if let Some(figures) = line.strip_prefix("over ") {
                    over.push(figures.to_owned());
                } else if line.starts_with("refused") {
                    refused = true;
                }
                since = (Instant::now(), spent_by(child.id()).unwrap_or_default());
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let spent = spent_by(child.id()).unwrap_or_default();
                if spent > since.1 + HANGS || since.0.elapsed() > HANGS * 60 {
                    hung = true;
                    child.kill()?;
                    break;
                }
            }
        }
    }
    let status = child.wait()?;
    let _ = reader.join();
    if hung {
        return Ok(Outcome::Died(format!("time-out in `{stage}`")));
    }
    if !status.success() {
        let mut said = String::new();
        let _ = child.stderr.take().context("standard error is a pipe")?.read_to_string(&mut said);
        let said: String = said.trim().replace('\n', " ").chars().take(300).collect();
        return Ok(Outcome::Died(format!("{status} in `{stage}`: {said}")));
    }
    if !over.is_empty() {
        let more = if over.len() > 4 { format!(" and {} more", over.len() - 4) } else { String::new() };
        over.truncate(4);
        return Ok(Outcome::Beyond(format!("{}{more}", over.join("; "))));
    }
    Ok(if refused { Outcome::Refused } else { Outcome::Compiled })
}
