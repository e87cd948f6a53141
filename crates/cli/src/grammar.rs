//! `formwork grammar check`, `test`, `sample`, `explain` and `convert`

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use formwork_grammar::{Constraint, Grammar, GrammarError, Warning};
use formwork_vocab::Tokenizer;
use serde_json::{Value, json};

use crate::args::{GrammarArgs, GrammarCommand, NotationArg, ProfileArg, SampleArgs, SchemaArgs, ShapeArgs};
use crate::files;
use crate::load::{self, ShapeSource};

/// Maximum number of bytes of a shortest output that are printed.
const SHOWN: usize = 200;

pub(crate) fn grammar(command: &GrammarCommand, as_json: bool) -> Result<bool> {
    match command {
        GrammarCommand::Check { grammar, print } => check(grammar, *print, as_json),
        GrammarCommand::Test { grammar, input } => test(grammar, input, as_json),
        GrammarCommand::Sample(args) => sample(args, as_json, std::io::stdout().lock()),
        GrammarCommand::Explain { grammar, text, next } => {
            explain(grammar, text, next.as_deref(), as_json, std::io::stdout().lock())
        }
        GrammarCommand::Convert { shape, schema, to: NotationArg::Gbnf } => {
            let gbnf = compile(shape, ProfileArg::Generate, schema)?.to_gbnf()?;
            if as_json {
                writeln!(std::io::stdout().lock(), "{}", json!({ "gbnf": gbnf }))?;
            } else {
                write!(std::io::stdout().lock(), "{gbnf}")?;
            }
            Ok(true)
        }
    }
}

/// Prints the possible continuations of `text` and checks whether `next` may follow. Returns false
/// if the grammar rejects either text.
fn explain(
    args: &GrammarArgs,
    text: &str,
    next: Option<&str>,
    as_json: bool,
    mut out: impl Write,
) -> Result<bool> {
    let grammar = compile(&args.shape, args.profile, &args.schema)?;
    let mut recognizer = grammar.recognizer();
    let read = recognizer.extend(text.as_bytes()).and_then(|()| match next {
        Some(next) => recognizer.extend(next.as_bytes()),
        None => Ok(()),
    });
    let (at, matches) = match &read {
        Ok(()) => (text.len() + next.map_or(0, str::len), true),
        Err(mismatch) => (mismatch.at, false),
    };
    let tokens = match load::tokenizer(&args.tokenizer)? {
        Some(tokenizer) if matches => Some(allowed_after(&tokenizer, &grammar, text, next)?),
        _ => None,
    };
    let (expected, bytes) = (recognizer.expected(), recognizer.following());
    let accepting = recognizer.accepting();
    if as_json {
        let result = json!({
            "at": at,
            "matches": matches,
            "expected": expected,
            "bytes": bytes.to_string(),
            "may_end": accepting,
            "tokens": tokens,
        });
        writeln!(out, "{result}")?;
        return Ok(matches);
    }
    if !matches {
        writeln!(out, "byte {at} is not allowed")?;
    }
    writeln!(out, "allowed at byte {at}:")?;
    for line in &expected {
        writeln!(out, "  {line}")?;
    }
    if accepting {
        writeln!(out, "  end of output")?;
    }
    writeln!(out, "allowed bytes: {bytes}")?;
    if let Some(tokens) = tokens {
        writeln!(out, "allowed tokens: {tokens}")?;
    }
    Ok(matches)
}

/// Returns the number of tokens that the mask allows after a text.
fn allowed_after(tokenizer: &Tokenizer, grammar: &Grammar, text: &str, next: Option<&str>) -> Result<usize> {
    let mut matcher = Constraint::new(grammar, Arc::clone(tokenizer.vocabulary()))?.matcher();
    let text = format!("{text}{}", next.unwrap_or_default());
    for token in tokenizer.encode_fragment(&text)? {
        matcher.commit(token)?;
    }
    Ok(matcher.explain().tokens)
}

fn constraint_of(grammar: &Grammar, tokenizer: Option<&Tokenizer>) -> Result<Option<Constraint>> {
    let constraint = tokenizer.map(|tokenizer| Constraint::new(grammar, Arc::clone(tokenizer.vocabulary())));
    Ok(constraint.transpose()?)
}

fn compile(shape: &ShapeArgs, profile: ProfileArg, schema: &SchemaArgs) -> Result<Grammar> {
    let Some(source) = ShapeSource::read(shape)? else {
        bail!("no grammar given; use --schema, --gbnf, --lark, --fields, --regex, --choice or --json-object");
    };
    source.compile(shape, profile, schema)
}

