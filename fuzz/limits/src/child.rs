//! Runs one input: compiles it, walks the grammar, and reports each stage.

use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use formwork_fields::{Definition, Format};
use formwork_grammar::{Constraint, Grammar, Layout, Limits, Order, Profile, Remotes, SchemaOptions};
use formwork_json::JsonError;
use formwork_vocab::{Token, TokenId, TokenKind, Vocabulary};
use serde_json::{Value, json};

use crate::figures::{peak_mib, reset_peak, spent};
use crate::inputs::Kind;

/// Number of random tokens in the walk.
const WALK: usize = 24;

/// Maximum number of closing tokens to commit after the walk.
const CLOSING: usize = 40;

/// Processor time after which a walk stops. Each step also has its own limit.
const ENOUGH: Duration = Duration::from_millis(1500);

/// Maximum time and memory of one stage.
#[derive(Clone, Copy)]
struct Bound {
    time: Duration,
    mib: f64,
}

/// Limit for a compilation, and for stages that read or write a whole grammar.
const WHOLE: Bound = Bound { time: Duration::from_secs(1), mib: 256.0 };

/// Limit for a mask, a step, or an explanation.
const STEP: Bound = Bound { time: Duration::from_millis(100), mib: 64.0 };

/// Reads the input from standard input and runs it on a thread with the same small stack as in a
/// server.
pub(crate) fn run(kind: Kind) -> Result<()> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    let worker = std::thread::Builder::new().stack_size(2 << 20).spawn(move || run_one(kind, &bytes))?;
    match worker.join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn run_one(kind: Kind, bytes: &[u8]) -> Result<()> {
    let vocabulary = Arc::new(made_up()?);
    warm_up(&vocabulary)?;
    let source = Source::new(kind, bytes);
    let compiled = take("compile", WHOLE, || source.compile());
    match compiled {
        Err(error) => {
            let error: String = error.chars().take(300).collect();
            say(&format!("refused {}", error.replace('\n', " ")));
        }
        Ok((grammar, definition)) => {
            walk(&grammar, &vocabulary, seed_of(bytes))?;
            rewrite(&grammar);
            if let Some(definition) = definition {
                take("template", WHOLE, || definition.template());
                take("schema", WHOLE, || definition.schema());
                take("validate", WHOLE, || definition.validate("{\"a\": [1, {\"b\": null}]}"));
            }
            say("ok");
        }
    }
    Ok(())
}

/// Builds the tables of the vocabulary, which all grammars share.
fn warm_up(vocabulary: &Arc<Vocabulary>) -> Result<()> {
    let limits = Limits::default();
    for grammar in
        [Grammar::json_schema(&json!({}), &SchemaOptions::accept(), &limits)?, Grammar::regex("a+", &limits)?]
    {
        Constraint::new(&grammar, Arc::clone(vocabulary))?.matcher().mask();
    }
    Ok(())
}

