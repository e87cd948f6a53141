//! Measures the adversarial set case by case. Reports the time to compile or to refuse, the slowest
//! mask or step of a walk, and the peak memory of both.
//!
//! ```sh
//! cargo bench -p formwork-benches --bench hostile                        # a vocabulary made up here
//! cargo bench -p formwork-benches --bench hostile -- --tokenizer tokenizer.json [part of a name]
//! ```
//!
//! Each case runs in its own process. A case that exhausts stack, time or memory then costs only
//! its row of the table, and the peak memory belongs to the case alone. Times are processor times,
//! so other load does not count. Both need Linux; elsewhere times are wall-clock times and the peak
//! is 0.

mod cases;

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cases::{Case, Source};
use formwork_grammar::{Constraint, Grammar, Limits, SchemaOptions};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};

/// Limits of compilation: a case must compile or be refused within them.
const COMPILE_TIME: Duration = Duration::from_secs(1);
const COMPILE_MIB: f64 = 256.0;

/// Limits of a mask, and of a step by one token.
const STEP_TIME: Duration = Duration::from_millis(100);
const STEP_MIB: f64 = 64.0;

/// Number of tokens of the walk.
const WALK: usize = 64;

fn main() -> Result<()> {
    let mut tokenizer = None;
    let mut child = false;
    let mut filter = String::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => {}
            "--tokenizer" => tokenizer = arguments.next(),
            "--child" => child = true,
            _ => filter = argument,
        }
    }
    if child { run_one(tokenizer.as_deref()) } else { run_all(&filter, tokenizer.as_deref()) }
}

/// Runs each case in a child process.
#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn run_all(filter: &str, tokenizer: Option<&str>) -> Result<()> {
    println!("{:>44}  case: what became of it", "compile, worst mask or step (ms), MiB of each");
    let mut over = 0;
    for Case { name, source } in cases::all().iter().filter(|case| case.name.contains(filter)) {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--child").args(tokenizer.iter().flat_map(|path| ["--tokenizer", path]));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        child.stdin.take().context("a pipe")?.write_all(&source.to_bytes())?;
        let output = child.wait_with_output()?;
        let line = String::from_utf8_lossy(&output.stdout);
        let (figures, said) = line.trim_end().split_once("  ").unwrap_or(("BROKEN", ""));
        let broken = !output.status.success();
        over += usize::from(broken || figures.contains("OVER"));
        println!(
            "{figures:>44}  {name}: {said}{}",
            if broken { output.status.to_string() } else { String::new() }
        );
    }
    println!(
        "{over} over the limits ({} ms and {COMPILE_MIB} MiB to compile, {} ms and {STEP_MIB} MiB a mask or step), or broken",
        COMPILE_TIME.as_millis(),
        STEP_TIME.as_millis()
    );
    Ok(())
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn run_one(tokenizer: Option<&str>) -> Result<()> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let source = Source::from_bytes(&bytes)?;
    drop(bytes);
    let vocabulary = match tokenizer {
        Some(path) => Arc::clone(Tokenizer::from_json(&std::fs::read(path)?)?.vocabulary()),
        None => Arc::new(made_up()?),
    };
    // Build the tables of the vocabulary first, since all grammars share them.
    for grammar in [
        Grammar::json_schema(&serde_json::json!({}), &SchemaOptions::accept(), &Limits::default())?,
        Grammar::regex("a+", &Limits::default())?,
    ] {
        Constraint::new(&grammar, Arc::clone(&vocabulary))
            .expect("every token is in the vocabulary")
            .matcher()
            .mask();
    }
    let mut said = "ok".to_owned();
    let (compiled, compilation) = measure(|| source.compile());
    let mut worst = Figures::default();
    match &compiled {
        Err(error) => said = error.to_string().chars().take(100).collect(),
        Ok(grammar) => {
            let (constraint, taken) = measure(|| Constraint::new(grammar, Arc::clone(&vocabulary)));
            worst.raise(taken);
            let mut matcher = constraint.expect("every token is in the vocabulary").matcher();
            let mut seed = 1_u64;
            for at in 0..=WALK {
                let (mask, taken) = measure(|| matcher.mask());
                worst.raise(taken);
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let tokens: Vec<TokenId> = mask.iter().filter(|&token| !vocabulary.is_end(token)).collect();
                if tokens.is_empty() || at == WALK {
                    break;
                }
                let (committed, taken) =
                    measure(|| matcher.commit(tokens[(seed >> 33) as usize % tokens.len()]));
                committed?;
                worst.raise(taken);
            }
        }
    }
    let is_over = compilation.time > COMPILE_TIME
        || compilation.mib > COMPILE_MIB
        || worst.time > STEP_TIME
        || worst.mib > STEP_MIB;
    let over = if is_over { "OVER " } else { "" };
    let [compile, step] = [compilation.time, worst.time].map(|time| time.as_secs_f64() * 1e3);
    println!("{over}{compile:.2} {step:.2} {:.1} {:.1}  {said}", compilation.mib, worst.mib);
    Ok(())
}

/// Processor time, and growth of memory at its peak.
#[derive(Clone, Copy, Default)]
struct Figures {
    time: Duration,
    mib: f64,
}

impl Figures {
    /// Raises each figure to the other's if that is higher.
    fn raise(&mut self, other: Self) {
        self.time = self.time.max(other.time);
        self.mib = self.mib.max(other.mib);
    }
}

fn measure<T>(work: impl FnOnce() -> T) -> (T, Figures) {
    let (before, start) = (reset_peak(), spent());
    let result = work();
    let time = spent().saturating_sub(start);
    (result, Figures { time, mib: (peak_mib() - before).max(0.0) })
}

/// Creates a vocabulary of 20,000 tokens: bytes, and pieces of JSON and of words, alone and in
/// pairs.
fn made_up() -> Result<Vocabulary> {
    let text = |bytes: &[u8]| Token { bytes: bytes.into(), kind: TokenKind::Text };
    let mut tokens: Vec<Token> = (0..=255).map(|byte| text(&[byte])).collect();
    let pieces: Vec<String> = [
        "\"", "\":", "\",", " ", "\n", "{", "}", "[", "]", ",", "0", "12", "345", "é", "日本", "😀", "\\n",
        "\\u00",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain(('a'..='z').flat_map(|a| ["", "e", "o", "st"].map(|b| format!("{a}{b}"))))
    .collect();
    for a in &pieces {
        tokens.extend(pieces.iter().map(|b| text(format!("{a}{b}").as_bytes())));
        tokens.push(text(format!(" {a}").as_bytes()));
    }
    if tokens.len() > 1 << 15 {
        bail!("too many pieces");
    }
    let end = TokenId(tokens.len() as u32);
    tokens.push(Token { bytes: Vec::new(), kind: TokenKind::Control });
    Ok(Vocabulary::new(tokens, vec![end])?)
}

/// Returns the processor time of this thread; the elapsed wall-clock time outside Linux.
fn spent() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = statistics.split(' ').next().and_then(|spent| spent.parse().ok());
    spent.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// Resets the peak and returns the memory in use, in MiB.
fn reset_peak() -> f64 {
    // Where the reset is not possible, the peak covers the whole process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    status_mib("VmRSS:")
}

fn peak_mib() -> f64 {
    status_mib("VmHWM:")
}

fn status_mib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}
