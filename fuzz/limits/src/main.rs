//! Generates hostile inputs from fixed seeds and runs each in its own process, under hard limits.
//!
//! ```sh
//! cargo run -p formwork-limits -- --seed 1 --inputs 20000 --seconds 180 --kind schema
//! cargo run -p formwork-limits -- --fail-on deaths                        # accept slow inputs
//! cargo run -p formwork-limits -- --only KIND:NUMBER --seed 1 > input    # print one input
//! cargo run -p formwork-limits -- --child KIND < input                   # run one input
//! ```
//!
//! A child has 1 GB of address space. It compiles its input, walks the grammar and writes the
//! grammar in other notations. It reports each stage before the stage starts, so the parent knows
//! the stage in which a child died. [`child`] defines the limits of each stage.
//!
//! The exit code is 1 if an input died or exceeded a limit. `--fail-on` selects which of these
//! failures count: `deaths`, `beyond` or, by default, `deaths,beyond`.

mod child;
mod figures;
mod inputs;
mod parent;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use inputs::Kind;
use parent::{Failure, Plan};

/// Address space of the program and of each child, in KiB.
const ADDRESS_SPACE_KIB: u32 = 1 << 20;

/// Environment variable that marks a process whose address space is already limited.
const LIMITED: &str = "FORMWORK_LIMITS_SET";

fn main() -> Result<ExitCode> {
    if std::env::var_os(LIMITED).is_none() {
        return Err(restart_with_limit());
    }
    let mut plan = Plan {
        seed: 1,
        inputs: 2000,
        time: Duration::from_secs(60),
        kinds: Kind::ALL.to_vec(),
        folder: PathBuf::from("target/limits"),
        threads: std::thread::available_parallelism().map_or(2, usize::from),
        fail_on: Failure::ALL.to_vec(),
    };
    let mut only = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--seed" => plan.seed = value()?.parse().context("--seed needs a number")?,
            "--inputs" => plan.inputs = value()?.parse().context("--inputs needs a number")?,
            "--seconds" => {
                plan.time = Duration::from_secs(value()?.parse().context("--seconds needs a number")?);
            }
            "--threads" => plan.threads = value()?.parse().context("--threads needs a number")?,
            "--kind" => {
                let names = value()?;
                plan.kinds = names.split(',').map(Kind::of).collect::<Result<_>>()?;
            }
            "--fail-on" => {
                let names = value()?;
                plan.fail_on = names.split(',').map(Failure::of).collect::<Result<_>>()?;
            }
            "--folder" => plan.folder = value()?.into(),
            "--only" => only = Some(value()?),
            "--child" => {
                child::run(Kind::of(&value()?)?)?;
                return Ok(ExitCode::SUCCESS);
            }
            _ => bail!(
                "unknown option `{argument}`; expected --seed, --inputs, --seconds, --kind, --threads, --fail-on, \
                 --folder, --only or --child"
            ),
        }
    }
    if let Some(only) = only {
        let (kind, number) = only.split_once(':').context("--only needs KIND:NUMBER")?;
        let number = number.parse().context("--only needs KIND:NUMBER")?;
        let input = inputs::generate(Kind::of(kind)?, plan.seed, number);
        std::io::stdout().write_all(&input.bytes)?;
        return Ok(ExitCode::SUCCESS);
    }
    parent::run(&plan)
}

/// Restarts this program with a limit on its address space, which children inherit.
fn restart_with_limit() -> anyhow::Error {
    let run = || -> Result<std::io::Error> {
        let program = std::env::current_exe()?;
        let script = format!("ulimit -v {ADDRESS_SPACE_KIB} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(program).args(std::env::args_os().skip(1));
        Ok(command.env(LIMITED, "1").exec())
    };
    match run() {
        Ok(error) => anyhow::Error::new(error).context("cannot restart under a limit on address space"),
        Err(error) => error,
    }
}
