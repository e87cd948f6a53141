//! Compiling sets of 50, 200 and 500 tools, and masks along calls of them.
//!
//! ```sh
//! cargo bench -p formwork-benches --bench tools -- --tokenizer tokenizer.json
//! ```
//!
//! *Cold* compiles all tools on all processors, from parsed schemas, with an empty cache of parts. Automata that
//! the process keeps for all schemas, such as those of numbers and patterns, are built in the first round. *One
//! changed* compiles the tools again after the schema of one tool changed. *First mask* is the mask at the first
//! name after that. Masks are taken along one call of each of 50 tools. A measured time covers the mask of a token
//! and the step over the token, on one thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use formwork_benches::Distribution;
use formwork_benches::tool_sets::{
    ExampleTool, PlainTemplate, TaggedTemplate, json_call, tagged_call, tools,
};
use formwork_chat::{ChatFormat, Content, Thoughts, Tool, Tools};
use formwork_grammar::{Constraint, Grammar, Limits, PartCache, SchemaOptions};
use formwork_vocab::Tokenizer;
use serde_json::{Value, json};

/// A format of calls: its name, the format, and a function that writes a call.
type Format = (&'static str, ChatFormat, fn(&Value) -> String);

/// Number of tools in each set.
const SETS: [usize; 3] = [50, 200, 500];

/// Number of rounds. Times to compile are the least of all rounds.
const ROUNDS: usize = 3;

/// Maximum memory of the compiled tools of a set, in bytes.
const CACHE: usize = 256 << 20;

/// Number of calls along which masks are measured.
const CALLS: usize = 50;

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() -> Result<()> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--tokenizer");
    let path = arguments.nth(1).context("--tokenizer names a tokenizer.json")?;
    let tokenizer = Tokenizer::from_json(&std::fs::read(path)?)?;
    let formats: [Format; 2] = [
        ("JSON", ChatFormat::of(&PlainTemplate, tokenizer.vocabulary()), json_call),
        ("tagged", ChatFormat::of(&TaggedTemplate, tokenizer.vocabulary()), tagged_call),
    ];
    // Builds the tables that depend on the vocabulary alone.
    compile(&formats[0].1, &tools_of(&tools(1)?), &PartCache::new(Arc::default(), 0), &tokenizer)?;
    let threads = std::thread::available_parallelism()?.get();
    println!("{}", Distribution::header());
    for count in SETS {
        let examples = tools(count)?;
        let set = tools_of(&examples);
        let mut schema = examples[0].parameters.clone();
        schema["properties"]["new"] = json!({ "type": "boolean" });
        let mut changed = set.clone();
        changed.tools[0].parameters = Arc::new(schema);
        for (name, format, write) in &formats {
            let mut least = [Duration::MAX; 3];
            let mut times = Vec::new();
            for _ in 0..ROUNDS {
                let cache = PartCache::new(Arc::default(), CACHE).with_threads(threads);
                let start = Instant::now();
                let constraint = compile(format, &set, &cache, &tokenizer)?;
                least[0] = least[0].min(start.elapsed());
                let calls = examples.iter().step_by(count / CALLS);
                let calls = calls.map(|tool| write(&json!({ "name": tool.name, "arguments": tool.example })));
                times = walk(&constraint, &calls.collect::<Vec<_>>(), &tokenizer)?;
                let start = Instant::now();
                let constraint = compile(format, &changed, &cache, &tokenizer)?;
                least[1] = least[1].min(start.elapsed());
                let mut matcher = constraint.matcher();
                for token in tokenizer.encode_fragment("\n<tool_call>\n")? {
                    matcher.commit(token)?;
                }
                let start = Instant::now();
                matcher.mask();
                least[2] = least[2].min(start.elapsed());
            }
            let [cold, changed, first] = least;
            println!(
                "{count} tools, {name}: cold {cold:.1?}, one changed {changed:.1?}, first mask {first:.1?}"
            );
            println!("{}", Distribution::of(times).row("  masks along calls, µs"));
        }
    }
    Ok(())
}

fn tools_of(examples: &[ExampleTool]) -> Tools {
    let tool = |(index, tool): (usize, &ExampleTool)| Tool {
        name: tool.name.clone(),
        description: None,
        parameters: Arc::new(tool.parameters.clone()),
        custom: None,
        place: format!("tools[{index}].function.parameters"),
    };
    Tools { tools: examples.iter().enumerate().map(tool).collect(), required: false, parallel: true }
}

fn compile(
    format: &ChatFormat,
    tools: &Tools,
    cache: &PartCache,
    tokenizer: &Tokenizer,
) -> Result<Constraint> {
    let part = format.answer(&Content::Free, tools, Thoughts::None).context("tools bound the answer")?;
    let grammar = Grammar::of_parts_in(&part, cache, &SchemaOptions::default(), &Limits::default())?;
    Ok(Constraint::new(&grammar, Arc::clone(tokenizer.vocabulary()))?)
}

/// Returns the time of each token, in microseconds.
fn walk(constraint: &Constraint, texts: &[String], tokenizer: &Tokenizer) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for text in texts {
        let mut matcher = constraint.matcher();
        for token in tokenizer.encode_fragment(text)? {
            let start = Instant::now();
            let allowed = matcher.mask().contains(token);
            matcher.commit(token)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
            assert!(allowed, "a token of a call is not in the mask: {text}");
        }
        assert!(matcher.accepting(), "a call may not end: {text}");
    }
    Ok(times)
}
