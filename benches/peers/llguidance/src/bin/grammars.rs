//! Cold and warm masks of llguidance along texts of the languages of Formwork's example grammars.
//!
//! The texts, tokens and timing are the same as in Formwork's own grammar benchmark. *Cold* is a
//! walk along all texts with a fresh lexer, *warm* a second walk with the same lexer.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use formwork_benches::Distribution;
use formwork_benches::grammars::{Language, NAMES, Texts};
use formwork_vocab::{TokenId, Tokenizer};
use llguidance::api::TopLevelGrammar;
use llguidance::earley::SlicedBiasComputer;
use llguidance::{ParserFactory, TokenParser};
use toktrie::InferenceCapabilities;
use toktrie_hf_tokenizers::ByteTokenizer;

/// Measures llguidance's masks along texts of grammars.
#[derive(Parser)]
struct Args {
    /// A `tokenizer.json` file.
    #[arg(long)]
    tokenizer: PathBuf,

    /// File names of the grammars, without extension.
    #[arg(default_values = NAMES)]
    name: Vec<String>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let json = std::fs::read(&args.tokenizer).context("--tokenizer")?;
    let tokenizer = Tokenizer::from_json(&json).context("--tokenizer")?;
    let environment = ByteTokenizer::from_json_bytes(&json)?.into_tok_env(None)?;
    let (given, expected) = (environment.tok_trie().vocab_size(), tokenizer.vocabulary().len());
    ensure!(given == expected, "llguidance reads {given} tokens where Formwork reads {expected}");
    let slices = SlicedBiasComputer::general_slices();
    let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &slices)?;
    factory.quiet();

    println!("mask and step, µs\n{}", Distribution::header());
    for name in &args.name {
        let Texts { tokens: texts, bytes } = Language::read(&languages(), name)?.texts(&tokenizer)?;
        let lark = TopLevelGrammar::from_lark(lark(name)?);
        let start = Instant::now();
        let parser = factory.create_parser(lark).context(name.clone())?;
        let compile = start.elapsed().as_micros();
        let [cold, warm] = [Walk::along(&texts, &parser), Walk::along(&texts, &parser)];
        println!("{name}: {bytes} bytes, {} tokens, compiled in {compile} µs", cold.times.len());
        println!("{}", Distribution::of(cold.times).row("  cold"));
        println!("{}", Distribution::of(warm.times).row("  warm"));
        if let Some(first) = cold.given_up.first() {
            println!("  {} of {} texts given up, the first: {first}", cold.given_up.len(), texts.len());
        }
    }
    Ok(())
}

/// Returns the folder of Formwork's grammars.
fn languages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../grammars")
}

/// Reads a grammar in llguidance's syntax.
fn lark(name: &str) -> Result<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("grammars/{name}.lark"));
    std::fs::read_to_string(&file).with_context(|| file.display().to_string())
}

/// Results of a walk along all texts.
#[derive(Default)]
struct Walk {
    /// Time of each token, in microseconds.
    times: Vec<f64>,
    /// The reason for each text that was not walked to its end.
    given_up: Vec<String>,
}

impl Walk {
    fn along(texts: &[Vec<TokenId>], parser: &TokenParser) -> Self {
        let mut walk = Self::default();
        for text in texts {
            // A clone shares the lexer.
            let mut parser = parser.clone();
            parser.start_without_prompt();
            if let Err(reason) = walk.step_along(text, &mut parser) {
                walk.given_up.push(reason);
            }
        }
        walk
    }

    fn step_along(&mut self, text: &[TokenId], parser: &mut TokenParser) -> Result<(), String> {
        for (index, &TokenId(token)) in text.iter().enumerate() {
            let start = Instant::now();
            let mask = parser.compute_mask().map_err(|error| first_line(&error))?;
            let allowed = mask.is_allowed(token);
            if allowed {
                parser.consume_token(token).map_err(|error| first_line(&error))?;
            }
            self.times.push(start.elapsed().as_secs_f64() * 1e6);
            if !allowed {
                return Err(format!("token {index} ({token}) is not in the mask"));
            }
        }
        if parser.is_accepting() { Ok(()) } else { Err("it may not end".to_owned()) }
    }
}

/// Returns the message without the state dump that may follow it.
fn first_line(error: &anyhow::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use toktrie::ApproximateTokEnv;

    use super::*;

    /// Checks byte by byte that the Lark grammars accept the same texts as the GBNF grammars.
    #[test]
    fn lark_is_gbnf() -> Result<()> {
        let mut factory = ParserFactory::new_simple(&ApproximateTokEnv::single_byte_env())?;
        factory.quiet();
        for name in NAMES {
            let language = Language::read(&languages(), name)?;
            let gbnf = &language.grammar;
            let parser = factory.create_parser(TopLevelGrammar::from_lark(lark(name)?))?;
            let cases = language.cases("accept").chain(language.cases("reject")).map(String::into_bytes);
            for text in cases.chain(gbnf.samples(2).max_bytes(100).take(50)) {
                for text in variants(&text) {
                    let taken = accepts(&parser, &text);
                    assert_eq!(taken, gbnf.accepts(&text), "{name}: {:?}", String::from_utf8_lossy(&text));
                }
            }
        }
        Ok(())
    }

    /// Returns the text, and for each of its bytes the text without that byte and the text with
    /// that byte twice.
    fn variants(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        let changed = (0..text.len()).flat_map(|at| {
            let twice = [&text[..at], &text[at..=at], &text[at..]].concat();
            [[&text[..at], &text[at + 1..]].concat(), twice]
        });
        std::iter::once(text.to_vec()).chain(changed)
    }

    fn accepts(parser: &TokenParser, text: &[u8]) -> bool {
        let mut parser = parser.clone();
        parser.start_without_prompt();
        let tokens: Vec<u32> = text.iter().map(|&byte| byte.into()).collect();
        parser.validate_tokens_raw(&tokens).is_ok_and(|count| count == tokens.len())
            && tokens.iter().all(|&token| parser.consume_token(token).is_ok())
            && parser.is_accepting()
    }
}
