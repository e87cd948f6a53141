//! Prints a model's most likely tokens at each step of a text as JSON, for comparison with another
//! engine.
//!
//! ```sh
//! cargo run --release -p formwork-model --example logprobs -- MODEL PROMPTS \
//!     [--tokens 128] [--follow FILE] [--whole] [--rows FILE]
//! ```
//!
//! `PROMPTS` is a JSON file with a list of prompts. A prompt is a list of token ids. Each prompt is
//! continued greedily for `--tokens` steps. Ties go to the lower id, and end-of-sequence tokens are
//! not special.
//!
//! The output contains one object per prompt. `tokens` are the tokens of the continuation. `steps`
//! has the five most likely tokens at each step with their log-probabilities, best first. The
//! log-softmax is over the whole vocabulary.
//!
//! - `--follow` names a file with continuations in the format of `PROMPTS`. They replace the
//!   model's own choices, so that two engines can be compared on the same text even if their
//!   choices differ.
//! - `--whole` computes the whole text as one prompt at each step. Otherwise the tokens are
//!   appended one by one, as in generation. The first step is the same in both modes.
//! - `--rows` writes the logits of all steps of all prompts to a file, as consecutive little-endian
//!   `f32`.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use formwork_lm::{Batch, LanguageModel, ModelError, Role, Run, SequenceId, Wanted};
use formwork_model::{Model, OpenOptions};
use formwork_vocab::TokenId;
use serde::Serialize;

/// Number of tokens to report per step.
const BEST: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse(std::env::args().skip(1))?;
    let prompts = read_texts(&arguments.prompts)?;
    let follow = arguments.follow.as_ref().map(read_texts).transpose()?;
    if let Some(follow) = &follow
        && follow.len() != prompts.len()
    {
        return Err(format!("{} prompts, but {} continuations", prompts.len(), follow.len()).into());
    }
    let model = Model::open(&arguments.model, OpenOptions::default())?;
    let mut walk = Walk {
        model: model.language_model(),
        whole: arguments.whole,
        rows: arguments.rows.map(File::create).transpose()?.map(BufWriter::new),
    };
    let mut outcomes = Vec::new();
    for (index, prompt) in prompts.into_iter().enumerate() {
        if prompt.is_empty() {
            return Err(format!("prompt {index} is empty").into());
        }
        outcomes.push(match &follow {
            Some(follow) => walk.text(prompt, follow[index].len(), |step, _| follow[index][step])?,
            None => walk.text(prompt, arguments.tokens, |_, best| best)?,
        });
    }
    if let Some(mut rows) = walk.rows {
        rows.flush()?;
    }
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &outcomes)?;
    writeln!(out)?;
    Ok(())
}

struct Arguments {
    model: PathBuf,
    prompts: PathBuf,
    tokens: usize,
    follow: Option<PathBuf>,
    whole: bool,
    rows: Option<PathBuf>,
}

impl Arguments {
    fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let (mut tokens, mut follow, mut whole, mut rows) = (128, None, false, None);
        let mut files = Vec::new();
        while let Some(argument) = given.next() {
            let mut value = || given.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--tokens" => tokens = value()?.parse()?,
                "--follow" => follow = Some(value()?.into()),
                "--whole" => whole = true,
                "--rows" => rows = Some(value()?.into()),
                option if option.starts_with("--") => return Err(format!("unknown option {option}").into()),
                file => files.push(PathBuf::from(file)),
            }
        }
        let [model, prompts] =
            <[PathBuf; 2]>::try_from(files).map_err(|_| "expected a model and a prompts file")?;
        Ok(Self { model, prompts, tokens, follow, whole, rows })
    }
}

fn read_texts(path: &PathBuf) -> Result<Vec<Vec<TokenId>>, Box<dyn Error>> {
    let texts: Vec<Vec<u32>> = serde_json::from_slice(&std::fs::read(path)?)?;
    Ok(texts.into_iter().map(|text| text.into_iter().map(TokenId).collect()).collect())
}

/// Result for one prompt.
#[derive(Serialize)]
struct Outcome {
    tokens: Vec<u32>,
    steps: Vec<Vec<(u32, f64)>>,
}

struct Walk {
    model: Box<dyn LanguageModel>,
    whole: bool,
    rows: Option<BufWriter<File>>,
}

impl Walk {
    /// Continues `text` by `steps` tokens. `next` receives the step and the most likely token, and
    /// returns the token to append.
    fn text(
        &mut self,
        mut text: Vec<TokenId>,
        steps: usize,
        next: impl Fn(usize, TokenId) -> TokenId,
    ) -> Result<Outcome, Box<dyn Error>> {
        let mut outcome = Outcome { tokens: Vec::new(), steps: Vec::new() };
        let sequence = self.model.open();
        for step in 0..steps {
            let row = self.row(sequence, &text, step)?;
            if let Some(rows) = &mut self.rows {
                row.iter().try_for_each(|logit| rows.write_all(&logit.to_le_bytes()))?;
            }
            let best = best(&row);
            let token = next(step, TokenId(best[0].0));
            outcome.tokens.push(token.0);
            outcome.steps.push(best);
            text.push(token);
        }
        self.model.close(sequence);
        Ok(outcome)
    }

    /// Returns the logits after `text`. From the second step on, the sequence already contains all
    /// tokens except the last.
    fn row(&mut self, sequence: SequenceId, text: &[TokenId], step: usize) -> Result<Vec<f32>, ModelError> {
        let (tokens, role) = if step == 0 || self.whole {
            self.model.truncate(sequence, 0)?;
            (text, Role::Prompt)
        } else {
            (&text[text.len() - 1..], Role::Generated)
        };
        let runs = vec![Run { sequence, tokens, role, wanted: Wanted::All }];
        Ok(self.model.forward(&Batch { runs })?.row(0).to_vec())
    }
}

/// Returns the most likely tokens with their log-probabilities, best first. Ties go to the lower
/// id.
fn best(row: &[f32]) -> Vec<(u32, f64)> {
    let mut order: Vec<u32> = (0..row.len() as u32).collect();
    let by_logit = |a: &u32, b: &u32| row[*b as usize].total_cmp(&row[*a as usize]).then(a.cmp(b));
    let count = BEST.min(order.len());
    if count < order.len() {
        order.select_nth_unstable_by(count, by_logit);
    }
    order.truncate(count);
    order.sort_unstable_by(by_logit);
    let largest = f64::from(row[order[0] as usize]);
    let sum: f64 = row.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum();
    order.into_iter().map(|token| (token, f64::from(row[token as usize]) - largest - sum.ln())).collect()
}
