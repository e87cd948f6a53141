//! `formwork inspect`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;
use formwork_chat::{ChatFormat, Description};
use formwork_lm::Pooling;
use formwork_model::gguf::TensorInfo;
use formwork_model::spec::ModelSpec;
use formwork_model::{Checkpoint, Definition};
use serde_json::{Map, Value, json};

use crate::args::InspectArgs;
use crate::load::TemplateFile;
use crate::memory::Needs;
use crate::{load, lora};

/// Maximum number of characters of a value in the listing; longer values are cut.
const PREVIEW: usize = 100;

pub(crate) fn inspect(command: &InspectArgs, as_json: bool) -> Result<bool> {
    let model = &command.model;
    if let Some(text) = lora::describe(Path::new(model), as_json)? {
        std::io::stdout().write_all(text.as_bytes())?;
        return Ok(true);
    }
    let checkpoint = Checkpoint::open(load::resolve(model)?.path)?;
    let runs = match Definition::of(&checkpoint) {
        Ok(Definition::Own) => "Formwork's own implementation".to_owned(),
        Ok(Definition::Candle) => "candle's own implementation".to_owned(),
        Err(error) => format!("no implementation: {error}"),
    };
    let needs = Needs::of(&checkpoint, command.options());
    let spec = ModelSpec::of(&checkpoint).ok();
    let generates = spec.as_ref().is_some_and(|spec| spec.abilities.generates);
    let purpose = spec.as_ref().map(purpose);
    let template = command.chat_template.as_deref().map(TemplateFile::read).transpose()?;
    let calls = match &template {
        Some(template) => Some(calls_of(&checkpoint, template)?),
        None => calls(&checkpoint),
    };
    let out = if as_json {
        let mut object = as_object(&checkpoint, &runs);
        if let Some(template) = &template {
            object["chat_template"] = template.source().into();
        }
        object["purpose"] = purpose.into();
        object["memory"] = needs.as_ref().map(Needs::as_object).into();
        object["calls"] = calls.as_ref().map(calls_object).into();
        format!("{object}\n")
    } else {
        let calls = match &calls {
            Some(calls) => Some(calls_listing(calls).trim_end().to_owned()),
            None if generates && checkpoint.chat_template().is_none() => {
                Some("no chat template: messages are joined without roles".to_owned())
            }
            None => None,
        };
        listing(&checkpoint, &runs, [purpose, needs.as_ref().map(Needs::to_string), calls])?
    };
    std::io::stdout().write_all(out.as_bytes())?;
    Ok(true)
}

/// Describes what a model is for. For embeddings, the description has the pooling, the width of the
/// vectors and the names of the prompts.
fn purpose(spec: &ModelSpec) -> String {
    let abilities = &spec.abilities;
    let mut text = abilities.describe().to_owned();
    if let Some(profile) = abilities.embedding.as_ref().filter(|_| !abilities.generates) {
        let pooling = match profile.pooling {
            Pooling::Mean => "mean",
            Pooling::First => "cls",
            Pooling::Last => "last",
        };
        let width = profile.width.unwrap_or(spec.hidden);
        let length = if profile.normalizes { ", normalised" } else { "" };
        // Writing to a string cannot fail.
        let _ =
            write!(text, ": pooling {pooling}, {width} dimensions{length}, at most {} tokens", spec.context);
        if !profile.prompts.is_empty() {
            let names: Vec<&str> = profile.prompts.keys().map(String::as_str).collect();
            let _ = write!(text, ", prompts {}", names.join(", "));
        }
    }
    if spec.draft_head.is_some() {
        text.push_str(", with a head for drafts");
    }
    text
}

/// Describes the format of calls that the chat template has. Returns `None` if the checkpoint has no chat
/// template, or if the template or the tokenizer is not valid.
fn calls(checkpoint: &Checkpoint) -> Option<Description> {
    checkpoint.chat_template()?;
    let tokenizer = checkpoint.tokenizer().ok()?;
    let template = checkpoint.compile_template(&tokenizer, None).ok()?;
    Some(ChatFormat::of(&*template, tokenizer.vocabulary()).describe())
}

/// Describes the format of calls of another chat template.
fn calls_of(checkpoint: &Checkpoint, template: &TemplateFile) -> Result<Description> {
    let tokenizer = checkpoint.tokenizer()?;
    let template = template.compile(&tokenizer, None)?;
    Ok(ChatFormat::of(&template, tokenizer.vocabulary()).describe())
}

fn calls_object(calls: &Description) -> Value {
    let thoughts = calls.thoughts.as_ref().map(|(open, close)| json!({ "open": open, "close": close }));
    json!({
        "notation": calls.notation,
        "sample": calls.sample,
        "json_reason": calls.json_reason.map(|reason| reason.to_string()),
        "thoughts": thoughts,
        "turn_ends": calls.turn_ends,
        "id": calls.id,
    })
}

fn calls_listing(calls: &Description) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = match calls.json_reason {
        Some(reason) => writeln!(text, "calls: JSON in tags, because {reason}"),
        None => writeln!(text, "calls: {}", calls.notation),
    };
    let _ = writeln!(text, "  sample = {}", calls.sample.replace('\n', "\\n"));
    if let Some((open, close)) = &calls.thoughts {
        let _ = writeln!(text, "  thoughts = {open} … {close}");
    }
    if !calls.turn_ends.is_empty() {
        let _ = writeln!(text, "  turn ends = {}", calls.turn_ends.join(" "));
    }
    if let Some(id) = &calls.id {
        let _ = writeln!(text, "  first id = {id}");
    }
    text
}

