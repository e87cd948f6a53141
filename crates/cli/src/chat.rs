//! `formwork chat`: an interactive chat with history.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Result;
use formwork_engine::{Generation, Output, RequestError};
use formwork_lm::Message;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use tokio::runtime::Runtime;

use crate::args::ChatArgs;
use crate::generation::{Generator, stats_line};

const HELP: &str = "\
/help    show this text
/clear   clear the conversation
/undo    remove the last exchange
/exit    quit (or Ctrl-D)
Begin a message with \"\"\" to write several lines, and end it with \"\"\".
Ctrl-C stops an answer.";

pub(crate) fn chat(args: &ChatArgs) -> Result<bool> {
    let generator = Generator::new(&args.generate)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut editor = DefaultEditor::new()?;
    let mut conversation: Vec<Message> = Vec::new();
    eprintln!("{}: /help lists the commands, Ctrl-D quits", generator.name());
    while let Some(line) = read_message(&mut editor)? {
        match line.trim() {
            "" => {}
            "/help" => eprintln!("{HELP}"),
            "/exit" | "/quit" => break,
            "/clear" => conversation.clear(),
            "/undo" => conversation.truncate(conversation.len().saturating_sub(2)),
            command if is_command(command) => {
                eprintln!("unknown command {command}; /help lists the commands");
            }
            _ => {
                conversation.push(Message::new("user", line));
                match answer(&generator, &conversation, args.generate.stats, &runtime) {
                    Ok(text) => conversation.push(Message::new("assistant", text)),
                    Err(error) => {
                        conversation.pop();
                        eprintln!("formwork: {}", crate::one_line(&error));
                        if error.downcast_ref::<RequestError>().is_some_and(RequestError::is_too_long) {
                            eprintln!("/undo removes the last exchange, /clear the whole conversation");
                        }
                    }
                }
            }
        }
    }
    Ok(true)
}

/// Reports whether a line is a command, known or not. A path with several slashes is none.
fn is_command(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    first.strip_prefix('/').is_some_and(|name| !name.contains('/'))
}

/// Reads one message, which may span several lines between `"""`; returns `None` at the end of
/// input.
fn read_message(editor: &mut DefaultEditor) -> Result<Option<String>> {
    let mut message: Option<String> = None;
    loop {
        let line = match editor.readline(if message.is_some() { "… " } else { "> " }) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => {
                message = None;
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(message),
            Err(error) => return Err(error.into()),
        };
        match (&mut message, line.strip_prefix("\"\"\"")) {
            (Some(text), _) => {
                if let Some(last) = line.strip_suffix("\"\"\"") {
                    text.push_str(last);
                    break;
                }
                text.push_str(&line);
                text.push('\n');
            }
            (None, Some(first)) => {
                if let Some(only) = first.strip_suffix("\"\"\"") {
                    message = Some(only.to_owned());
                    break;
                }
                message = Some(if first.is_empty() { String::new() } else { format!("{first}\n") });
            }
            (None, None) => {
                message = Some(line);
                break;
            }
        }
    }
    if let Some(text) = &message {
        // The history is optional: a line that it rejects is still sent.
        let _ = editor.add_history_entry(text.as_str());
    }
    Ok(message)
}

/// Streams an answer to standard output and returns its text; Ctrl-C ends the answer early.
fn answer(generator: &Generator, conversation: &[Message], stats: bool, runtime: &Runtime) -> Result<String> {
    let started = Instant::now();
    let before = started.elapsed();
    let generation = generator.generate(conversation)?;
    let text = runtime.block_on(stream(generation, stats.then_some(before)))?;
    if text.interrupted && generator.is_constrained() {
        eprintln!("formwork: the answer was stopped before it was complete");
    }
    Ok(text.text)
}

struct Answer {
    text: String,
    interrupted: bool,
}

async fn stream(mut generation: Generation, stats: Option<Duration>) -> Result<Answer> {
    let mut text = String::new();
    let mut stdout = std::io::stdout();
    // Created once for the whole answer, so that a signal received while text is written is not
    // lost.
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let output = tokio::select! {
            output = generation.next() => output,
            _ = &mut interrupt => {
                println!();
                return Ok(Answer { text, interrupted: true });
            }
        };
        match output {
            Some(Output::Text(piece)) => {
                stdout.write_all(piece.as_bytes())?;
                stdout.flush()?;
                text.push_str(&piece);
            }
            Some(
                Output::Control(_)
                | Output::Generated(_)
                | Output::Token(_)
                | Output::Masked(_)
                | Output::PromptToken(_),
            ) => {}
            Some(Output::Finished(finish)) => {
                println!();
                if let Some(before) = stats {
                    eprintln!("{}", stats_line(&finish, before));
                }
                return Ok(Answer { text, interrupted: false });
            }
            Some(Output::Failed(error)) => return Err(error.into()),
            None => return Ok(Answer { text, interrupted: true }),
        }
    }
}