fn check(args: &GrammarArgs, print: bool, as_json: bool) -> Result<bool> {
    let grammar = compile(&args.shape, args.profile, &args.schema)?;
    let printed = if print { Some(grammar.to_gbnf()?) } else { None };
    let shortest = grammar.shortest();
    let tokenizer = load::tokenizer(&args.tokenizer)?;
    let tokens = constraint_of(&grammar, tokenizer.as_ref())?.map(|constraint| constraint.minimum_tokens());
    let spellable = tokens != Some(None);
    let mut stdout = std::io::stdout().lock();
    if as_json {
        let warnings: Vec<_> = grammar.warnings().iter().map(warning_as_json).collect();
        let result = json!({
            "states": grammar.size(),
            "minimum_bytes": shortest.len(),
            "minimum_tokens": tokens.flatten(),
            "shortest": String::from_utf8_lossy(&shortest),
            "warnings": warnings,
            "gbnf": printed,
        });
        writeln!(stdout, "{result}")?;
        return Ok(spellable);
    }
    if let Some(gbnf) = printed {
        write!(stdout, "{gbnf}")?;
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

fn warning_as_json(warning: &Warning) -> Value {
    let message = warning.to_string();
    match warning {
        Warning::Keyword { pointer, keyword, reason } => {
            json!({ "pointer": pointer, "keyword": keyword, "reason": reason, "message": message })
        }
        Warning::UnreachableRule { rule, line, .. } => {
            json!({ "rule": rule, "line": line, "message": message })
        }
        _ => json!({ "message": message }),
    }
}

/// The verdict on one input: `accept`, or the reason for rejection.
struct Verdict {
    accepted: bool,
    text: String,
}

fn test(args: &GrammarArgs, inputs: &[std::path::PathBuf], as_json: bool) -> Result<bool> {
    let grammar = match compile(&args.shape, args.profile, &args.schema) {
        Ok(grammar) => grammar,
        Err(error) if error.downcast_ref::<GrammarError>().is_some_and(GrammarError::is_unsatisfiable) => {
            return reject_all(inputs, &error.to_string(), as_json);
        }
        Err(error) => return Err(error),
    };
    let tokenizer = load::tokenizer(&args.tokenizer)?;
    let constraint = constraint_of(&grammar, tokenizer.as_ref())?;
    let mut all = true;
    for path in inputs {
        let bytes = files::read_input(Some(path.as_path()))?;
        let mut verdict = by_bytes(&grammar, &bytes);
        if let (Some(tokenizer), Some(constraint)) = (&tokenizer, &constraint) {
            verdict = by_tokens(tokenizer, constraint, &bytes, verdict)?;
        }
        all &= verdict.accepted;
        print_verdict(path, &verdict, inputs.len() > 1, as_json)?;
    }
    Ok(all)
}

/// Rejects all inputs of an unsatisfiable schema.
fn reject_all(inputs: &[std::path::PathBuf], reason: &str, as_json: bool) -> Result<bool> {
    for path in inputs {
        files::read_input(Some(path.as_path()))?;
        let verdict = Verdict { accepted: false, text: format!("reject at byte 0: {reason}") };
        print_verdict(path, &verdict, inputs.len() > 1, as_json)?;
    }
    Ok(inputs.is_empty())
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

/// Checks the verdict on the bytes against the token masks.
///
/// # Errors
/// Returns an error if masks and recognizer disagree, which is a defect, or if the tokens do not
/// spell the input.
fn by_tokens(
    tokenizer: &Tokenizer,
    constraint: &Constraint,
    bytes: &[u8],
    verdict: Verdict,
) -> Result<Verdict> {
    let Ok(text) = str::from_utf8(bytes) else { return Ok(verdict) };
    let tokens = tokenizer.encode_fragment(text)?;
    if tokenizer.decode(&tokens) != bytes {
        bail!("cannot check tokens: this tokenizer normalizes the input");
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
        bail!(
            "internal error: masks and recognizer differ at byte {at}; please report this grammar and input"
        );
    }
    Ok(verdict)
}

fn sample(args: &SampleArgs, as_json: bool, mut out: impl Write) -> Result<bool> {
    let grammar = compile(&args.shape, args.profile, &args.schema)?;
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
    let mut samples = grammar.samples(seed);
    if let Some(max_bytes) = args.max_bytes {
        let shortest = grammar.shortest().len();
        if shortest > max_bytes {
            bail!("--max-bytes is {max_bytes}, but the shortest output has {shortest} bytes");
        }
        samples = samples.max_bytes(max_bytes);
    }
    for output in samples.take(args.count) {
        if as_json {
            writeln!(out, "{}", json!(String::from_utf8_lossy(&output)))?;
        } else {
            out.write_all(&output)?;
            writeln!(out)?;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser;

    use super::*;
    use crate::command::{Args, Command};

    /// Returns the lines that `formwork grammar sample` prints.
    fn samples(args: &[&str]) -> Result<Vec<String>> {
        let args = Args::try_parse_from([&["formwork", "grammar", "sample"], args].concat())?;
        let as_json = args.json.is_some();
        let Command::Grammar(GrammarCommand::Sample(args)) = args.command else { panic!("another command") };
        let mut out = Vec::new();
        sample(&args, as_json, &mut out)?;
        Ok(String::from_utf8(out)?.lines().map(ToOwned::to_owned).collect())
    }

    fn shipped(name: &str) -> String {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../grammars");
        folder.join(name).display().to_string()
    }

    #[test]
    fn prints_one_sample_per_line() -> Result<()> {
        let lines = samples(&["--regex", "[a-f]{2}", "-n", "20", "--seed", "1"])?;
        assert_eq!(lines.len(), 20);
        assert!(lines.iter().all(|line| line.len() == 2));
        assert_eq!(lines, samples(&["--regex", "[a-f]{2}", "-n", "20", "--seed", "1"])?);
        assert_ne!(lines, samples(&["--regex", "[a-f]{2}", "-n", "20", "--seed", "2"])?);
        assert_eq!(samples(&["--choice", "a\nb", "--json"])?, ["\"a\\nb\""]);
        Ok(())
    }

    #[test]
    fn samples_respect_layout_and_size_limit() -> Result<()> {
        let schema = shipped("address.schema.json");
        let args = ["--schema", &schema, "-n", "20", "--max-bytes", "300"];
        let spaced = samples(&args)?;
        assert!(spaced.iter().all(|line| line.len() <= 300 && line.starts_with("{\"street\": ")));
        let compact = samples(&[&args[..], &["--layout", "compact"]].concat())?;
        assert!(compact.iter().all(|line| line.starts_with("{\"street\":\"")));
        let error = samples(&["--schema", &schema, "--max-bytes", "3"]).unwrap_err().to_string();
        assert!(error.contains("--max-bytes is 3, but the shortest output has "), "{error}");
        Ok(())
    }

    #[test]
    fn remotes_and_formats_reach_the_grammar() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = |name: &str, text: &str| -> Result<String> {
            let path = folder.path().join(name);
            std::fs::write(&path, text)?;
            Ok(path.display().to_string())
        };
        let schema = file("schema.json", r#"{"$ref": "https://example.com/day"}"#)?;
        let day = format!(
            "https://example.com/day={}",
            file("day.json", r#"{"format": "date", "type": "string"}"#)?
        );
        let args = ["--schema", &schema, "--remote", &day, "-n", "20", "--seed", "1"];
        let dates = samples(&args)?;
        assert!(dates.iter().all(|line| line.len() == "\"2000-01-01\"".len()));
        let any = samples(&[&args[..], &["--formats", "annotate"]].concat())?;
        assert!(any.iter().any(|line| line.len() != "\"2000-01-01\"".len()));
        let error = samples(&["--schema", &schema]).unwrap_err().to_string();
        assert!(error.contains("`https://example.com/day` is in another document"), "{error}");
        assert!(error.contains("; pass it with --remote https://example.com/day=FILE"), "{error}");
        let error = samples(&[&args[..], &["--remote", &day]].concat()).unwrap_err().to_string();
        assert_eq!(error, "--remote names https://example.com/day twice");
        Ok(())
    }

    #[test]
    fn finds_documents_of_a_folder_by_path_and_id() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let file = |name: &str, text: &str| -> Result<String> {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            std::fs::write(&path, text)?;
            Ok(path.display().to_string())
        };
        file(
            "docs/types/day.json",
            r#"{"$id": "https://t.example/day", "$ref": "base.json#/definitions/d"}"#,
        )?;
        file("docs/types/base.json", r#"{"definitions": {"d": {"const": 7}}}"#)?;
        file("docs/broken.json", "{")?;
        let docs = folder.path().join("docs").display().to_string();
        let at = format!("https://s.example/v1/={docs}");
        for (reference, remote) in [
            ("types/day.json", &docs),
            ("./types/base.json#/definitions/d", &docs),
            ("https://t.example/day", &docs),
            ("https://s.example/v1/types/day.json", &at),
        ] {
            let text =
                format!(r#"{{"$id": "https://a.example/app.json", "allOf": [{{"$ref": "{reference}"}}]}}"#);
            let schema = file("schema.json", &text)?;
            assert_eq!(samples(&["--schema", &schema, "--remote", remote])?, ["7"], "{reference}");
        }
        let error = samples(&["--schema", "s.json", "--remote", "nowhere"]).unwrap_err().to_string();
        assert!(error.contains("expected URI=FILE, URI=FOLDER or an existing FOLDER"), "{error}");
        Ok(())
    }

    #[test]
    fn rejects_a_schema_nested_too_deeply() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let check = |levels: usize| {
            let (open, close) = (r#"{"properties": {"a": "#.repeat(levels), "}}".repeat(levels));
            let path = folder.path().join("schema.json");
            std::fs::write(&path, format!("{open}true{close}"))?;
            samples(&["--schema", &path.display().to_string(), "--max-bytes", "100"])
        };
        assert_eq!(check(64)?.len(), 1);
        let error = check(300).unwrap_err().to_string();
        assert!(error.contains("nested deeper than the limit of 256"), "{error}");
        let error = format!("{:#}", check(100_000).unwrap_err());
        assert!(error.contains("nested deeper than the limit of 1024 levels at line 1"), "{error}");
        Ok(())
    }

    #[test]
    fn sample_requires_a_grammar() {
        let error = samples(&[]).unwrap_err().to_string();
        assert!(error.starts_with("no grammar given; use --schema"), "{error}");
    }
}
