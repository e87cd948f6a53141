//! `formwork grammar check` and `formwork grammar test`

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use formwork_grammar::{Constraint, Grammar};
use formwork_vocab::Tokenizer;
use serde_json::json;

use crate::args::{GrammarArgs, GrammarCommand};
use crate::load::{self, ShapeSource};

/// The most bytes of a shortest output that are shown.
const SHOWN: usize = 200;

pub(crate) fn grammar(command: &GrammarCommand, as_json: bool) -> Result<bool> {
    match command {
        GrammarCommand::Check { grammar } => check(grammar, as_json),
        GrammarCommand::Test { grammar, input } => test(grammar, input, as_json),
    }
}

fn compile(args: &GrammarArgs) -> Result<Grammar> {
    let Some(source) = ShapeSource::read(&args.shape)? else {
        bail!("name a grammar with --schema, --gbnf, --regex, --choice or --json-object");
    };
    source.compile(&args.shape, load::schema_options(args.profile, args.layout, args.order))
}

fn check(args: &GrammarArgs, as_json: bool) -> Result<bool> {
    let grammar = compile(args)?;
    let shortest = grammar.shortest();
    let tokens = load::tokenizer(&args.tokenizer)?
        .map(|tokenizer| Constraint::new(&grammar, Arc::clone(tokenizer.vocabulary())).minimum_tokens());
    let spellable = tokens != Some(None);
    let mut stdout = std::io::stdout().lock();
    if as_json {
        let warnings: Vec<_> = grammar
            .warnings()
            .iter()
            .map(|warning| {
                json!({ "pointer": warning.pointer, "keyword": warning.keyword, "reason": warning.reason })
            })
            .collect();
        let result = json!({
            "states": grammar.size(),
            "minimum_bytes": shortest.len(),
            "minimum_tokens": tokens.flatten(),
            "shortest": String::from_utf8_lossy(&shortest),
            "warnings": warnings,
        });
        writeln!(stdout, "{result}")?;
        return Ok(spellable);
    }
    writeln!(stdout, "{} states", grammar.size())?;
    let shown = String::from_utf8_lossy(&shortest[..shortest.len().min(SHOWN)]).into_owned();
    let more = if shortest.len() > SHOWN { "…" } else { "" };
    writeln!(stdout, "shortest output: {} bytes, {shown:?}{more}", shortest.len())?;
    match tokens {
        Some(Some(tokens)) => writeln!(stdout, "minimum tokens: {tokens}")?,
        Some(None) => writeln!(stdout, "the tokenizer cannot spell the shortest output")?,
        None => {}
    }
    Ok(spellable)
}

/// The verdict on one input: `accept`, or why not.
struct Verdict {
    accepted: bool,
    text: String,
}

fn test(args: &GrammarArgs, inputs: &[std::path::PathBuf], as_json: bool) -> Result<bool> {
    let grammar = compile(args)?;
    let tokenizer = load::tokenizer(&args.tokenizer)?;
    let constraint =
        tokenizer.as_ref().map(|tokenizer| Constraint::new(&grammar, Arc::clone(tokenizer.vocabulary())));
    let mut all = true;
    for path in inputs {
        let bytes = load::read_input(Some(path.as_path()))?;
        let mut verdict = by_bytes(&grammar, &bytes);
        if let (Some(tokenizer), Some(constraint)) = (&tokenizer, &constraint) {
            verdict = by_tokens(tokenizer, constraint, &bytes, verdict)?;
        }
        all &= verdict.accepted;
        print_verdict(path, &verdict, inputs.len() > 1, as_json)?;
    }
    Ok(all)
}

fn print_verdict(path: &Path, verdict: &Verdict, named: bool, as_json: bool) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    if as_json {
        let result = json!({ "input": path, "accepted": verdict.accepted, "verdict": verdict.text });
        writeln!(stdout, "{result}")?;
    } else if named {
        writeln!(stdout, "{}: {}", path.display(), verdict.text)?;
    } else {
        writeln!(stdout, "{}", verdict.text)?;
    }
    Ok(())
}

fn by_bytes(grammar: &Grammar, bytes: &[u8]) -> Verdict {
    let mut recognizer = grammar.recognizer();
    match recognizer.extend(bytes).and_then(|()| recognizer.finish()) {
        Ok(()) => Verdict { accepted: true, text: "accept".to_owned() },
        Err(mismatch) => Verdict { accepted: false, text: format!("reject {mismatch}") },
    }
}

/// Walks the input token by token through the masks. The bytes have been judged; a difference would be a defect, and is
/// told as an error.
fn by_tokens(
    tokenizer: &Tokenizer,
    constraint: &Constraint,
    bytes: &[u8],
    verdict: Verdict,
) -> Result<Verdict> {
    let Ok(text) = str::from_utf8(bytes) else { return Ok(verdict) };
    let tokens = tokenizer.encode_fragment(text)?;
    if tokenizer.decode(&tokens) != bytes {
        bail!("this tokenizer normalises the input, so its tokens spell another text");
    }
    let mut matcher = constraint.matcher();
    let mut at = 0;
    let mut allowed = true;
    for token in tokens {
        if !matcher.mask().contains(token) {
            allowed = false;
            break;
        }
        matcher.commit(token)?;
        at += tokenizer.vocabulary().bytes(token).len();
    }
    if (allowed && matcher.accepting()) != verdict.accepted {
        bail!("the masks and the recogniser differ at byte {at}: please report this grammar and input");
    }
    Ok(verdict)
}
