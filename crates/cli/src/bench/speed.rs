//! `formwork bench prefill` and `formwork bench decode`

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use formwork_benches::throughput::{self, Rates};
use formwork_engine::{Engine, EngineOptions, Finish, Request, Usage, prompt};
use formwork_grammar::Constraint;
use formwork_lm::{ChatInput, Message};
use formwork_model::{Model, OpenOptions, Tier};
use formwork_vocab::{TokenId, Tokenizer};
use serde_json::{Value, json};

use super::{output, progress_bar};
use crate::args::{BenchDecodeArgs, BenchPrefillArgs, BenchStepsArgs, ProfileArg, SpeedArgs};
use crate::load::{self, ShapeSource};

/// Task for the model if its output must match a shape. The system message describes the shape.
const TASK: &str = "Fill this in with plausible values.";

pub(super) fn prefill(args: &BenchPrefillArgs, json: Option<&Path>) -> Result<bool> {
    let subject = Subject::open(&args.speed, false)?;
    let tokens = subject.tokens(args.prompt.get())?;
    let mut report = Report::new(json)?;
    let mut model = subject.model.language_model();
    let bar = progress_bar(args.speed.runs.get(), "runs")?;
    let done = |run: usize| bar.set_position(run as u64);
    let rates = throughput::prefill(&mut *model, &tokens, args.speed.runs.get(), done)?;
    bar.finish_and_clear();
    report.write(&subject.measured("prefill", rates))?;
    Ok(true)
}

pub(super) fn decode(args: &BenchDecodeArgs, json: Option<&Path>) -> Result<bool> {
    // Compile the shape first: a broken schema is reported before any download.
    let shape = ShapeSource::read(&args.shape)?;
    let compile = |shape: &ShapeSource| shape.compile(&args.shape, ProfileArg::Generate, &args.schema);
    let grammar = shape.as_ref().map(compile).transpose()?;
    // Without a grammar, nothing is drafted.
    let drafts = shape.is_some() && args.speculate != Some(0);
    let subject = Subject::open(&args.speed, drafts)?;
    let mut report = Report::new(json)?;
    let bar = progress_bar(args.speed.runs.get(), "runs")?;
    let mut reading = Reading::default();
    let done = |run: usize| {
        // Alternates with the counted runs, because memory bandwidth changes from one second to the
        // next.
        if run > 0 {
            reading.measure(&subject.model);
        }
        bar.set_position(run as u64);
    };
    let (free, shaped) = match shape.zip(grammar) {
        None => (subject.decode(args, done)?, None),
        Some((shape, grammar)) => {
            let constraint = Constraint::new(&grammar, Arc::clone(subject.tokenizer.vocabulary()))?;
            let prompt = subject.prompt(&shape)?;
            let max_tokens = Some(args.tokens.get());
            let request = Request {
                constraint: Some(constraint),
                max_tokens,
                forced_tokens: !args.no_forced_tokens,
                ..Request::new(prompt)
            };
            let (free, shaped) = subject.decode_both(&request, args, done)?;
            (free, Some(shaped))
        }
    };
    bar.finish_and_clear();
    report.write(&Measured { reading, shaped, ..subject.measured("decode", free) })?;
    Ok(true)
}

pub(super) fn steps(args: &BenchStepsArgs, json: Option<&Path>) -> Result<bool> {
    let subject = Subject::open(&args.speed, false)?;
    let (tokens, position) = (args.tokens.get(), args.position.get());
    ensure!(tokens <= 256, "--tokens: a pass has at most 256 tokens");
    let context = subject.model.context_len();
    ensure!(
        tokens + position <= context,
        "{} tokens exceed the context length of {context}",
        tokens + position
    );
    let times = subject.model.step_times(tokens, position)?;
    if let Some(path) = json {
        let steps: Vec<_> = times
            .iter()
            .map(|time| json!({ "name": time.name, "steps": time.steps, "seconds": time.seconds }))
            .collect();
        let result = json!({ "model": subject.name, "device": subject.model.computes_on(), "tokens": tokens, "position": position, "steps": steps });
        writeln!(output(path)?, "{result}")?;
    }
    if json != Some(Path::new("-")) {
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{}, {}, {tokens} tokens after {position}:",
            subject.name,
            subject.model.computes_on()
        )?;
        for time in &times {
            let (micros, each) = (time.seconds * 1e6, time.seconds * 1e6 / time.steps.max(1) as f64);
            writeln!(out, "{:<24} {:>5} steps {micros:>10.1} µs {each:>9.2} µs each", time.name, time.steps)?;
        }
    }
    Ok(true)
}

