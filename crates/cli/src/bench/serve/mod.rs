//! `formwork bench serve`: measures any server of OpenAI's API under concurrent clients.
//!
//! Each client sends one request after the other on its own connection and streams the answers.
//! With a schema, each number of clients is measured twice, without and with the schema. Answers
//! with the schema are checked with Formwork's own grammar, whichever server wrote them.

mod client;
mod level;
mod report;
mod task;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, ensure};

use super::output;
use crate::args::BenchServeArgs;
use client::Target;
use level::Amount;
use report::Measured;
use task::Task;

/// Runs the measurements; returns false if an answer failed or broke the schema.
pub(super) fn serve(args: &BenchServeArgs, json: Option<&Path>) -> Result<bool> {
    let target = Target::new(&args.url, args.api_key.clone())?;
    let tasks = tasks(args)?;
    let mut file = json.map(output).transpose()?;
    let told = json != Some(Path::new("-"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut well = true;
    if told {
        println!("{}", Measured::header());
    }
    for &clients in &args.clients {
        for task in &tasks {
            let amount = match args.duration {
                Some(time) => Amount::Time(time),
                None => Amount::Requests(args.requests.map_or(clients.get() * 4, NonZeroUsize::get)),
            };
            let measured = runtime.block_on(async {
                level::warm_up(&target, task, args.warmup).await?;
                anyhow::Ok(level::run(&target, task, clients.get(), amount).await)
            })?;
            well &= measured.errors() == 0 && measured.invalid() == 0;
            if let Some(file) = &mut file {
                writeln!(file, "{}", measured.as_json())?;
                file.flush()?;
            }
            if told {
                println!("{measured}");
            }
            for error in measured.first_errors() {
                eprintln!("formwork: {error}");
            }
        }
    }
    Ok(well)
}

/// Returns the tasks to measure: free text and, if a schema is given, output of that schema.
fn tasks(args: &BenchServeArgs) -> Result<Vec<Arc<Task>>> {
    let prompts = task::prompts(args.prompts.as_deref())?;
    ensure!(!prompts.is_empty(), "--prompts: the file has no prompts");
    let task = |schema| Task::new(&args.model, prompts.clone(), schema, args.max_tokens.get()).map(Arc::new);
    let mut tasks = vec![task(None)?];
    if let Some(path) = &args.schema {
        tasks.push(task(Some(task::schema(path)?))?);
    }
    Ok(tasks)
}

#[cfg(test)]
mod tests;