/// Walks random tokens, then closes the output within the promised number of tokens.
fn walk(grammar: &Grammar, vocabulary: &Arc<Vocabulary>, mut seed: u64) -> Result<()> {
    let constraint = take("constraint", STEP, || Constraint::new(grammar, Arc::clone(vocabulary)));
    // A token terminal may name a token that this vocabulary lacks.
    let Ok(constraint) = constraint else { return Ok(()) };
    let mut matcher = take("matcher", STEP, || constraint.matcher());
    let end = spent() + ENOUGH;
    for at in 0..WALK {
        if spent() > end {
            break;
        }
        let mask = take(&format!("mask {at}"), STEP, || matcher.mask());
        let tokens: Vec<TokenId> = mask.iter().filter(|&token| !vocabulary.is_end(token)).collect();
        if tokens.is_empty() {
            anyhow::ensure!(matcher.accepting(), "the walk is stuck after {at} tokens");
            break;
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let token = tokens[(seed >> 33) as usize % tokens.len()];
        take(&format!("commit {at}"), STEP, || matcher.commit(token))?;
        if at % 8 == 4 {
            take(&format!("explain {at}"), STEP, || matcher.explain());
            take(&format!("forced bytes {at}"), STEP, || matcher.forced_bytes());
        }
    }
    let left = take("closing tokens", STEP, || matcher.closing_tokens());
    let left = left.context("no tokens of bytes close the output")?;
    for at in (0..left).take(CLOSING) {
        if matcher.complete() || spent() > end {
            break;
        }
        let mask = take(&format!("mask within {}", left - at), STEP, || matcher.mask_within(left - at));
        let Some(token) = mask.iter().find(|&token| !vocabulary.is_end(token)) else {
            anyhow::ensure!(matcher.accepting(), "no token closes within {}", left - at);
            break;
        };
        take(&format!("commit to close {at}"), STEP, || matcher.commit(token))?;
    }
    Ok(())
}

/// Writes the grammar in other notations, and samples outputs.
fn rewrite(grammar: &Grammar) {
    take("shortest", WHOLE, || grammar.shortest());
    let mut samples = take("samples", WHOLE, || grammar.samples(1));
    for at in 0..2 {
        take(&format!("sample {at}"), WHOLE, || samples.next());
    }
    let _ = take("gbnf", WHOLE, || grammar.to_gbnf());
}

/// Runs a stage: reports its name when it starts, and its figures if they exceed the limit.
fn take<T>(stage: &str, bound: Bound, work: impl FnOnce() -> T) -> T {
    say(&format!("stage {stage}"));
    let (before, start) = (reset_peak(), spent());
    let result = work();
    let time = spent().saturating_sub(start);
    let mib = (peak_mib() - before).max(0.0);
    let over = time > bound.time || mib > bound.mib;
    if over || bound.time == WHOLE.time {
        let word = if over { "over" } else { "took" };
        say(&format!("{word} {stage}: {} ms, {mib:.0} MiB", time.as_millis()));
    }
    result
}

/// Writes a line and flushes it, so that the parent reads it immediately.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The parent may have stopped reading.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// The parsed input.
enum Source<'b> {
    Schema(Result<Value, JsonError>, SchemaOptions),
    Remotes(Result<Value, JsonError>),
    Gbnf(&'b str),
    Regex(&'b str),
    Fields(&'b str, Format),
}

impl<'b> Source<'b> {
    fn new(kind: Kind, bytes: &'b [u8]) -> Self {
        let text = str::from_utf8(bytes).unwrap_or_default();
        let any = SchemaOptions { order: Order::Any, layout: Layout::Flexible, ..SchemaOptions::default() };
        let pretty =
            SchemaOptions { profile: Profile::Accept, layout: Layout::Pretty, ..SchemaOptions::default() };
        let schema = |options| Self::Schema(formwork_json::from_slice(bytes), options);
        match kind {
            Kind::Schema => schema(SchemaOptions::default()),
            Kind::SchemaAccept => schema(SchemaOptions::accept()),
            Kind::SchemaAny => schema(any),
            Kind::SchemaPretty => schema(pretty),
            Kind::Remotes => Self::Remotes(formwork_json::from_slice(bytes)),
            Kind::Gbnf => Self::Gbnf(text),
            Kind::Regex => Self::Regex(text),
            Kind::FieldsJson => Self::Fields(text, Format::Json),
            Kind::FieldsYaml => Self::Fields(text, Format::Yaml),
            Kind::FieldsToml => Self::Fields(text, Format::Toml),
        }
    }

    fn compile(&self) -> Result<(Grammar, Option<Definition>), String> {
        let limits = Limits::default();
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let grammar = match self {
            Self::Schema(Ok(schema), options) => Grammar::json_schema(schema, options, &limits),
            Self::Remotes(Ok(value)) => {
                let null = Value::Null;
                let remotes = value["remotes"].as_object().into_iter().flatten();
                let remotes: Remotes = remotes.map(|(uri, schema)| (uri.clone(), schema.clone())).collect();
                let schema = value.get("schema").unwrap_or(&null);
                Grammar::json_schema_with_remotes(schema, &remotes, &SchemaOptions::default(), &limits)
            }
            Self::Schema(Err(error), _) | Self::Remotes(Err(error)) => return Err(said(error)),
            Self::Gbnf(source) => Grammar::gbnf(source, &limits),
            Self::Regex(pattern) => Grammar::regex(pattern, &limits),
            Self::Fields(text, format) => {
                let definition = Definition::parse(text, *format).map_err(|error| said(&error))?;
                let grammar = definition.grammar(&limits).map_err(|error| said(&error))?;
                return Ok((grammar, Some(definition)));
            }
        };
        Ok((grammar.map_err(|error| said(&error))?, None))
    }
}

fn seed_of(data: &[u8]) -> u64 {
    data.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Returns a vocabulary of about 3,000 tokens: bytes, and pieces of JSON and of words, alone and in
/// pairs.
fn made_up() -> Result<Vocabulary> {
    let text = |bytes: &[u8]| Token { bytes: bytes.into(), kind: TokenKind::Text };
    let mut tokens: Vec<Token> = (0..=255).map(|byte| text(&[byte])).collect();
    let pieces: Vec<String> = [
        "\"", "\":", "\",", " ", "\n", "{", "}", "[", "]", ",", "0", "12", "345", "é", "日本", "😀", "\\n",
        "\\u00", "true", "null", "name", "st", "th",
    ]
    .into_iter()
    .map(str::to_owned)
    .chain(('a'..='z').map(|letter| format!("{letter}e")))
    .collect();
    for a in &pieces {
        tokens.extend(pieces.iter().map(|b| text(format!("{a}{b}").as_bytes())));
        tokens.push(text(format!(" {a}").as_bytes()));
        tokens.push(text(a.as_bytes()));
    }
    let end = TokenId(tokens.len() as u32);
    tokens.push(Token { bytes: Vec::new(), kind: TokenKind::Control });
    Ok(Vocabulary::new(tokens, vec![end])?)
}