/// Measurements of generations whose output must match a shape.
#[derive(Default)]
struct Shaped {
    rates: Rates,
    forced: usize,
    grammar: Duration,
    /// Output tokens of all runs together.
    tokens: usize,
    /// Share of the rows of the output head that masks allowed, over all passes.
    head_share: f64,
}

impl Shaped {
    fn add(&mut self, finish: &Finish) {
        // Prefill produces the first token.
        let decoded = finish.usage.completion_tokens.saturating_sub(1);
        self.rates.push(decoded, finish.timings.decode);
        self.forced += finish.usage.forced_tokens;
        self.tokens += finish.usage.completion_tokens;
        self.grammar += finish.timings.grammar;
    }

    fn forced_share(&self) -> f64 {
        self.forced as f64 / self.tokens.max(1) as f64
    }

    /// Returns the microseconds per token spent on masks and grammar states. All runs produce the
    /// same output, so the caches already hold every mask.
    fn grammar_per_token(&self) -> f64 {
        self.grammar.as_secs_f64() * 1e6 / self.tokens.max(1) as f64
    }
}

/// Speed of reading all weights without computing anything. Free decode cannot be much faster.
#[derive(Default)]
struct Reading {
    bytes: usize,
    /// Each pass over all weights counts as one token.
    rates: Rates,
}

impl Reading {
    fn measure(&mut self, model: &Model) {
        let start = Instant::now();
        if let Some(bytes) = model.read_weights() {
            self.bytes = bytes;
            self.rates.push(1, start.elapsed());
        }
    }

    fn gigabytes_per_second(&self) -> f64 {
        self.rates.median() * self.bytes as f64 / 1e9
    }

    /// Returns the decode rate as a fraction of the reading rate, or `None` if nothing was read.
    fn share(&self, decode: &Rates) -> Option<f64> {
        (self.bytes > 0).then(|| decode.median() / self.rates.median())
    }
}

/// The model to measure.
struct Subject {
    name: String,
    model: Model,
    tokenizer: Arc<Tokenizer>,
}

impl Subject {
    /// Opens the model, with its own head for drafts if `draft_head` is true.
    fn open(args: &SpeedArgs, draft_head: bool) -> Result<Self> {
        if let Some(tier) = args.tier {
            let name = tier.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
            ensure!(Tier::from(tier).force(), "--tier: this processor does not support {name}");
        }
        ensure!(args.model.open.draft.is_none(), "--draft has no effect: the model alone is measured");
        let template = &args.model.open.chat_template;
        ensure!(
            template.is_none(),
            "--chat-template has no effect: the benchmark's prompt has the model's own template"
        );
        let (path, name) = if let Some(synthetic) = &args.synthetic {
            (synthetic.write(&load::hub().cache().join("synthetic"))?, synthetic.to_string())
        } else {
            let local = load::resolve(&args.model.model)?;
            (local.path, local.name)
        };
        let model = load::open(&path, OpenOptions { draft_head, ..args.model.open.options() })?;
        let tokenizer = Arc::new(model.tokenizer()?);
        Ok(Self { name, model, tokenizer })
    }

    /// Returns `count` tokens to measure with.
    ///
    /// # Errors
    /// Returns an error if `count` exceeds the context length.
    fn tokens(&self, count: usize) -> Result<Vec<TokenId>> {
        let context = self.model.context_len();
        ensure!(count <= context, "{count} tokens exceed the context length of {context}");
        Ok(throughput::tokens(self.tokenizer.vocabulary(), count))
    }

    /// Measures decode without a grammar.
    fn decode(&self, args: &BenchDecodeArgs, done: impl FnMut(usize)) -> Result<Rates> {
        let all = self.tokens(args.prompt.saturating_add(args.tokens.get()))?;
        let (before, tokens) = all.split_at(args.prompt);
        let mut model = self.model.language_model();
        Ok(throughput::decode(&mut *model, before, tokens, args.speed.runs.get(), done)?)
    }

    /// Measures free decode and the generation of `request` at the same position. The two
    /// alternate, so that other load on the machine affects both. The first round fills caches and
    /// is not counted.
    fn decode_both(
        &self,
        request: &Request,
        args: &BenchDecodeArgs,
        mut done: impl FnMut(usize),
    ) -> Result<(Rates, Shaped)> {
        let engine = self.model.language_model();
        let options =
            EngineOptions { prefix_cache_bytes: 0, speculate: args.speculate, ..EngineOptions::default() };
        let engine = Engine::start(engine, Arc::clone(&self.tokenizer), options);
        let mut model = self.model.language_model();
        model.close_draft_head();
        let (mut free, mut shaped) = (Rates::default(), Shaped::default());
        for run in 0..=args.speed.runs.get() {
            let (_, finish) = engine.generate(request.clone())?.collect()?;
            let Usage { completion_tokens, forced_tokens, .. } = finish.usage;
            ensure!(
                completion_tokens > forced_tokens + 1,
                "too few free tokens to measure: {completion_tokens} output tokens, {forced_tokens} of them forced \
                 by the grammar"
            );
            let tokens = throughput::tokens(self.tokenizer.vocabulary(), finish.usage.completion_tokens);
            let time = throughput::decode_once(&mut *model, &request.prompt, &tokens)?;
            if run > 0 {
                shaped.add(&finish);
                free.push(tokens.len(), time);
            }
            done(run);
        }
        let stats = engine.stats();
        shaped.head_share = stats.head_rows as f64 / stats.unmasked_head_rows.max(1) as f64;
        Ok((free, shaped))
    }

