//! `formwork run`

use std::io::Write;
use std::time::Instant;

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context, Result, bail};
use formwork_engine::{FinishReason, Output};
use formwork_lm::Message;
use serde_json::json;

use crate::args::RunArgs;
use crate::choices::{self, Choices};
use crate::files;
use crate::generation::{Generator, stats_line};
use crate::masks::{self, Masks};

pub(crate) fn run(args: &RunArgs, as_json: bool) -> Result<bool> {
    let started = Instant::now();
    let prompt = match &args.prompt {
        Some(prompt) => prompt.clone(),
        None => files::read_input_text(None)?,
    };
    if prompt.trim().is_empty() {
        bail!("the prompt is empty; give it as an argument or on standard input");
    }
    let generator = Generator::new(&args.generate)?;
    let conversation = [Message::new("user", prompt)];
    let before = started.elapsed();
    let mut request = generator.request(&conversation)?;
    request.reports_tokens = args.decisions.is_some();
    request.mask_view = args.show_masks.then_some(masks::TOP);
    let mut masks = args.show_masks.then(|| Masks::new(&generator));
    let choices = args.decisions.as_deref().map(|pointers| Choices::new(&generator, &request, pointers));
    let mut choices = choices.transpose()?;
    let mut generation = generator.start(request)?;
    let mut stdout = std::io::stdout().lock();
    let mut text = String::new();
    loop {
        match generation.blocking_next().context("the engine stopped")? {
            Output::Text(piece) => {
                text.push_str(&piece);
                if !as_json {
                    stdout.write_all(piece.as_bytes())?;
                    stdout.flush()?;
                }
            }
            Output::Generated(token) => {
                if let Some(choices) = &mut choices {
                    choices.token(token);
                }
            }
            Output::Failed(error) => return Err(error.into()),
            Output::Masked(seen) => {
                if let Some(masks) = &mut masks {
                    masks.token(seen);
                }
            }
            Output::Control(_) | Output::Token(_) | Output::PromptToken(_) => {}
            Output::Finished(finish) => {
                let is_cut_off = finish.reason == FinishReason::Length;
                let masks = masks.map(|masks| masks.finish(&text));
                if as_json {
                    let mut result = json!({
                        "model": generator.name(),
                        "text": text,
                        "finish_reason": if finish.reason == FinishReason::Stop { "stop" } else { "length" },
                        "closed_by_budget": finish.closed_by_budget,
                        "usage": {
                            "prompt_tokens": finish.usage.prompt_tokens,
                            "completion_tokens": finish.usage.completion_tokens,
                            "forced_tokens": finish.usage.forced_tokens,
                        },
                        "first_token_s": (before + finish.timings.first_token).as_secs_f64(),
                        "prompt_s": finish.timings.prompt.as_secs_f64(),
                        "decode_s": finish.timings.decode.as_secs_f64(),
                        "grammar_s": finish.timings.grammar.as_secs_f64(),
                    });
                    if let Some(masks) = masks {
                        result["mask_view"] = serde_json::to_value(masks)?;
                    }
                    if let Some(choices) = choices.take() {
                        match choices.measure(&text, is_cut_off) {
                            Ok(decisions) => result["decisions"] = serde_json::to_value(decisions)?,
                            // The text is worth as much without them.
                            Err(error) => result["decisions_error"] = format!("{error:#}").into(),
                        }
                    }
                    writeln!(stdout, "{result}")?;
                } else {
                    writeln!(stdout)?;
                    if let Some(masks) = masks {
                        let has_colours = AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
                        anstream::eprint!("{}", masks::report(&masks, has_colours));
                    }
                }
                if let Some(choices) = choices.take() {
                    eprint!("{}", choices::table(&choices.measure(&text, is_cut_off)?));
                }
                if args.generate.stats {
                    eprintln!("{}", stats_line(&finish, before));
                }
                return Ok(true);
            }
        }
    }
}