/// Returns the number of tensors and their total bytes by tensor type.
fn types(checkpoint: &Checkpoint) -> BTreeMap<&'static str, (usize, usize)> {
    let mut types = BTreeMap::new();
    for tensor in checkpoint.tensors() {
        let (count, bytes) = types.entry(tensor.dtype.name()).or_insert((0, 0));
        *count += 1;
        *bytes += tensor.byte_len;
    }
    types
}

fn format(checkpoint: &Checkpoint) -> String {
    match checkpoint {
        Checkpoint::Gguf(file) => format!("GGUF v{}", file.version()),
        Checkpoint::Safetensors(_) => "safetensors".to_owned(),
    }
}

/// Returns the metadata as text; arrays of a GGUF file are cut after `elements` elements.
fn metadata(checkpoint: &Checkpoint, elements: usize) -> Vec<(String, String)> {
    match checkpoint {
        Checkpoint::Gguf(file) => {
            file.metadata().iter().map(|(key, value)| (key.clone(), file.preview(value, elements))).collect()
        }
        Checkpoint::Safetensors(model) => {
            model.config().iter().map(|(key, value)| (key.clone(), value.to_string())).collect()
        }
    }
}

fn as_object(checkpoint: &Checkpoint, runs: &str) -> Value {
    let metadata: Map<String, Value> = match checkpoint {
        Checkpoint::Gguf(_) => {
            metadata(checkpoint, usize::MAX).into_iter().map(|(key, text)| (key, text.into())).collect()
        }
        Checkpoint::Safetensors(model) => model.config().clone(),
    };
    let tensor = |tensor: &TensorInfo| {
        json!({
            "name": tensor.name,
            "type": tensor.dtype.to_string(),
            "shape": tensor.shape,
            "file": tensor.file,
            "offset": tensor.offset,
            "bytes": tensor.byte_len,
        })
    };
    let types = types(checkpoint).into_iter();
    let types =
        types.map(|(name, (count, bytes))| (name.to_owned(), json!({ "tensors": count, "bytes": bytes })));
    let mut object = json!({
        "path": checkpoint.path(),
        "format": format(checkpoint),
        "bytes": checkpoint.byte_len(),
        "parameters": checkpoint.parameters(),
        "runs_with": runs,
        "types": types.collect::<Map<_, _>>(),
        "chat_template": checkpoint.chat_template(),
        "metadata": metadata,
        "tensors": checkpoint.tensors().iter().map(tensor).collect::<Vec<_>>(),
    });
    if let Checkpoint::Gguf(file) = checkpoint {
        object["version"] = file.version().into();
    }
    object
}

fn listing(checkpoint: &Checkpoint, runs: &str, lines: [Option<String>; 3]) -> Result<String> {
    let mut out = String::new();
    let (path, format, bytes) = (checkpoint.path().display(), format(checkpoint), checkpoint.byte_len());
    writeln!(out, "{path}: {format}, {bytes} bytes")?;
    let (tensors, parameters) = (checkpoint.tensors(), checkpoint.parameters());
    writeln!(out, "{} tensors, {parameters} parameters, runs with {runs}", tensors.len())?;
    for line in lines.into_iter().flatten() {
        writeln!(out, "{line}")?;
    }
    for (name, (count, bytes)) in types(checkpoint) {
        writeln!(out, "  {name:<8} {count:>5} tensors {bytes:>14} bytes")?;
    }
    writeln!(out, "\nmetadata")?;
    for (key, text) in metadata(checkpoint, PREVIEW) {
        writeln!(out, "  {key} = {}", text.replace('\n', "\\n"))?;
    }
    if let (Checkpoint::Safetensors(_), Some(template)) = (checkpoint, checkpoint.chat_template()) {
        writeln!(out, "  chat template = {}", template.replace('\n', "\\n"))?;
    }
    writeln!(out, "\ntensors")?;
    for tensor in tensors {
        let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
        writeln!(
            out,
            "  {:<40} {:<6} {:<20} {:>12} bytes",
            tensor.name,
            tensor.dtype.to_string(),
            shape.join(" × "),
            tensor.byte_len,
        )?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use formwork_chat::JsonReason;

    use super::*;

    #[test]
    fn the_format_of_calls_is_listed() {
        let mut calls = Description {
            notation: "raw text",
            sample: "<call>f\n</call>".to_owned(),
            json_reason: None,
            thoughts: Some(("<think>".to_owned(), "</think>".to_owned())),
            turn_ends: vec!["<|end|>".to_owned(), "</s>".to_owned()],
            id: Some("functions.f:0".to_owned()),
        };
        let text = "calls: raw text\n  sample = <call>f\\n</call>\n  thoughts = <think> … </think>\n  turn ends = <|end|> </s>\n  first id = functions.f:0\n";
        assert_eq!(calls_listing(&calls), text);
        let object = calls_object(&calls);
        assert_eq!(object["thoughts"], json!({ "open": "<think>", "close": "</think>" }));
        assert_eq!((&object["json_reason"], &object["id"]), (&Value::Null, &json!("functions.f:0")));
        calls.json_reason = Some(JsonReason::NoCalls);
        let first = "calls: JSON in tags, because the chat template does not write calls\n";
        assert!(calls_listing(&calls).starts_with(first));
    }
}