    fn prompt(&self, shape: &ShapeSource) -> Result<Vec<TokenId>> {
        let mut messages = vec![Message::new("user", TASK)];
        if let Some(shape) = shape.shape() {
            shape.add_to(&mut messages);
        }
        let input = ChatInput { messages, add_generation_prompt: true, ..ChatInput::default() };
        let template = self.model.compile_template(&self.tokenizer, Some(SystemTime::now()))?;
        Ok(prompt::encode(&self.tokenizer, &template.render(&input)?)?)
    }

    fn measured(&self, test: &'static str, free: Rates) -> Measured<'_> {
        let (device, threads) = (self.model.computes_on(), self.model.threads());
        Measured { model: &self.name, test, device, threads, free, reading: Reading::default(), shaped: None }
    }
}

/// Results of one benchmark.
struct Measured<'a> {
    model: &'a str,
    test: &'static str,
    device: String,
    threads: usize,
    /// Rates without a grammar.
    free: Rates,
    reading: Reading,
    shaped: Option<Shaped>,
}

impl Measured<'_> {
    fn ratio(&self, shaped: &Shaped) -> f64 {
        shaped.rates.median() / self.free.median()
    }

    fn as_json(&self) -> Value {
        let free = rates_as_json(&self.free);
        let mut result = json!({ "model": self.model, "test": self.test, "device": self.device, "threads": self.threads, "free": free });
        if let Some(share) = self.reading.share(&self.free) {
            result["reading"] = json!({
                "bytes": self.reading.bytes,
                "gb_per_s": self.reading.gigabytes_per_second(),
                "share": share,
            });
        }
        if let Some(shaped) = &self.shaped {
            let mut figures = rates_as_json(&shaped.rates);
            figures["forced_share"] = json!(shaped.forced_share());
            figures["head_share"] = json!(shaped.head_share);
            figures["grammar_us_per_token"] = json!(shaped.grammar_per_token());
            figures["ratio_to_free"] = json!(self.ratio(shaped));
            result["shaped"] = figures;
        }
        result
    }
}

/// Output for the results, opened before the measurement, which may take long.
struct Report {
    json: Option<Box<dyn Write>>,
    /// True if results are printed to standard output as text too.
    told: bool,
}

impl Report {
    fn new(json: Option<&Path>) -> Result<Self> {
        Ok(Self { json: json.map(output).transpose()?, told: json != Some(Path::new("-")) })
    }

    fn write(&mut self, measured: &Measured<'_>) -> Result<()> {
        if let Some(json) = &mut self.json {
            writeln!(json, "{}", measured.as_json())?;
            json.flush()?;
        }
        if self.told {
            writeln!(std::io::stdout(), "{measured}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Measured<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        write!(
            f,
            "{}, {}, {}, {} {threads}: {}",
            self.model, self.test, self.device, self.threads, self.free
        )?;
        if let Some(share) = self.reading.share(&self.free) {
            let speed = self.reading.gigabytes_per_second();
            write!(f, "; {:.0}% of reading the weights, {speed:.1} GB/s", share * 100.0)?;
        }
        let Some(shaped) = &self.shaped else { return Ok(()) };
        let (forced, grammar) = (shaped.forced_share() * 100.0, shaped.grammar_per_token());
        let head = shaped.head_share * 100.0;
        write!(
            f,
            "\nwith the grammar: {}; {forced:.0}% of the tokens forced, {head:.1}% of the head's rows \
             allowed, {grammar:.1} µs per token for the grammar (warm caches), \
             {:.2} times free decode",
            shaped.rates,
            self.ratio(shaped)
        )
    }
}

fn rates_as_json(rates: &Rates) -> Value {
    json!({
        "tokens": rates.tokens(),
        "tokens_per_s": rates.per_second(),
        "mean": rates.mean(),
        "deviation": rates.deviation(),
        "median": rates.median(),
    })
}
