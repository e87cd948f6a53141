//! The adversarial set, case by case: time to the first mask or to the refusal, the slowest mask of a walk after it, and
//! the memory that they took at most.
//!
//! ```sh
//! cargo bench -p formwork-benches --bench hostile                        # a vocabulary made up here
//! cargo bench -p formwork-benches --bench hostile -- --tokenizer tokenizer.json [part of a name]
//! ```
//!
//! Each case runs in a process of its own, so that one which runs out of stack, time or memory is a line of the table and
//! not its end, and so that the peak is the case's own. Time is that spent on the processor, so that other work beside does
//! not count. (Both on Linux; elsewhere time is the clock's and the peak is shown as 0.)

mod cases;

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cases::{Case, Source};
use formwork_grammar::{Constraint, Grammar, Limits, SchemaOptions};
use formwork_vocab::{Token, TokenId, TokenKind, Tokenizer, Vocabulary};

/// Within these each case has to have its first mask, or be refused.
const TIME: Duration = Duration::from_millis(100);
const MEMORY_MIB: f64 = 256.0;

/// Tokens of the walk after the first mask.
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

/// Runs each case in a child.
#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn run_all(filter: &str, tokenizer: Option<&str>) -> Result<()> {
    println!("{:>34}  case: what became of it", "first mask, worst mask (ms), MiB");
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
            "{figures:>34}  {name}: {said}{}",
            if broken { output.status.to_string() } else { String::new() }
        );
    }
    println!("{over} over {} ms or {MEMORY_MIB} MiB, or broken", TIME.as_millis());
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
    // The tables of the vocabulary are built once for all grammars.
    for grammar in [
        Grammar::json_schema(&serde_json::json!({}), &SchemaOptions::accept(), &Limits::default())?,
        Grammar::regex("a+", &Limits::default())?,
    ] {
        Constraint::new(&grammar, Arc::clone(&vocabulary))
            .expect("every token is in the vocabulary")
            .matcher()
            .mask();
    }
    let before = reset_peak();
    let start = spent();
    let compiled = source.compile();
    let mut said = "ok".to_owned();
    let mut first = spent().saturating_sub(start);
    let mut worst = Duration::ZERO;
    match &compiled {
        Err(error) => said = error.to_string().chars().take(100).collect(),
        Ok(grammar) => {
            let constraint =
                Constraint::new(grammar, Arc::clone(&vocabulary)).expect("every token is in the vocabulary");
            let mut matcher = constraint.matcher();
            let mut mask = matcher.mask();
            first = spent().saturating_sub(start);
            let mut seed = 1_u64;
            for _ in 0..WALK {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let tokens: Vec<TokenId> = mask.iter().filter(|&token| !vocabulary.is_end(token)).collect();
                if tokens.is_empty() {
                    break;
                }
                matcher.commit(tokens[(seed >> 33) as usize % tokens.len()])?;
                let start = spent();
                mask = matcher.mask();
                worst = worst.max(spent().saturating_sub(start));
            }
        }
    }
    let peak = (peak_mib() - before).max(0.0);
    let over = if first > TIME || worst > TIME || peak > MEMORY_MIB { "OVER " } else { "" };
    let [first, worst] = [first, worst].map(|time| time.as_secs_f64() * 1e3);
    println!("{over}{first:.2} {worst:.2} {peak:.1}  {said}");
    Ok(())
}

/// Bytes, and pieces of JSON and of words, alone and in pairs: 20,000 tokens.
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

/// What this thread has spent on the processor.
fn spent() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = statistics.split(' ').next().and_then(|spent| spent.parse().ok());
    spent.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// Forgets the peak so far and gives the memory in use, in MiB.
fn reset_peak() -> f64 {
    // Where that is not possible the peak is the process's.
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
